// Fields of one protobuf message, read from its bytes: keys, lengths, nothing of what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tcc::onnx {

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
  // The next field; nothing at the end, or where the bytes are not a field (broken() then).
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

}  // namespace tcc::onnx
