#include "wire.h"

#include <cstdint>

#include "tcc_onnx.pb.h"

namespace tcc::onnx {
namespace {

constexpr size_t kLargeWeight = 1024;  // bytes; smaller ones are parsed like everything else

using Bytes = std::span<const std::byte>;

struct Field {
  uint64_t number = 0;
  int type = 0;   // 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes
  Bytes whole;    // key included
  Bytes payload;  // of type 2
};

// Reads one message's fields in turn.
class FieldReader {
 public:
  explicit FieldReader(Bytes bytes) : bytes_(bytes) {}
  // The next field; nothing at the end, or where the bytes are no fields (broken() then).
  std::optional<Field> next() {
    if (at_ == bytes_.size() || broken_) return std::nullopt;
    size_t start = at_;
    uint64_t key = varint();
    Field field;
    field.number = key >> 3;
    field.type = static_cast<int>(key & 7);
    switch (field.type) {
      case 0:
        varint();
        break;
      case 1:
        skip(8);
        break;
      case 2: {
        uint64_t length = varint();
        size_t payload = at_;
        skip(length);
        if (!broken_) field.payload = bytes_.subspan(payload, static_cast<size_t>(length));
        break;
      }
      case 5:
        skip(4);
        break;
      default:
        broken_ = true;
    }
    if (broken_ || field.number == 0) {
      broken_ = true;
      return std::nullopt;
    }
    field.whole = bytes_.subspan(start, at_ - start);
    return field;
  }
  bool broken() const { return broken_; }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) break;
      auto byte = static_cast<uint64_t>(bytes_[at_++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    broken_ = true;
    return 0;
  }
  void skip(uint64_t count) {
    if (count > bytes_.size() - at_)
      broken_ = true;
    else
      at_ += static_cast<size_t>(count);
  }

  Bytes bytes_;
  size_t at_ = 0;
  bool broken_ = false;
};

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
