// An imported trace on a kernel of ours.
#include <algorithm>
#include <array>

#include "schedule/metaschedule/match_loops.h"
#include "tcc/schedule/metaschedule.h"

namespace tcc::schedule {
namespace {

std::string extents_text(const std::vector<int64_t>& extents) {
  std::string out;
  for (int64_t e : extents) out += (out.empty() ? "" : " x ") + (e == 0 ? std::string("?") : std::to_string(e));
  return out;
}

class Fitter {
 public:
  Fitter(const ImportedTrace& imported, const Kernel& start, const ArenaPtr& arena)
      : imported_(imported),
        executor_(start, arena, Mode::kReplay, nullptr),
        ours_(static_cast<size_t>(imported.trace.variables), -1) {}

  // Of the first `count` instructions.
  Legal<Trace> run(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (Legal<void> done = step(i); !done) {
        Reject r = std::move(done).error();
        r.text = fmt::format("instruction {} (here {}): {}", imported_.numbers[i],
                             op_name(imported_.trace.instructions[i].op), r.text);
        return tl::make_unexpected(std::move(r));
      }
    }
    return std::move(fitted_);
  }
  std::vector<std::string>& notes() { return notes_; }

 private:
  const Kernel& kernel() const { return executor_.kernel(); }
  ir::Id id_of(const Input& in) const { return executor_.value(static_cast<int>(in.value)).id; }

  Legal<void> step(size_t number) {
    const Instruction& in = imported_.trace.instructions[number];
    Instruction mine = in;
    for (Input& i : mine.inputs)
      if (i.kind == Input::Kind::kVariable) i.value = ours_[static_cast<size_t>(i.value)];
    if (changes_nothing(mine)) return {};
    TCC_TRY_VOID(check_rank(number, mine));
    if (in.op == Op::kGetLoops) TCC_TRY_VOID(match(number, mine));
    if (in.op == Op::kBind && ir::is_thread(enumerator<ir::Axis>(in, "axis")))
      if (const std::optional<Input> block = reduced_by(mine.inputs[0])) return bind_reduction(mine, *block);
    std::vector<int64_t> decision;
    if (in.decision >= 0)
      decision.assign(imported_.trace.decisions.begin() + in.decision,
                      imported_.trace.decisions.begin() + in.decision + in.decision_length);
    for (int i = 0; i < in.outputs; ++i) ours_[static_cast<size_t>(in.first_output + i)] = fitted_.variables + i;
    const std::vector<int64_t> before = decision;
    const size_t at = fitted_.decisions.size();
    TCC_TRY_VOID(append(std::move(mine), std::move(decision)));
    const std::vector<int64_t> after(fitted_.decisions.begin() + static_cast<std::ptrdiff_t>(at),
                                     fitted_.decisions.end());
    if (before != after)
      notes_.push_back(fmt::format("instruction {} (here {}): the decision {} does not fit this kernel: it becomes {}",
                                   imported_.numbers[number], op_name(in.op), fmt::join(before, ", "),
                                   fmt::join(after, ", ")));
    return {};
  }

  Legal<void> append(Instruction in, std::vector<int64_t> decision = {}) {
    in.first_output = fitted_.variables;
    if (in.decision >= 0) in.decision = static_cast<int>(fitted_.decisions.size());
    TCC_TRY_VOID(executor_.run(in, decision));
    fitted_.variables += in.outputs;
    fitted_.decisions.insert(fitted_.decisions.end(), decision.begin(), decision.end());
    fitted_.instructions.push_back(std::move(in));
    return {};
  }
  // The first of its outputs.
  Legal<int64_t> added(Op op, std::vector<Input> inputs, int outputs, std::vector<int64_t> attrs = {}) {
    const int64_t first = fitted_.variables;
    TCC_TRY_VOID(append({op, std::move(inputs), std::move(attrs), {}, 0, outputs}));
    return first;
  }

  // Has the loop of the instruction the kind that the instruction gives it?
  bool changes_nothing(const Instruction& in) const {
    ir::LoopKind kind;
    if (in.op == Op::kParallel)
      kind = ir::LoopKind::kParallel;
    else if (in.op == Op::kVectorize)
      kind = ir::LoopKind::kVectorized;
    else if (in.op == Op::kUnroll)
      kind = ir::LoopKind::kUnrolled;
    else
      return false;
    const ir::Loop* loop = ir::find_loop(kernel().root, id_of(in.inputs[0]));
    return loop != nullptr && loop->loop_kind == kind;
  }

