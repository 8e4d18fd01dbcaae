// Loops of Scan: rows are independent, the elements of one come one after the other.
//
//   for i0, k:  block [spatial v0, carried vk]
//     sum_so_far[v0] = select(vk == 0, x[v0, vk], sum_so_far[v0] + x[v0, vk])
//     out[v0, vk] = sum_so_far[v0]
#include "nest.h"

namespace tcc::task {

using namespace ir;

void GroupNest::plan_scan(const graph::Node& node) {
  add_stage("scan", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::ScanAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const Tensor x = operand(node.inputs[0]);
    graph::Shape rows = out.shape;
    rows.erase(rows.begin() + a.axis);
    const Tensor so_far = make_temp(name, rows);
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
    Exprs row = at, place = at;
    row.erase(row.begin() + a.axis);
    if (a.reverse) place[axis] = b().sub(b().integer(axes[axis].extent - 1), at[axis]);
    Expr first = b().eq(at[axis], b().integer(0));
    Expr term = read(x, place), old = b().load(*so_far.buffer, row);
    Expr next = b().select(first, term, a.product ? b().mul(old, term) : b().add(old, term));
    const Stmt keep = b().store(so_far.buffer->id, row, next);
    Expr result = a.exclusive ? b().select(first, real(a.product ? 1 : 0), old) : old;
    const Stmt give = b().store(out.buffer->id, place, b().cast(result, out.buffer->type));
    const std::array<Stmt, 2> steps = a.exclusive ? std::array<Stmt, 2>{give, keep} : std::array<Stmt, 2>{keep, give};
    Stmt nest = b().block(kernel_.new_id(name.c_str()), iters, b().seq(steps), nullptr, nullptr, ReducerKind::kNone);
    for (size_t i = loops.size(); i-- > 0;) nest = b().loop(loops[i], b().integer(axes[i].extent), nest);
    return nest;
  });
}

}  // namespace tcc::task
