// parallel, vectorize, unroll, bind, annotate.
#include "common.h"
#include "tcc/ir/names.h"

namespace tcc::schedule {
namespace {

// Iterators of other kinds than spatial must not be fed by the loop.
Legal<void> check_spatial(const Kernel& k, const Loop& loop, const char* what) {
  Legal<void> verdict = {};
  visit(loop.body, [&](Stmt s) {
    if (const Block* block = as<Block>(s))
      for (const Iter& it : block->iters)
        if (it.kind != IterKind::kSpatial && mentions(it.binding, loop.id))
          verdict =
              reject(RejectReason::kParallelReduction,
                     fmt::format("{} of {}: it feeds the {} iterator {} of block {}{}", what, describe(k, loop.id),
                                 iter_kind_name(it.kind), describe(k, it.id), describe(k, block->id),
                                 it.kind == IterKind::kReduce ? "; rfactor of the block and the loop first gives "
                                                                "each iteration an accumulator of its own"
                                                              : ""));
    return verdict.has_value();
  });
  return verdict;
}

// Lanes share storage: a temporary that lives within one iteration would need a copy a lane.
Legal<void> check_no_private_storage(const Kernel& k, const Loop& loop) {
  for (const Block* block : collect_blocks(loop.body)) {
    const Buffer* out = k.buffer(written_buffer(k, block->id));
    if (out == nullptr || out->role != BufferRole::kTemp) continue;
    bool outside = false;
    for (const Block* other : collect_blocks(k.root))
      if ((reads_buffer(other, out->id) || writes_buffer(other, out->id)) && !find_path(loop.body, other->id).found())
        outside = true;
    if (!outside)
      return reject(RejectReason::kParallelReduction, fmt::format("vectorize of {}: {} lives within one iteration",
                                                                  describe(k, loop.id), describe(k, out->id)));
  }
  return {};
}

bool spells_groups(Axis a) {
  return a == Axis::kWarpgroup || a == Axis::kWarp || a == Axis::kLane;
}

// One launch has one grid, around everything, and one thread id: no axis twice on a way down, the same extent wherever
// it is bound, in one spelling.
Legal<void> check_axis(const Kernel& k, const Path& path, Axis axis) {
  const Loop* loop = as<Loop>(path.nodes.back());
  auto refuse = [&](const std::string& why) {
    return reject(RejectReason::kLoopKindTaken,
                  fmt::format("bind of {} to {}: {}", describe(k, loop->id), axis_name(axis), why));
  };
  Stmt launch = path.nodes[0];
  for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
    if (as<Seq>(path.nodes[i]) != nullptr && path.nodes[i] == launch) launch = path.nodes[i + 1];
    const Loop* outer = as<Loop>(path.nodes[i]);
    if (outer == nullptr) continue;
    if (is_grid(axis) && !is_grid(outer->axis))
      return refuse(fmt::format("a grid loop must be outermost, found it within {}", describe(k, outer->id)));
    if (outer->axis == axis && axis != Axis::kVthread)
      return refuse(fmt::format("it is within {}, which is bound to the same axis", describe(k, outer->id)));
  }
  Legal<void> verdict = {};
  visit(launch, [&](Stmt s) {
    const Loop* other = as<Loop>(s);
    if (other == nullptr || other == loop || other->axis == Axis::kNone || axis == Axis::kVthread) return true;
    if (is_thread(axis) && is_thread(other->axis) && spells_groups(axis) != spells_groups(other->axis))
      verdict = refuse(fmt::format("{} is bound to {}, another spelling of the thread id", describe(k, other->id),
                                   axis_name(other->axis)));
    else if (other->axis == axis && find_path(loop->body, other->id).found())
      verdict = refuse(fmt::format("{} within it is bound to the same axis", describe(k, other->id)));
    else if (other->axis == axis && !equal(other->extent, loop->extent))
      verdict = refuse(fmt::format("{} is bound to it with another extent", describe(k, other->id)));
    return verdict.has_value();
  });
  return verdict;
}

Legal<Kernel> set_kind(const Kernel& k, Id id, LoopKind kind, Axis axis, const char* what, bool spatial_only) {
  TCC_TRY(Path path, path_to_loop(k, id));
  const Loop* loop = as<Loop>(path.nodes.back());
  if (loop->loop_kind != LoopKind::kSerial)
    return reject(RejectReason::kLoopKindTaken,
                  fmt::format("{} of {}, which is {}", what, describe(k, id), loop_kind_name(loop->loop_kind)));
  if (spatial_only) TCC_TRY_VOID(check_spatial(k, *loop, what));
  if (kind == LoopKind::kVectorized) TCC_TRY_VOID(check_no_private_storage(k, *loop));
  if (kind == LoopKind::kBound) TCC_TRY_VOID(check_axis(k, path, axis));
  Editor edit(k);
  Stmt changed = edit.b.loop(loop->id, loop->extent, loop->body, kind, axis, loop->annotations);
  return edit.finish(replace_at(edit.b, path, changed));
}

}  // namespace

