// The fixed part of measuring one task: inputs, reference outputs and what error is allowed.
//
// Two data sets. Set 0: small integers, chosen so that every partial sum is exact in the type it is computed in; where
// the kernel is made of exact operations only (sums, products, min, max, selects, ...) the outputs must be EQUAL. Set
// 1: random reals, |x - ref| <= 2 u_out |ref| + 4 u_acc sqrt(K) scale, with u the unit roundoff of the output's and of
// the narrowest computing type (of tf32 where the kernel allows it), K the number of terms that meet in one output. The
// reference is the naive kernel with all floats turned to f64. For kernels made of sums, products, min, max, selects
// and division by constants, scale is the same kernel's value on absolute values (a bound on every partial sum, per
// element); for others it is the largest |ref| of the whole output and the factor is 16, because intrinsics have errors
// of their own. Above 2 GFLOP, 0.2 of programs for GPUs, 0.1 where references are interpreted (see reference.h), the
// reference is computed, and outputs are compared, at samples only: corners, both sides of the edges of tiles, 4,096
// others. That every element was written is looked at all the same, where its type can tell. NaN and infinities are
// wrong wherever the reference has none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/measure/reference.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::measure {

class IsolatedHostMeasurer;

struct TaskFacts {
  double flops = 0;          // arithmetic operations on data in one run of the naive kernel
  int64_t reduce_terms = 1;  // K
  bool exact = false;        // set 0 is compared for equality
  bool plain = false;        // scale is per element
  bool sampled = false;      // outputs are compared at some elements only
  double naive_seconds = 0;  // one run of the f64 reference; estimated where it is sampled
};

class MeasureTask {
 public:
  struct Segment;  // shared memory that the worker reads
  enum class Sets : uint8_t { kBoth, kIntegers, kReals };
  struct Options {
    uint64_t seed = 1;
    // Of larger tasks the reference is computed for some elements only; nullopt: what is said above.
    std::optional<double> sample_above_flops;
    ReferenceEngine engine = ReferenceEngine::kBest;
    Sets sets = Sets::kBoth;
  };
  // Runs the reference of `naive` (Stage::Built, no scalar parameters), machine code in an isolated child of
  // `measurer`.
  // Errors: the naive kernel does not lower, compile or run.
  static Result<std::shared_ptr<const MeasureTask>> create(IsolatedHostMeasurer& measurer, const ir::Kernel& naive,
                                                           const target::Target& target, const Options& options);
  ~MeasureTask();

  // The same on data of another seed, made when it is first asked for: what winners must pass as well. One data set,
  // which tells most: integers where they are exact, else reals. Threads may ask at the same time.
  Result<std::shared_ptr<const MeasureTask>> second(IsolatedHostMeasurer& measurer) const;

  const TaskFacts& facts() const { return facts_; }
  const target::Target& target() const { return target_; }
  uint64_t id() const { return id_; }
  const Segment& segment() const { return *segment_; }

 private:
  struct References;  // machine code, or programs for the interpreter
  MeasureTask();
  // `made`: the references of a task that differs in its seed only; nullptr: they are made here.
  static Result<std::shared_ptr<const MeasureTask>> create(IsolatedHostMeasurer& measurer, const ir::Kernel& naive,
                                                           const target::Target& target, const Options& options,
                                                           std::shared_ptr<const References> made);
  ir::Kernel naive_;
  Options options_;
  std::shared_ptr<const References> references_;  // where another seed can use them
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const MeasureTask> second_;  // guarded by mutex_
  TaskFacts facts_;
  target::Target target_;
  uint64_t id_ = 0;
  std::unique_ptr<Segment> segment_;
};

// Bytes that measuring a task takes, about: inputs, and outputs with their references and error bounds, for the two
// data sets of the first seed and the one of the second.
double task_memory(const ir::Kernel& naive);

// The same computation with every float type turned to f64: parameters, temporaries, constants, arithmetic.
ir::Kernel to_double(const ir::Kernel& kernel);

// Parameters whose elements are used as indices (gather), by buffer id: the extent that the values stay below.
std::map<ir::Id, int64_t> index_limits(const ir::Kernel& kernel);

}  // namespace tcc::measure
