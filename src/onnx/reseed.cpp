#include "tcc/onnx/reseed.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "tcc/graph/passes.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"
#include "tcc_onnx.pb.h"
#include "tensor.h"

namespace tcc::onnx {
namespace {

using graph::Graph;
using graph::Value;
using graph::ValueId;

std::span<const std::byte> bytes_of(const Value& value, std::vector<std::byte>& storage) {
  return graph::dense_bytes(*value.constant, value.dtype, value.elements(), storage);
}

bool same_constant(const Value& a, const Value& b) {
  std::vector<std::byte> a_storage, b_storage;
  auto x = bytes_of(a, a_storage), y = bytes_of(b, b_storage);
  return a.dtype == b.dtype && a.shape == b.shape && std::equal(x.begin(), x.end(), y.begin(), y.end());
}

// The constants that reseeding replaced, by the model's name. Both graphs are of one import.
std::map<std::string, const Value*> replaced_constants(const Graph& before, const Graph& after) {
  std::map<std::string, const Value*> replaced;
  for (size_t i = 0; i < after.values.size(); ++i) {
    const Value &was = before.values[i], &is = after.values[i];
    if (is.is_constant() && is.constant->bytes.data() != was.constant->bytes.data()) replaced[is.name] = &is;
  }
  return replaced;
}

void set_tensor(const std::string& name, const Value& value, tcc_onnx::Tensor& tensor) {
  std::vector<std::byte> storage;
  tensor.ParseFromString(tensor_file_bytes(name, value.dtype, value.shape, bytes_of(value, storage)));
}

// Of the names in `candidates`, drops the initializers that nothing reads.
void drop_unread(tcc_onnx::Graph& graph, std::set<std::string> candidates) {
  for (const tcc_onnx::Node& node : graph.node())
    for (const std::string& name : node.input()) candidates.erase(name);
  for (const tcc_onnx::ValueInfo& output : graph.output()) candidates.erase(output.name());
  auto is_unread = [&](const auto& named) { return candidates.contains(named.name()); };
  auto* initializers = graph.mutable_initializer();
  initializers->erase(std::remove_if(initializers->begin(), initializers->end(), is_unread), initializers->end());
  auto* inputs = graph.mutable_input();  // of old files, which list initializers there, too
  inputs->erase(std::remove_if(inputs->begin(), inputs->end(), is_unread), inputs->end());
}

// Weights that operators made become initializers; initializers come inside of the file.
Result<void> put_weights(const std::map<std::string, const Value*>& weights, const Graph& imported,
                         tcc_onnx::Graph& graph) {
  std::map<std::string, const Value*> constants;
  for (const Value& value : imported.values)
    if (value.is_constant()) constants[value.name] = &value;
  std::set<std::string> placed;
  for (tcc_onnx::Tensor& tensor : *graph.mutable_initializer()) {
    const std::string name = tensor.name();
    auto weight = weights.find(name);
    if (weight != weights.end()) {
      set_tensor(name, *weight->second, tensor);
      placed.insert(name);
    } else if (tensor.external_data_size() > 0) {
      set_tensor(name, *constants.at(name), tensor);
    }
  }
  auto* nodes = graph.mutable_node();
  auto is_made = [&](const tcc_onnx::Node& node) {
    return node.output_size() == 1 && weights.contains(node.output(0)) && !placed.contains(node.output(0));
  };
  for (const tcc_onnx::Node& node : *nodes)
    if (is_made(node)) set_tensor(node.output(0), *weights.at(node.output(0)), *graph.add_initializer());
  std::set<std::string> unread;
  for (const tcc_onnx::Node& node : *nodes)
    if (is_made(node)) unread.insert(node.input().begin(), node.input().end());
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), is_made), nodes->end());
  drop_unread(graph, unread);
  for (const tcc_onnx::Tensor& tensor : graph.initializer()) placed.insert(tensor.name());
  for (const auto& [name, value] : weights)
    if (!placed.contains(name))
      return input_error("the weight '{}' is made inside of an operator: it cannot be written", sanitize(name));
  return {};
}

// Before IR version 4 every initializer is an input as well; since then such an input means that callers may change it.
void make_initializers_constant(tcc_onnx::Model& model) {
  if (model.ir_version() >= 4) return;
  model.set_ir_version(4);
  std::set<std::string> names;
  for (const tcc_onnx::Tensor& tensor : model.graph().initializer()) names.insert(tensor.name());
  auto* inputs = model.mutable_graph()->mutable_input();
  inputs->erase(std::remove_if(inputs->begin(), inputs->end(), [&](const auto& i) { return names.contains(i.name()); }),
                inputs->end());
}

// The import of the new file has to compute with the same numbers, operator by operator.
Result<void> check_written(const Graph& wanted, const Graph& written) {
  bool same = wanted.order.size() == written.order.size();
  for (size_t i = 0; same && i < wanted.order.size(); ++i) {
    const graph::Node &a = wanted.node(wanted.order[i]), &b = written.node(written.order[i]);
    same = a.op == b.op && a.inputs.size() == b.inputs.size();
    for (size_t k = 0; same && k < a.inputs.size(); ++k) {
      const Value &x = wanted.value(a.inputs[k]), &y = written.value(b.inputs[k]);
      same = x.is_constant() == y.is_constant() && (!x.is_constant() || same_constant(x, y));
      if (!same) return input_error("the weight '{}' cannot be written: another value has its name", sanitize(x.name));
    }
  }
  return same ? Result<void>() : input_error("the model with other weights is not the same model when read again");
}

}  // namespace

Result<std::string> reseeded_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                   const ImportOptions& options, uint64_t seed, const std::string& folder) {
  TCC_TRY(const Graph before, import_bytes(bytes, name, options, folder));
  Graph after = before;
  graph::reseed_weights(after, seed);
  tcc_onnx::Model model;
  if (!model.ParseFromString(*bytes)) return input_error("'{}' cannot be read", sanitize(name));
  TCC_TRY_VOID(put_weights(replaced_constants(before, after), before, *model.mutable_graph()));
  make_initializers_constant(model);
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return input_error("'{}' with its weights inside has more than 2 GiB, the limit of the format", sanitize(name));
  auto written = std::make_shared<std::string>(model.SerializeAsString());
  TCC_TRY(const Graph again, import_bytes(written, name, options));
  TCC_TRY_VOID(check_written(after, again));
  return std::move(*written);
}

Result<std::string> reseeded_model(const std::string& path, const ImportOptions& options, uint64_t seed) {
  TCC_TRY(std::string bytes, read_file(path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  return reseeded_bytes(std::make_shared<const std::string>(std::move(bytes)), path, options, seed,
                        folder.empty() ? "." : folder);
}

}  // namespace tcc::onnx
