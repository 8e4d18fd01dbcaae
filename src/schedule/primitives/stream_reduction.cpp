// stream_reduction: maximum, exponential, sum and weighted sum over one dimension in a single pass over tiles of it.
//
// The chain is what softmax attention is made of, over rows r and keys k:
//   M[r] = max_k S[r,k]   E[r,k] = exp(S[r,k] - M[r])   L[r] = sum_k E[r,k]   P[r,k] = E[r,k] / L[r]
//   O[r,d] = sum_k P[r,k] * V[k,d]
// Each row needs its maximum before the first exponential, so keys are read three times and E is as large as S. With a
// running maximum, what has been summed so far is scaled by exp(old maximum - new maximum) whenever the maximum moves
// (Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, algorithm 3; with the output
// rescaled along: Dao et al., FlashAttention, arXiv 2205.14135, algorithm 1, lines 10-13). M, L and the sums become
// state that one loop over tiles of keys carries; E needs room for one tile. Rows are tiled too, so that both products
// of a tile are products of matrices. S is not touched: compute_at moves its block under the new loop.
//
// Instructions want whole tiles. With `group` rows and keys are padded to tiles: scores beside the keys are -inf,
// which leaves them weights of zero, what the weights multiply is zero there, and rows beside the result are not
// written. The weights then have the type of what they multiply, as such instructions want both (FlashAttention-2,
// arXiv 2307.08691, keeps its P in the type of V).
//
// Two statistics of a row without a weighted sum have a form of their own (stream_statistics.cpp).
//
// A row whose keys so far are all -inf (masked) has no maximum to subtract: zero is taken instead, which leaves
// exp(-inf) = 0 for each of them.
#include <limits>

#include "softmax_chain.h"
#include "stream_statistics.h"

namespace tcc::schedule {
namespace {

class Streamer {
 public:
  Streamer(const Kernel& k, Expr keys, Expr rows, Expr group)
      : k_(k), edit_(k), tile_keys_(keys), tile_rows_(rows), group_(group) {}

  Legal<Kernel> run(Id block, Id& out) {
    for (Expr tile : {tile_keys_, tile_rows_})
      if (tile == nullptr || (is_int(tile) && (int_value(tile) < 1 || int_value(tile) > 1 << 20)))
        return reject(RejectReason::kBadFactor, "the tiles of keys and rows have 1 to 2^20 elements");
    TCC_TRY(SoftmaxChain chain, find_softmax_chain(b(), k_, block));
    c_ = std::move(chain);
    TCC_TRY_VOID(choose_buffers());
    return edit_.finish(build(out));
  }

 private:
  Builder& b() { return edit_.b; }
  Legal<void> choose_buffers();
  Expr rounded_up(Expr extent, Expr tile) { return b().mul(b().ceil_div(extent, tile), tile); }
  Stmt build(Id& out);

  // --- building ----------------------------------------------------------------------------------------------------
  // What a new block runs over. Its iterators for rows, the tile of keys and the key in it, and others are made here.
  struct Piece {
    std::vector<Iter> iters;
    std::vector<std::pair<Id, Expr>> loops;  // own loops, outermost first
    std::vector<Expr> row;                   // value for each dimension of the weights; the key's at c_.key
    Expr predicate = nullptr;
    Substitution names;  // for iterators of an old block
  };
  Piece piece(bool carried, bool keys, IterKind key_kind);
  Stmt finish(const Piece& p, Id id, Stmt body, ReducerKind reducer = ReducerKind::kNone) {
    Stmt nest = b().block(id, p.iters, body, nullptr, p.predicate, reducer);
    for (size_t i = p.loops.size(); i-- > 0;)
      if (!is_int(p.loops[i].second, 1) || used(p, p.loops[i].first))
        nest = b().loop(p.loops[i].first, p.loops[i].second, nest);
    return nest;
  }
  static bool used(const Piece& p, Id loop) {
    return std::any_of(p.iters.begin(), p.iters.end(), [&](const Iter& it) { return mentions(it.binding, loop); });
  }
  void rename(Piece& p, const ChainLink& l, std::span<const int> dims);
  std::vector<Expr> per_row(const Piece& p, std::span<const int> indices) {
    std::vector<Expr> out;
    for (int d : indices) out.push_back(d < 0 ? b().integer(0) : p.row[static_cast<size_t>(d)]);
    return out;
  }
  // A new block or buffer; named after the product, for a kernel may have several chains.
  Id part(const char* what) { return edit_.fresh_named(name_hint(k_, c_.product.block->id) + "_" + what); }
  const Buffer* row_buffer(const char* what, Type type);
  const Buffer* larger(Id buffer, std::span<const int> dims, Type type);
  bool same(Expr x, Expr y) { return analysis::Ranges(k_).prove_equal(b(), x, y); }
  Expr inside(const Piece& p, bool keys_only);
  Expr guarded(Expr e, Expr condition);
  Expr score(const Piece& p, Expr e);
  std::vector<Expr> plain_row(const Piece& p) {
    std::vector<Expr> out;
    for (size_t d = 0; d < p.row.size(); ++d)
      if (static_cast<int>(d) != c_.key) out.push_back(p.row[d]);
    if (out.empty()) out.push_back(b().integer(0));
    return out;
  }
  Piece product_piece(bool carried, bool keys) {
    Piece p = piece(carried, keys, IterKind::kReduce);
    rename(p, c_.product, c_.product_dims);
    return p;
  }
  std::vector<Stmt> begin_sums();
  Stmt tile_body();
  Stmt finish_nest();

