// What the numeric gate derives from a task's naive kernel: the reference in f64, the same on absolute values, and how
// exact its arithmetic is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::measure {

// Before: an f64 kernel (see to_double). After: every stored value is a bound on the absolute value of each partial sum
// behind it, provided the inputs are given as absolute values. nullopt when the kernel is more than sums, products,
// min, max, selects and division by constants; integer stores that depend on floats also give nullopt.
std::optional<ir::Kernel> to_magnitude(const ir::Kernel& f64_kernel);

// Each reduction runs its last spatial loop inside its reduction loops, so that a large naive contraction walks memory
// in order. Nothing else moves: every output is the same sum, in the same order.
ir::Kernel interchange_reductions(const ir::Kernel& kernel);

// The outermost loop of each root nest becomes parallel where every block below runs it spatially; loops of one
// iteration around it go. The reference is otherwise unscheduled.
ir::Kernel parallelise_outer(const ir::Kernel& kernel);

// For a machine that runs whole kernels only: of each root nest, kernels of up to `parts` equal shares of one of its
// outer loops, where parallelise_outer's condition holds. Nests run in order, the kernels of one at the same time. Each
// takes all buffers of the kernel in their order: temporaries are outputs, which later nests read.
std::vector<std::vector<ir::Kernel>> split_nests(const ir::Kernel& kernel, int64_t parts);

struct NaiveFacts {
  double flops = 0;
  int64_t reduce_terms = 1;             // how many terms meet in one output, all blocks together
  bool integer_constants = true;        // no constant and no division makes fractions of integers
  ir::Type narrowest = ir::Type::kF64;  // of the float types that arithmetic happens in or is kept in between
  bool has_float = false;
  bool tf32 = false;  // Kernel::tf32
  // To which programs may round an f32 temporary before they multiply it with a parameter of that type; kF64: to none.
  ir::Type rounded_operand = ir::Type::kF64;
};
NaiveFacts analyse_naive(const ir::Kernel& naive);

// Bits of the significand, integers up to 2^bits are exact; and the smallest normal number. The defaults are those of
// integers and bool.
struct FloatFormat {
  int significand = 64;
  double smallest_normal = 0;
};
FloatFormat float_format(ir::Type type);

}  // namespace tcc::measure
