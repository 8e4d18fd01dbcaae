// Attention on a CPU: softmax(Q K^T) V in one pass over the keys, without the matrix of scores.
//
//   parallel (head, tile of rows) { Q^T = transpose(Q)
//     tiles of keys { S^T = K Q^T; m, e, l, a = running maximum, weights, sum, factor of each row
//                     O^T = O^T * a + V^T E^T }
//     O = transpose(O^T / l) }
//
// The pass is stream_reduction's (FlashAttention, arXiv 2205.14135, algorithm 1). Lanes are rows, all the way: each
// step of the softmax then works on whole vectors without combining lanes, both products multiply a vector of rows by a
// broadcast element of K or V, which are read in the order of memory, and what has to be transposed is the tile's part
// of Q and of the result only, each once for all keys. Tiles of S^T and of O^T in registers are rows x keys and rows x
// columns of V (matmul_tiling.cpp says how large).
#include "space/attention.h"

#include <algorithm>
#include <array>

#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {

namespace {

bool makes_exponentials(const Block& block) {
  const Store* store = as<Store>(block.body);
  const Call* call = store == nullptr ? nullptr : as<Call>(store->value);
  return call != nullptr && call->fn == Intrinsic::kExp;
}

// A reduction by sum of products that reads the weights of a softmax, the last one of the kernel.
const Block* find_weighted_sum(const Kernel& k) {
  bool exponentials = false, maximum = false;
  const Block* product = nullptr;
  for (const Block* block : collect_blocks(k.root)) {
    exponentials |= makes_exponentials(*block);
    maximum |= block->reducer == ReducerKind::kMax;
    std::optional<NaiveNest> nest = naive_nest(k, *block);
    if (nest && block->reducer == ReducerKind::kSum && nest->loads.size() == 2) product = block;
  }
  return exponentials && maximum ? product : nullptr;
}

}  // namespace

std::optional<Attention> find_attention(Schedule& s) {
  const Block* product = find_weighted_sum(s.kernel());
  if (product == nullptr) return std::nullopt;
  Schedule trial = s;
  Attention a;
  a.product = name_hint(s.kernel(), product->id);
  std::vector<std::string> names;
  for (const Block* block : collect_blocks(s.kernel().root)) names.push_back(name_hint(s.kernel(), block->id));
  const auto end = std::find(names.begin(), names.end(), a.product) - names.begin();
  for (auto i = end; i-- > 0;) {
    const Kernel& k = trial.kernel();
    const Block* block = find_block(k.root, schedule::find_block_by_name(k, names[static_cast<size_t>(i)]));
    if (block == nullptr || block->init != nullptr || makes_exponentials(*block)) continue;
    const std::vector<Id> consumers = schedule::consumers_of(k, block->id);
    if (std::find(consumers.begin(), consumers.end(), schedule::find_block_by_name(k, a.product)) != consumers.end())
      continue;
    Schedule step = trial;
    step.compute_inline(step.get_block(names[static_cast<size_t>(i)]));
    if (step.ok()) trial = std::move(step);
  }
  // Whether it is one: the primitive knows.
  Schedule probe = trial;
  probe.stream_reduction(probe.get_block(a.product), lit(1), lit(1));
  if (!probe.ok()) return std::nullopt;
  // The scores are what the maximum reads.
  for (const Block* block : collect_blocks(trial.kernel().root)) {
    if (block->reducer != ReducerKind::kMax) continue;
    for (Id producer : schedule::producers_of(trial.kernel(), block->id))
      if (find_block(trial.kernel().root, producer)->reducer == ReducerKind::kSum)
        a.scores = name_hint(trial.kernel(), producer);
  }
  const Kernel& k = trial.kernel();
  std::optional<NaiveNest> sum = naive_nest(k, *find_block(k.root, schedule::find_block_by_name(k, a.product)));
  if (a.scores.empty() || !sum) return std::nullopt;
  // Rows and columns by what the weights and V are indexed with.
  for (size_t i = 0; i < sum->extents.size(); ++i) {
    const Id iter = sum->block->iters[i].id;
    bool in_all = true;
    for (const Load* l : sum->loads) in_all &= dim_of_iter(l->indices, iter) >= 0;
    if (sum->reduce[i]) {
      a.keys = sum->extents[i];
    } else if (!in_all) {
      bool weights = false;
      for (const Load* l : sum->loads)
        weights |= k.buffer(l->buffer)->role == BufferRole::kTemp && dim_of_iter(l->indices, iter) >= 0;
      (weights ? a.rows : a.width) = sum->extents[i];
    }
  }
  s = std::move(trial);
  return a;
}

std::optional<StreamedAttention> stream(Schedule& s, const Attention& a, const std::string& writer, int64_t rows,
                                        int64_t keys, int64_t group) {
  BlockRv product = s.get_block(a.product);
  StreamedAttention out;
  out.tiles = s.stream_reduction(product, lit(keys), lit(rows), group > 0 ? std::optional(lit(group)) : std::nullopt);
  s.compute_at(s.get_block(writer), out.tiles);
  if (!s.ok()) return std::nullopt;
  for (LoopRv l : s.get_loops(product)) {
    if (s.id(l) == s.id(out.tiles)) break;
    out.rows.push_back(l);
  }
  if (out.rows.empty()) return std::nullopt;
  for (Id id : schedule::child_blocks_of(s.kernel(), s.id(out.rows.back())))
    out.blocks.push_back(name_hint(s.kernel(), id));
  return out;
}

