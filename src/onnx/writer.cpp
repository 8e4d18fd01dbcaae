#include "tcc/onnx/writer.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "onnx/tensor.h"
#include "tcc_onnx.pb.h"

namespace tcc::onnx {

// The graph without its initializers, and those as encoded fields of the graph one after the other: no weight is held
// twice, not even while the file is put together.
struct ModelWriter::State {
  tcc_onnx::Model model;  // its graph stays empty
  tcc_onnx::Graph graph;
  std::string initializers;
  graph::DType floats = graph::DType::kF32;
};

namespace {

constexpr int kFloat = 1, kInt64 = 7;  // TensorProto.DataType

// The key of a field that holds bytes, and how many.
void append_field(std::string& to, int number, size_t bytes) {
  auto append = [&](uint64_t v) {
    for (; v >= 128; v >>= 7) to.push_back(static_cast<char>(v | 128));
    to.push_back(static_cast<char>(v));
  };
  append(static_cast<uint64_t>(number) << 3 | 2);
  append(bytes);
}

// Appends one initializer as a field of the graph.
void encode_initializer(std::string& to, const tcc_onnx::Tensor& tensor, std::string_view raw) {
  std::string head = tensor.SerializeAsString();
  if (!raw.empty()) append_field(head, tcc_onnx::Tensor::kRawDataFieldNumber, raw.size());
  append_field(to, tcc_onnx::Graph::kInitializerFieldNumber, head.size() + raw.size());
  to.append(head).append(raw);
}

void fill(tcc_onnx::Tensor& tensor, const TensorData& data, bool typed) {
  for (int64_t extent : data.shape) tensor.add_dims(extent);
  if (const auto* floats = std::get_if<std::vector<float>>(&data.values)) {
    tensor.set_data_type(kFloat);
    if (typed) {
      tensor.mutable_float_data()->Add(floats->begin(), floats->end());
    } else {
      tensor.set_raw_data(floats->data(), floats->size() * sizeof(float));
    }
    return;
  }
  const auto& integers = std::get<std::vector<int64_t>>(data.values);
  tensor.set_data_type(kInt64);
  if (typed) {
    tensor.mutable_int64_data()->Add(integers.begin(), integers.end());
  } else {
    tensor.set_raw_data(integers.data(), integers.size() * sizeof(int64_t));
  }
}

void fill(tcc_onnx::ValueInfo& info, const std::string& name, const graph::Shape& shape,
          const std::vector<std::string>& names, int element = kFloat) {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(element);
  type->mutable_shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    auto* dim = type->mutable_shape()->add_dim();
    if (i < names.size() && !names[i].empty()) {
      dim->set_dim_param(names[i]);
    } else {
      dim->set_dim_value(shape[i]);
    }
  }
}

struct AttributeFiller {
  tcc_onnx::Attribute& to;
  void operator()(int64_t v) const {
    to.set_type(tcc_onnx::Attribute::INT);
    to.set_i(v);
  }
  void operator()(float v) const {
    to.set_type(tcc_onnx::Attribute::FLOAT);
    to.set_f(v);
  }
  void operator()(const std::string& v) const {
    to.set_type(tcc_onnx::Attribute::STRING);
    to.set_s(v);
  }
  void operator()(const std::vector<int64_t>& v) const {
    to.set_type(tcc_onnx::Attribute::INTS);
    to.mutable_ints()->Add(v.begin(), v.end());
  }
  void operator()(const std::vector<float>& v) const {
    to.set_type(tcc_onnx::Attribute::FLOATS);
    to.mutable_floats()->Add(v.begin(), v.end());
  }
  void operator()(const std::vector<std::string>& v) const {
    to.set_type(tcc_onnx::Attribute::STRINGS);
    for (const std::string& text : v) to.add_strings(text);
  }
  void operator()(const GraphData& v) const {
    to.set_type(tcc_onnx::Attribute::GRAPH);
    to.mutable_g()->ParseFromString(v.bytes);
  }
  void operator()(const TensorData& v) const {
    to.set_type(tcc_onnx::Attribute::TENSOR);
    fill(*to.mutable_t(), v, false);
  }
};

// Version 1, where the model does not import it already.
void import_domain(tcc_onnx::Model& model, const std::string& domain) {
  for (const auto& import : model.opset_import())
    if (import.domain() == domain) return;
  auto* import = model.add_opset_import();
  import->set_domain(domain);
  import->set_version(1);
}

}  // namespace

ModelWriter::ModelWriter(const std::string& name, int64_t opset, int64_t ir_version, size_t expected_bytes)
    : state_(std::make_unique<State>()) {
  state_->initializers.reserve(expected_bytes);
  state_->model.set_ir_version(ir_version);
  state_->model.set_producer_name("tcc");
  state_->graph.set_name(name);
  auto* import = state_->model.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
}

ModelWriter::~ModelWriter() = default;

void ModelWriter::store_floats_as(graph::DType dtype) {
  state_->floats = dtype;
}

void ModelWriter::input(const std::string& name, const graph::Shape& shape, const std::vector<std::string>& names) {
  fill(*state_->graph.add_input(), name, shape, names, number_of(state_->floats));
}

