// Whole graphs in double, node by node. src/graph/ops/ has the operators.
#include "tcc/graph/reference.h"

#include <algorithm>
#include <thread>

#include "passes_internal.h"
#include "tcc/support/check.h"
#include "tcc/support/parallel.h"
#include "tcc/support/rng.h"

namespace tcc::graph {
namespace {

class ReferenceEvaluator : public Evaluator {
 public:
  Result<Constant> evaluate(const Graph& graph, const Node& node) override {
    std::vector<HostTensor> inputs;
    std::vector<const HostTensor*> pointers;
    for (ValueId id : node.inputs) inputs.push_back(host_constant(graph.value(id)));
    for (const HostTensor& input : inputs) pointers.push_back(&input);
    HostTensor result = run_node(graph, node, pointers, pool_);
    return make_constant_from_doubles(graph.value(node.output).dtype, result.data);
  }

 private:
  ThreadPool pool_{1};
};

}  // namespace

HostTensor host_constant(const Value& value) {
  if (value.elements() == 0) return {value.shape, {}};
  return {value.shape, constant_doubles(*value.constant, value.dtype, value.elements())};
}

std::unique_ptr<Evaluator> reference_evaluator() {
  return std::make_unique<ReferenceEvaluator>();
}

HostTensor random_tensor(const Value& value, uint64_t seed) {
  Rng rng(seed);
  HostTensor tensor{value.shape, std::vector<double>(static_cast<size_t>(value.elements()))};
  for (double& x : tensor.data) {
    if (value.dtype == DType::kBool) {
      x = static_cast<double>(rng.below(2));
    } else {
      // Rounded to float, so that the compiled model starts from the same numbers.
      x = is_float(value.dtype) ? static_cast<float>(rng.normal()) : static_cast<double>(rng.below(8));
    }
  }
  return tensor;
}

Result<void> check_inputs(const Graph& graph, const std::vector<HostTensor>& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return input_error("the model takes {} inputs, {} were given", graph.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    if (inputs[i].shape != value.shape || static_cast<int64_t>(inputs[i].data.size()) != value.elements()) {
      return input_error("input '{}' must have shape {}, got {}", sanitize(value.name), shape_text(value.shape),
                         shape_text(inputs[i].shape));
    }
  }
  return {};
}

Result<std::vector<HostTensor>> run_reference(const Graph& graph, const std::vector<HostTensor>& inputs, int threads) {
  TCC_TRY_VOID(check_inputs(graph, inputs));
  ThreadPool pool(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  return run_in_order<HostTensor>(graph, inputs, host_constant,
                                  [&](const Node& node, const std::vector<const HostTensor*>& operands) {
                                    return run_node(graph, node, operands, pool);
                                  });
}

}  // namespace tcc::graph
