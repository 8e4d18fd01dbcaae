// Sums of products of two tensors, as matrix instructions want them. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "space/gpu.h"
#include "tcc/ir/instr.h"

namespace tcc::space {

// A matrix instruction, by its name in the table (ir/instr.h), and the tile that it multiplies.
struct MatrixRow {
  std::string_view name;
  ir::Type type;
  int64_t i, j, k;
  bool opaque = false;      // which lane holds which element is unspecified
  bool transposed = false;  // reads the second operand as [j, k]
};
MatrixRow matrix_row(const ir::Instruction& row);
// The rows for operands of a type that the target has, in the order in which to try them; single precision, which is
// rounded to 10 bits of mantissa there, only where the user allows it. Rows with opaque fragments, whose results reach
// other statements by way of shared memory only, where there is nothing else.
std::vector<MatrixRow> matrix_rows(ir::Type type, const target::Target& target, bool allow_tf32);

// Iterators of a product by what they index: rows the first operand, columns the second, batch both and the result.
struct ProductForm {
  NaiveNest nest;
  ir::Type type;
  std::vector<size_t> batch, rows, columns, sums;
  bool plain = false;   // one row, column and sum iterator, in operands whose last two dimensions they are
  bool boxes = false;   // such iterators, beside which others may move the last two dimensions (parts of sums)
  int transposed = -1;  // see GpuProductNest
};
std::optional<ProductForm> match_gpu_product(const ir::Kernel& k);
// Operands that are converted or padded ahead (a convolution's input) are read where they are used instead, if that
// makes a product of it.
std::optional<ProductForm> match_gpu_product(schedule::Schedule& s);

// Instructions of warpgroups multiply what tensor copies fetch: terms of an iteration, 128 bytes of a row, at a time.
bool has_warpgroups(const target::Target& target);
inline int64_t warpgroup_terms(ir::Type type) {
  return 128 / ir::type_bytes(type);
}
// Conditions of gpu_wgmma that do not hold, on a target that has instructions of warpgroups: a sentence each. `form`:
// the kernel's, nullopt where it has none. `allow_tf32`: as in matrix_rows().
std::vector<std::string> unmet_conditions_of_warpgroups(const ir::Kernel& k, const std::optional<ProductForm>& form,
                                                        bool allow_tf32);

// The product as one iterator each, all extents multiples of the row's tile.
struct GpuProductNest {
  std::string name;  // of the block
  ir::Type type;
  size_t iterators = 0, i = 0, j = 0, k = 0;
  int transposed = -1;  // read whose last two dimensions are k, i: its fragments have them the other way
};
// Where the product is another (a convolution), its iterators are fused and operands and result read and written
// through copies that have them as dimensions, for gpu_inline to make them disappear; overhang is padded with zeros.
// nullopt: a step was rejected. `boxes`: dimensions of the copies are in the order of what they copy.
std::optional<GpuProductNest> make_product(schedule::Schedule& s, const ProductForm& form, const MatrixRow& row,
                                           bool boxes = false);

}  // namespace tcc::space