  const Kernel& k_;
  Editor edit_;
  Expr tile_keys_, tile_rows_, group_;
  SoftmaxChain c_;
  std::vector<Expr> shape_;  // of the weights, padded to whole tiles
  const Buffer *top_ = nullptr, *total_ = nullptr, *weights_ = nullptr, *acc_ = nullptr;
  const Buffer *old_ = nullptr, *base_ = nullptr, *factor_ = nullptr;
  std::vector<Id> row_loops_;  // by dimension; the last row dimension's runs over tiles
  Id tile_loop_ = kNoId;
  int last_row_ = -1;
};

const Buffer* Streamer::row_buffer(const char* what, Type type) {
  std::vector<Expr> shape;
  for (size_t d = 0; d < c_.extents.size(); ++d)
    if (static_cast<int>(d) != c_.key) shape.push_back(shape_[d]);
  if (shape.empty()) shape.push_back(b().integer(1));
  return edit_.add_buffer({part(what), type, Scope::kGlobal, BufferRole::kTemp, shape, nullptr, 64, {}});
}

Streamer::Piece Streamer::piece(bool carried, bool keys, IterKind key_kind) {
  Piece p;
  p.row.assign(c_.extents.size(), b().integer(0));
  for (size_t d = 0; d < c_.extents.size(); ++d) {
    if (static_cast<int>(d) == c_.key) continue;
    Expr at = b().var(row_loops_[d]);
    if (static_cast<int>(d) == last_row_) {
      Id in_tile = edit_.fresh(row_loops_[d], 0);
      p.loops.emplace_back(in_tile, tile_rows_);
      at = b().add(b().mul(at, tile_rows_), b().var(in_tile));
      if (!analysis::Ranges(k_).prove_equal(b(), b().mul(b().ceil_div(shape_[d], tile_rows_), tile_rows_), shape_[d]))
        p.predicate = b().lt(at, shape_[d]);
    }
    Id it = edit_.fresh_named("row");
    p.iters.push_back({it, IterKind::kSpatial, shape_[d], at});
    p.row[d] = b().var(it);
  }
  if (!carried) return p;
  Expr extent = shape_[static_cast<size_t>(c_.key)];
  Id tile = edit_.fresh_named("tile");
  p.iters.push_back({tile, IterKind::kCarried, b().ceil_div(extent, tile_keys_), b().var(tile_loop_)});
  if (!keys) return p;
  Id loop = edit_.fresh_named("key"), it = edit_.fresh_named("vkey");
  p.loops.emplace_back(loop, tile_keys_);
  p.iters.push_back({it, key_kind, tile_keys_, b().var(loop)});
  p.row[static_cast<size_t>(c_.key)] = b().add(b().mul(b().var(tile), tile_keys_), b().var(it));
  Expr at = b().add(b().mul(b().var(tile_loop_), tile_keys_), b().var(loop));
  if (!analysis::Ranges(k_).prove_equal(b(), b().mul(b().ceil_div(extent, tile_keys_), tile_keys_), extent))
    p.predicate = b().logical_and(p.predicate, b().lt(at, extent));
  return p;
}

// Iterators of the old block by their dimensions; those of none (columns of the result) get loops of their own, outside
// of the keys.
void Streamer::rename(Piece& p, const ChainLink& l, std::span<const int> dims) {
  size_t before = p.loops.size() - (p.row[static_cast<size_t>(c_.key)]->kind != ExprKind::kIntConst ? 1 : 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Iter& old = l.block->iters[i];
    if (dims[i] >= 0) {
      p.names.set(old.id, p.row[static_cast<size_t>(dims[i])]);
      continue;
    }
    Id loop = edit_.fresh(old.id, 0), it = edit_.fresh(old.id, 1);
    p.loops.insert(p.loops.begin() + static_cast<std::ptrdiff_t>(before++), {loop, old.extent});
    p.iters.push_back({it, IterKind::kSpatial, old.extent, b().var(loop)});
    p.names.set(old.id, b().var(it));
  }
}

std::vector<Stmt> Streamer::begin_sums() {
  std::vector<Stmt> out;
  Piece p = piece(false, false, IterKind::kSpatial);
  const Buffer* top = top_;
  // A block for each buffer: one that writes several cannot be moved.
  out.push_back(
      finish(p, part("begin_max"),
             b().store(top->id, per_row(p, c_.top_at), b().real(-std::numeric_limits<double>::infinity(), top->type))));
  p = piece(false, false, IterKind::kSpatial);
  out.push_back(
      finish(p, part("begin_sum"), b().store(total_->id, per_row(p, c_.total_at), b().real(0, total_->type))));
  p = product_piece(false, false);
  const std::vector<Expr> at = substitute(b(), c_.product.store->indices, p.names);
  out.push_back(finish(p, part("begin_acc"), b().store(acc_->id, at, b().real(0, acc_->type))));
  return out;
}

// One tile of keys.
Stmt Streamer::tile_body() {
  const Buffer *top = top_, *total = total_;
  std::vector<Stmt> out;
  Piece p = piece(true, false, IterKind::kSpatial);
  out.push_back(finish(p, part("old_max"), b().store(old_->id, plain_row(p), b().load(*top, per_row(p, c_.top_at)))));

  p = piece(true, true, IterKind::kReduce);
  rename(p, c_.max, c_.max_dims);
  std::vector<Expr> at = per_row(p, c_.top_at);
  out.push_back(finish(p, c_.max.block->id, b().store(top->id, at, b().max(b().load(*top, at), score(p, c_.max_term))),
                       ReducerKind::kMax));

  p = piece(true, false, IterKind::kSpatial);
  Expr now = b().load(*top, per_row(p, c_.top_at));
  Expr nothing = b().eq(now, b().real(-std::numeric_limits<double>::infinity(), top->type));
  out.push_back(
      finish(p, part("base"), b().store(base_->id, plain_row(p), b().select(nothing, b().real(0, top->type), now))));

  p = piece(true, false, IterKind::kSpatial);
  Expr gap[1] = {b().sub(b().load(*old_, plain_row(p)), b().load(*base_, plain_row(p)))};
  out.push_back(finish(p, part("factor"), b().store(factor_->id, plain_row(p), b().call(Intrinsic::kExp, gap))));

  p = piece(true, true, IterKind::kSpatial);
  rename(p, c_.exp, c_.exp_dims);
  Expr distance[1] = {b().sub(score(p, c_.score), b().load(*base_, plain_row(p)))};
  at = substitute(b(), c_.exp.store->indices, p.names);
  out.push_back(finish(p, c_.exp.block->id,
                       b().store(weights_->id, at, b().cast(b().call(Intrinsic::kExp, distance), weights_->type))));

  p = piece(true, false, IterKind::kSpatial);
  at = per_row(p, c_.total_at);
  Expr factor = b().cast(b().load(*factor_, plain_row(p)), total->type);
  out.push_back(finish(p, part("scale_sum"), b().store(total->id, at, b().mul(b().load(*total, at), factor))));

  p = piece(true, true, IterKind::kReduce);
  rename(p, c_.sum, c_.sum_dims);
  at = per_row(p, c_.total_at);
  std::vector<Expr> at_weight = substitute(b(), as<Load>(c_.sum_term)->indices, p.names);
  Expr weight = b().cast(b().load(*weights_, at_weight), total->type);
  out.push_back(
      finish(p, c_.sum.block->id, b().store(total->id, at, b().add(b().load(*total, at), weight)), ReducerKind::kSum));

  p = product_piece(true, false);
  at = substitute(b(), c_.product.store->indices, p.names);
  factor = b().cast(b().load(*factor_, plain_row(p)), acc_->type);
  out.push_back(finish(p, part("scale_acc"), b().store(acc_->id, at, b().mul(b().load(*acc_, at), factor))));

  p = product_piece(true, true);
  at = substitute(b(), c_.product.store->indices, p.names);
  const Binary* product = as<Binary>(c_.product_term);
  const Load* old_weight = as<Load>(c_.weight->kind == ExprKind::kCast ? as<Unary>(c_.weight)->a : c_.weight);
  at_weight = substitute(b(), old_weight->indices, p.names);
  Expr value = b().cast(b().load(*weights_, at_weight), product->type);
  Expr other = guarded(substitute(b(), product->a == c_.weight ? product->b : product->a, p.names), inside(p, true));
  Expr both = product->a == c_.weight ? b().mul(value, other) : b().mul(other, value);
  out.push_back(
      finish(p, c_.product.block->id, b().store(acc_->id, at, b().add(b().load(*acc_, at), both)), ReducerKind::kSum));
  return b().seq(out);
}

Stmt Streamer::finish_nest() {
  Piece p = product_piece(false, false);
  const std::vector<Expr> at = substitute(b(), c_.product.store->indices, p.names);
  Expr value = b().load(*acc_, at);
  if (c_.divided) value = b().div(value, b().cast(b().load(*total_, per_row(p, c_.total_at)), acc_->type));
  // Rows beside the result, of the last tile or of tiles that the group was padded with.
  if (group_ != nullptr && last_row_ >= 0) {
    const auto d = static_cast<size_t>(last_row_);
    const Id row = as<Var>(p.row[d])->id;
    for (const Iter& it : p.iters)
      if (it.id == row && !same(shape_[d], c_.extents[d])) p.predicate = b().lt(it.binding, c_.extents[d]);
  }
  return finish(p, part("finish"), b().store(c_.product.store->buffer, at, value));
}

// A temporary whose dimensions are those of the weights (dims; -1: none), with their extents; the old one where that is
// the same.
const Buffer* Streamer::larger(Id buffer, std::span<const int> dims, Type type) {
  const Buffer* old = k_.buffer(buffer);
  Buffer fields = *old;
  bool grows = false;
  std::vector<Expr> shape(old->shape.begin(), old->shape.end());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (dims[d] < 0 || same(shape[d], shape_[static_cast<size_t>(dims[d])])) continue;
    shape[d] = shape_[static_cast<size_t>(dims[d])];
    grows = true;
  }
  if (!grows && type == old->type) return old;
  fields.id = edit_.fresh_named(name_hint(k_, buffer) + "_whole");
  fields.type = type;
  fields.shape = shape;
  fields.layout = nullptr;
  fields.padding = {};
  const Buffer* made = edit_.add_buffer(fields);
  edit_.drop_buffer(buffer);
  return made;
}

// What the pass keeps, in the sizes and types that it needs.
Legal<void> Streamer::choose_buffers() {
  shape_ = c_.extents;
  for (size_t d = 0; d < shape_.size(); ++d)
    if (static_cast<int>(d) != c_.key) last_row_ = static_cast<int>(d);
  top_ = k_.buffer(c_.max.store->buffer);
  total_ = k_.buffer(c_.sum.store->buffer);
  weights_ = k_.buffer(c_.weights);
  if (group_ == nullptr) return {};
  if (is_int(group_) && int_value(group_) < 1)
    return reject(RejectReason::kBadFactor, "a group has one tile of rows or more");
  if (last_row_ >= 0) {
    Expr& rows = shape_[static_cast<size_t>(last_row_)];
    rows = rounded_up(rows, b().mul(tile_rows_, group_));
  }
  Expr& keys = shape_[static_cast<size_t>(c_.key)];
  keys = rounded_up(keys, tile_keys_);
  for (const Buffer* buffer : {top_, total_}) {
    if (buffer->role != BufferRole::kTemp) return reject(RejectReason::kIsOutput, describe(k_, buffer->id));
    for (const Block* block : collect_blocks(k_.root)) {
      const bool own = block == c_.max.block || block == c_.exp.block || block == c_.sum.block ||
                       block == c_.divide.block || block == c_.product.block;
      if (!own && reads_buffer(block, buffer->id))
        return reject(RejectReason::kNotInScope, fmt::format("{} reads {}, which is padded to whole tiles",
                                                             describe(k_, block->id), describe(k_, buffer->id)));
    }
  }
  const Binary* product = as<Binary>(c_.product_term);
  const Expr other = product->a == c_.weight ? product->b : product->a;
  const bool narrow = other->kind == ExprKind::kCast && is_float(as<Unary>(other)->a->type);
  std::vector<int> all(shape_.size());
  for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int>(d);
  weights_ = larger(c_.weights, all, narrow ? as<Unary>(other)->a->type : weights_->type);
  top_ = larger(top_->id, c_.top_at, top_->type);
  total_ = larger(total_->id, c_.total_at, total_->type);
  return {};
}

// Of an element of the weights: it is one of those that exist. nullptr: they all are.
Expr Streamer::inside(const Piece& p, bool keys_only) {
  Expr out = nullptr;
  for (int d : {last_row_, c_.key}) {
    if (d < 0 || (keys_only && d != c_.key)) continue;
    const auto i = static_cast<size_t>(d);
    if (!same(shape_[i], c_.extents[i])) out = b().logical_and(out, b().lt(p.row[i], c_.extents[i]));
  }
  return out;
}
// Zero is read where the condition does not hold.
Expr Streamer::guarded(Expr e, Expr condition) {
  if (condition == nullptr) return e;
  Expr out = rewrite_children(b(), e, [&](Expr c) { return guarded(c, condition); });
  const Load* l = as<Load>(out);
  if (l == nullptr) return out;
  Expr other = l->other != nullptr ? l->other : b().constant(0, l->type);
  return b().load(l->buffer, l->type, l->indices, b().logical_and(l->predicate, condition), other);
}
// A score of the piece's block; -inf beside the keys.
Expr Streamer::score(const Piece& p, Expr e) {
  Expr own = substitute(b(), e, p.names), exists = inside(p, false);
  if (exists == nullptr) return own;
  return b().select(exists, guarded(own, exists), b().real(-std::numeric_limits<double>::infinity(), own->type));
}

Stmt Streamer::build(Id& out) {
  const Buffer& result = *k_.buffer(c_.product.store->buffer);
  std::vector<Expr> shape(result.shape.begin(), result.shape.end());
  for (size_t d = 0; d < shape.size(); ++d) {
    const int it = c_.product.at[d], dim = it < 0 ? -1 : c_.product_dims[static_cast<size_t>(it)];
    if (dim >= 0) shape[d] = shape_[static_cast<size_t>(dim)];
  }
  acc_ = edit_.add_temporary(result, name_hint(k_, result.id) + "_acc", Scope::kGlobal, shape);
  Type type = top_->type;
  old_ = row_buffer("old", type);
  base_ = row_buffer("from", type);
  factor_ = row_buffer("rescale", type);
  row_loops_.assign(c_.extents.size(), kNoId);
  for (size_t d = 0; d < c_.extents.size(); ++d)
    if (static_cast<int>(d) != c_.key) row_loops_[d] = edit_.fresh_named("row");
  tile_loop_ = out = edit_.fresh_named("tile");

  std::vector<Stmt> nest = begin_sums();
  nest.push_back(b().loop(tile_loop_, b().ceil_div(shape_[static_cast<size_t>(c_.key)], tile_keys_), tile_body()));
  nest.push_back(finish_nest());
  Stmt rows = b().seq(nest);
  for (size_t d = c_.extents.size(); d-- > 0;) {
    if (row_loops_[d] == kNoId) continue;
    Expr extent = static_cast<int>(d) == last_row_ ? b().ceil_div(shape_[d], tile_rows_) : c_.extents[d];
    rows = b().loop(row_loops_[d], extent, rows);
  }
  Stmt root = replace_at(b(), prefix(c_.product.path, top_level_position(c_.product.path) + 1), rows);
  for (const ChainLink* l : {&c_.max, &c_.exp, &c_.sum, &c_.divide}) {
    if (l->block == nullptr) continue;
    // The old nest is the one before the new: ids of blocks are found there first.
    root = replace_at(b(),
                      find_path(root, as<Loop>(l->path.nodes[top_level_position(l->path)]) != nullptr
                                          ? as<Loop>(l->path.nodes[top_level_position(l->path)])->id
                                          : l->block->id),
                      nullptr);
  }
  if (c_.divided) edit_.drop_buffer(c_.divide.store->buffer);
  return root;
}

}  // namespace

Legal<Kernel> stream_reduction(const Kernel& k, Id block, Expr tile_keys, Expr tile_rows, Expr group, Id& out) {
  if (is_second_statistic(k, block))
    return stream_statistics(k, block, tile_keys, tile_rows, group != nullptr ? group : Builder(*k.arena).integer(1),
                             out);
  return Streamer(k, tile_keys, tile_rows, group).run(block, out);
}

}  // namespace tcc::schedule
