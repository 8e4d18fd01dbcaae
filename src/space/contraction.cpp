#include "space/contraction.h"

#include <algorithm>
#include <array>

#include "tcc/ir/walk.h"

namespace tcc::space {

using namespace ir;
using schedule::BlockRv;
using schedule::ExprRv;
using schedule::lit;
using schedule::LoopRv;
using schedule::Schedule;

namespace {

int read_index_of(const Kernel& k, const NaiveNest& nest, Id buffer) {
  std::vector<Id> reads = schedule::read_buffers(k, nest.block->id);
  return static_cast<int>(std::find(reads.begin(), reads.end(), buffer) - reads.begin());
}

}  // namespace

std::vector<Packing> packings_for(const Kernel& k, const NaiveNest& nest, Id iter, int64_t tile) {
  std::vector<Packing> out;
  std::vector<Id> seen;
  for (const Load* l : nest.loads) {
    const Buffer* buffer = k.buffer(l->buffer);
    int dim = dim_of_iter(l->indices, iter);
    if (buffer->role != BufferRole::kWeight || dim < 0 || buffer->shape.size() < 2) continue;
    if (std::find(seen.begin(), seen.end(), l->buffer) != seen.end()) continue;
    seen.push_back(l->buffer);
    out.push_back({read_index_of(k, nest, l->buffer), dim, static_cast<int>(buffer->shape.size()), tile});
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

void fetch_ahead(Schedule& s, LoopRv loop, int64_t size) {
  const std::array<int64_t, 3> choices = {0, size, 2 * size};
  static constexpr std::array<double, 3> kWeights = {0.2, 0.4, 0.4};
  s.annotate(loop, AnnotationKey::kPrefetch, s.sample_categorical(choices, kWeights));
}

bool has_reuse(const Kernel& k, const NaiveNest& nest, size_t i) {
  for (const Load* l : nest.loads)
    if (flat_stride(k, l->buffer, l->indices, nest.block->iters[i].id, nest.group[i]) == 0) return true;
  return false;
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
  std::vector<LoopRv> whole = s.split(loop, std::vector<ExprRv>{{}, lit(size)});
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

bool mark_epilogue(Schedule& s, const NaiveNest& nest, int v, BlockRv epilogue, size_t depth) {
  std::vector<LoopRv> loops = s.get_loops(epilogue);
  if (!s.ok() || loops.size() < depth) return s.ok();
  std::vector<LoopRv> tail(loops.begin() + static_cast<std::ptrdiff_t>(depth), loops.end());
  const Block* block = find_block(s.kernel().root, s.id(epilogue));
  if (block == nullptr || block->iters.size() != tail.size()) return true;
  int vector_loop = -1;
  if (v >= 0) {
    int dim = dim_of_iter(nest.store->indices, nest.block->iters[static_cast<size_t>(v)].id);
    Id accumulator = schedule::written_buffer(s.kernel(), nest.block->id);
    visit_roots(block->body, [&](Expr root) {
      visit(root, [&](Expr e) {
        const Load* l = as<Load>(e);
        if (l == nullptr || l->buffer != accumulator || dim < 0) return true;
        for (size_t i = 0; i < block->iters.size(); ++i)
          if (const Var* var = as<Var>(l->indices[static_cast<size_t>(dim)]);
              var != nullptr && var->id == block->iters[i].id)
            vector_loop = static_cast<int>(i);
        return true;
      });
    });
  }
  if (vector_loop >= 0) {
    std::vector<LoopRv> order;
    for (size_t i = 0; i < tail.size(); ++i)
      if (static_cast<int>(i) != vector_loop) order.push_back(tail[i]);
    order.push_back(tail[static_cast<size_t>(vector_loop)]);
    s.reorder(order);
    s.vectorize(tail[static_cast<size_t>(vector_loop)]);
  }
  for (size_t i = 0; i < tail.size(); ++i)
    if (static_cast<int>(i) != vector_loop) s.unroll(tail[i]);
  return s.ok();
}

bool reorder_tile(schedule::Schedule& s, const TileLoops& loops) {
  std::vector<schedule::LoopRv> order = loops.outer;
  for (const std::vector<schedule::LoopRv>* group : {&loops.inner, &loops.sums, &loops.rows})
    order.insert(order.end(), group->begin(), group->end());
  order.push_back(loops.lanes);
  s.reorder(order);
  return s.ok();
}

}  // namespace tcc::space