  // An index map is from the indices of a buffer, or of a block, that has as many.
  Legal<void> check_rank(size_t number, const Instruction& in) const {
    auto rank = imported_.ranks.find(number);
    const ir::Block* block =
        rank == imported_.ranks.end() ? nullptr : ir::find_block(kernel().root, id_of(in.inputs[0]));
    if (block == nullptr) return {};
    size_t own = block->iters.size();
    std::string what = "the block " + ir::name_hint(kernel(), block->id);
    if (in.op == Op::kTransformLayout) {
      const std::vector<ir::Id> reads = read_buffers(kernel(), block->id);
      const int64_t read = integer(in, "read");
      if (read >= std::ssize(reads)) return {};
      const ir::Id id = read < 0 ? written_buffer(kernel(), block->id) : reads[static_cast<size_t>(read)];
      if (kernel().buffer(id) == nullptr) return {};
      own = kernel().buffer(id)->shape.size();
      what = "the buffer " + ir::name_hint(kernel(), id);
    }
    if (own == rank->second) return {};
    return reject(RejectReason::kBadFactor,
                  fmt::format("the index map is from {} indices, {} has {}", rank->second, what, own));
  }

  // Where the file counts the loops of a block differently, they are fused, and unit loops are added, until they are as
  // in the file.
  Legal<void> match(size_t number, const Instruction& in) {
    const ir::Id block = id_of(in.inputs[0]);
    const std::vector<ir::Id> loops = loops_of(kernel(), block);
    if (std::ssize(loops) == in.outputs || ir::find_block(kernel().root, block) == nullptr) return {};
    const std::vector<LoopFacts> facts = loop_facts(kernel(), block, loops);
    std::vector<int64_t> file, own;
    for (int i = 0; i < in.outputs; ++i) {
      auto known = imported_.extents.find(imported_.trace.instructions[number].first_output + i);
      file.push_back(known == imported_.extents.end() ? 0 : known->second);
    }
    for (const LoopFacts& l : facts) own.push_back(l.extent);
    const std::string name = ir::name_hint(kernel(), block);
    join_alike(kernel(), joined_);
    const auto groups = match_loops(facts, file, joined_);
    if (!groups)
      return reject(RejectReason::kNotALoopChain,
                    fmt::format("the file has {} loops ({}) around {}, the kernel {} ({}), which are not the same "
                                "iterations counted differently: write the trace for this kernel's loops",
                                file.size(), extents_text(file), name, own.size(), extents_text(own)));
    return make(in.inputs[0], facts, *groups, name);
  }

  Legal<void> make(const Input& block, const std::vector<LoopFacts>& facts,
                   const std::vector<std::vector<size_t>>& groups, const std::string& name) {
    TCC_TRY(int64_t first, added(Op::kGetLoops, {block}, static_cast<int>(facts.size())));
    Input inside = block;  // what a unit loop goes around: the file's next loop, from the innermost outwards
    for (size_t g = groups.size(); g-- > 0;) {
      const std::vector<size_t>& own = groups[g];
      std::vector<Input> loops;
      for (size_t i : own) loops.push_back(variable(static_cast<int>(first + static_cast<int64_t>(i))));
      if (loops.size() == 1) {
        inside = loops[0];
        continue;
      }
      TCC_TRY(int64_t made, loops.empty() ? added(Op::kAddUnitLoop, {inside}, 1) : added(Op::kFuse, loops, 1));
      inside = variable(static_cast<int>(made));
      if (loops.empty()) {
        notes_.push_back(fmt::format("{} has no loop {} of the file's, of one iteration: it is added", name, g));
        continue;
      }
      std::vector<int64_t> extents;
      for (size_t i : own) extents.push_back(facts[i].extent);
      notes_.push_back(fmt::format("loop {} of {} in the file is {} loops here, {}: they are fused", g, name,
                                   own.size(), extents_text(extents)));
      for (size_t i = 1; i < own.size(); ++i)
        if (facts[own[i - 1]].only != ir::kNoId && facts[own[i]].only != ir::kNoId)
          joined_.insert({facts[own[i - 1]].only, facts[own[i]].only});
    }
    return {};
  }

