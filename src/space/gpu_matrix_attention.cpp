// Attention by matrix instructions (FlashAttention-2, arXiv 2307.08691: a warp has its own queries and all keys, so
// that what it keeps of them never leaves its registers):
//
//   grid (head, tile of queries) { Qs = Q                                        shared
//     warps { Qf = Qs; m, l, O = -inf, 0, 0
//       tiles of keys { Ks = K; Vs = V                                           shared, a pipeline
//                       S = Qf Ks^T                                              matrix instructions
//                       m, e, l, a = maximum, weights, sum, factor of each row   in registers, rows by shuffles
//                       O = O a + e Vs }                                         matrix instructions
//       out = O / l } }
//
// e is rounded to the type of V and becomes an operand without leaving its lanes: the registers of sums are those of a
// first operand (lower/gpu/distribute_fragments.h). Queries and keys are padded to whole tiles.
#include <algorithm>
#include <array>

#include "space/attention.h"
#include "space/gpu.h"
#include "space/gpu_product.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr std::array<MatrixTiles, 5> kTiles = {{{4, 16, 64}, {8, 16, 64}, {4, 16, 32}, {4, 32, 32}, {2, 16, 64}}};
constexpr int64_t kMinWarps = 2, kMinKeys = 32;

// The instructions of both products: S = Q K^T with K as it is stored, and e V.
struct Rows {
  MatrixRow scores, values;
};
std::optional<Rows> choose_rows(Type type, const target::Target& target) {
  std::optional<MatrixRow> transposed, plain;
  for (const MatrixRow& row : matrix_rows(type, target, false)) {
    // Scores stay in the registers of lanes that are known.
    if (row.opaque) continue;
    std::optional<MatrixRow>& to = row.transposed ? transposed : plain;
    if (!to) to = row;
  }
  if (!transposed || !plain) return std::nullopt;
  return Rows{*transposed, *plain};
}

class MatrixAttention {
 public:
  MatrixAttention(Schedule& s, const Attention& a, const MatrixTiles& tiles, const GpuSpaceOptions& options)
      : s_(s), a_(a), tiles_(tiles), options_(options) {}

  bool run(const target::Target& target) {
    const std::optional<NaiveNest> scores = nest_of(a_.scores), product = nest_of(a_.product);
    if (!scores || !product || scores->loads.size() != 2) return false;
    type_ = scores->loads[0]->type;
    const int v = read_of_values(s_.kernel(), a_);
    if ((type_ != Type::kF16 && type_ != Type::kBF16) || scores->loads[1]->type != type_ || v < 0) return false;
    const std::optional<Rows> rows = choose_rows(type_, target);
    const Id values = schedule::read_buffers(s_.kernel(), product->block->id)[static_cast<size_t>(v)];
    if (!rows || s_.kernel().buffer(values)->type != type_ || a_.width % rows->values.j != 0) return false;
    return order(*product) && prepare(*scores, *rows) && pass() && products(*rows) && copies() && s_.ok();
  }

 private:
  std::optional<NaiveNest> nest_of(const std::string& name) const {
    const Block* block = find_block(s_.kernel().root, schedule::find_block_by_name(s_.kernel(), name));
    return block == nullptr ? std::nullopt : naive_nest(s_.kernel(), *block);
  }

  // The weighted sum makes a buffer whose last two dimensions are rows and columns, wherever the result has them.
  bool order(const NaiveNest& product) {
    std::vector<std::vector<schedule::IterDigit>> batch, row, column, sum;
    for (size_t i = 0; i < product.extents.size(); ++i) {
      bool weights = false, values = false;
      for (const Load* l : product.loads) {
        const bool moves = dim_of_iter(l->indices, product.block->iters[i].id) >= 0;
        (s_.kernel().buffer(l->buffer)->role == BufferRole::kTemp ? weights : values) |= moves;
      }
      (product.reduce[i]    ? sum
       : weights && !values ? row
       : values && !weights ? column
                            : batch)
          .push_back({{static_cast<int64_t>(i), 1, product.extents[i]}});
    }
    if (row.size() != 1 || column.size() != 1 || sum.size() != 1) return false;
    for (const auto* part : {&row, &column, &sum}) batch.push_back(part->front());
    BlockRv block = s_.get_block(a_.product);
    s_.transform_block_layout(block, batch);
    s_.reindex(block, -1);
    return s_.ok();
  }

