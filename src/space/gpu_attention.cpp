// Attention on a GPU: a block of threads takes a tile of queries of one head and passes over the keys (FlashAttention,
// arXiv 2205.14135, algorithm 1).
//
//   grid (head, tile of rows) { Qs = Q; m, l, O = -inf, 0, 0
//     tiles of keys { Ks = K; Vs = V; S = Qs Ks^T; m, e, l, a = maximum, weights, sum, factor of each row
//                     O = O a + e Vs }
//     out = O / l }
//
// Halves go through matrix instructions (gpu_matrix_attention.cpp). Otherwise scores, weights and state of a tile are
// in shared memory, and every step distributes its elements over all threads. The module also returns the schedule as
// it was, for the other modules.
#include <algorithm>
#include <array>

#include "space/attention.h"
#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr std::array<std::pair<int64_t, int64_t>, 3> kTiles = {{{32, 32}, {16, 32}, {64, 64}}};  // rows and keys

// Loops that choose an element of the result, in order.
std::vector<LoopRv> elements(Schedule& s, const std::string& name, const PassLoops& loops) {
  std::vector<LoopRv> out;
  for (LoopRv l : s.get_loops(s.get_block(name))) {
    const bool row = loops.row && s.id(*loops.row) == s.id(l);
    const bool other =
        std::any_of(loops.others.begin(), loops.others.end(), [&](LoopRv o) { return s.id(o) == s.id(l); });
    if (row || other) out.push_back(l);
  }
  return out;
}

bool distribute(Schedule& s, const StreamedAttention& pass, const std::string& name, ExprRv threads) {
  PassLoops loops = loops_of_pass(s, pass, name);
  std::vector<LoopRv> own = elements(s, name, loops);
  if (!s.ok() || own.empty()) return false;
  if (!loops.reduced.empty()) {
    std::vector<LoopRv> order = own;
    order.insert(order.end(), loops.reduced.begin(), loops.reduced.end());
    s.reorder(order);
  }
  std::vector<LoopRv> parts = s.split(fuse_all(s, own), std::vector<ExprRv>{{}, threads});
  if (!s.ok()) return false;
  s.bind(parts[1], Axis::kThreadX);
  return s.ok();
}

// Each thread has a tile of rows and columns, whose sums are in registers (lower/hoist_accumulators.h) and whose
// operands are read once for each term. Neighbors have neighboring columns.
bool tile_product(Schedule& s, const StreamedAttention& pass, const std::string& name, ExprRv threads) {
  PassLoops loops = loops_of_pass(s, pass, name);
  if (!s.ok() || !loops.row || loops.others.empty()) return false;
  static const std::vector<int64_t> kThreadTiles = {4, 2, 8, 1};
  std::vector<LoopRv> r = s.split(*loops.row, std::vector<ExprRv>{{}, sample_uniform(s, kThreadTiles)});
  std::vector<LoopRv> c = s.split(loops.others.back(), std::vector<ExprRv>{sample_uniform(s, kThreadTiles), {}});
  if (!s.ok()) return false;
  std::vector<LoopRv> order(loops.others.begin(), loops.others.end() - 1);
  order.insert(order.end(), {r[0], c[1]});
  order.insert(order.end(), loops.reduced.begin(), loops.reduced.end());
  order.insert(order.end(), {r[1], c[0]});
  s.reorder(order);
  s.unroll(r[1]);
  s.unroll(c[0]);
  std::vector<LoopRv> parts = s.split(fuse_all(s, std::array{r[0], c[1]}), std::vector<ExprRv>{{}, threads});
  if (!s.ok()) return false;
  s.bind(parts[1], Axis::kThreadX);
  return s.ok();
}

bool one_pass(Schedule& s, const Attention& a, int64_t rows, int64_t keys, const GpuSpaceOptions& options) {
  // Copies first, while each block has a nest of its own.
  BlockRv scores = s.get_block(a.scores), product = s.get_block(a.product);
  const int q = read_of_rows(s.kernel(), a), v = read_of_values(s.kernel(), a);
  if (q < 0 || v < 0) return false;
  BlockRv queries = s.cache_read(scores, q, Scope::kShared), key = s.cache_read(scores, 1 - q, Scope::kShared),
          values = s.cache_read(product, v, Scope::kShared);
  if (!s.ok()) return false;
  std::optional<StreamedAttention> pass = stream(s, a, a.scores, rows, keys);
  if (!pass) return false;
  s.compute_at(queries, pass->rows.back());
  s.compute_at(key, pass->tiles);
  s.compute_at(values, pass->tiles);
  if (!s.ok()) return false;
  ExprRv threads = sample_uniform(s, options.attention_threads);
  for (BlockRv copy : {queries, key, values})
    if (!distribute(s, *pass, name_hint(s.kernel(), s.id(copy)), threads)) return false;
  for (const std::string& name : pass->blocks) {
    if (stays_inside(s, *pass, name)) s.set_scope(s.get_block(name), Scope::kShared);
    const bool is_product = name == a.scores || name == a.product;
    if (!(is_product ? tile_product(s, *pass, name, threads) : distribute(s, *pass, name, threads))) return false;
  }
  s.bind(fuse_all(s, pass->rows), Axis::kGridX);
  return s.ok();
}

}  // namespace

Ways gpu_attention(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  Schedule plain = state;
  Ways ways;
  if (std::optional<Attention> a = find_attention(plain)) {
    for (const MatrixTiles& tiles : matrix_tiles(*a))
      ways.attempt(plain, [&](Schedule& s) { return matrix_attention(s, *a, tiles, target, options.gpu); });
    for (const auto& [rows, keys] : kTiles) {
      if (rows > 16 && rows / 2 >= a->rows) continue;
      ways.attempt(plain, [&](Schedule& s) {
        return one_pass(s, *a, std::min(rows, a->rows), std::min(keys, a->keys), options.gpu);
      });
    }
  }
  return ways.or_also(state);
}

}  // namespace tcc::space
