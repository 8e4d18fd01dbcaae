#include "lower/gpu/choose_access_widths.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "tcc/analysis/vector_access.h"
#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxLanes = 64;
constexpr int64_t kMaxBytes = 16;

class Chooser {
 public:
  explicit Chooser(Edit& edit) : edit_(edit), b_(edit.b), ranges_(edit.k) {}

  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    Expr outer = ranges_.set(l->id, l->extent);
    const int64_t bytes = access_bytes(*l);
    Stmt body = bytes > 0 ? l->body : rewrite(l->body);
    ranges_.set(l->id, outer);
    if (bytes == 0 || has_annotation(*l, AnnotationKey::kAccessBytes)) return b_.with_body(*l, body);
    std::vector<Annotation> annotations(l->annotations.begin(), l->annotations.end());
    annotations.push_back({AnnotationKey::kAccessBytes, b_.integer(bytes)});
    return b_.loop(l->id, l->extent, body, l->loop_kind, l->axis, annotations);
  }

 private:
  // Of the widest access of the loop's lanes; 0: the loop is not turned into lanes.
  int64_t access_bytes(const Loop& l) {
    if (l.loop_kind != LoopKind::kVectorized || !is_int(l.extent) || is_int(l.extent, 1)) return 0;
    const int64_t lanes = int_value(l.extent);
    std::vector<analysis::LaneStore> stores;
    if (lanes > kMaxLanes || !analysis::lane_stores(b_, l.body, nullptr, stores)) return 0;
    int64_t widest = 0;
    auto look = [&](Id id, std::span<const Expr> indices) {
      if (widest == kMaxBytes) return;
      const Buffer& buffer = *edit_.k.buffer(id);
      const int64_t width = analysis::is_gpu_memory(buffer)
                                ? analysis::vector_width(b_, edit_.k, ranges_, buffer,
                                                         analysis::flat_address(b_, buffer, indices), l.id, lanes)
                                : 1;
      widest = std::max(widest, width * type_bytes(buffer.type));
    };
    for (const analysis::LaneStore& s : stores) {
      look(s.store->buffer, s.store->indices);
      analysis::visit_lane_loads(s.store->value, [&](const Load& load) { look(load.buffer, load.indices); });
    }
    return widest;
  }

  Edit& edit_;
  Builder& b_;
  analysis::Ranges ranges_;
};

}  // namespace

Kernel choose_access_widths(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  edit.k.root = Chooser(edit).rewrite(kernel.root);
  return edit.k;
}

}  // namespace tcc::lower