Legal<Kernel> parallel(const Kernel& k, Id loop) {
  return set_kind(k, loop, LoopKind::kParallel, Axis::kNone, "parallel", true);
}
Legal<Kernel> vectorize(const Kernel& k, Id loop) {
  return set_kind(k, loop, LoopKind::kVectorized, Axis::kNone, "vectorize", true);
}
Legal<Kernel> unroll(const Kernel& k, Id loop) {
  return set_kind(k, loop, LoopKind::kUnrolled, Axis::kNone, "unroll", false);
}

Legal<Kernel> bind(const Kernel& k, Id loop, Axis axis) {
  if (axis == Axis::kNone) return reject(RejectReason::kBadFactor, "bind to no axis");
  return set_kind(k, loop, LoopKind::kBound, axis, "bind", true);
}

Legal<Kernel> annotate(const Kernel& k, Id id, AnnotationKey key, Expr value) {
  Path path = find_path(k.root, id);
  if (!path.found()) return unknown(k, "loop or block", id);
  const bool pipeline = key == AnnotationKey::kPipelineAsync || key == AnnotationKey::kPipelineRole ||
                        key == AnnotationKey::kPipelineDepth;
  if (int64_t least = key == AnnotationKey::kPipelineDepth ? 1 : 0;
      pipeline && is_int(value) && int_value(value) < least)
    return reject(RejectReason::kBadAnnotation, fmt::format("{} of {} is {}, which is below {}", annotation_name(key),
                                                            describe(k, id), int_value(value), least));
  Stmt node = path.nodes.back();
  std::span<const Annotation> old;
  if (const Loop* l = as<Loop>(node))
    old = l->annotations;
  else if (const Block* block = as<Block>(node))
    old = block->annotations;
  std::vector<Annotation> all = without(old, {key});
  all.push_back({key, value});
  std::sort(all.begin(), all.end(),
            [](const Annotation& x, const Annotation& y) { return stored_code(x.key) < stored_code(y.key); });
  Editor edit(k);
  Stmt changed;
  if (const Loop* l = as<Loop>(node)) {
    changed = edit.b.loop(l->id, l->extent, l->body, l->loop_kind, l->axis, all);
  } else {
    const Block* block = as<Block>(node);
    changed = edit.b.block(block->id, block->iters, block->body, block->init, block->predicate, block->reducer, all);
  }
  return edit.finish(replace_at(edit.b, path, changed));
}

Legal<Kernel> unannotate(const Kernel& k, Id id, AnnotationKey key) {
  Path path = find_path(k.root, id);
  if (!path.found()) return unknown(k, "loop or block", id);
  Stmt node = path.nodes.back();
  const Loop* l = as<Loop>(node);
  const Block* block = as<Block>(node);
  std::span<const Annotation> old = l != nullptr ? l->annotations : block->annotations;
  std::vector<Annotation> rest = without(old, {key});
  if (rest.size() == old.size())
    return reject(RejectReason::kBadAnnotation,
                  fmt::format("{} has no annotation {}", describe(k, id), annotation_name(key)));
  Editor edit(k);
  Stmt changed = l != nullptr ? edit.b.loop(l->id, l->extent, l->body, l->loop_kind, l->axis, rest)
                              : edit.b.block(block->id, block->iters, block->body, block->init, block->predicate,
                                             block->reducer, rest);
  return edit.finish(replace_at(edit.b, path, changed));
}

Legal<Kernel> add_unit_loop(const Kernel& k, Id id, Id& out) {
  Path path = find_path(k.root, id);
  if (!path.found()) return unknown(k, "loop or block", id);
  if (const Loop* l = as<Loop>(path.nodes.back()); l != nullptr && is_grid(l->axis))
    return reject(RejectReason::kLoopKindTaken, describe(k, id) + " is bound to the grid, whose loops are outermost");
  Editor edit(k);
  out = edit.fresh_named("u");
  return edit.finish(replace_at(edit.b, path, edit.b.loop(out, edit.b.integer(1), path.nodes.back())));
}

}  // namespace tcc::schedule
