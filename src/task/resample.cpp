// Loops of Resample: a sum over the taps of all resampled axes.
#include "nest.h"

namespace tcc::task {

using namespace ir;

void GroupNest::plan_resample(const graph::Node& node) {
  add_stage("resample", node, true, [this, &node](const std::string& name, const Tensor& out) {
    static constexpr const char* kNames[] = {"t0", "t1", "t2",  "t3",  "t4",  "t5",  "t6",  "t7",
                                             "t8", "t9", "t10", "t11", "t12", "t13", "t14", "t15"};
    const auto& axes = node.as<graph::ResampleAttrs>().axes;
    std::vector<NestAxis> taps;
    for (size_t i = 0; i < axes.size(); ++i) taps.push_back({kNames[i], operand(node.inputs[1 + 2 * i]).shape[1]});
    auto term = [&](const Exprs& at, const Exprs& over) {
      const Tensor x = operand(node.inputs[0]);
      Exprs from = at;
      Expr weight = nullptr;
      for (size_t i = 0; i < axes.size(); ++i) {
        const auto axis = static_cast<size_t>(axes[i]);
        const Exprs entry{at[axis], over[i]};
        from[axis] = picked(operand(node.inputs[1 + 2 * i]), entry, x.shape[axis]);
        Expr w = read(operand(node.inputs[2 + 2 * i]), entry);
        weight = weight == nullptr ? w : b().mul(weight, w);
      }
      return b().mul(weight, read(x, from));
    };
    return reduce_nest(name, axes_of(out.shape), taps, ReducerKind::kSum, out, nullptr, term);
  });
}

}  // namespace tcc::task
