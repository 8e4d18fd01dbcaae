#include "space/cpu_product.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace tcc::space {
namespace {

// The access's last two dimensions are these iterators, and no other one moves with them.
bool ends_with(const Kernel& k, const analysis::Operand& o, Id buffer, size_t row, size_t column) {
  const std::span<const Expr> shape = k.buffer(buffer)->shape;
  const int rank = static_cast<int>(shape.size());
  return rank >= 2 && o.dim[row] == rank - 2 && o.dim[column] == rank - 1 && o.stride[column] == 1 && o.stride[row] &&
         is_int(shape.back(), *o.stride[row]);
}

Id read_buffer(const Schedule& s, BlockRv block, int read) {
  return schedule::read_buffers(s.kernel(), s.id(block))[static_cast<size_t>(read)];
}

// The copy of an operand with zeros around it: a pass of its own, by vectors, since the product reads each element
// several times. `row_dims`: innermost dimensions that one thread copies.
bool copy_by_vectors(Schedule& s, BlockRv block, Id padded, size_t row_dims) {
  constexpr int64_t kVector = 64;
  for (BlockRv copy : s.get_producers(block)) {
    if (schedule::written_buffer(s.kernel(), s.id(copy)) != padded) continue;
    const int64_t row = int_value(s.kernel().buffer(padded)->shape.back());
    std::vector<LoopRv> loops = s.get_loops(copy);
    if (!s.ok() || loops.size() <= row_dims) return false;
    s.vectorize(s.split(loops.back(), {ExprRv{}, lit(std::gcd(row, kVector))}).back());
    loops.resize(loops.size() - row_dims);
    fuse_parallel(s, loops);
  }
  return s.ok();
}

// The blocks in front of the copy, such as the padding of a convolution, become part of it.
bool inline_what_is_copied(Schedule& s, BlockRv block, Id copied) {
  for (BlockRv copy : s.get_producers(block)) {
    if (schedule::written_buffer(s.kernel(), s.id(copy)) != copied) continue;
    for (std::vector<BlockRv> before = s.get_producers(copy); s.ok() && !before.empty(); before = s.get_producers(copy))
      s.compute_inline(before[0]);
  }
  return s.ok();
}

// The packed form of an operand that only a run knows: rows of a group are read as vectors and interleaved in registers
// (lower's transpose_accesses).
bool interleave_by_vectors(Schedule& s, BlockRv block, Id packed, int64_t columns, int64_t group) {
  for (BlockRv copy : s.get_producers(block)) {
    if (schedule::written_buffer(s.kernel(), s.id(copy)) != packed) continue;
    std::vector<LoopRv> loops = s.get_loops(copy);
    if (!s.ok() || loops.size() < 2) return false;
    const std::vector<LoopRv> column = s.split(loops.back(), {ExprRv{}, lit(columns)});
    const std::vector<LoopRv> row = s.split(loops[loops.size() - 2], {ExprRv{}, lit(group)});
    if (!s.ok()) return false;
    s.reorder(std::array{row[0], column[0], row[1], column[1]});
    s.unroll(row[1]);
    s.vectorize(column[1]);
    loops.resize(loops.size() - 2);
    loops.insert(loops.end(), {row[0], column[0]});
    fuse_parallel(s, loops);
  }
  return s.ok();
}

// What reads the result reads the padded one: only a temporary is left out.
bool inline_copy(Schedule& s, BlockRv block) {
  const std::vector<BlockRv> copies = s.get_consumers(block);
  if (!s.ok() || copies.size() != 1) return false;
  const Id written = schedule::written_buffer(s.kernel(), s.id(copies[0]));
  if (s.kernel().buffer(written)->role == BufferRole::kTemp) s.compute_inline(copies[0]);
  return s.ok();
}

// The order of B's dimensions in its packed form, and the parts of them that are innermost.
struct LayoutOfB {
  std::vector<int32_t> order;
  std::array<std::pair<int32_t, int64_t>, 2> tiles;
};
// What the sum runs over is behind n, k last: panels of columns are whole, in the order in which a tile reads them.
LayoutOfB layout_of_b(const Schedule& s, const CpuProductNest& p, BlockRv block, int64_t columns, int64_t group) {
  const Id id = read_buffer(s, block, p.b);
  const auto b = std::find_if(p.nest.operands.begin(), p.nest.operands.end(),
                              [&](const analysis::Operand& o) { return o.load->buffer == id; });
  const auto rank = static_cast<int32_t>(b->load->indices.size());
  std::vector<int32_t> sums;
  for (size_t i = 0; i < p.nest.extents.size(); ++i)
    if (p.nest.reduce[i] && i != p.k && b->dim[i] >= 0) sums.push_back(b->dim[i]);
  sums.push_back(b->dim[p.k]);
  LayoutOfB out;
  for (int32_t d = 0; d < rank; ++d)
    if (d != b->dim[p.n] && std::find(sums.begin(), sums.end(), d) == sums.end()) out.order.push_back(d);
  out.order.push_back(b->dim[p.n]);
  out.order.insert(out.order.end(), sums.begin(), sums.end());
  out.tiles = {{{b->dim[p.n], columns}, {b->dim[p.k], group}}};
  return out;
}

}  // namespace

