// The xor of a piece's number with a line's is the permuted layout of CUTLASS ("Implicit GEMM and shared memory
// layouts"; ir/layout.h): eight rows that one matrix of an ldmatrix reads, or eight lanes of a copy write, meet eight
// groups of banks. What is best is counted, not derived (analysis/shared_traffic.h).
#include "lower/gpu/swizzle_shared.h"

#include <algorithm>
#include <bit>

#include "lower/gpu/edit.h"
#include "tcc/analysis/shared_traffic.h"
#include "tcc/ir/instr.h"
#include "tcc/target/limits.h"

namespace tcc::lower {
namespace {

using namespace ir;

using target::kSwizzleBytes;

constexpr int64_t kLine = 128;         // bytes
constexpr double kWorth = 0.99;        // a layout has to do better than the one before by so much
constexpr double kWorthAcross = 0.75;  // one whose addresses take more instructions
constexpr int64_t kMaxRows = 16;       // between lanes of a column that is read

// Row-major with rows that are `padding` elements longer.
const Layout* padded(Arena& arena, const std::vector<int64_t>& shape, int64_t padding) {
  Layout layout{};
  std::vector<Digit> digits(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    digits[d] = {static_cast<int32_t>(d), 1, 0, Place::kAddress, stride};
    stride *= shape[d];
    if (d + 1 == shape.size()) stride += padding;
  }
  layout.shape = shape;
  layout.digits = digits;
  layout.size = stride;
  return copy_layout(arena, layout);
}

class Swizzler {
 public:
  Swizzler(Edit& edit, const target::Target& target)
      : edit_(edit), accesses_(analysis::shared_accesses(edit.k)), limit_(target.cuda.shared_per_block_optin) {
    limit_ = std::max(limit_, target.cuda.shared_per_block);
    for (const Buffer* b : edit.k.buffers)
      if (b->scope == Scope::kShared) used_ += bytes(*b, elements(*b));
  }

  void run() {
    edit_.map_buffers([&](Buffer& fields) {
      if (fields.scope != Scope::kShared || fields.layout != nullptr || fields.shape.size() < 2) return false;
      std::vector<int64_t> shape;
      for (Expr e : fields.shape) {
        if (!is_int(e) || int_value(e) < 1) return false;
        shape.push_back(int_value(e));
      }
      const Layout* best = nullptr;
      double least = cycles(fields, nullptr);
      auto try_all = [&](const std::vector<const Layout*>& layouts, double worth) {
        for (const Layout* layout : layouts) {
          const int64_t more = bytes(fields, layout->size) - bytes(fields, elements(fields));
          if (more > 0 && used_ + more > limit_) continue;
          const double mine = cycles(fields, layout);
          if (mine >= least * worth) continue;
          least = mine;
          best = layout;
        }
      };
      try_all(candidates(fields, shape), kWorth);
      try_all(across_rows(fields, shape), kWorthAcross);
      if (best == nullptr) return false;
      used_ += bytes(fields, best->size) - bytes(fields, elements(fields));
      fields.layout = best;
      fields.alignment = std::max<int32_t>(fields.alignment, kLine);
      return true;
    });
  }

 private:
  static int64_t elements(const Buffer& b) {
    if (b.layout != nullptr) return b.layout->size;
    int64_t n = 1;
    for (Expr e : b.shape) n *= is_int(e) ? std::max<int64_t>(int_value(e), 1) : 1;
    return n;
  }
  static int64_t bytes(const Buffer& b, int64_t elements) {
    return (elements * type_bytes(b.type) + kLine - 1) / kLine * kLine;
  }

  // Bytes that every row has to begin at a multiple of, for an instruction that takes a tile of rows.
  static int64_t row_alignment(const analysis::WarpAccess& a) {
    if (a.instruction.empty()) return 1;
    int64_t bytes = 1;
    for (const OperandSpec& o : instruction(find_instruction(a.instruction)).operands)
      if (o.scope == Scope::kShared && o.rank == 2) bytes = std::max<int64_t>(bytes, o.alignment);
    return bytes;
  }

