#include "space/contraction.h"

#include <algorithm>
#include <array>

#include "tcc/ir/walk.h"

namespace tcc::space {

std::vector<Packing> packings_for(const Kernel& k, const NaiveNest& nest, size_t i, int64_t tile) {
  std::vector<Packing> out;
  std::vector<Id> seen;
  const std::vector<Id> reads = schedule::read_buffers(k, nest.block->id);
  for (const analysis::Operand& o : nest.operands) {
    const Id id = o.load->buffer;
    const Buffer* buffer = k.buffer(id);
    if (!o.constant || o.dim[i] < 0 || buffer->shape.size() < 2) continue;
    if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
    seen.push_back(id);
    const auto read = std::find(reads.begin(), reads.end(), id) - reads.begin();
    out.push_back({static_cast<int>(read), o.dim[i], static_cast<int>(buffer->shape.size()), tile});
  }
  return out;
}

void pack(Schedule& s, BlockRv block, const Packing& p) {
  std::vector<int32_t> order = {p.dim};
  for (int32_t d = 0; d < p.rank; ++d)
    if (d != p.dim) order.push_back(d);
  s.transform_layout(block, p.read_index, order, std::array<std::pair<int32_t, int64_t>, 1>{{{p.dim, p.tile}}});
}

std::optional<NaiveNest> find_contraction(const Kernel& k) {
  const Block* found = nullptr;
  for (const Block* block : collect_blocks(k.root)) {
    bool reduces = std::any_of(block->iters.begin(), block->iters.end(),
                               [](const Iter& it) { return it.kind != IterKind::kSpatial; });
    if (!reduces) continue;
    if (found != nullptr) return std::nullopt;
    found = block;
  }
  if (found == nullptr || found->init == nullptr) return std::nullopt;
  std::optional<NaiveNest> nest = naive_nest(k, *found);
  if (!nest || !nest->is_reduction()) return std::nullopt;
  for (Expr i : nest->store->indices)
    if (as<Var>(i) == nullptr && !is_int(i)) return std::nullopt;
  return nest;
}

int64_t cache_block(int64_t extent, int64_t bytes, int64_t least, const target::Target& target) {
  int64_t size = 1;
  while (extent % (2 * size) == 0 && 2 * size * bytes <= target.cpu.l1_bytes / 4) size *= 2;
  return size >= least && size < extent ? size : 0;
}

void prefetch_block(Schedule& s, LoopRv loop, int64_t size) {
  const std::array<int64_t, 3> choices = {0, size, 2 * size};
  static constexpr std::array<double, 3> kWeights = {0.2, 0.4, 0.4};
  s.annotate(loop, AnnotationKey::kPrefetch, s.sample_categorical(choices, kWeights));
}

std::optional<BlockRv> localise(Schedule& s, const NaiveNest& nest, BlockRv block) {
  std::vector<Id> consumers = schedule::consumers_of(s.kernel(), nest.block->id);
  if (consumers.size() > 1) return std::nullopt;
  std::string consumer = consumers.empty() ? "" : name_hint(s.kernel(), consumers[0]);
  // What reads many elements for each of its own, a transform of tiles, cannot go with a tile of the sum.
  const bool goes_along = !consumers.empty() && as<Store>(find_block(s.kernel().root, consumers[0])->body) != nullptr;
  BlockRv reader = s.cache_write(block, Scope::kLocal);
  if (goes_along) {
    s.compute_inline(reader);
    reader = s.get_block(consumer);
  }
  return s.ok() ? std::optional(reader) : std::nullopt;
}

std::vector<LoopRv> split_tile(Schedule& s, LoopRv loop, int64_t extent, int64_t size, TileShare share) {
  std::vector<LoopRv> whole = s.split(loop, {{}, lit(size)});
  if (!s.ok()) return whole;
  std::vector<ExprRv> factors;
  switch (share) {
    case TileShare::kSampled:
      factors = s.sample_perfect_tile(whole[0], 2, (extent + size - 1) / size);
      break;
    case TileShare::kParallel:
      factors = {{}, lit(1)};
      break;
    case TileShare::kSerial:
      factors = {lit(1), {}};
      break;
  }
  std::vector<LoopRv> parts = s.split(whole[0], factors);
  parts.push_back(whole[1]);
  return parts;
}

namespace {

// The iterator of the contraction along which each iterator of the epilogue reads the accumulators; -1: none.
std::vector<int> iterators_read(const Schedule& s, const NaiveNest& nest, const Block& epilogue) {
  std::vector<int> out(epilogue.iters.size(), -1);
  const Id accumulator = schedule::written_buffer(s.kernel(), nest.block->id);
  visit_roots(epilogue.body, [&](Expr root) {
    visit(root, [&](Expr e) {
      const Load* l = as<Load>(e);
      if (l == nullptr || l->buffer != accumulator) return true;
      for (size_t i = 0; i < nest.extents.size(); ++i) {
        const int dim = nest.result.dim[i];
        const Var* var = dim < 0 ? nullptr : as<Var>(l->indices[static_cast<size_t>(dim)]);
        for (size_t j = 0; j < out.size() && var != nullptr; ++j)
          if (var->id == epilogue.iters[j].id) out[j] = static_cast<int>(i);
      }
      return true;
    });
  });
  return out;
}

}  // namespace

bool mark_epilogue(Schedule& s, const NaiveNest& nest, int v, BlockRv epilogue, size_t depth,
                   std::span<const ExprRv> inner) {
  std::vector<LoopRv> loops = s.get_loops(epilogue);
  if (!s.ok() || loops.size() < depth) return s.ok();
  std::vector<LoopRv> tail(loops.begin() + static_cast<std::ptrdiff_t>(depth), loops.end());
  const Block* block = find_block(s.kernel().root, s.id(epilogue));
  if (block == nullptr || block->iters.size() != tail.size()) return true;
  const std::vector<int> iterators = iterators_read(s, nest, *block);
  std::vector<LoopRv> outer, unrolled, vectorized;
  for (size_t j = 0; j < tail.size(); ++j) {
    LoopRv loop = tail[j];
    if (!inner.empty()) {
      const ExprRv part = iterators[j] < 0 ? ExprRv{} : inner[static_cast<size_t>(iterators[j])];
      const bool whole = part.input == ExprRv{}.input;
      std::vector<LoopRv> parts;
      if (!whole) parts = s.split(loop, {ExprRv{}, part});
      if (!s.ok()) return false;
      outer.push_back(whole ? loop : parts[0]);
      if (whole) continue;
      loop = parts[1];
    }
    (v >= 0 && iterators[j] == v ? vectorized : unrolled).push_back(loop);
  }
  if (!vectorized.empty() || !outer.empty()) s.reorder(outer, unrolled, vectorized);
  for (LoopRv l : vectorized) s.vectorize(l);
  for (LoopRv l : unrolled) s.unroll(l);
  return s.ok();
}

bool reorder_tile(schedule::Schedule& s, const TileLoops& loops) {
  s.reorder(loops.outer, loops.inner, loops.sums, loops.rows, loops.lanes);
  return s.ok();
}

}  // namespace tcc::space
