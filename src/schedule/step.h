// One instruction at work: reads inputs and attributes, replaces the kernel, stores outputs. Every row of the table in
// ops.h has a function run::<name>(Step&), beside its primitive or in ops.cpp. Private to the room.
#pragma once

#include "tcc/ir/build.h"
#include "tcc/schedule/trace.h"

namespace tcc::schedule {

struct Step {
  Executor& executor;
  Kernel& kernel;
  const Instruction& in;
  std::span<int64_t> decision;

  Id id(size_t i) const;
  std::vector<Id> ids() const;
  // nullptr: inferred, or a variable that holds no expression.
  Expr expr(size_t i) const;
  int64_t integer(std::string_view name) const { return schedule::integer(in, name); }
  template <class E>
  E enumerator(std::string_view name) const {
    return schedule::enumerator<E>(in, name);
  }
  Mode mode() const { return executor.mode_; }
  Rng& rng() const { return *executor.rng_; }

  void put(int i, Value v);
  Legal<void> put_ids(std::span<const Id> ids);
  Legal<void> become(Legal<Kernel> next);
  // For primitives that make one handle.
  template <class F>
  Legal<void> make_one(F primitive) {
    Id out = ir::kNoId;
    TCC_TRY_VOID(become(primitive(out)));
    put(0, {out, nullptr});
    return {};
  }
  // A fresh decision scalar in [low, high].
  Expr symbol(int64_t low, int64_t high);
  // A decision that is structural: taken from the trace in every mode.
  void structural() { executor.symbols_.push_back(ir::kNoId); }
};

namespace run {
#define TCC_X(kind, name, ...) Legal<void> name(Step& s);
TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
}  // namespace run

}  // namespace tcc::schedule