int read_of_rows(const Kernel& k, const Attention& a) {
  const Block* scores = find_block(k.root, schedule::find_block_by_name(k, a.scores));
  const Block* product = find_block(k.root, schedule::find_block_by_name(k, a.product));
  std::optional<NaiveNest> nest = scores == nullptr ? std::nullopt : naive_nest(k, *scores);
  std::optional<NaiveNest> sum = product == nullptr ? std::nullopt : naive_nest(k, *product);
  if (!nest || !sum || nest->loads.size() != 2) return -1;
  const std::vector<Id> reads = schedule::read_buffers(k, scores->id);
  // Keys are the last dimension of the scores.
  const Var* key = as<Var>(nest->store->indices.back());
  if (key == nullptr) return -1;
  for (const Load* l : nest->loads)
    if (dim_of_iter(l->indices, key->id) < 0)
      return static_cast<int>(std::find(reads.begin(), reads.end(), l->buffer) - reads.begin());
  return -1;
}

int read_of_values(const Kernel& k, const Attention& a) {
  const std::vector<Id> reads = schedule::read_buffers(k, schedule::find_block_by_name(k, a.product));
  for (size_t i = 0; i < reads.size(); ++i)
    if (k.buffer(reads[i])->role != BufferRole::kTemp) return static_cast<int>(i);
  return -1;
}

PassLoops loops_of_pass(Schedule& s, const StreamedAttention& a, const std::string& name) {
  BlockRv rv = s.get_block(name);
  std::vector<LoopRv> loops = s.get_loops(rv);
  PassLoops out;
  const Block* block = s.ok() ? find_block(s.kernel().root, s.id(rv)) : nullptr;
  if (block == nullptr) return out;
  for (size_t i = a.rows.size(); i < loops.size(); ++i) {
    const Id id = s.id(loops[i]);
    if (id == s.id(a.tiles)) continue;
    bool reduces = false, in_row = false;
    for (const Iter& it : block->iters) {
      if (!mentions(it.binding, id)) continue;
      reduces |= it.kind == IterKind::kReduce;
      in_row |= mentions(it.binding, s.id(a.rows.back()));
    }
    if (in_row && !out.row)
      out.row = loops[i];
    else
      (reduces ? out.reduced : out.others).push_back(loops[i]);
  }
  return out;
}

bool stays_inside(const Schedule& s, const StreamedAttention& a, const std::string& block) {
  const Id id = schedule::find_block_by_name(s.kernel(), block);
  const Buffer* buffer = id == kNoId ? nullptr : s.kernel().buffer(schedule::written_buffer(s.kernel(), id));
  if (buffer == nullptr || buffer->role != BufferRole::kTemp) return false;
  const std::vector<Id> readers = schedule::consumers_of(s.kernel(), id);
  return std::all_of(readers.begin(), readers.end(), [&](Id reader) {
    return std::find(a.blocks.begin(), a.blocks.end(), name_hint(s.kernel(), reader)) != a.blocks.end();
  });
}

std::vector<int64_t> key_tiles(int64_t keys, std::vector<int64_t> wanted) {
  std::vector<int64_t> out;
  for (int64_t want : wanted) {
    const int64_t divisor = best_divisor(keys, want);
    const int64_t tile = 2 * divisor > std::min(want, keys) ? divisor : std::min(want, keys);
    if (std::find(out.begin(), out.end(), tile) == out.end()) out.push_back(tile);
  }
  return out;
}

