// Element types of the loop IR.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcc::ir {

// One per-kernel counter numbers loops, blocks, block iterators, buffers and scalar parameters. A handle IS an id:
// it stays valid across rewrites. Names are hints for printing only.
using Id = int32_t;
inline constexpr Id kNoId = -1;

// clang-format off
#define TCC_IR_TYPES(X)           \
  X(Bool, "bool", 1)              \
  X(I8, "i8", 1)                  \
  X(U8, "u8", 1)                  \
  X(I32, "i32", 4)                \
  X(I64, "i64", 8)                \
  X(F16, "f16", 2)                \
  X(BF16, "bf16", 2)              \
  X(F32, "f32", 4)                \
  X(F64, "f64", 8)                \
  X(Barrier, "barrier", 8)        \
  X(TensorMap, "tensor_map", 128) \
  X(I16, "i16", 2)                \
  X(U16, "u16", 2)
// clang-format on

enum class Type : uint8_t {
#define TCC_X(name, text, bytes) k##name,
  TCC_IR_TYPES(TCC_X)
#undef TCC_X
};

constexpr std::string_view type_name(Type t) {
  switch (t) {
#define TCC_X(name, text, bytes) \
  case Type::k##name:            \
    return text;
    TCC_IR_TYPES(TCC_X)
#undef TCC_X
  }
  return "";
}
// Bytes of one element in memory.
constexpr int64_t type_bytes(Type t) {
  switch (t) {
#define TCC_X(name, text, bytes) \
  case Type::k##name:            \
    return bytes;
    TCC_IR_TYPES(TCC_X)
#undef TCC_X
  }
  return 0;
}
constexpr bool is_float(Type t) {
  return t == Type::kF16 || t == Type::kBF16 || t == Type::kF32 || t == Type::kF64;
}
// Integers of data, not of indices. Index arithmetic is always kI64.
constexpr bool is_integer(Type t) {
  return t == Type::kI8 || t == Type::kU8 || t == Type::kI16 || t == Type::kU16 || t == Type::kI32 || t == Type::kI64;
}
constexpr bool is_unsigned(Type t) {
  return t == Type::kU8 || t == Type::kU16;
}

}  // namespace tcc::ir
