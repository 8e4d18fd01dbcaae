// The expressibility suite runs and computes the right thing; every seeded defect is reported for what it is.
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"

using namespace tcc;
using interp::Finding;
using interp::TensorData;

namespace {

ir::Kernel load(const std::string& name) {
  std::string path = std::string(TCC_SOURCE_DIR) + "/tests/ir/" + name + ".tir";
  auto text = read_file(path);
  REQUIRE(text.has_value());
  auto kernel = ir::parse(*text, name);
  if (!kernel) FAIL(kernel.error().message);
  return *kernel;
}

using Doubles = std::vector<double>;
// Computes the outputs from the inputs (all tensors in order of the parameters, row-major).
using Reference = std::function<void(std::vector<Doubles>&)>;

struct Case {
  const char* name;
  Reference reference;
  double tolerance;                    // relative to 1 + |expected|
  std::vector<int64_t> scalars = {0};  // values to try of the only scalar
};

std::vector<TensorData> make_tensors(const ir::Kernel& k, const std::vector<std::pair<ir::Id, int64_t>>& scalars,
                                     uint64_t seed) {
  std::vector<TensorData> tensors;
  for (const ir::Buffer* b : k.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::is_int(e) ? ir::int_value(e) : scalars.at(0).second);
    bool output = b->role == ir::BufferRole::kOutput;
    tensors.push_back(output ? TensorData::zeros(b->type, shape) : TensorData::make_random(b->type, shape, seed++));
  }
  return tensors;
}

void check_case(const Case& c, int64_t scalar, uint64_t seed) {
  ir::Kernel k = load(std::string("hard/") + c.name);
  INFO(c.name << ", scalar " << scalar << ", seed " << seed);
  interp::Options options;
  options.seed = seed;
  options.check_races = true;
  if (!k.scalars.empty()) options.scalars = {{k.scalars[0].id, scalar}};
  std::vector<TensorData> tensors = make_tensors(k, options.scalars, 100 + seed);
  std::vector<Doubles> expected;
  std::vector<TensorData*> params;
  for (TensorData& t : tensors) {
    expected.push_back(t.to_doubles());
    params.push_back(&t);
  }
  c.reference(expected);
  interp::Report report = interp::run(k, params, options);
  if (!report.ok()) FAIL(report.text());
  for (size_t i = 0; i < tensors.size(); ++i) {
    Doubles got = tensors[i].to_doubles();
    REQUIRE(got.size() == expected[i].size());
    for (size_t e = 0; e < got.size(); ++e) {
      if (!(std::abs(got[e] - expected[i][e]) <= c.tolerance * (1 + std::abs(expected[i][e]))))
        FAIL("tensor " << i << " element " << e << " is " << got[e] << " instead of " << expected[i][e]);
    }
  }
}

// c[m, n] = sum over k of a(m, k) * b(k, n)
void gemm(int64_t m, int64_t n, int64_t k, Doubles& c, const std::function<double(int64_t, int64_t)>& a,
          const std::function<double(int64_t, int64_t)>& b) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a(i, p) * b(p, j);
      c[static_cast<size_t>(i * n + j)] = sum;
    }
}
double at(const Doubles& t, int64_t i) {
  return t[static_cast<size_t>(i)];
}

Reference plain_gemm(int64_t m, int64_t n, int64_t k) {
  return [=](std::vector<Doubles>& t) {
    gemm(
        m, n, k, t[2], [&](int64_t i, int64_t p) { return at(t[0], i * k + p); },
        [&](int64_t p, int64_t j) { return at(t[1], p * n + j); });
  };
}

// Square kernel of 3, padding 1; groups == channels for depthwise.
void convolution(std::vector<Doubles>& t, int64_t in, int64_t out, int64_t height, int64_t width, int64_t stride,
                 bool depthwise) {
  int64_t oh = (height - 1) / stride + 1, ow = (width - 1) / stride + 1;
  Doubles& y = t.back();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t h = 0; h < oh; ++h)
      for (int64_t w = 0; w < ow; ++w) {
        double sum = 0;
        for (int64_t c = depthwise ? o : 0; c < (depthwise ? o + 1 : in); ++c)
          for (int64_t kh = 0; kh < 3; ++kh)
            for (int64_t kw = 0; kw < 3; ++kw) {
              int64_t r = h * stride + kh - 1, s = w * stride + kw - 1;
              if (r < 0 || r >= height || s < 0 || s >= width) continue;
              int64_t filter = depthwise ? o : o * in + c;
              sum += at(t[0], (c * height + r) * width + s) * at(t[1], (filter * 3 + kh) * 3 + kw);
            }
        y[static_cast<size_t>((o * oh + h) * ow + w)] = sum;
      }
}

Reference softmax(int64_t rows, int64_t columns) {
  return [=](std::vector<Doubles>& t) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += std::exp(at(t[0], r * columns + c));
      for (int64_t c = 0; c < columns; ++c)
        t[1][static_cast<size_t>(r * columns + c)] = std::exp(at(t[0], r * columns + c)) / sum;
    }
  };
}

