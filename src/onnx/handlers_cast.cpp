// Conversions between element types.
#include <algorithm>
#include <map>

#include "small_types.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// An element type that a conversion gives.
struct ResultType {
  DType dtype = DType::kF32;  // in memory
  const SmallType* small = nullptr;
};

Result<ResultType> read_target(NodeContext& c) {
  if (c.opset() < 6) {
    static const std::map<std::string, DType> kNames = {
        {"FLOAT", DType::kF32}, {"DOUBLE", DType::kF64}, {"FLOAT16", DType::kF16}, {"INT8", DType::kI8},
        {"UINT8", DType::kU8},  {"INT16", DType::kI16},  {"UINT16", DType::kU16},  {"INT32", DType::kI32},
        {"INT64", DType::kI64}, {"BOOL", DType::kBool}};
    TCC_TRY(std::string name, c.get_string("to", ""));
    auto it = kNames.find(name);
    if (it == kNames.end()) return refuse(Refusal::kElementType, "to = '{}' is not supported", sanitize(name));
    return ResultType{it->second};
  }
  TCC_TRY(int64_t number, c.get_int("to", 0));
  if (number < 0 || number > 1000) return input_error("to = {} is not an element type", number);
  TCC_TRY(DType dtype, storage_of(static_cast<int32_t>(number)));
  return ResultType{dtype, small_type(static_cast<int32_t>(number))};
}

Result<void> convert_elements(NodeContext& c, const ResultType& to) {
  TCC_TRY(const bool saturate, c.get_flag("saturate", true, 19));
  TCC_TRY(const std::string round_mode, c.get_string("round_mode", "up", 24));
  if (round_mode != "up" && round_mode != "down" && round_mode != "nearest")
    return input_error("round_mode is '{}', expected up, down or nearest", sanitize(round_mode));
  const SmallType* from = c.item(0).small;
  const bool same = from == to.small && c.input_value(0).dtype == to.dtype;
  if (same) return c.finish(c.emit(Op::kIdentity, graph::NoAttrs{}, {c.input(0)}), from);
  // Integers of few bits are numbers in their bytes already.
  Made x = from != nullptr && from->is_float() ? decode_small(c, c.input(0), *from) : c.input(0);
  if (to.small == nullptr) return c.finish(c.cast(x, to.dtype));
  return c.finish(encode_small(c, x, *to.small, saturate, round_mode), to.small);
}

int64_t element_bits(DType dtype, const SmallType* small) {
  return small != nullptr ? small->bits : 8 * graph::dtype_size(dtype);
}

}  // namespace

Result<void> import_cast(NodeContext& c) {
  TCC_TRY(const ResultType to, read_target(c));
  return convert_elements(c, to);
}

Result<void> import_cast_like(NodeContext& c) {
  return convert_elements(c, {c.input_value(1).dtype, c.item(1).small});
}

// The same bits as another type. Integers keep them where they are converted; for others the data must be known.
Result<void> import_bit_cast(NodeContext& c) {
  TCC_TRY(const ResultType to, read_target(c));
  const graph::Value& x = c.input_value(0);
  const SmallType* from = c.item(0).small;
  if (element_bits(x.dtype, from) != element_bits(to.dtype, to.small))
    return refuse(Refusal::kElementType, "elements of {} bits do not become elements of {} bits",
                  element_bits(x.dtype, from), element_bits(to.dtype, to.small));
  const bool integers = !graph::is_float(x.dtype) && !graph::is_float(to.dtype) && to.dtype != DType::kBool;
  // One with several elements in a byte of the file is held as the number.
  const bool spread = (from != nullptr && from->bits < 8) || (to.small != nullptr && to.small->bits < 8);
  if (spread && from != to.small)
    return refuse(Refusal::kElementType, "{} is not supported with fewer than 8 bits", c.op());
  if (x.dtype == to.dtype) return c.finish(c.emit(Op::kIdentity, graph::NoAttrs{}, {c.input(0)}), to.small);
  if (integers) return c.finish(c.cast(c.input(0), to.dtype), to.small);
  TCC_TRY(const graph::Value* known, c.known_input(0, "data whose bits become another type's"));
  std::vector<std::byte> storage;
  const auto bytes = graph::dense_bytes(*known->constant, known->dtype, known->elements(), storage);
  const Shape shape = known->shape;
  return c.finish(c.constant(to.dtype, shape, graph::make_constant(std::vector<std::byte>(bytes.begin(), bytes.end()))),
                  to.small);
}

}  // namespace tcc::onnx
