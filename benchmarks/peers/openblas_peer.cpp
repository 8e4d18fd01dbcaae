// OpenBLAS as a peer: sgemm, sgemv where there is one row, a product for each head of attention, and the 2-norm. It
// packs in the call; fused bias or ReLU it has not.
#include "peer.h"

extern "C" {
// From cblas.h, whose place differs between distributions.
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc);
void cblas_sgemv(int order, int trans, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                 float beta, float* y, int incy);
float cblas_snrm2(int n, const float* x, int incx);
void openblas_set_num_threads(int threads);
}

namespace tcc::benchmarks {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

class Gemm : public Operation {
 public:
  explicit Gemm(const Request& r)
      : m_(static_cast<int>(r["m"])), n_(static_cast<int>(r["n"])), k_(static_cast<int>(r["k"])) {
    a_.resize(static_cast<size_t>(r["m"] * r["k"]));
    b_.resize(static_cast<size_t>(r["k"] * r["n"]));
    c_.resize(static_cast<size_t>(r["m"] * r["n"]));
    fill(a_.data(), r["m"] * r["k"], 0);
    fill(b_.data(), r["k"] * r["n"], 1);
  }
  void run() override {
    if (m_ == 1)
      cblas_sgemv(kRowMajor, kTrans, k_, n_, 1, b_.data(), n_, a_.data(), 1, 0, c_.data(), 1);
    else
      cblas_sgemm(kRowMajor, kNoTrans, kNoTrans, m_, n_, k_, 1, a_.data(), k_, b_.data(), n_, 0, c_.data(), n_);
  }
  std::vector<float> output() override { return c_; }

 private:
  int m_, n_, k_;
  std::vector<float> a_, b_, c_;
};

// Q K^T of each head, read in place.
class Attention : public Operation {
 public:
  explicit Attention(const Request& r)
      : tokens_(static_cast<int>(r["tokens"])),
        heads_(static_cast<int>(r["heads"])),
        depth_(static_cast<int>(r["depth"])) {
    const int64_t count = r["tokens"] * r["heads"] * r["depth"];
    q_.resize(static_cast<size_t>(count));
    k_.resize(static_cast<size_t>(count));
    c_.resize(static_cast<size_t>(r["heads"] * r["tokens"] * r["tokens"]));
    fill(q_.data(), count, 0);
    fill(k_.data(), count, 1);
  }
  void run() override {
    const int row = heads_ * depth_;
    for (int h = 0; h < heads_; ++h)
      cblas_sgemm(kRowMajor, kNoTrans, kTrans, tokens_, tokens_, depth_, 1, q_.data() + h * depth_, row,
                  k_.data() + h * depth_, row, 0, c_.data() + static_cast<size_t>(h) * tokens_ * tokens_, tokens_);
  }
  std::vector<float> output() override { return c_; }

 private:
  int tokens_, heads_, depth_;
  std::vector<float> q_, k_, c_;
};

class Norm : public Operation {
 public:
  explicit Norm(const Request& r) : x_(static_cast<size_t>(r["rows"] * r["cols"])) {
    fill(x_.data(), r["rows"] * r["cols"], 0);
  }
  void run() override { norm_ = cblas_snrm2(static_cast<int>(x_.size()), x_.data(), 1); }
  std::vector<float> output() override { return {norm_}; }

 private:
  std::vector<float> x_;
  float norm_ = 0;
};

std::unique_ptr<Operation> prepare(const Request& r) {
  if (r["bias"] || r["relu"] || r["bf16"]) return nullptr;
  openblas_set_num_threads(static_cast<int>(r["threads"]));
  if (r.op == "gemm" && !r["int8"]) return std::make_unique<Gemm>(r);
  if (r.op == "attention") return std::make_unique<Attention>(r);
  if (r.op == "norm") return std::make_unique<Norm>(r);
  return nullptr;
}

}  // namespace
}  // namespace tcc::benchmarks

int main() {
  return tcc::benchmarks::serve(tcc::benchmarks::prepare);
}
