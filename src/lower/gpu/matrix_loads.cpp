#include "lower/gpu/matrix_loads.h"

#include <fmt/format.h>

#include "tcc/ir/gpu_sizes.h"

namespace tcc::lower {

using namespace ir;

namespace {

constexpr int64_t kWord = 4;  // bytes that a lane receives of a matrix

// Coordinate of the element that register `reg` of `lane` holds.
int64_t coordinate_of(const Layout& layout, int dim, int64_t lane, int64_t reg) {
  int64_t out = 0;
  for (const Digit& d : layout.digits)
    if (d.dim == dim) out += (d.place == Place::kRegister ? reg : lane) / d.stride % d.extent * d.divisor;
  return out;
}

// Matrix m of the tile is rows of eight lanes: lane l holds row l / 4 of it, and of that 4 bytes at l % 4.
bool is_matrix(const Layout& layout, int64_t m, int64_t elements, int along, int across) {
  for (int64_t lane = 0; lane < kWarpLanes; ++lane)
    for (int64_t e = 0; e < elements; ++e) {
      const int64_t reg = m * elements + e, first = m * elements;
      if (coordinate_of(layout, along, lane, reg) != coordinate_of(layout, along, 0, first) + lane / 4) return false;
      if (coordinate_of(layout, across, lane, reg) != coordinate_of(layout, across, 0, first) + lane % 4 * elements + e)
        return false;
    }
  return true;
}

}  // namespace

std::optional<MatrixLoad> plan_matrix_load(const Layout& layout, Type type, int contiguous, int next, int64_t count) {
  const int64_t elements = kWord / type_bytes(type);
  int64_t registers = 1;
  for (const Digit& d : layout.digits)
    if (d.place == Place::kRegister) registers *= d.extent;
  const int64_t own = registers / elements;  // matrices of one tile
  if (elements == 0 || registers % elements != 0 || (own != 1 && own != 2 && own != 4)) return std::nullopt;
  MatrixLoad out;
  int along = -1;
  for (int dim = 0; dim < 2 && along < 0; ++dim) {
    bool all = true;
    for (int64_t m = 0; m < own; ++m) all &= is_matrix(layout, m, elements, dim, 1 - dim);
    if (all) along = dim;
  }
  if (along < 0) return std::nullopt;
  // A matrix whose rows are not contiguous is transposed on the way, which works for halves only.
  const bool transposed = contiguous == along;
  if (transposed && type_bytes(type) != 2) return std::nullopt;
  out.rows = 1 - contiguous;
  for (int dim = 0; dim < 2; ++dim) {
    const int64_t first = coordinate_of(layout, dim, 0, 0);
    for (int64_t bit = 0; (1 << bit) < own; ++bit)
      out.offset[bit][dim] = coordinate_of(layout, dim, 0, (1 << bit) * elements) - first;
    if (own == 4 && coordinate_of(layout, dim, 0, 3 * elements) - first != out.offset[0][dim] + out.offset[1][dim])
      return std::nullopt;
  }
  // Matrices of the tiles that follow fill the instruction up.
  int64_t bit = own == 1 ? 0 : own == 2 ? 1 : 2;
  for (; bit < 2 && count % (2 * out.tiles) == 0; ++bit) {
    out.offset[bit][next] = out.tiles * layout.shape[static_cast<size_t>(next)];
    out.tiles *= 2;
  }
  if (own * out.tiles < 2) return std::nullopt;
  out.row = find_instruction(Family::kLdmatrix, [&](const Instruction& in) {
    return in.operands[0].type == type && in.operands[0].tile[0] == own * out.tiles &&
           reads_transposed(in, 1) == transposed;
  });
  return out.row < 0 ? std::nullopt : std::optional(out);
}

int32_t find_tile_move(const OperandSpec& fragment, bool load) {
  const std::span<const Instruction> table = instruction_table();
  for (size_t n = 0; n < table.size(); ++n) {
    const std::span<const OperandSpec> operands = table[n].operands;
    if (operands.size() != 2) continue;
    // What is written comes first.
    const OperandSpec& own = operands[load ? 0 : 1];
    if (own.opaque && own.layout == fragment.layout && own.type == fragment.type &&
        own.access == (load ? Access::kWrite : Access::kRead) && operands[load ? 1 : 0].scope == Scope::kShared)
      return static_cast<int32_t>(n);
  }
  return -1;
}

}  // namespace tcc::lower
