// An imported trace on a kernel of ours.
#include <algorithm>

#include "tcc/ir/walk.h"
#include "tcc/schedule/metaschedule.h"

namespace tcc::schedule {
namespace {

// Has the loop of the instruction the kind that the instruction gives it?
bool changes_nothing(const Instruction& in, const Executor& executor) {
  ir::LoopKind kind;
  if (in.op == Op::kParallel)
    kind = ir::LoopKind::kParallel;
  else if (in.op == Op::kVectorize)
    kind = ir::LoopKind::kVectorized;
  else if (in.op == Op::kUnroll)
    kind = ir::LoopKind::kUnrolled;
  else
    return false;
  const ir::Id id = executor.value(static_cast<int>(in.inputs[0].value)).id;
  const ir::Loop* loop = ir::find_loop(executor.kernel().root, id);
  return loop != nullptr && loop->loop_kind == kind;
}

// Of the first `count` instructions.
Legal<Trace> fit_front(const ImportedTrace& imported, size_t count, const Kernel& start, const ArenaPtr& arena) {
  Executor executor(start, arena, Mode::kReplay, nullptr);
  std::vector<int64_t> decisions = imported.trace.decisions;
  size_t decided = 0;
  Trace fitted;
  for (size_t i = 0; i < count; ++i) {
    const Instruction& in = imported.trace.instructions[i];
    if (changes_nothing(in, executor)) continue;
    std::span<int64_t> own;
    if (in.decision >= 0) {
      own = std::span(decisions).subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
      decided = static_cast<size_t>(in.decision + in.decision_length);
    }
    if (Legal<void> done = executor.run(in, own); !done) {
      Reject r = std::move(done).error();
      r.text = fmt::format("instruction {} (here {}): {}", imported.numbers[i], op_name(in.op), r.text);
      return tl::make_unexpected(std::move(r));
    }
    fitted.instructions.push_back(in);
    fitted.variables = std::max(fitted.variables, in.first_output + in.outputs);
  }
  decisions.resize(decided);
  fitted.decisions = std::move(decisions);
  return fitted;
}

}  // namespace

Legal<Trace> fit_to(ImportedTrace& imported, const Kernel& start, const ArenaPtr& arena) {
  const size_t all = imported.trace.instructions.size();
  Legal<Trace> fitted = fit_front(imported, all, start, arena);
  if (fitted || imported.scheduled == all) return fitted;
  Legal<Trace> front = fit_front(imported, imported.scheduled, start, arena);
  if (!front) return front;
  imported.notes.push_back("what postprocessors wrote is left out: " + fitted.error().text);
  return front;
}

}  // namespace tcc::schedule
