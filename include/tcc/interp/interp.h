// The definition of the loop IR, executable.
//
// Kernels at Stage::Built, Scheduled and Nest run sequentially: loops in order whatever their kind. A block runs its
// init when its predicate holds and all its reduce and carried iterators are zero. With `check_races`, two iterations
// of one parallel, vectorized or bound loop may not touch the same element when one of them writes.
//
// At Stage::Lowered the statements of the root are launches. One with grid, cluster or thread axes (or Roles) runs as
// real threads: each thread executes the launch's body, a bound loop gives it its own coordinate and is skipped by
// threads beyond its extent. Inside a Role coordinates count from the role's first warp. `shared` and `cluster_shared`
// buffers exist once a block (others of the cluster reach the latter by multicast and remote arrival), `local` ones
// once a thread. All blocks run concurrently when the launch uses atomics, cluster axes or barriers in global memory,
// else one after the other. Asynchronous copies arrive as late as the program allows and their destinations are poison
// until then. Other launches run sequentially as above.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tcc/interp/tensor.h"
#include "tcc/ir/kernel.h"

namespace tcc::interp {

struct Options {
  uint64_t seed = 1;                     // order of warps
  bool check_races = false;              // conflicts of parallel iterations; data races of threads
  bool poison = true;                    // reads of elements that nothing has written
  int64_t max_steps = int64_t{1} << 40;  // loop iterations of all threads together
  int max_findings = 32;                 // distinct ones; more of the same statement and kind are only counted
  std::vector<std::pair<ir::Id, int64_t>> scalars;  // values of the kernel's scalars
};

// clang-format off
#define TCC_INTERP_FINDINGS(X)               \
  X(Race, "race")                            \
  X(ReductionOrder, "reduction order")       \
  X(Uninitialised, "uninitialized read")     \
  X(OutOfBounds, "out of bounds")            \
  X(Misaligned, "misaligned")                \
  X(DivergentBarrier, "divergent barrier")   \
  X(WrongParticipants, "wrong participants") \
  X(Deadlock, "deadlock")                    \
  X(StepLimit, "step limit")                 \
  X(ZeroDivisor, "zero divisor")             \
  X(BadArguments, "bad arguments")
// clang-format on

struct Finding {
  // ReductionOrder: a Race at a sequential stage inside a reduction block: its updates were made parallel.
  // Uninitialized covers data of an asynchronous copy that was not waited for.
  enum class Kind {
#define TCC_X(name, text) k##name,
    TCC_INTERP_FINDINGS(TCC_X)
#undef TCC_X
  };
  Kind kind;
  std::string text;  // what, buffer and index, block and thread, statement
  int64_t count;     // how often at this statement
};
std::string_view finding_name(Finding::Kind kind);

struct Report {
  std::vector<Finding> findings;
  int64_t steps = 0;  // loop iterations
  // Scalar operations of the program's values: arithmetic, loads and stores of data, not of index arithmetic.
  // Predicated operations count whether or not the predicate holds.
  int64_t operations = 0;

  bool ok() const { return findings.empty(); }
  bool has(Finding::Kind kind) const;
  std::string text() const;  // one finding a paragraph
};

// Compiled once, run any number of times, also from several threads at once.
class Program {
 public:
  static Program compile(const ir::Kernel& kernel);
  // One tensor per parameter buffer (role other than temp), in order, of the buffer's type and logical shape.
  // Outputs are written in place; what the kernel does not write keeps its former contents. A kernel that reads an
  // output before writing it is reported as an uninitialized read when `poison` is set.
  Report run(std::span<TensorData* const> params, const Options& options = {}) const;

  struct Impl;

 private:
  explicit Program(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

Report run(const ir::Kernel& kernel, std::span<TensorData* const> params, const Options& options = {});

}  // namespace tcc::interp
