// The comparison of one output with its reference.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tcc/ir/type.h"

namespace tcc::measure {

// |x - reference| <= relative |reference| + scaled * scale + floor, or equality after rounding to the type.
struct OutputRule {
  ir::Type type;
  bool equal = false;
  double relative = 0;                 // 2 u_out
  double scaled = 0;                   // 4 u_acc sqrt(K), or 16 for kernels with intrinsics
  const double* scale_each = nullptr;  // a scale per element; nullptr: scale_all
  double scale_all = 0;
  double floor = 0;          // the smallest normal number of the type: kernels flush what is below
  double integer_slack = 0;  // for integer outputs that depend on floats: a rounding the other way
};

struct GateResult {
  double max_error = 0;  // largest share of what is allowed
  int64_t worst = -1;    // its element
  int64_t bad = 0;       // elements beyond what is allowed
  std::string text;      // about the first bad element, without its place
};

// `actual`: the output's elements, row-major. `positions`: which of them the references (and scales) are of; empty:
// all, in order.
GateResult compare_output(const OutputRule& rule, const void* actual, std::span<const double> reference,
                          std::span<const int64_t> positions = {});

// The first element all of whose bytes are `poison`; -1: none. For floats, where no computation gives such a value.
int64_t find_unwritten(ir::Type type, const void* actual, int64_t elements, uint8_t poison);

// "[1, 17]"
std::string place_text(int64_t element, std::span<const int64_t> shape);

}  // namespace tcc::measure
