// Element types that kernels do not have: floats of 8 and 4 bits, integers of 4 and 2.
//
// Tensors of them hold bytes, one an element: i8 and u8 of the numbers of integers, u8 of the bits of floats, in the
// low bits. Inputs and outputs of a model are such bytes, too. Conversions of them are graphs of other operators; those
// that only move elements take them as they are; others do not take them.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

// The floats are those of "FP8 Formats for Deep Learning" (Micikevicius and others, 2022), of "8-bit Numerical Formats
// for Deep Neural Networks" (Noune and others, 2022; FNUZ: no infinities, no negative zero), and of the OCP
// Microscaling Formats (2023; E2M1, E8M0).
struct SmallType {
  int32_t number;  // of TensorProto.DataType
  const char* name;
  int bits;
  enum Kind : uint8_t { kSigned, kUnsigned, kFloat, kScale } kind;  // kScale: E8M0, powers of two
  // Of floats: bits of the exponent and of the mantissa, the exponent's bias; without the sign the code of the greatest
  // number, and of numbers beyond it; the code of NaN.
  int exponent = 0, mantissa = 0, bias = 0, top = 0, overflow = 0, nan = 0;
  bool negative_zero = true;

  graph::DType storage() const { return kind == kSigned ? graph::DType::kI8 : graph::DType::kU8; }
  bool is_float() const { return kind == kFloat || kind == kScale; }
  double low() const { return kind == kSigned ? -(1 << (bits - 1)) : 0; }
  double high() const { return kind == kSigned ? (1 << (bits - 1)) - 1 : (1 << bits) - 1; }
};

// nullptr: another type.
const SmallType* small_type(int32_t onnx_type);
// The type of the elements in memory, or an error that names the type.
Result<graph::DType> storage_of(int32_t onnx_type);
// The bytes of `count` elements in a file, where several share a byte.
int64_t packed_bytes(const SmallType& type, int64_t count);
// One byte for each of `count` elements; the first element of a byte of the file is in its low bits.
std::vector<std::byte> unpack(const SmallType& type, std::span<const std::byte> packed, int64_t count);

// What an operator does with them. kMove: the result has the type of input 0. kKnow: the operator sees to it itself.
enum class SmallUse : uint8_t { kRefuse, kMove, kKnow };
SmallUse small_use(const std::string& op);

// The numbers of a tensor of this type, as f32.
Made decode_small(NodeContext& c, const Made& x, const SmallType& type);
// Floats round to nearest even. Numbers beyond the range of a float become the greatest with `saturate`, else the
// infinity or NaN of the type. Integers keep their low bits. `round_mode` is that of E8M0: up, down, nearest.
Made encode_small(NodeContext& c, const Made& x, const SmallType& type, bool saturate, const std::string& round_mode);

}  // namespace tcc::onnx