void ModelWriter::integer_input(const std::string& name, const graph::Shape& shape) {
  fill(*state_->graph.add_input(), name, shape, {}, kInt64);
}

void ModelWriter::output(const std::string& name, const graph::Shape& shape) {
  fill(*state_->graph.add_output(), name, shape, {}, number_of(state_->floats));
}

void ModelWriter::typed_input(const std::string& name, graph::DType dtype, const graph::Shape& shape) {
  fill(*state_->graph.add_input(), name, shape, {}, number_of(dtype));
}

void ModelWriter::output(const std::string& name, graph::DType dtype) {
  auto* info = state_->graph.add_output();
  info->set_name(name);
  info->mutable_type()->mutable_tensor_type()->set_elem_type(number_of(dtype));
}

std::string ModelWriter::initializer(const std::string& name, const TensorData& data, bool typed) {
  tcc_onnx::Tensor tensor;
  tensor.set_name(name);
  const auto* floats = std::get_if<std::vector<float>>(&data.values);
  if (floats != nullptr && state_->floats != graph::DType::kF32) {
    const double greatest = state_->floats == graph::DType::kF16 ? 65504 : std::numeric_limits<float>::max();
    std::vector<double> values;
    values.reserve(floats->size());
    for (float v : *floats) values.push_back(std::clamp<double>(v, -greatest, greatest));
    return typed_initializer(name, state_->floats, data.shape, values);
  }
  if (typed || floats == nullptr || floats->empty()) {
    fill(tensor, data, typed);
    encode_initializer(state_->initializers, tensor, {});
    return name;
  }
  for (int64_t extent : data.shape) tensor.add_dims(extent);
  tensor.set_data_type(kFloat);
  auto raw = std::as_bytes(std::span(*floats));
  encode_initializer(state_->initializers, tensor, {reinterpret_cast<const char*>(raw.data()), raw.size()});
  return name;
}

std::string ModelWriter::typed_initializer(const std::string& name, graph::DType dtype, const graph::Shape& shape,
                                           const std::vector<double>& values) {
  tcc_onnx::Tensor tensor;
  tensor.set_name(name);
  tensor.set_data_type(number_of(dtype));
  for (int64_t extent : shape) tensor.add_dims(extent);
  const graph::Constant constant = graph::make_constant_from_doubles(dtype, values);
  encode_initializer(state_->initializers, tensor,
                     {reinterpret_cast<const char*>(constant.bytes.data()), constant.bytes.size()});
  return name;
}

std::string ModelWriter::external_initializer(const std::string& name, const graph::Shape& shape,
                                              const std::string& location, int64_t offset, int64_t length) {
  auto* tensor = state_->graph.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(kFloat);
  for (int64_t extent : shape) tensor->add_dims(extent);
  tensor->set_data_location(tcc_onnx::Tensor::EXTERNAL);
  auto add = [&](const char* key, const std::string& value) {
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  if (offset >= 0) add("offset", std::to_string(offset));
  if (length >= 0) add("length", std::to_string(length));
  return name;
}

std::string ModelWriter::node(const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs, const std::vector<NamedAttribute>& attributes,
                              const std::string& domain) {
  auto* node = state_->graph.add_node();
  node->set_op_type(op);
  node->set_name(outputs.empty() ? op : outputs[0]);
  if (!domain.empty()) {
    node->set_domain(domain);
    import_domain(state_->model, domain);
  }
  for (const auto& input : inputs) node->add_input(input);
  for (const auto& output : outputs) node->add_output(output);
  for (const auto& attribute : attributes) {
    auto* to = node->add_attribute();
    to->set_name(attribute.name);
    std::visit(AttributeFiller{*to}, attribute.value);
    if (op == "Cast" && attribute.name == "to" && to->i() == kFloat) to->set_i(number_of(state_->floats));
  }
  return outputs.empty() ? "" : outputs[0];
}

std::string ModelWriter::finish() {
  std::string rest = state_->graph.SerializeAsString(), head = state_->model.SerializeAsString();
  std::string file = std::move(state_->initializers);
  append_field(head, tcc_onnx::Model::kGraphFieldNumber, file.size() + rest.size());
  file.append(rest);
  file.insert(0, head);
  return file;
}

GraphData ModelWriter::finish_graph() {
  return {std::move(state_->initializers) + state_->graph.SerializeAsString()};
}

void ModelWriter::function(const std::string& domain, const std::string& name, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::vector<std::string>& attributes,
                           const GraphData& body) {
  auto* function = state_->model.add_functions();
  function->set_domain(domain);
  function->set_name(name);
  for (const auto& input : inputs) function->add_input(input);
  for (const auto& output : outputs) function->add_output(output);
  for (const auto& attribute : attributes) function->add_attribute(attribute);
  *function->mutable_opset_import() = state_->model.opset_import();
  tcc_onnx::Graph graph;
  graph.ParseFromString(body.bytes);
  *function->mutable_node() = graph.node();
  for (auto& node : *function->mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (!attribute.s().starts_with('$')) continue;
      attribute.set_ref_attr_name(attribute.s().substr(1));
      attribute.clear_s();
      attribute.clear_type();
    }
  }
}

}  // namespace tcc::onnx