  // The only block below the loop, where the loop feeds its reduction and a handle holds it.
  std::optional<Input> reduced_by(const Input& loop_handle) const {
    const ir::Loop* loop = ir::find_loop(kernel().root, id_of(loop_handle));
    if (loop == nullptr) return std::nullopt;
    const std::vector<const ir::Block*> blocks = ir::collect_blocks(loop->body);
    if (blocks.size() != 1 || blocks[0]->reducer == ir::ReducerKind::kNone) return std::nullopt;
    const std::array<ir::Id, 1> id = {loop->id};
    const LoopFacts facts = loop_facts(kernel(), blocks[0]->id, id)[0];
    if (facts.spatial || !facts.ordered) return std::nullopt;
    for (int v = fitted_.variables; v-- > 0;)
      if (executor_.value(v).expr == nullptr && executor_.value(v).id == blocks[0]->id) return variable(v);
    return std::nullopt;
  }

  // Threads that share a sum: each gets an accumulator, over the serial loops, and what combines them does so in
  // halves.
  Legal<void> bind_reduction(const Instruction& in, const Input& block) {
    const ir::Id loop = id_of(in.inputs[0]);
    TCC_TRY(int64_t partial, added(Op::kRfactor, {block, in.inputs[0]}, 1));
    const Input made = variable(static_cast<int>(partial));
    const std::vector<ir::Id> loops = loops_of(kernel(), id_of(made));
    const std::vector<LoopFacts> facts = loop_facts(kernel(), id_of(made), loops);
    Legal<int64_t> first = added(Op::kGetLoops, {made}, static_cast<int>(loops.size()));
    if (!first) return tl::make_unexpected(std::move(first).error());
    std::vector<Input> order;
    for (size_t i = 0; i < loops.size(); ++i)
      if (loops[i] == loop || facts[i].ordered)
        order.push_back(variable(static_cast<int>(*first + static_cast<int64_t>(i))));
    const auto thread = std::find_if(order.begin(), order.end(), [&](const Input& l) { return id_of(l) == loop; });
    if (thread == order.end()) return reject(RejectReason::kUnknownHandle, "rfactor made the loop anew");
    std::rotate(order.begin(), thread, thread + 1);
    const Input bound = order[0];
    if (order.size() > 1) TCC_TRY_VOID(added(Op::kReorder, order, 0));
    TCC_TRY_VOID(added(Op::kBind, {bound}, 0, in.attrs));
    const auto combining = static_cast<int>(loops_of(kernel(), id_of(block)).size());
    TCC_TRY(int64_t rest, added(Op::kGetLoops, {block}, combining));
    TCC_TRY_VOID(added(Op::kAnnotate, {variable(static_cast<int>(rest) + combining - 1), literal(1)}, 0,
                       {static_cast<int64_t>(ir::AnnotationKey::kTreeReduce)}));
    notes_.push_back(fmt::format("threads share the sums of {}: rfactor gives each an accumulator first",
                                 ir::name_hint(kernel(), id_of(block))));
    return {};
  }

  const ImportedTrace& imported_;
  Executor executor_;
  Trace fitted_;
  std::vector<int> ours_;  // variables of the fitted trace, by variable of the imported one
  std::vector<std::string> notes_;
  JoinedIters joined_;
};

}  // namespace

Legal<Trace> fit_to(ImportedTrace& imported, const Kernel& start, const ArenaPtr& arena) {
  const size_t all = imported.trace.instructions.size();
  Fitter whole(imported, start, arena);
  Legal<Trace> fitted = whole.run(all);
  Fitter front(imported, start, arena);
  const bool postprocessed = fitted.has_value() || imported.scheduled == all;
  if (!postprocessed) {
    const std::string why = std::move(fitted).error().text;
    fitted = front.run(imported.scheduled);
    if (fitted) front.notes().push_back("what postprocessors wrote is left out: " + why);
  }
  std::vector<std::string>& notes = (postprocessed ? whole : front).notes();
  if (fitted) imported.notes.insert(imported.notes.end(), notes.begin(), notes.end());
  return fitted;
}

}  // namespace tcc::schedule
