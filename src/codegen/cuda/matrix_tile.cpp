// Matrices in shared memory, as wgmma and bulk tensor copies see them.
//
// Both know rows of 32, 64 or 128 bytes whose 16-byte pieces are permuted: with a swizzle of S bytes, bits 4 up to
// log2(S / 16) of a byte's address are xored with the bits from 7 on (PTX manual, "Swizzling Modes"). A buffer says so
// by the xor of its layout; one that nothing but these instructions touches is free in its layout, and gets the swizzle
// that its rows allow. Without the xor, an element must be where a matrix descriptor can find it (PTX manual,
// "Asynchronous Warpgroup Level Matrix Shared Memory Layout"):
//   rows of k, n:            S bytes a row, groups of 8 rows `stride` bytes apart;
//   columns of k (transposed): S bytes of n a row, such pieces `leading` bytes apart, groups of 8 k `stride` bytes
//   apart.
// Which of it holds is not deduced from the layout's digits but looked up, element by element.
#include <algorithm>
#include <bit>

#include "codegen/cuda/address.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/prelude.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/walk.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

constexpr int64_t kSwizzles[] = {128, 64, 32};
constexpr int64_t kGroup = 8;  // rows

struct Descriptor {
  int64_t leading = 16, stride = 0;  // bytes
};

// Element addresses before any xor.
class Places {
 public:
  explicit Places(const Buffer& b) {
    for (Expr e : b.shape) shape_.push_back(int_value(e));
    if (b.layout == nullptr) return;
    layout_ = *b.layout;
    layout_->xors = {};
  }
  int64_t rows() const { return shape_[shape_.size() - 2]; }
  int64_t columns() const { return shape_.back(); }
  int64_t at(int64_t row, int64_t column) const {
    if (!layout_) return row * columns() + column;
    std::vector<int64_t> index(shape_.size(), 0);
    index[index.size() - 2] = row;
    index.back() = column;
    return ir::apply(*layout_, index).address;
  }

 private:
  std::vector<int64_t> shape_;
  std::optional<Layout> layout_;
};

bool is_plane(const Buffer& b) {
  return b.shape.size() >= 2 && std::all_of(b.shape.begin(), b.shape.end(), [](Expr e) { return is_int(e); });
}

// The descriptor that finds a tile of `rows` x `columns` at (row, column); nullopt: none does.
std::optional<Descriptor> describe_at(const Places& p, int64_t element, int64_t swizzle, int64_t rows, int64_t columns,
                                      bool transposed, int64_t row, int64_t column) {
  const int64_t piece = swizzle / element, base = p.at(row, column);
  Descriptor d;
  d.stride = rows > kGroup ? (p.at(row + kGroup, column) - base) * element : kGroup * swizzle;
  if (transposed && columns > piece) d.leading = (p.at(row, column + piece) - base) * element;
  if (d.stride < 0 || d.leading < 0 || d.stride % 16 != 0 || d.leading % 16 != 0) return std::nullopt;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t in_row = transposed ? j % piece + j / piece * d.leading / element : j;
      const int64_t wanted = base + i % kGroup * piece + i / kGroup * d.stride / element + in_row;
      if (p.at(row + i, column + j) != wanted) return std::nullopt;
    }
  }
  return d;
}

// The same one for every tile of the buffer.
std::optional<Descriptor> describe(const Buffer& b, const OperandSpec& spec, int64_t swizzle) {
  if (!is_plane(b)) return std::nullopt;
  const Places p(b);
  const int64_t element = type_bytes(b.type), rows = spec.tile[0], columns = spec.tile[1];
  const bool transposed = rows < columns && rows == 16;
  std::optional<Descriptor> all;
  for (int64_t i = 0; i + rows <= p.rows(); i += rows) {
    for (int64_t j = 0; j + columns <= p.columns(); j += columns) {
      const auto one = describe_at(p, element, swizzle, rows, columns, transposed, i, j);
      if (!one || (all && (all->leading != one->leading || all->stride != one->stride))) return std::nullopt;
      all = one;
    }
  }
  return all;
}

// The swizzle that the layout's xor is; 0: it has no xor, -1: another one.
int64_t explicit_swizzle(const Buffer& b) {
  if (b.layout == nullptr || b.layout->xors.empty()) return 0;
  const int32_t element = std::countr_zero(static_cast<uint64_t>(type_bytes(b.type)));
  for (int64_t s : kSwizzles)
    if (b.layout->xors.size() == 1 && b.layout->xors[0] == XorField{7 - element, 4 - element, s / 16 - 1}) return s;
  return -1;
}

struct Uses {
  bool generic = false, boxes = false;
  std::vector<const OperandSpec*> matrices;
};

}  // namespace

bool holds_boxes(const Buffer& b, int64_t rows, int64_t columns) {
  if (!is_plane(b)) return false;
  const Places p(b);
  for (int64_t i = 0; i + rows <= p.rows(); i += rows)
    for (int64_t j = 0; j + columns <= p.columns(); j += columns)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          if (p.at(i + r, j + c) != p.at(i, j) + r * columns + c) return false;
  return true;
}

