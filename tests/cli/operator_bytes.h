// ONNX models of operators with weights, written byte by byte.
#pragma once

#include "model_bytes.h"

namespace cli_test {

// A tensor of f32 whose elements are all `value`.
inline std::string constant(const std::string& name, const std::vector<uint64_t>& dims, float value) {
  std::string bytes, elements;
  uint64_t count = 1;
  for (uint64_t dim : dims) bytes += number(1, dim), count *= dim;
  for (uint64_t i = 0; i < count; ++i) elements.append(reinterpret_cast<const char*>(&value), sizeof value);
  return field(5, bytes + number(2, 1) + field(8, name) + field(9, elements));
}

inline std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& output) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += field(1, input);
  return field(1, bytes + field(2, output) + field(3, name) + field(4, op));
}

inline std::string f32_value(const std::string& name, const std::vector<uint64_t>& shape) {
  std::string dims;
  for (const uint64_t dim : shape) dims += field(1, number(1, dim));
  return field(1, name) + field(2, field(1, number(1, 1) + field(2, dims)));
}

// A convolution by 1x1, and one by 3x3 that has Winograd forms.
inline std::string two_convolutions() {
  const std::string graph = node("first", "Conv", {"x", "v"}, "p") + node("relu", "Relu", {"p"}, "r") +
                            node("second", "Conv", {"r", "w"}, "y") + field(2, "convolutions") +
                            constant("v", {32, 32, 1, 1}, 0.25F) + constant("w", {32, 32, 3, 3}, 0.25F) +
                            field(11, f32_value("x", {1, 32, 34, 34})) + field(12, f32_value("y", {1, 32, 32, 32}));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

}  // namespace cli_test
