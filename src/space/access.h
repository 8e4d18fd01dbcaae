// What the modules ask of a kernel: naive nests, strides, who reads whom. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/analysis/contraction.h"
#include "tcc/ir/kernel.h"
#include "tcc/ir/query.h"
#include "tcc/schedule/schedule.h"
#include "tcc/target/core_model.h"
#include "tcc/target/target.h"

namespace tcc::space {

// Every file of the room speaks of the IR and of schedules.
using namespace ir;
using schedule::BlockRv;
using schedule::ExprRv;
using schedule::joined;
using schedule::lit;
using schedule::LoopRv;
using schedule::Schedule;

// A block under one loop per iterator, bound one to one, all extents constant, nothing scheduled yet.
struct NaiveNest : analysis::Contraction {
  std::string name;
};
// nullopt: a block of another form, with several stores, or with an ambiguous name.
std::optional<NaiveNest> naive_nest(const ir::Kernel& kernel, const ir::Block& block);

inline constexpr int64_t kFewApart = 4;  // elements between lanes that vector loads and shuffles can read

using analysis::dim_of_iter;
using analysis::flat_stride;

// Vectors of partial results of one sum, at most.
inline constexpr int64_t kMaxPartialVectors = 8;
// The last reduction iterators that every operand passes through as through a single one. Lanes of a vector that
// crosses the end of such a run read places of their own, so further iterators stay loops around the vectors. Where a
// few vectors hold whole runs, these places differ by numbers. Short runs need such vectors, because a lone vector of
// partial results waits for each of its sums.
struct ReducedRun {
  size_t iterators = 0;
  bool several = false;  // the vectors hold several runs, along one more iterator
  int64_t unit = 0;      // elements of whole runs that the vectors hold; 0: any number
  size_t loops() const { return iterators + (several ? 1 : 0); }
};
ReducedRun find_run(const NaiveNest& nest, int64_t lanes);

// Some loop around the block has a kind: a module has scheduled it.
bool has_scheduled_loop(const ir::Kernel& kernel, ir::Id block);
int64_t vector_lanes(const target::Target& target, ir::Type type = ir::Type::kF32);
// For the accumulators and operands of a tile.
int64_t vector_registers(const target::Target& target);
// Largest divisor of n that is at most `limit`.
int64_t best_divisor(int64_t n, int64_t limit);

// Runs `steps` on a copy of the schedule and keeps it where no step was rejected; whether it was kept.
template <class Steps>
bool keep_if_legal(Schedule& s, Steps&& steps) {
  Schedule trial = s;
  std::forward<Steps>(steps)(trial);
  if (!trial.ok()) return false;
  s = std::move(trial);
  return true;
}

// The loops of these iterators.
std::vector<LoopRv> pick(std::span<const LoopRv> loops, const std::vector<size_t>& iterators);

// Fuses the loops (consecutive, outermost first) and runs the result, `fused`, in parallel. False and nothing done when
// rejected.
bool fuse_parallel(schedule::Schedule& s, std::span<const schedule::LoopRv> loops, schedule::LoopRv* fused = nullptr);

double output_bytes(const ir::Kernel& kernel);
double buffer_bytes(const ir::Kernel& kernel, bool outputs);  // of the outputs, or of all other buffers
// Results that do not stay in the last-level cache until they are read: whether their stores go past the caches, as
// non-temporal ones, is left to the tuner. `loop` is the outermost of the nest that writes them. Does nothing for
// smaller results.
void stream_large_output(schedule::Schedule& s, schedule::LoopRv loop, const target::Target& target);

}  // namespace tcc::space