void mma_gemm(std::vector<Doubles>& t) {
  gemm(
      50, 24, 256, t[3], [&](int64_t i, int64_t p) { return at(t[0], i * 256 + p); },
      [&](int64_t p, int64_t j) { return at(t[1], j * 256 + p); });
  for (int64_t i = 0; i < 50 * 24; ++i) {
    double& v = t[3][static_cast<size_t>(i)];
    v += at(t[2], i % 24);
    v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
  }
}

void attention(std::vector<Doubles>& t) {
  auto keys = static_cast<int64_t>(t[1].size()) / 8;
  for (int64_t q = 0; q < 5; ++q) {
    Doubles weights(static_cast<size_t>(keys));
    double total = 0;
    for (int64_t key = 0; key < keys; ++key) {
      if (key > q + keys - 5) continue;
      double score = 0;
      for (int64_t d = 0; d < 8; ++d) score += at(t[0], q * 8 + d) * at(t[1], key * 8 + d);
      total += weights[static_cast<size_t>(key)] = std::exp(score / std::sqrt(8.0));
    }
    for (int64_t d = 0; d < 8; ++d) {
      double sum = 0;
      for (int64_t key = 0; key < keys; ++key) sum += at(weights, key) * at(t[2], key * 8 + d);
      t[3][static_cast<size_t>(q * 8 + d)] = sum / total;
    }
  }
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"gemm_avx512_small", plain_gemm(29, 53, 7), 1e-5},
      {"gemm_amx",
       [](std::vector<Doubles>& t) {
         gemm(
             64, 64, 96, t[2], [&](int64_t i, int64_t p) { return at(t[0], i * 96 + p); },
             [&](int64_t p, int64_t j) { return at(t[1], p / 2 * 128 + 2 * j + p % 2); });
       },
       1e-4},
      {"conv_nchw_halo", [](std::vector<Doubles>& t) { convolution(t, 3, 5, 10, 10, 1, false); }, 1e-5},
      {"conv_nchw16c_halo", [](std::vector<Doubles>& t) { convolution(t, 20, 18, 6, 7, 1, false); }, 1e-5},
      {"gemm_mma_sync", mma_gemm, 2e-3},
      {"gemm_wgmma",
       [](std::vector<Doubles>& t) {
         gemm(
             256, 16, 96, t[2], [&](int64_t i, int64_t p) { return at(t[0], i * 96 + p); },
             [&](int64_t p, int64_t j) { return at(t[1], j * 96 + p); });
       },
       1e-4},
      {"gemm_split_k", plain_gemm(12, 20, 64), 1e-5},
      {"gemm_stream_k", plain_gemm(8, 8, 24), 1e-5},
      {"attention", attention, 1e-5, {5, 8, 16}},
      {"softmax_warp", softmax(3, 40), 1e-5},
      {"softmax_block", softmax(3, 150), 1e-5},
      {"gemm_dynamic_m",
       [](std::vector<Doubles>& t) { plain_gemm(static_cast<int64_t>(t[0].size()) / 16, 12, 16)(t); },
       1e-5,
       {1, 8, 13, 128}},
      {"depthwise",
       [](std::vector<Doubles>& t) {
         std::vector<Doubles> conv = {t[0], t[1], t[3]};
         convolution(conv, 6, 6, 9, 11, 2, true);
         for (int64_t i = 0; i < 180; ++i)
           t[3][static_cast<size_t>(i)] = std::min(std::max(at(conv[2], i) + at(t[2], i / 30), 0.0), 6.0);
       },
       1e-5},
  };
  return all;
}

struct Defect {
  const char* name;
  Finding::Kind kind;
};
constexpr Defect kDefects[] = {
    {"missing_barrier", Finding::Kind::kRace},
    {"missing_wait", Finding::Kind::kUninitialised},
    {"wrong_proxy", Finding::Kind::kRace},
    {"halo_off_by_one", Finding::Kind::kUninitialised},
    {"divergent_barrier", Finding::Kind::kDivergentBarrier},
    {"lost_arrive", Finding::Kind::kDeadlock},
    {"wrong_lane_map", Finding::Kind::kRace},
    {"uninitialised_read", Finding::Kind::kUninitialised},
    {"out_of_bounds", Finding::Kind::kOutOfBounds},
    {"misaligned_vector", Finding::Kind::kMisaligned},
    {"racing_reduction", Finding::Kind::kReductionOrder},
    {"deadlock", Finding::Kind::kDeadlock},
};

}  // namespace

TEST_CASE("hard kernels compute the right thing", "[suite]") {
  for (const Case& c : cases())
    for (int64_t scalar : c.scalars)
      for (uint64_t seed : {1, 2, 3}) check_case(c, scalar, seed);
}

TEST_CASE("seeded defects are reported for what they are", "[suite][defects]") {
  for (const Defect& d : kDefects) {
    for (uint64_t seed : {1, 2, 3}) {
      INFO(d.name << ", seed " << seed);
      ir::Kernel k = load(std::string("defects/") + d.name);
      interp::Options options;
      options.seed = seed;
      options.check_races = true;
      std::vector<TensorData> tensors = make_tensors(k, {}, seed);
      std::vector<TensorData*> params;
      for (TensorData& t : tensors) params.push_back(&t);
      interp::Report report = interp::run(k, params, options);
      INFO(report.text());
      CHECK(report.has(d.kind));
      for (const Finding& f : report.findings) CHECK(interp::finding_name(f.kind) == interp::finding_name(d.kind));
    }
  }
}
