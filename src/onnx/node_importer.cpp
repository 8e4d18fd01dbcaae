#include "node_importer.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "small_types.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

using graph::ValueId;

namespace {

constexpr int64_t kMaxConstantBytes = int64_t{1} << 36;  // as if all splats were written out

// Names that the nodes of a body read from the graphs around it, with those that it makes itself.
void collect_reads(const tcc_onnx::Node& node, std::vector<const std::string*>& names) {
  for (const std::string& input : node.input()) names.push_back(&input);
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const auto& inner : attribute.g().node()) collect_reads(inner, names);
    for (const auto& output : attribute.g().output()) names.push_back(&output.name());
  }
}

}  // namespace

std::string node_text(const NodeList& nodes, int i) {
  const auto& node = nodes.Get(i);
  if (!node.name().empty()) return fmt::format("'{}'", sanitize(node.name(), 80));
  if (node.output_size() > 0) return fmt::format("node {}, output '{}'", i, sanitize(node.output(0), 80));
  return fmt::format("node {}", i);
}

std::string domain_of(const tcc_onnx::Node& node) {
  return node.domain() == "ai.onnx" ? "" : node.domain();
}

Result<Opsets> read_opsets(const google::protobuf::RepeatedPtrField<tcc_onnx::OperatorSet>& imports,
                           const std::string& what) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    if (import.version() < 1)
      return input_error("{} imports opset {} of domain '{}'", what, import.version(), sanitize(domain));
    opsets[domain] = import.version();
  }
  return opsets;
}

int64_t opset_of(const Opsets& opsets, const std::string& domain) {
  auto it = opsets.find(domain);
  return it == opsets.end() ? 0 : it->second;
}

NodeImporter::NodeImporter(const tcc_onnx::Model& model, ImportState& state, std::list<tcc_onnx::Node>& copies,
                           std::string name, double seconds)
    : model_(model), state_(state), copies_(copies), name_(std::move(name)), seconds_(seconds) {
  state_.bodies = this;
  for (const auto& function : model_.functions())
    functions_.emplace(std::tuple(function.domain(), function.name(), function.overload()), &function);
}

const tcc_onnx::Function* NodeImporter::function_of(const tcc_onnx::Node& node) const {
  if (functions_.empty()) return nullptr;
  auto it = functions_.find(std::tuple(node.domain(), node.op_type(), node.overload()));
  return it == functions_.end() ? nullptr : it->second;
}

