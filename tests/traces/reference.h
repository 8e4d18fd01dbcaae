// What a kernel must compute: its naive form run by the interpreter on small random integers, whose sums are exact.
// Outputs hold NaN before each run, so that an element nobody writes is seen.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"

namespace tcc::testing {

struct Reference {
  std::vector<interp::TensorData> inputs, expected;  // one per parameter
  double tolerance = 2e-5;                           // absolute near zero, else relative

  explicit Reference(const ir::Kernel& naive, double tolerance_ = 2e-5) : tolerance(tolerance_) {
    uint64_t seed = 3;
    for (const ir::Buffer* b : naive.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      inputs.push_back(interp::TensorData::make_random_integers(b->type, shape, seed++));
      if (b->role == ir::BufferRole::kOutput)
        for (std::byte& byte : inputs.back().bytes) byte = std::byte{0xff};
    }
    expected = inputs;
    const interp::Report report = run(naive, expected);
    if (!report.ok()) FAIL("naive kernel: " << report.text() << ir::print(naive));
  }

  // With checks for races; `seed` orders the threads of a lowered GPU kernel.
  static interp::Report run(const ir::Kernel& k, std::vector<interp::TensorData>& data, uint64_t seed = 1) {
    std::vector<interp::TensorData*> pointers;
    for (interp::TensorData& d : data) pointers.push_back(&d);
    interp::Options options;
    options.seed = seed;
    options.check_races = true;
    return interp::run(k, pointers, options);
  }

  // Says which element of which parameter is wrong; empty: none.
  std::string difference(const std::vector<interp::TensorData>& got) const {
    for (size_t i = 0; i < got.size(); ++i)
      for (int64_t e = 0; e < got[i].size(); ++e) {
        const double x = got[i].at(e), y = expected[i].at(e);
        if (x != y && !(std::abs(x - y) <= tolerance * (1 + std::abs(y))))
          return fmt::format("element {} of parameter {} is {}, not {}", e, i, x, y);
      }
    return {};
  }

  // The kernel verifies, runs without a finding and computes the same.
  void check(const ir::Kernel& k, const std::string& what, uint64_t seed = 1) const {
    const std::vector<std::string> findings = ir::verify(k);
    if (!findings.empty()) FAIL(what << ": " << findings[0] << "\n" << ir::print(k));
    std::vector<interp::TensorData> got = inputs;
    const interp::Report report = run(k, got, seed);
    if (!report.ok()) FAIL(what << ": " << report.text() << "\n" << ir::print(k));
    const std::string wrong = difference(got);
    if (!wrong.empty()) FAIL(what << ": " << wrong << "\n" << ir::print(k));
  }
};

}  // namespace tcc::testing
