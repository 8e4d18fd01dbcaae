#include "writer.h"

#include "tcc_onnx.pb.h"

namespace tcc::onnx {

struct ModelWriter::State {
  tcc_onnx::Model model;
};

namespace {

constexpr int kFloat = 1, kInt64 = 7;  // TensorProto.DataType

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
          const std::vector<std::string>& names) {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(kFloat);
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
  void operator()(const TensorData& v) const {
    to.set_type(tcc_onnx::Attribute::TENSOR);
    fill(*to.mutable_t(), v, false);
  }
};

}  // namespace

ModelWriter::ModelWriter(const std::string& name, int64_t opset, int64_t ir_version)
    : state_(std::make_unique<State>()) {
  state_->model.set_ir_version(ir_version);
  state_->model.set_producer_name("tcc");
  state_->model.mutable_graph()->set_name(name);
  auto* import = state_->model.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
}

ModelWriter::~ModelWriter() = default;

void ModelWriter::input(const std::string& name, const graph::Shape& shape, const std::vector<std::string>& names) {
  fill(*state_->model.mutable_graph()->add_input(), name, shape, names);
}

void ModelWriter::output(const std::string& name, const graph::Shape& shape) {
  fill(*state_->model.mutable_graph()->add_output(), name, shape, {});
}

void ModelWriter::output(const std::string& name) {
  auto* info = state_->model.mutable_graph()->add_output();
  info->set_name(name);
  info->mutable_type()->mutable_tensor_type()->set_elem_type(kFloat);
}

std::string ModelWriter::initializer(const std::string& name, const TensorData& data, bool typed) {
  auto* tensor = state_->model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  fill(*tensor, data, typed);
  return name;
}

std::string ModelWriter::external_initializer(const std::string& name, const graph::Shape& shape,
                                              const std::string& location, int64_t offset, int64_t length) {
  auto* tensor = state_->model.mutable_graph()->add_initializer();
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
  auto* node = state_->model.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(outputs.empty() ? op : outputs[0]);
  if (!domain.empty()) node->set_domain(domain);
  for (const auto& input : inputs) node->add_input(input);
  for (const auto& output : outputs) node->add_output(output);
  for (const auto& attribute : attributes) {
    auto* to = node->add_attribute();
    to->set_name(attribute.name);
    std::visit(AttributeFiller{*to}, attribute.value);
  }
  return outputs.empty() ? "" : outputs[0];
}

std::string ModelWriter::finish() const {
  return state_->model.SerializeAsString();
}

}  // namespace tcc::onnx