// Kahn's algorithm, smallest position first: files in order stay in order, and cycles are found.
Result<std::vector<int>> NodeImporter::sort_nodes(const NodeList& nodes, const Scope& scope) const {
  std::unordered_map<std::string, int> producer;
  int count = nodes.size();
  for (int i = 0; i < count; ++i) {
    for (const auto& output : nodes.Get(i).output()) {
      if (output.empty()) continue;
      if (scope.items.contains(output) || !producer.emplace(output, i).second) {
        return input_error("'{}' is produced more than once (again by {})", sanitize(output), node_text(nodes, i));
      }
    }
  }
  std::vector<std::vector<int>> readers(static_cast<size_t>(count));
  std::vector<int> waiting(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; ++i) {
    const auto& node = nodes.Get(i);
    std::vector<const std::string*> names;
    collect_reads(node, names);
    for (size_t k = 0; k < names.size(); ++k) {
      const std::string& input = *names[k];
      if (input.empty()) continue;
      auto it = producer.find(input);
      if (it == producer.end()) {
        // What the node's bodies make themselves is theirs.
        if (k >= static_cast<size_t>(node.input_size()) || scope.find(input) != nullptr) continue;
        return input_error("{} ({}) reads '{}', which nothing produces", node_text(nodes, i), sanitize(node.op_type()),
                           sanitize(input));
      }
      readers[static_cast<size_t>(it->second)].push_back(i);
      ++waiting[static_cast<size_t>(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i) {
    if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int reader : readers[static_cast<size_t>(i)]) {
      if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (static_cast<int>(order.size()) != count) {
    auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int w) { return w > 0; });
    return input_error("the graph has a cycle through {}", node_text(nodes, static_cast<int>(stuck - waiting.begin())));
  }
  return order;
}

Result<void> NodeImporter::import_nodes(const NodeList& nodes, Scope& scope) {
  auto [order, fresh] = orders_.try_emplace(&nodes);
  if (fresh) TCC_TRY_SET(order->second, sort_nodes(nodes, scope));
  // A copy of the list's address: bodies add to the map.
  const std::vector<int>* positions = &order->second;
  for (int i : *positions) {
    if (watch_.seconds() > seconds_) {
      return make_error(ErrorClass::kInput,
                        fmt::format("'{}' is given up after {:.3g} s of folding its constants, at {}", sanitize(name_),
                                    watch_.seconds(), node_text(nodes, i)),
                        "fold them beforehand (onnxsim), or split the model");
    }
    TCC_TRY_VOID(import_node(nodes, i, scope));
  }
  return {};
}

Result<void> NodeImporter::import_node(const NodeList& nodes, int i, Scope& scope) {
  auto result = import_node_unlabelled(nodes.Get(i), scope);
  if (result) return {};
  return tl::make_unexpected(
      std::move(result.error())
          .with_context(fmt::format("{} ({})", node_text(nodes, i), sanitize(nodes.Get(i).op_type()))));
}

// The node with the attributes of the function's call in the places that refer to them.
const tcc_onnx::Node& NodeImporter::resolved(const tcc_onnx::Node& node, const Scope& scope) {
  auto refers = [](const tcc_onnx::Attribute& attribute) { return !attribute.ref_attr_name().empty(); };
  if (scope.attributes == nullptr || std::none_of(node.attribute().begin(), node.attribute().end(), refers))
    return node;
  tcc_onnx::Node& copy = copies_.emplace_back(node);
  copy.clear_attribute();
  for (const auto& attribute : node.attribute()) {
    if (!refers(attribute)) {
      *copy.add_attribute() = attribute;
      continue;
    }
    // One that the call leaves out is left out here, too.
    auto given = scope.attributes->find(attribute.ref_attr_name());
    if (given == scope.attributes->end()) continue;
    tcc_onnx::Attribute& own = *copy.add_attribute();
    own = *given->second;
    own.set_name(attribute.name());
  }
  return copy;
}

Result<void> NodeImporter::import_node_unlabelled(const tcc_onnx::Node& written, Scope& scope) {
  if (depth_ > 0 && ++inlined_ > kMaxInlinedNodes) {
    return refuse(Refusal::kTooLarge,
                  "the bodies of loops and functions become more than {} nodes; fewer iterations, or less in each, "
                  "are supported",
                  kMaxInlinedNodes);
  }
  const tcc_onnx::Node& node = resolved(written, scope);
  Items inputs;
  for (const auto& input : node.input()) {
    if (input.empty()) {
      inputs.emplace_back();
      continue;
    }
    const Item* item = scope.find(input);
    if (item == nullptr)
      return refuse(Refusal::kExtraOutput, "reads '{}', an output that is not supported here", sanitize(input));
    inputs.push_back(*item);
  }
  if (const tcc_onnx::Function* function = function_of(node)) return import_call(node, *function, inputs, scope);
  return import_operator(node, std::move(inputs), scope);
}

Result<void> NodeImporter::import_operator(const tcc_onnx::Node& node, Items inputs, Scope& scope) {
  int64_t opset = opset_of(*scope.opsets, domain_of(node));
  const OperatorRow* row = find_operator(domain_of(node), node.op_type(), opset);
  if (row == nullptr)
    return refuse(Refusal::kOperator, "is not supported at opset {}; 'tcc ops' lists what is supported", opset);
  state_.graph.sources.push_back(
      {node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(), node.op_type()});
  if (!row->lists) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].exists() && inputs[i].tensor == graph::kNone)
        return refuse(Refusal::kNotATensor, "input {} is a sequence or an optional, expected a tensor", i);
    }
  }
  if (!takes_counts(domain_of(node), node.op_type())) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto counts = state_.counts.counts.find(inputs[i].tensor);
      if (counts == state_.counts.counts.end()) continue;
      const auto axis = std::find_if(counts->second.begin(), counts->second.end(),
                                     [](ValueId count) { return count != graph::kNone; });
      return refuse(Refusal::kRunTimeShape,
                    "input {} ('{}') has an extent on axis {} that is known at run time only, which this operator does "
                    "not support",
                    i, sanitize(state_.graph.value(inputs[i].tensor).name), axis - counts->second.begin());
    }
  }
  const SmallUse use = small_use(node.op_type());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].small != nullptr && use == SmallUse::kRefuse)
      return refuse(Refusal::kElementType, "input {} is {}, which only conversions and moves take", i,
                    inputs[i].small->name);
    const bool of_elements = i == 0 || node.op_type() == "Concat";
    if (use == SmallUse::kMove && inputs[i].small != (of_elements ? inputs[0].small : nullptr))
      return input_error("inputs 0 and {} have different element types", i);
  }
  const SmallType* small = use == SmallUse::kMove && !inputs.empty() ? inputs[0].small : nullptr;
  NodeContext context(state_, node, opset, std::move(inputs));
  auto count = static_cast<int64_t>(context.input_count());
  if (count < row->fewest_inputs || count > row->most_inputs) {
    return input_error("has {} inputs; opset {} takes {} to {}", count, opset, row->fewest_inputs, row->most_inputs);
  }
  // Handlers read the required inputs without asking; operators of any number have no absent ones.
  int64_t required = row->most_inputs > 64 && !row->lists ? count : row->fewest_inputs;
  for (int64_t k = 0; k < required; ++k) {
    if (!context.has_input(static_cast<size_t>(k)) && !context.item(static_cast<size_t>(k)).exists())
      return input_error("input {} is required", k);
  }
  if (std::all_of(node.output().begin(), node.output().end(), [](const auto& name) { return name.empty(); }))
    return input_error("has no output");
  scope_ = &scope;
  TCC_TRY_VOID(row->handler(context));
  TCC_TRY_VOID(context.check_all_attributes_read());
  for (int k = 0; k < node.output_size(); ++k) {
    Item item = context.output(static_cast<size_t>(k));
    if (!item.exists() || node.output(k).empty()) continue;
    if (small != nullptr) item.small = small;
    scope.items[node.output(k)] = item;
    if (item.tensor == graph::kNone) continue;
    graph::Value& value = state_.graph.value(item.tensor);
    if (value.producer != graph::kNone || value.is_constant()) value.name = node.output(k);
    if (value.is_constant()) constant_bytes_ += value.bytes();
  }
  if (constant_bytes_ > kMaxConstantBytes)
    return input_error("the model's constants take more than {}", format_bytes(static_cast<double>(kMaxConstantBytes)));
  return {};
}

