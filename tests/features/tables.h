// Programs with their tables, for the tests of this folder.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "sample_tasks.h"
#include "tcc/features/features.h"
#include "tcc/features/sample.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"

namespace tcc::testing {

// A tile of a product in the memories of a GPU: 8 blocks of 16 threads, each thread has two sums.
inline constexpr const char* kTiledProduct = R"(kernel nest {
  input A: f32[32, 16]
  input B: f32[16, 8]
  output C: f32[32, 8]
  temp As: f32[4, 4] shared
  temp Bs: f32[4, 8] shared
  temp acc: f32[2] local
  for g in 8 bound(grid.x) {
    for x in 16 bound(thread.x) {
      alloc acc {
        for i in 2 {
          acc[i] = 0.0
        }
        for k in 4 {
          alloc As, Bs {
            for a in 16 @cooperative_fetch(1) {
              As[a // 4, a % 4] = A[g*4 + a // 4, k*4 + a % 4]
            }
            for b in 32 @cooperative_fetch(1) {
              Bs[b // 8, b % 8] = B[k*4 + b // 8, b % 8]
            }
            for r in 4 {
              for i in 2 {
                acc[i] = acc[i] + As[x // 4, r] * Bs[r, x % 4*2 + i]
              }
            }
          }
        }
        for i in 2 {
          C[g*4 + x // 4, x % 4*2 + i] = acc[i]
        }
      }
    }
  }
})";

// Rows of one table by column name.
struct TableRows {
  const features::Table* table;
  std::vector<float> values;

  size_t rows() const { return values.size() / table->columns.size(); }
  double at(size_t row, std::string_view column) const {
    for (size_t c = 0; c < table->columns.size(); ++c)
      if (table->columns[c] == column) return static_cast<double>(values[row * table->columns.size() + c]);
    FAIL("no column " << column);
    return 0;
  }
  // Undoes slog().
  double count(size_t row, std::string_view column) const { return std::exp2(at(row, column)) - 1; }
};

inline ir::Kernel parse_kernel(const std::string& text) {
  auto kernel = ir::parse(text);
  if (!kernel) FAIL(kernel.error().message << text);
  return *kernel;
}

// Of a nest that no trace made.
inline TableRows rows_of(const features::Table& table, const ir::Kernel& nest, const task::Task& task,
                         const char* target = "x86-64-v4") {
  static const schedule::Trace kNone;
  const target::Target machine = *target::find_target(target);
  return {&table, features::extract(table, {task, kNone, {}, nest, machine, 1})};
}

inline ir::Kernel nest_of(const ir::Kernel& kernel, const target::Target& target) {
  auto nest = lower::lower(kernel, target, ir::Stage::kNest, std::make_shared<Arena>());
  REQUIRE(nest.has_value());
  return *nest;
}

// Calls fn(program, hash of the nest) for `draws` random legal programs of every sketch of the task, as far as 50 tries
// for each give them.
template <class F>
void for_programs(const task::Task& task, const target::Target& target, int draws, uint64_t seed, F&& fn) {
  Rng rng(seed);
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    auto sketch = space::make_sketch(trace, task.kernel, target);
    if (!sketch) continue;
    std::vector<int64_t> decisions = trace.decisions;
    for (int tries = 0, legal = 0; tries < 50 * draws && legal < draws; ++tries) {
      space::draw_decisions(*sketch, decisions, rng);
      auto nest = space::instantiate(*sketch, decisions, target, std::make_shared<Arena>());
      if (!nest) continue;
      ++legal;
      fn(features::Program{task, trace, decisions, *nest, target, 1}, ir::hash_kernel(*nest));
    }
  }
}

}  // namespace tcc::testing
