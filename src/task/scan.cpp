// Loops of Scan: rows are independent, the elements of one come one after the other. Each continues the one before it.
//
//   for i0, k:  block [spatial v0, carried vk]
//     out[v0, vk] = (out[v0, vk - 1] if 0 < vk else 0) + x[v0, vk]
#include "nest.h"

namespace tcc::task {

using namespace ir;

void GroupNest::plan_scan(const graph::Node& node) {
  add_stage("scan", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::ScanAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const Tensor x = operand(node.inputs[0]);
    // Sums are kept in the compute type.
    const bool rounds = out.buffer->type != compute_;
    const Tensor sums = rounds ? make_temp(name, out.shape) : out;
    std::vector<NestAxis> axes = axes_of(out.shape);
    axes[axis].name = "k";
    std::vector<Iter> iters;
    std::vector<Id> loops;
    Exprs at;
    for (size_t i = 0; i < axes.size(); ++i) {
      loops.push_back(kernel_.new_id(axes[i].name));
      const Id iter = kernel_.new_id((std::string("v") + axes[i].name).c_str());
      const IterKind kind = i == axis ? IterKind::kCarried : IterKind::kSpatial;
      iters.push_back({iter, kind, b().integer(axes[i].extent), b().var(loops.back())});
      at.push_back(b().var(iter));
    }
    // The element `back` steps before, in the order in which they come; the identity in front of the first.
    auto element = [&](const Tensor& t, int64_t back) {
      Exprs place = at;
      place[axis] = b().offset(at[axis], -back);
      if (a.reverse) place[axis] = b().sub(b().integer(axes[axis].extent - 1), place[axis]);
      return read(t, place, back == 0 ? nullptr : b().le(b().integer(back), at[axis]), a.product ? 1 : 0);
    };
    Exprs place = at;
    if (a.reverse) place[axis] = b().sub(b().integer(axes[axis].extent - 1), at[axis]);
    Expr so_far = element(sums, 1), term = element(x, a.exclusive ? 1 : 0);
    const Stmt body = b().store(sums.buffer->id, place, a.product ? b().mul(so_far, term) : b().add(so_far, term));
    Stmt nest = b().block(kernel_.new_id(name.c_str()), iters, body, nullptr, nullptr, ReducerKind::kNone);
    for (size_t i = loops.size(); i-- > 0;) nest = b().loop(loops[i], b().integer(axes[i].extent), nest);
    if (!rounds) return nest;
    const Stmt rounded =
        map_nest(name + "_rounded", axes_of(out.shape), out, [&](const Exprs& p) { return read(sums, p); });
    return b().seq(std::array<Stmt, 2>{nest, rounded});
  });
}

}  // namespace tcc::task