Result<void> NodeImporter::read_initializer(const tcc_onnx::Tensor& tensor, Scope& scope) {
  auto [known, fresh] = initializers_.try_emplace(&tensor, graph::kNone);
  if (fresh) {
    const std::string what = fmt::format("initializer '{}'", sanitize(tensor.name()));
    TCC_TRY(TensorConstant constant, read_tensor(tensor, state_.owner, state_.files, what));
    known->second = state_.graph.add_constant(tensor.name(), constant.dtype, constant.shape, constant.constant);
  }
  scope.items[tensor.name()] = Item{known->second, nullptr, false, small_type(tensor.data_type())};
  return {};
}

Result<Items> NodeImporter::import_body(const tcc_onnx::Graph& body, const Items& inputs) {
  if (depth_ >= kMaxCallDepth) return refuse(Refusal::kTooLarge, "bodies are nested more than {} deep", kMaxCallDepth);
  if (body.input_size() != static_cast<int>(inputs.size()))
    return input_error("its body has {} inputs, expected {}", body.input_size(), inputs.size());
  if (body.sparse_initializer_size() > 0)
    return refuse(Refusal::kNotATensor, "its body has sparse initializers, which are not supported");
  Scope* around = scope_;
  Scope scope{around, around->opsets, around->attributes};
  TCC_TRY_VOID(check_operators(body.node(), *scope.opsets));
  for (size_t i = 0; i < inputs.size(); ++i) scope.items[body.input(static_cast<int>(i)).name()] = inputs[i];
  for (const auto& tensor : body.initializer()) TCC_TRY_VOID(read_initializer(tensor, scope));
  ++depth_;
  auto imported = import_nodes(body.node(), scope);
  --depth_;
  scope_ = around;
  if (!imported) return tl::make_unexpected(std::move(imported).error());
  Items outputs;
  for (const auto& output : body.output()) {
    const Item* item = scope.find(output.name());
    if (item == nullptr || !item->exists())
      return input_error("its body does not produce its output '{}'", sanitize(output.name()));
    outputs.push_back(*item);
  }
  return outputs;
}

Result<void> NodeImporter::import_call(const tcc_onnx::Node& node, const tcc_onnx::Function& function,
                                       const Items& inputs, Scope& caller) {
  if (depth_ >= kMaxCallDepth)
    return refuse(Refusal::kTooLarge, "functions call each other more than {} deep", kMaxCallDepth);
  if (!active_.insert(&function).second) return input_error("function '{}' calls itself", sanitize(function.name()));
  if (static_cast<int>(inputs.size()) > function.input_size() || node.output_size() > function.output_size())
    return input_error("gives {} inputs and reads {} outputs of a function with {} and {}", inputs.size(),
                       node.output_size(), function.input_size(), function.output_size());
  auto [opsets, fresh] = function_opsets_.try_emplace(&function);
  if (fresh)
    TCC_TRY_SET(opsets->second,
                read_opsets(function.opset_import(), fmt::format("function '{}'", sanitize(function.name()))));
  std::map<std::string, const tcc_onnx::Attribute*> attributes;
  for (const auto& attribute : function.attribute_proto()) attributes[attribute.name()] = &attribute;
  for (const auto& attribute : node.attribute()) attributes[attribute.name()] = &attribute;
  Scope scope{nullptr, &opsets->second, &attributes};
  for (int i = 0; i < function.input_size(); ++i)
    scope.items[function.input(i)] = static_cast<size_t>(i) < inputs.size() ? inputs[static_cast<size_t>(i)] : Item{};
  ++depth_;
  auto imported = import_nodes(function.node(), scope);
  --depth_;
  active_.erase(&function);
  if (!imported) return imported;
  for (int k = 0; k < node.output_size(); ++k) {
    if (node.output(k).empty()) continue;
    const Item* item = scope.find(function.output(k));
    if (item == nullptr || !item->exists())
      return input_error("its function does not produce output '{}'", sanitize(function.output(k)));
    caller.items[node.output(k)] = *item;
  }
  return {};
}

}  // namespace tcc::onnx