int64_t Emitter::swizzle_of(Id id) const {
  auto found = swizzles_.find(id);
  return found == swizzles_.end() ? 0 : found->second;
}

void Emitter::plan_tiles(Stmt body) {
  std::vector<Id> order;
  std::unordered_map<Id, Uses> uses;
  auto use = [&](Id id) -> Uses& {
    if (!uses.contains(id)) order.push_back(id);
    return uses[id];
  };
  auto loads = [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const Load* l = as<Load>(e)) use(l->buffer).generic = true;
      return true;
    });
  };
  visit(body, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) {
      use(store->buffer).generic = true;
      loads(store->value);
      if (store->predicate != nullptr) loads(store->predicate);
    } else if (const If* branch = as<If>(s)) {
      loads(branch->condition);
    } else if (const InstrCall* call = as<InstrCall>(s)) {
      const Instruction& row = instruction(call->instr);
      for (Expr e : call->args) loads(e);
      for (size_t i = 0; i < row.operands.size(); ++i) {
        const OperandSpec& spec = row.operands[i];
        if (spec.type == Type::kBarrier) continue;
        Uses& u = use(call->operands[i].buffer);
        if (is_matrix(row, spec)) u.matrices.push_back(&spec);
        if (row.completion == Completion::kWgmmaGroup && spec.scope == Scope::kLocal && spec.access != Access::kRead)
          accumulators_.insert(call->operands[i].buffer);
        u.boxes = u.boxes || row.proxy == Proxy::kAsync;
        u.generic = u.generic || row.proxy != Proxy::kAsync;
      }
    }
    return true;
  });
  for (Id id : order) {
    const Uses& u = uses[id];
    const Buffer& b = buffer(id);
    if ((b.scope != Scope::kShared && b.scope != Scope::kClusterShared) || (!u.boxes && u.matrices.empty())) continue;
    const int64_t said = explicit_swizzle(b);
    if (said < 0)
      return fail(fmt::format("expected a layout that bulk copies and wgmma know for shared buffer '{}'",
                              name_hint(kernel_, id)));
    swizzles_[id] = said;
    if (b.type == Type::kF32 && !u.matrices.empty()) tf32_tiles_.insert(id);
    if (said > 0 || u.matrices.empty()) continue;
    for (int64_t s : kSwizzles) {
      const bool fits = !u.generic && std::all_of(u.matrices.begin(), u.matrices.end(),
                                                  [&](const OperandSpec* m) { return describe(b, *m, s).has_value(); });
      if (!fits) continue;
      swizzles_[id] = s;
      break;
    }
  }
}

// Elements between the rows of every tile of the buffer; fails where they are not equally far apart, or not as far as
// the instruction wants.
int64_t Emitter::row_pitch(const Buffer& b, const Instruction& row, const OperandSpec& spec) {
  auto refuse = [&](const std::string& why) {
    fail(fmt::format("instruction {} reads or writes tiles of {} x {} of shared buffer '{}', {}", row.name,
                     spec.tile[0], spec.tile[1], name_hint(kernel_, b.id), why));
    return int64_t{0};
  };
  if (!is_plane(b) || (b.layout != nullptr && !b.layout->xors.empty())) return refuse("which has no plain rows");
  const Places p(b);
  if (p.rows() < spec.tile[0] || p.columns() < spec.tile[1]) return refuse("which is smaller");
  const int64_t pitch = p.at(1, 0) - p.at(0, 0);
  for (int64_t i = 0; i < p.rows(); ++i)
    for (int64_t j = 0; j < p.columns(); ++j)
      if (p.at(i, j) != p.at(0, 0) + i * pitch + j) return refuse("whose rows are not equally far apart");
  if (pitch * type_bytes(b.type) % spec.alignment != 0 || b.alignment % spec.alignment != 0)
    return refuse(fmt::format("whose rows do not begin at multiples of {} bytes", spec.alignment));
  return pitch;
}

std::string Emitter::matrix_tile(const Buffer& b, const OperandSpec& spec, Expr flat) {
  const int64_t swizzle = swizzle_of(b.id);
  const auto d = swizzle > 0 ? describe(b, spec, swizzle) : std::nullopt;
  if (!d) {
    fail(fmt::format(
        "a tile of {} x {} of shared buffer '{}' is nothing that a matrix descriptor of wgmma can describe; "
        "rows of 32, 64 or 128 bytes with their swizzle are",
        spec.tile[0], spec.tile[1], name_hint(kernel_, b.id)));
    return "";
  }
  // Tiles begin at multiples of 16 bytes.
  Expr pieces = analysis::simplify(b_, b_.floor_div(flat, b_.integer(16 / type_bytes(b.type))), ranges_);
  return fmt::format("tcc_tile<{}, {}, {}>({}, {})", swizzle, d->leading, d->stride, name(b.id), expr(pieces));
}

}  // namespace tcc::codegen::cuda
