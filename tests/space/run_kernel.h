// Kernels of the spaces' tests under the interpreter, on data that is a function of the parameters' order alone.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/rng.h"
#include "tcc/task/task.h"

namespace tcc {

inline target::Target named_target(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

// The parameters of a kernel: outputs zero, inputs and weights small integers, whose sums are exact in any order.
struct Params {
  std::vector<interp::TensorData> data;
  std::vector<interp::TensorData*> pointers;
  explicit Params(const ir::Kernel& k) {
    for (const ir::Buffer* b : k.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      if (b->layout != nullptr) shape.assign(b->layout->shape.begin(), b->layout->shape.end());
      data.push_back(b->role == ir::BufferRole::kOutput
                         ? interp::TensorData::zeros(b->type, shape)
                         : interp::TensorData::make_random_integers(b->type, shape, data.size() + 5));
    }
    for (interp::TensorData& d : data) {
      pointers.push_back(&d);
      if (d.type == ir::Type::kU8 || d.type == ir::Type::kI8) fill_bytes(d, pointers.size());
    }
  }
  // All numbers of the type, its limits more often than others. Outputs are written over.
  static void fill_bytes(interp::TensorData& d, uint64_t seed) {
    Rng rng(seed);
    const double low = d.type == ir::Type::kU8 ? 0 : -128;
    for (int64_t i = 0; i < d.size(); ++i) {
      const int64_t draw = rng.below(320);
      d.set(i, low + static_cast<double>(draw < 256 ? draw : draw % 2 * 255));
    }
  }
  Params(const Params&) = delete;  // the pointers are into `data`
  Params& operator=(const Params&) = delete;
};

// The values of the last parameter, which is the output, after a run that has nothing to report.
inline std::vector<double> run_kernel(const ir::Kernel& k) {
  Params params(k);
  interp::Report report = interp::run(k, params.pointers);
  INFO(report.text());
  REQUIRE(report.ok());
  return params.data.back().to_doubles();
}

inline void check_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-5) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i);
    REQUIRE(std::fabs(got[i] - want[i]) <= tolerance * std::max(1.0, std::fabs(want[i])));
  }
}

inline void check_close(const Params& got, const Params& want, double tolerance = 1e-5) {
  for (size_t p = 0; p < want.data.size(); ++p) {
    INFO("parameter " << p);
    check_close(got.data[p].to_doubles(), want.data[p].to_doubles(), tolerance);
  }
}

// Two draws of every sketch of the task's space, lowered, against the naive nest. Draws that the target's limits
// reject are passed over; the result is how many ran.
inline int64_t check_draws(const task::Task& t, const target::Target& target) {
  INFO(t.workload << " on " << target.name);
  const std::vector<double> want = run_kernel(t.kernel);
  Rng rng(11);
  int64_t ran = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    INFO(schedule::print_trace(trace));
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0; draw < 2; ++draw) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
      space::draw_decisions(*sketch, decisions, rng);
      if (!nest) continue;
      ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      if (!lowered) continue;
      INFO(ir::print(*lowered));
      check_close(run_kernel(*lowered), want);
      ++ran;
    }
  }
  return ran;
}

}  // namespace tcc
