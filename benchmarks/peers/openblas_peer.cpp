// OpenBLAS as a peer: sgemm, and sgemv where there is one row. It packs in the call; fused bias or ReLU it has not.
#include "peer.h"

extern "C" {
// From cblas.h, whose place differs between distributions.
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc);
void cblas_sgemv(int order, int trans, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                 float beta, float* y, int incy);
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

std::unique_ptr<Operation> prepare(const Request& r) {
  if (r.op != "gemm" || r["bias"] || r["relu"] || r["bf16"]) return nullptr;
  openblas_set_num_threads(static_cast<int>(r["threads"]));
  return std::make_unique<Gemm>(r);
}

}  // namespace
}  // namespace tcc::benchmarks

int main() {
  return tcc::benchmarks::serve(tcc::benchmarks::prepare);
}