  // Before the blocks share one nest: whole tiles of scores, and operands whose last two dimensions are a matrix.
  bool prepare(const NaiveNest& scores, const Rows& rows) {
    BlockRv block = s_.get_block(a_.scores);
    std::vector<int64_t> multiples(scores.extents.size(), 1);
    const Id key = as<Var>(scores.store->indices.back())->id;
    bool divides = true;
    for (size_t i = 0; i < multiples.size(); ++i) {
      const Id iter = scores.block->iters[i].id;
      const int dim = dim_of_iter(scores.store->indices, iter);
      if (scores.reduce[i])
        multiples[i] = rows.scores.k;
      else if (iter == key)
        multiples[i] = tiles_.keys;
      else if (dim + 2 == static_cast<int>(scores.store->indices.size()))
        multiples[i] = tiles_.rows * tiles_.warps;
      divides &= scores.extents[i] % multiples[i] == 0;
    }
    if (!divides) {
      s_.pad_einsum(block, multiples);
      if (!s_.ok()) return false;
      // Its readers want the part that exists.
      const std::vector<Id> copies = schedule::consumers_of(s_.kernel(), s_.id(block));
      if (copies.size() != 1) return false;
      s_.compute_inline(s_.get_block(name_hint(s_.kernel(), copies[0])));
    }
    const int q = s_.ok() ? read_of_rows(s_.kernel(), a_) : -1;
    if (q < 0) return false;
    queries_ = shared(block, q);
    keys_ = shared(block, 1 - q);
    if (!s_.ok()) return false;
    query_fragments_ = s_.cache_read(block, q, Scope::kLocal);
    key_fragments_ = s_.cache_read(block, 1 - q, Scope::kLocal);
    return s_.ok();
  }

  BlockRv shared(BlockRv block, int operand) {
    BlockRv copy = s_.reindex(block, operand);
    s_.set_scope(copy, Scope::kShared);
    return copy;
  }

  // The pass over the keys, with a tile of rows for each warp; all that it keeps is in registers.
  bool pass() {
    std::optional<StreamedAttention> pass = stream(s_, a_, a_.scores, tiles_.rows, tiles_.keys, tiles_.warps);
    if (!pass) return false;
    pass_ = std::move(*pass);
    BlockRv product = s_.get_block(a_.product);
    const int v = read_of_values(s_.kernel(), a_);
    if (v < 0) return false;
    values_ = shared(product, v);
    value_fragments_ = s_.cache_read(product, v, Scope::kLocal);
    std::vector<LoopRv> parts = s_.split(pass_.rows.back(), std::array{ExprRv{}, lit(tiles_.warps)});
    if (!s_.ok()) return false;
    pass_.rows.back() = parts[0];
    const LoopRv grid = fuse_all(s_, pass_.rows);
    pass_.rows = {grid, parts[1]};
    s_.bind(grid, Axis::kGridX);
    s_.bind(parts[1], Axis::kThreadY);
    for (const std::string& name : pass_.blocks) {
      if (stays_inside(s_, pass_, name)) s_.set_scope(s_.get_block(name), Scope::kLocal);
      const PassLoops loops = loops_of_pass(s_, pass_, name);
      if (!s_.ok() || !loops.row) return false;
      // Lanes share the rows of what maxima and sums are taken of.
      if (!loops.reduced.empty() && name != a_.scores && name != a_.product)
        s_.annotate(loops.reduced.back(), AnnotationKey::kTreeReduce, lit(1));
    }
    return s_.ok();
  }