std::optional<NaiveNest> sum_of_products(const Kernel& k, const Block& block) {
  std::optional<NaiveNest> nest = naive_nest(k, block);
  if (!nest || !nest->is_reduction() || block.init == nullptr || block.iters.size() < 3) return std::nullopt;
  if (nest->loads.size() != 2 || nest->loads[0]->buffer == nest->loads[1]->buffer) return std::nullopt;
  return nest;
}

std::optional<CpuProductNest> as_product(const Kernel& k, const NaiveNest& nest) {
  const Block& block = *nest.block;
  CpuProductNest p{nest};
  size_t last = block.iters.size() - 1;
  p.m = last - 2, p.n = last - 1, p.k = last;
  if (std::count(nest.reduce.begin(), nest.reduce.end(), true) != 1 || !nest.reduce[p.k]) return std::nullopt;
  const bool swapped = ends_with(k, nest.operands[1], nest.loads[1]->buffer, p.m, p.k);
  const analysis::Operand &a = nest.operands[swapped ? 1 : 0], &b = nest.operands[swapped ? 0 : 1];
  if (!ends_with(k, a, a.load->buffer, p.m, p.k) || !ends_with(k, b, b.load->buffer, p.k, p.n) ||
      !ends_with(k, nest.result, nest.store->buffer, p.m, p.n))
    return std::nullopt;
  std::vector<Id> reads = schedule::read_buffers(k, block.id);
  p.a = static_cast<int>(std::find(reads.begin(), reads.end(), a.load->buffer) - reads.begin());
  p.b = static_cast<int>(std::find(reads.begin(), reads.end(), b.load->buffer) - reads.begin());
  return p;
}

bool pack_operands(Schedule& s, const CpuProductNest& p, BlockRv block, std::span<const int64_t> multiples,
                   int64_t columns, int64_t group) {
  bool grows = false;
  for (size_t i = 0; i < multiples.size(); ++i) grows |= p.nest.extents[i] % multiples[i] != 0;
  std::vector<int64_t> padding(multiples.begin(), multiples.end());
  padding.push_back(1);  // constants grow ahead
  const Id a = read_buffer(s, block, p.a);
  const LayoutOfB layout = layout_of_b(s, p, block, columns, group);
  const bool window = std::count(p.nest.reduce.begin(), p.nest.reduce.end(), true) > 1;
  bool result_grows = false;
  for (size_t i = 0; i < multiples.size(); ++i)
    result_grows |= !p.nest.reduce[i] && p.nest.extents[i] % multiples[i] != 0;
  if (grows) s.pad_einsum(block, padding);
  if (!s.ok()) return false;
  const Id padded = read_buffer(s, block, p.a);
  if (window && !inline_what_is_copied(s, block, padded)) return false;
  if ((padded != a || window) && !copy_by_vectors(s, block, padded, window ? 2 : 1)) return false;
  if (result_grows && !inline_copy(s, block)) return false;
  const Buffer* b = s.kernel().buffer(read_buffer(s, block, p.b));
  if (b->role == BufferRole::kInput) s.cache_read(block, p.b, Scope::kWorkspace);
  s.transform_layout(block, p.b, layout.order, layout.tiles);
  return s.ok() && interleave_by_vectors(s, block, read_buffer(s, block, p.b), columns, group);
}

void move_epilogue(Schedule& s, std::span<const BlockRv> epilogues, LoopRv at) {
  if (epilogues.size() != 1) return;
  Schedule trial = s;
  trial.reverse_compute_at(epilogues[0], at);
  std::vector<LoopRv> loops = trial.get_loops(epilogues[0]);
  if (!trial.ok() || loops.empty()) return;
  trial.vectorize(loops.back());
  if (trial.ok()) s = std::move(trial);
}

}  // namespace tcc::space
