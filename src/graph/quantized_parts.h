// The parts of products of quantized tensors: zero points, scales, the axes of operands, and sums of constants. Private
// to the room.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::graph {

// One number for all (axis -1), or one for each position along an axis of the tensor. kNone: the neutral number.
struct Parameter {
  ValueId id = kNone;
  int64_t axis = -1;
};
// (numbers - zero) * scale
struct Quantized {
  ValueId numbers = kNone;
  Parameter zero, scale;
};

// A zero point of one side: its numbers where they are known, else an i32 to compute with.
struct Zero {
  std::vector<double> known{0};
  ValueId computed = kNone;
  bool is_zero() const {
    return computed == kNone && std::all_of(known.begin(), known.end(), [](double z) { return z == 0; });
  }
};

// Axes of operands and result, in the positions of a product of two matrices.
struct Roles {
  int64_t rows = -1, a_sum = -1;     // of the left operand
  int64_t columns = -1, b_sum = -1;  // of the right operand; of a convolution: its filters
  Shape by_row, by_column;           // a vector of them, in a shape that broadcasts with the result
  double terms = 1;
};
Roles product_roles(const Graph& graph, const Node& node);

// Of a constant of 8 bits.
std::vector<std::byte> bytes_of(const Value& v);

// Sums of the right numbers over the terms of a product, one for each column, where they are constant and the same
// for all batches.
std::optional<std::vector<double>> column_sums(const Graph& graph, ValueId id, const Roles& r, bool conv);

// bias - za sums + terms za zb, where all of that is known. za is one number.
void add_constant_part(std::vector<double>& bias, const Zero& za, const Zero& zb, const std::vector<double>& sums,
                       double terms);

}  // namespace tcc::graph
