// Single operators drawn at random over what the importer reads, as ONNX models of one node. The same seed and row give
// the same model. They are shapes that nobody chose, so nobody can tune for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tcc::benchmarks {

struct RandomOperator {
  std::string family;       // "convolution", "elementwise", ...: rows of a table are averaged by it
  std::string op;           // the ONNX operator
  std::string description;  // operator, type, shapes and attributes, for a reader
  std::string model;        // the ONNX file
  bool rounded = false;     // results are rounded floats: close to a half, two right results are 1 apart
};

// Tensors have 1 to about four million elements, and half of the extents are multiples of 8. At most about 4 GFLOP a
// run. Inputs hold any numbers of [-1, 1); where an operator needs others (an index, a divisor), the model's constants
// hold them.
RandomOperator draw_operator(uint64_t seed, int64_t row);

// The ONNX operators that may be drawn, in the order of the alphabet, each once.
std::vector<std::string> drawn_operators();

}  // namespace tcc::benchmarks