  bool products(const Rows& rows) {
    // Step 1. Scores: fragments of the keys for one tile of columns at a time.
    BlockRv scores = s_.get_block(a_.scores);
    std::optional<Tiled> tiled = tile(a_.scores, rows.scores);
    if (!tiled) return false;
    reorder(*tiled, {tiled->column[0], tiled->sum[0], tiled->row[0]});
    s_.compute_at(key_fragments_, tiled->column[0]);
    s_.compute_at(query_fragments_, pass_.rows.back());
    s_.decompose_reduction(scores, tiled->column[0]);
    s_.tensorize(tiled->row[1], rows.scores.name);
    if (!s_.ok()) return false;
    // Step 2. The weighted sum: fragments of V for one step of the sum at a time.
    tiled = tile(a_.product, rows.values);
    if (!tiled) return false;
    reorder(*tiled, {tiled->sum[0], tiled->column[0], tiled->row[0]});
    s_.compute_at(value_fragments_, tiled->sum[0]);
    s_.tensorize(tiled->row[1], rows.values.name);
    return s_.ok();
  }

  // The loops of a product as tiles of the instruction, and those within.
  struct Tiled {
    std::vector<LoopRv> outer, row, column, sum;
  };
  std::optional<Tiled> tile(const std::string& name, const MatrixRow& row) {
    const PassLoops loops = loops_of_pass(s_, pass_, name);
    if (!s_.ok() || !loops.row || loops.others.empty() || loops.reduced.size() != 1) return std::nullopt;
    Tiled out;
    out.outer.assign(loops.others.begin(), loops.others.end() - 1);
    out.row = s_.split(*loops.row, std::array{ExprRv{}, lit(row.i)});
    out.column = s_.split(loops.others.back(), std::array{ExprRv{}, lit(row.j)});
    out.sum = s_.split(loops.reduced[0], std::array{ExprRv{}, lit(row.k)});
    return s_.ok() ? std::optional(out) : std::nullopt;
  }
  void reorder(const Tiled& t, std::initializer_list<LoopRv> tiles) {
    std::vector<LoopRv> order = t.outer;
    order.insert(order.end(), tiles);
    order.insert(order.end(), {t.row[1], t.column[1], t.sum[1]});
    s_.reorder(order);
  }

  bool copies() {
    s_.compute_at(queries_, pass_.rows.back());
    s_.compute_at(keys_, pass_.tiles);
    s_.compute_at(values_, pass_.tiles);
    std::vector<int64_t> lengths;
    for (int64_t bytes : options_.tensor_vector_bytes)
      lengths.push_back(std::max<int64_t>(bytes / type_bytes(type_), 1));
    cooperative_fetch(s_, queries_, 2, lengths);
    cooperative_fetch(s_, keys_, 3, lengths);
    cooperative_fetch(s_, values_, 3, lengths);
    if (s_.ok()) s_.annotate(pass_.tiles, AnnotationKey::kPipelineDepth, sample_uniform(s_, options_.tensor_stages));
    return s_.ok();
  }

  Schedule& s_;
  const Attention& a_;
  const MatrixTiles& tiles_;
  const GpuSpaceOptions& options_;
  Type type_ = Type::kF32;
  BlockRv queries_, keys_, values_, query_fragments_, key_fragments_, value_fragments_;
  StreamedAttention pass_;
};

}  // namespace

std::vector<MatrixTiles> matrix_tiles(const Attention& a) {
  std::vector<MatrixTiles> out;
  for (const MatrixTiles& t : kTiles) {
    // Half of the warps, or of the keys, would do: other tiles have them.
    if (t.warps > kMinWarps && t.warps / 2 * t.rows >= a.rows) continue;
    if (t.keys > kMinKeys && t.keys / 2 >= a.keys) continue;
    out.push_back(t);
  }
  return out;
}

bool matrix_attention(Schedule& s, const Attention& a, const MatrixTiles& tiles, const target::Target& target,
                      const GpuSpaceOptions& options) {
  return MatrixAttention(s, a, tiles, options).run(target);
}

}  // namespace tcc::space
