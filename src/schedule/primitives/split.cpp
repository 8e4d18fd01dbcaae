#include "common.h"

namespace tcc::schedule {

// Of the new loops together; far above any program, far below overflow of index arithmetic.
constexpr int64_t kMaxIterations = int64_t{1} << 48;

Legal<Kernel> split(const Kernel& k, Id loop_id, std::span<const Expr> factors, std::vector<Id>& out) {
  TCC_TRY(const Path path, path_to_loop(k, loop_id));
  const Loop* loop = as<Loop>(path.nodes.back());
  if (loop->loop_kind != LoopKind::kSerial || !loop->annotations.empty())
    return reject(RejectReason::kLoopKindTaken, "split of " + describe(k, loop_id) + ", which is bound or annotated");
  if (factors.empty()) return reject(RejectReason::kBadFactor, "split needs factors");
  Editor edit(k);
  Builder& b = edit.b;

  // Step 1. All factors known: one may be inferred as the ceiling quotient.
  std::vector<Expr> extents(factors.begin(), factors.end());
  int inferred = -1;
  Expr known = b.integer(1);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == nullptr) {
      if (inferred >= 0) return reject(RejectReason::kBadFactor, "two inferred factors");
      inferred = static_cast<int>(i);
      continue;
    }
    if (is_int(extents[i]) && int_value(extents[i]) <= 0)
      return reject(RejectReason::kBadFactor,
                    fmt::format("factor {} of {}", int_value(extents[i]), describe(k, loop_id)));
    if (is_int(extents[i]) && is_int(known) && int_value(extents[i]) > kMaxIterations / int_value(known))
      return reject(RejectReason::kBadFactor, "the factors of " + describe(k, loop_id) + " make too many iterations");
    known = b.mul(known, extents[i]);
  }
  if (inferred >= 0) extents[static_cast<size_t>(inferred)] = b.ceil_div(loop->extent, known);

  // Step 2. index = mixed radix of the new loops.
  std::vector<Id> ids;
  Expr index = b.integer(0), total = b.integer(1);
  for (size_t i = 0; i < extents.size(); ++i) ids.push_back(edit.fresh(loop_id, static_cast<int32_t>(i)));
  for (size_t i = extents.size(); i-- > 0;) {
    index = b.add(index, b.mul(b.var(ids[i]), total));
    total = b.mul(total, extents[i]);
  }
  Substitution replace;
  replace.set(loop_id, index);
  Stmt body = substitute(b, loop->body, replace);

  // Step 3. Every iteration must be reached: the product is the extent, or more, or the first factor is the ceiling
  // quotient (given, as sample_tile does, or inferred).
  analysis::Ranges ranges(k);
  bool exact = ranges.prove_equal(b, total, loop->extent);
  if (!exact && inferred < 0 && !ranges.prove_less(b, loop->extent, b.offset(total, 1))) {
    Expr inner = b.product(std::span(extents).subspan(1));
    if (!equal(extents[0], b.ceil_div(loop->extent, inner)))
      return reject(RejectReason::kBadFactor, "the factors of " + describe(k, loop_id) + " do not cover its extent");
  }

  // Step 4. A predicate where the product may exceed the extent.
  if (!exact) body = add_predicate(b, body, b.lt(index, loop->extent));
  for (size_t i = extents.size(); i-- > 0;) body = b.loop(ids[i], extents[i], body);
  out = std::move(ids);
  return edit.finish(replace_at(b, path, body));
}

}  // namespace tcc::schedule
