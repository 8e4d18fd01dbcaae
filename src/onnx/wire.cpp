#include "wire.h"

#include <cstdint>

#include "field_reader.h"
#include "tcc_onnx.pb.h"

namespace tcc::onnx {
namespace {

constexpr size_t kLargeWeight = 1024;  // bytes; smaller ones are parsed like everything else

void append(std::string& to, Bytes bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}
void append_message(std::string& to, int number, const std::string& message) {
  auto append_varint = [&](uint64_t v) {
    for (; v >= 128; v >>= 7) to.push_back(static_cast<char>(v | 128));
    to.push_back(static_cast<char>(v));
  };
  append_varint(static_cast<uint64_t>(number) << 3 | 2);
  append_varint(message.size());
  to.append(message);
}

bool is_message(const Field& field, int number) {
  return field.type == 2 && field.number == static_cast<uint64_t>(number);
}

// The tensor without its raw data, which goes to `raw` when it is large. False: not in the plain form.
bool split_tensor(Bytes tensor, std::string& rest, std::optional<Bytes>& raw) {
  FieldReader reader(tensor);
  while (auto field = reader.next()) {
    if (!is_message(*field, tcc_onnx::Tensor::kRawDataFieldNumber) || field->payload.size() < kLargeWeight) {
      append(rest, field->whole);
      continue;
    }
    if (raw) return false;
    raw = field->payload;
  }
  return !reader.broken();
}

bool split_graph(Bytes graph, SplitModel& split, std::string& rest) {
  FieldReader reader(graph);
  while (auto field = reader.next()) {
    if (!is_message(*field, tcc_onnx::Graph::kInitializerFieldNumber)) {
      append(rest, field->whole);
      continue;
    }
    std::string tensor;
    std::optional<Bytes> raw;
    if (!split_tensor(field->payload, tensor, raw)) return false;
    append_message(rest, tcc_onnx::Graph::kInitializerFieldNumber, tensor);
    split.raw.push_back(raw);
  }
  return !reader.broken();
}

}  // namespace

std::optional<SplitModel> split_weights(std::span<const std::byte> file) {
  SplitModel split;
  FieldReader reader(file);
  bool seen = false;
  while (auto field = reader.next()) {
    if (!is_message(*field, tcc_onnx::Model::kGraphFieldNumber)) {
      append(split.rest, field->whole);
      continue;
    }
    std::string graph;
    if (seen || !split_graph(field->payload, split, graph)) return std::nullopt;
    seen = true;
    append_message(split.rest, tcc_onnx::Model::kGraphFieldNumber, graph);
  }
  if (reader.broken() || !seen) return std::nullopt;
  return split;
}

}  // namespace tcc::onnx
