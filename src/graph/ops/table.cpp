// What the rows of TCC_GRAPH_OPS say, and the calls that follow from them.
#include "op.h"

namespace tcc::graph {
namespace {

struct OpRow {
  std::string_view name;
  OpClass cls;
  OpPrecision precision;
  bool (*holds)(const Attributes& attrs);
  int64_t fewest, most;
  Result<TensorType> (Typing::*type)() const;
  void (Runner::*run)();
};

constexpr OpRow kOps[] = {
#define X(enumerator, text, attributes, cls, fewest, most, type, run, precision, loops) \
  {text,                                                                                \
   OpClass::cls,                                                                        \
   OpPrecision::precision,                                                              \
   [](const Attributes& attrs) { return std::holds_alternative<attributes>(attrs); },   \
   fewest,                                                                              \
   most,                                                                                \
   &Typing::type,                                                                       \
   &Runner::run},
    TCC_GRAPH_OPS(X)
#undef X
};
const OpRow& row_of(Op op) {
  return kOps[static_cast<size_t>(op)];
}

}  // namespace

std::string_view op_name(Op op) {
  return row_of(op).name;
}
OpClass op_class(Op op) {
  return row_of(op).cls;
}
OpPrecision op_precision(Op op) {
  return row_of(op).precision;
}

Result<TensorType> infer_type(const Graph& graph, const Node& node) {
  const OpRow& row = row_of(node.op);
  TCC_CHECK(row.holds(node.attrs), "{} carries the wrong attributes", row.name);
  auto count = static_cast<int64_t>(node.inputs.size());
  if (count < row.fewest || (row.most >= 0 && count > row.most)) {
    return input_error("{} takes {} to {} inputs, got {}", row.name, row.fewest,
                       row.most < 0 ? "any number of" : std::to_string(row.most), count);
  }
  for (ValueId id : node.inputs) {
    TCC_CHECK(id >= 0 && id < static_cast<ValueId>(graph.values.size()));
  }
  const Typing typing(graph, node);
  TCC_TRY(TensorType type, (typing.*row.type)());
  TCC_TRY_VOID(check_shape(type.shape, "the result"));
  return type;
}

HostTensor run_node(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs, ThreadPool& pool,
                    WorkMeter* meter) {
  Runner runner(graph, node, std::move(inputs), pool, meter);
  (runner.*row_of(node.op).run)();
  return runner.take();
}

Result<void> need_axis(int64_t axis, const Shape& shape) {
  if (axis >= 0 && axis < static_cast<int64_t>(shape.size())) return {};
  return input_error("axis {} is out of range for shape {}", axis, shape_text(shape));
}

void Runner::in_parallel(int64_t n, double share, const std::function<void(int64_t i)>& body) {
  const double flops = meter_ != nullptr && n > 0 ? share * node_flops(graph_, node_) / static_cast<double>(n) : 0;
  pool_.parallel_for(n, [&](int64_t i, int) {
    body(i);
    if (meter_ != nullptr) meter_->add(flops);
  });
}

HostTensor Runner::take() {
  if (op_class(node_.op) == OpClass::kContraction && !is_float(dtype_))
    for (double& y : out_.data) y = wrap_integer(y, dtype_);
  return std::move(out_);
}

Result<TensorType> Typing::same() const {
  return done(shape(0));
}

}  // namespace tcc::graph