namespace {

constexpr int64_t kVectors[] = {2, 1, 3};       // of rows
constexpr int64_t kKeyTiles[] = {64, 128, 32};  // scores of a tile stay in the first-level cache
constexpr int64_t kTransposed = 16;             // elements of a row that are transposed together

void unroll_sum(Schedule& s, const std::vector<LoopRv>& sum) {
  if (sum.empty()) return;
  s.annotate(sum.back(), AnnotationKey::kUnrollMax, s.sample_categorical({1, 64, 256}, {0.4, 0.3, 0.3}));
}

bool touches_caller(const Schedule& s, const std::string& name) {
  const Id block = schedule::find_block_by_name(s.kernel(), name);
  const Buffer* out = s.kernel().buffer(schedule::written_buffer(s.kernel(), block));
  if (out != nullptr && (out->role == BufferRole::kOutput || out->scope == Scope::kGlobal)) return true;
  const std::vector<Id> reads = schedule::read_buffers(s.kernel(), block);
  return std::any_of(reads.begin(), reads.end(),
                     [&](Id id) { return s.kernel().buffer(id)->role != BufferRole::kTemp; });
}

// Lanes along the rows inside of all other loops.
bool mark_step(Schedule& s, const std::string& name, const StreamedAttention& pass) {
  PassLoops loops = loops_of_pass(s, pass, name);
  if (!s.ok()) return false;
  if (!loops.row) return true;
  // Elements that are neighbors in memory are transposed together.
  std::vector<LoopRv> order = loops.others;
  LoopRv inner = *loops.row;
  if (!loops.others.empty() && loops.reduced.empty() && touches_caller(s, name)) {
    const Loop* last = find_loop(s.kernel().root, s.id(order.back()));
    const int64_t extent = is_int(last->extent) ? int_value(last->extent) : 1;
    std::vector<LoopRv> parts = s.split(order.back(), {ExprRv{}, lit(best_divisor(extent, kTransposed))});
    if (!s.ok()) return false;
    order.back() = parts[0];
    order.push_back(parts[1]);
    s.unroll(parts[1]);
  }
  s.reorder(order, loops.reduced, inner);
  s.vectorize(inner);
  return s.ok();
}

// A tile of registers: `tall` keys at most and the rows.
bool mark_scores(Schedule& s, const Attention& a, const StreamedAttention& pass, const std::string& written,
                 int64_t tall) {
  PassLoops out = loops_of_pass(s, pass, written);
  if (!s.ok() || !out.row || out.others.empty()) return false;
  std::vector<LoopRv> keys = s.split(out.others.back(), s.sample_perfect_tile(out.others.back(), 2, tall));
  if (!s.ok()) return false;
  s.reorder(std::span(out.others).first(out.others.size() - 1), keys[0], keys[1], *out.row);
  s.unroll(keys[1]);
  s.vectorize(*out.row);
  s.compute_at(s.get_block(a.scores), keys[0]);
  PassLoops sum = loops_of_pass(s, pass, a.scores);
  if (!s.ok() || !sum.row || sum.others.empty()) return false;
  s.reorder(sum.reduced, sum.others.back(), *sum.row);
  s.unroll(sum.others.back());
  s.vectorize(*sum.row);
  unroll_sum(s, sum.reduced);
  return s.ok();
}

bool mark_product(Schedule& s, const std::string& name, const StreamedAttention& pass, int64_t tall) {
  PassLoops loops = loops_of_pass(s, pass, name);
  if (!s.ok() || !loops.row || loops.reduced.empty()) return false;
  std::vector<LoopRv> order = loops.others, columns;
  if (!order.empty()) {
    columns = s.split(order.back(), s.sample_perfect_tile(order.back(), 2, tall));
    if (!s.ok()) return false;
    order.back() = columns[0];
  }
  s.reorder(order, loops.reduced, std::span(columns).subspan(columns.empty() ? 0 : 1), *loops.row);
  if (!columns.empty()) s.unroll(columns[1]);
  s.vectorize(*loops.row);
  unroll_sum(s, loops.reduced);
  return s.ok();
}

bool one_pass(Schedule& s, const Attention& a, int64_t rows, int64_t keys, const target::Target& target,
              int64_t vectors) {
  // Sums in registers, and the rows of Q transposed; later the blocks share one nest, which forbids it.
  BlockRv scores = s.get_block(a.scores);
  const int q = read_of_rows(s.kernel(), a);
  if (q < 0) return false;
  BlockRv queries = s.cache_read(scores, q, Scope::kLocal), result = s.cache_write(scores, Scope::kLocal);
  if (!s.ok()) return false;
  const std::string transposed = name_hint(s.kernel(), s.id(queries)), written = name_hint(s.kernel(), s.id(result));
  std::optional<StreamedAttention> pass = stream(s, a, written, rows, keys);
  if (!pass) return false;
  // Registers: the tile, a vector of rows, and one element.
  const int64_t registers = std::max<int64_t>(target.cpu.num_vector_registers, 8);
  const int64_t tall = std::max<int64_t>((registers - vectors - 1) / vectors, 1);
  if (!mark_scores(s, a, *pass, written, tall)) return false;
  s.compute_at(queries, pass->rows.back());
  if (!mark_step(s, transposed, *pass)) return false;
  for (const std::string& name : pass->blocks) {
    if (stays_inside(s, *pass, name)) s.set_scope(s.get_block(name), Scope::kLocal);
    if (name == written) continue;
    if (!(name == a.product ? mark_product(s, name, *pass, tall) : mark_step(s, name, *pass))) return false;
  }
  fuse_parallel(s, pass->rows);
  return s.ok();
}

}  // namespace

Ways attention(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  Schedule plain = state;
  std::optional<Attention> a = find_attention(plain);
  if (!a || a->rows < 2) return {state};
  const int64_t lanes = vector_lanes(target);
  Ways ways;
  for (int64_t vectors : kVectors) {
    const int64_t rows = std::min(vectors * lanes, a->rows);
    if (vectors > 1 && (vectors - 1) * lanes >= a->rows) continue;
    for (int64_t keys : key_tiles(a->keys, {std::begin(kKeyTiles), std::end(kKeyTiles)}))
      ways.attempt(plain, [&](Schedule& s) { return one_pass(s, *a, rows, keys, target, vectors); });
  }
  return ways.or_else(state);
}

}  // namespace tcc::space