  double cycles(const Buffer& buffer, const Layout* layout) const {
    double n = 0;
    for (const analysis::WarpAccess& a : accesses_)
      if (a.buffer == buffer.id) n += a.times * analysis::bank_traffic(buffer, layout, a).cycles;
    return n;
  }

  std::vector<const Layout*> candidates(const Buffer& buffer, const std::vector<int64_t>& shape) {
    Arena& arena = edit_.b.arena();
    const int64_t size = type_bytes(buffer.type), row = shape.back(), row_bytes = row * size;
    int64_t widest = size, step = size;
    bool matrices = false;
    for (const analysis::WarpAccess& a : accesses_) {
      if (a.buffer != buffer.id) continue;
      widest = std::max(widest, a.bytes);
      matrices |= !a.instruction.empty() && instruction(find_instruction(a.instruction)).family == Family::kLdmatrix;
      step = std::max(step, row_alignment(a));
    }
    std::vector<const Layout*> out;
    // Pieces stay whole, so that accesses keep their widths.
    if (matrices && row_bytes % kSwizzleBytes == 0) {
      auto log = [](int64_t n) { return static_cast<int32_t>(std::countr_zero(static_cast<uint64_t>(n))); };
      std::vector<int32_t> from = {log(kLine / size)};
      if (row_bytes > kLine && std::has_single_bit(static_cast<uint64_t>(row_bytes))) from.push_back(log(row));
      for (int32_t shift : from)
        for (int64_t mask : {7, 3, 1}) {
          Layout plain = *padded(arena, shape, 0);
          plain.size = bytes(buffer, plain.size) / size;
          out.push_back(with_xor(arena, plain, {shift, log(kSwizzleBytes / size), mask}));
        }
    }
    for (int64_t padding : {int64_t{4}, int64_t{8}, kSwizzleBytes, 2 * kSwizzleBytes})
      if (padding >= widest && padding % step == 0) out.push_back(padded(arena, shape, padding / size));
    return out;
  }

  // Columns of a tile whose rows are written in whole pieces: lanes read every 1st, 2nd, 4th, ... row, where no padding
  // that keeps pieces aligned separates their banks. The number of the row permutes the pieces.
  std::vector<const Layout*> across_rows(const Buffer& buffer, const std::vector<int64_t>& shape) {
    std::vector<const Layout*> out;
    const int64_t size = type_bytes(buffer.type), row_bytes = shape.back() * size;
    if (row_bytes < 2 * kSwizzleBytes || !std::has_single_bit(static_cast<uint64_t>(row_bytes))) return out;
    bool pieces = false, elements = false;
    for (const analysis::WarpAccess& a : accesses_) {
      if (a.buffer != buffer.id) continue;
      if (!a.instruction.empty()) return out;
      (a.bytes == kSwizzleBytes ? pieces : elements) = true;
    }
    if (!pieces || !elements) return out;
    Arena& arena = edit_.b.arena();
    auto log = [](int64_t n) { return static_cast<int32_t>(std::countr_zero(static_cast<uint64_t>(n))); };
    const int64_t mask = std::min<int64_t>(row_bytes, kLine) / kSwizzleBytes - 1;
    for (int64_t rows = 1; rows <= kMaxRows; rows *= 2) {
      Layout plain = *padded(arena, shape, 0);
      plain.size = bytes(buffer, plain.size) / size;
      out.push_back(with_xor(arena, plain, {log(shape.back() * rows), log(kSwizzleBytes / size), mask}));
    }
    return out;
  }

  Edit& edit_;
  std::vector<analysis::WarpAccess> accesses_;
  int64_t limit_, used_ = 0;
};

}  // namespace

Kernel swizzle_shared(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  Swizzler(edit, target).run();
  return edit.k;
}

}  // namespace tcc::lower
