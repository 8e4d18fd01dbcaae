// merge: two loops side by side with the same number of iterations become one loop around both bodies.
//
//   for i in 8 { B[i] = f(A[i]) }            for m in 8 { B[m] = f(A[m])
//   for j in 8 { C[j] = g(A[j]) }     ->                  C[m] = g(A[m]) }
//
// Nests of one task that read the same tensor (projections of an attention's input, several results of a fused group)
// then share its cache lines, a parallel loop or a launch. The bodies must not touch what the other one writes: no
// order of iterations has to be kept.
#include "common.h"
#include "schedule/step.h"

namespace tcc::schedule {

Legal<Kernel> merge(const Kernel& k, Id first_id, Id second_id, Id& out) {
  const Path path = find_path(k.root, first_id);
  const Loop *first = find_loop(k.root, first_id), *second = find_loop(k.root, second_id);
  if (first == nullptr) return unknown(k, "loop", first_id);
  if (second == nullptr) return unknown(k, "loop", second_id);
  for (const Loop* l : {first, second})
    if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty())
      return reject(RejectReason::kLoopKindTaken, "merge of " + describe(k, l->id) + ", which is bound or annotated");
  const Seq* seq = path.nodes.size() < 2 ? nullptr : as<Seq>(path.nodes[path.nodes.size() - 2]);
  const auto found = seq == nullptr ? std::span<const Stmt>::iterator{}
                                    : std::find(seq->stmts.begin(), seq->stmts.end(), static_cast<Stmt>(first));
  if (seq == nullptr || found + 1 == seq->stmts.end() || *(found + 1) != second)
    return reject(RejectReason::kNotALoopChain,
                  fmt::format("{} does not follow {} directly", describe(k, second_id), describe(k, first_id)));
  Editor edit(k);
  if (!all_ranges(k).prove_equal(edit.b, first->extent, second->extent))
    return reject(RejectReason::kBadFactor, fmt::format("{} and {} have different numbers of iterations",
                                                        describe(k, first_id), describe(k, second_id)));
  auto touches = [](Stmt s, Id id) { return reads_buffer(s, id) || writes_buffer(s, id) || has_operand(s, id); };
  for (const Buffer* buffer : k.buffers)
    if (touches(first, buffer->id) && touches(second, buffer->id) &&
        (writes_buffer(first, buffer->id) || writes_buffer(second, buffer->id) || has_operand(first, buffer->id)))
      return reject(RejectReason::kReductionOrder,
                    fmt::format("{} and {} both touch {}, which one of them writes", describe(k, first_id),
                                describe(k, second_id), describe(k, buffer->id)));

  Builder& b = edit.b;
  out = edit.fresh(first_id, 2);
  auto body = [&](const Loop& l) {
    Substitution to_merged;
    to_merged.set(l.id, b.var(out));
    return substitute(b, l.body, to_merged);
  };
  const Stmt bodies[2] = {body(*first), body(*second)};
  std::vector<Stmt> stmts(seq->stmts.begin(), seq->stmts.end());
  const auto at = stmts.begin() + (found - seq->stmts.begin());
  *at = b.loop(out, first->extent, b.seq(bodies));
  stmts.erase(at + 1);
  return edit.finish(replace_at(b, prefix(path, path.nodes.size() - 1), b.seq(stmts)));
}

Legal<void> run::merge(Step& s) {
  return s.make_one([&](Id& out) { return schedule::merge(s.kernel, s.id(0), s.id(1), out); });
}

}  // namespace tcc::schedule
