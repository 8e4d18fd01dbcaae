// Finds the blocks of a softmax that weights a sum; see stream_reduction.cpp for the notation.
#include "softmax_chain.h"

namespace tcc::schedule {
namespace {

const Load* load_of(Expr e, Id buffer) {
  const Load* l = as<Load>(e);
  return l != nullptr && l->buffer == buffer && l->predicate == nullptr ? l : nullptr;
}
// E and L of the weights E / L, also where they are written E * (1 / L).
struct Quotient {
  const Load *e = nullptr, *total = nullptr;
};
std::optional<Quotient> quotient_of(Expr value) {
  auto plain = [](Expr e) {
    const Load* l = as<Load>(e);
    return l != nullptr && l->predicate == nullptr ? l : nullptr;
  };
  auto both = [](const Load* e, const Load* total) -> std::optional<Quotient> {
    if (e == nullptr || total == nullptr) return std::nullopt;
    return Quotient{e, total};
  };
  if (value->kind == ExprKind::kDiv) return both(plain(as<Binary>(value)->a), plain(as<Binary>(value)->b));
  if (value->kind != ExprKind::kMul) return std::nullopt;
  const Binary* product = as<Binary>(value);
  for (auto [e, inverse] : {std::pair{product->a, product->b}, std::pair{product->b, product->a}}) {
    if (inverse->kind != ExprKind::kDiv) continue;
    const FloatConst* one = as<FloatConst>(as<Binary>(inverse)->a);
    if (one != nullptr && one->value == 1) return both(plain(e), plain(as<Binary>(inverse)->b));
  }
  return std::nullopt;
}

constexpr const char* kChain = "max, exp, sum and product";

class ChainMatcher {
 public:
  ChainMatcher(Builder& b, const Kernel& k) : b_(b), k_(k) {}

  Legal<SoftmaxChain> run(Id product) {
    TCC_TRY_VOID(match(product));
    return std::move(c_);
  }

 private:
  std::string name(Id id) const { return describe(k_, id); }
  tl::unexpected<Reject> refuse(const std::string& why) const {
    return reject(RejectReason::kReductionOrder, fmt::format("no chain of {}: {}", kChain, why));
  }

  Legal<ChainLink> link(Id block_id, const char* what) const { return chain_link(k_, block_id, what, kChain); }
  Legal<ChainLink> writer_of(Id buffer, const char* what) {
    Id found = kNoId;
    for (const Block* block : collect_blocks(k_.root)) {
      if (!writes_buffer(block->body, buffer)) continue;
      if (found != kNoId) return reject(RejectReason::kManyWriters, name(buffer) + " is written by several blocks");
      found = block->id;
    }
    if (found == kNoId) return refuse(fmt::format("nothing computes {}, the {}", name(buffer), what));
    return link(found, what);
  }
  // x of "result = result op x", the block being a reduction over one iterator.
  Expr term(const ChainLink& l, ReducerKind reducer, ExprKind op) {
    if (l.block->reducer != reducer || l.block->init == nullptr || l.store->value->kind != op) return nullptr;
    return update_term(*l.store);
  }
  // Which dimension of the weights an iterator of the block is, -1 none; the dimensions by the block's own accesses.
  std::vector<int> dims_of(const Block& block, std::span<const int> plain) {
    std::vector<int> out(block.iters.size(), -1);
    for (size_t d = 0; d < plain.size(); ++d)
      if (plain[d] >= 0) out[static_cast<size_t>(plain[d])] = static_cast<int>(d);
    return out;
  }
  // The indices of a per-row buffer as dimensions of the weights: -1 for a constant zero; nullopt for anything else.
  std::optional<std::vector<int>> row_indices(const Block& block, std::span<const int> dims,
                                              std::span<const Expr> indices) {
    std::optional<std::vector<int>> plain = plain_indices(block, indices);
    if (!plain) return std::nullopt;
    for (int& p : *plain) {
      if (p < 0) continue;
      p = dims[static_cast<size_t>(p)];
      if (p < 0 || p == c_.key) return std::nullopt;
    }
    return plain;
  }

  Legal<void> match(Id block);
  Legal<void> match_product();
  Legal<void> match_weights();
  Legal<void> match_rows();
  Legal<void> match_uses();

  Builder& b_;
  const Kernel& k_;
  SoftmaxChain c_;
};

Legal<void> ChainMatcher::match(Id block) {
  TCC_TRY(ChainLink product, link(block, "weighted sum"));
  c_.product = std::move(product);
  TCC_TRY_VOID(match_product());
  TCC_TRY_VOID(match_weights());
  TCC_TRY_VOID(match_rows());
  return match_uses();
}

// O += P * X with P at plain indices, one of which is the only reduce iterator.
Legal<void> ChainMatcher::match_product() {
  Expr value = term(c_.product, ReducerKind::kSum, ExprKind::kAdd);
  if (value == nullptr || value->kind != ExprKind::kMul)
    return refuse(name(c_.product.block->id) + " does not compute a sum of products");
  int reduce = -1;
  for (size_t i = 0; i < c_.product.block->iters.size(); ++i)
    if (c_.product.block->iters[i].kind == IterKind::kReduce) {
      if (reduce >= 0) return refuse(name(c_.product.block->id) + " reduces over several iterators");
      reduce = static_cast<int>(i);
    }
  const Binary* product = as<Binary>(value);
  c_.product_term = value;
  std::string why;
  for (Expr side : {product->a, product->b}) {
    Expr other = side == product->a ? product->b : product->a;
    const Load* l = as<Load>(side->kind == ExprKind::kCast ? as<Unary>(side)->a : side);
    if (l == nullptr || l->predicate != nullptr || loads_from(other, l->buffer)) continue;
    std::optional<std::vector<int>> plain = plain_indices(*c_.product.block, l->indices);
    const Buffer* buffer = k_.buffer(l->buffer);
    if (!plain || buffer->role != BufferRole::kTemp) continue;
    auto at = std::find(plain->begin(), plain->end(), reduce);
    if (at == plain->end()) continue;
    Legal<ChainLink> writer = writer_of(l->buffer, "weights");
    if (!writer) {
      why = ": " + writer.error().text;
      continue;
    }
    bool divides = quotient_of(writer->store->value).has_value();
    bool exponential = as<Call>(writer->store->value) != nullptr;
    if (!divides && !exponential) continue;
    (divides ? c_.divide : c_.exp) = *writer;
    c_.divided = divides;
    c_.weight = side;
    c_.key = static_cast<int>(at - plain->begin());
    c_.product_dims = dims_of(*c_.product.block, *plain);
    c_.extents.assign(buffer->shape.begin(), buffer->shape.end());
    break;
  }
  if (c_.weight == nullptr)
    return refuse("no factor of " + name(c_.product.block->id) + " is a softmax over its reduction" + why);
  for (size_t i = 0; i < c_.product.block->iters.size(); ++i)
    if (int d = c_.product_dims[i];
        d >= 0 && !equal(c_.product.block->iters[i].extent, c_.extents[static_cast<size_t>(d)]))
      return reject(RejectReason::kRegionCover, name(c_.product.block->id) + " uses a part of the weights");
  return {};
}

// P = E / L where there is a division, E = exp(S - M).
Legal<void> ChainMatcher::match_weights() {
  if (c_.divided) {
    const auto [e, total] = *quotient_of(c_.divide.store->value);
    std::optional<std::vector<int>> plain = plain_indices(*c_.divide.block, e->indices);
    if (!plain || *plain != c_.divide.at) return refuse(name(c_.divide.block->id) + " is not elementwise");
    TCC_TRY(ChainLink writer, writer_of(e->buffer, "exponential"));
    c_.exp = std::move(writer);
    std::optional<std::vector<int>> rows =
        row_indices(*c_.divide.block, dims_of(*c_.divide.block, c_.divide.at), total->indices);
    if (!rows) return refuse(name(c_.divide.block->id) + " does not divide by one number a row");
    c_.total_at = *rows;
    TCC_TRY(ChainLink sum, writer_of(total->buffer, "sum of the exponentials"));
    c_.sum = std::move(sum);
  }
  c_.weights = c_.exp.store->buffer;
  c_.exp_dims = dims_of(*c_.exp.block, c_.exp.at);
  const Call* call = as<Call>(c_.exp.store->value);
  Expr difference = call != nullptr && call->fn == Intrinsic::kExp ? call->args[0] : nullptr;
  if (difference == nullptr || difference->kind != ExprKind::kSub)
    return refuse(name(c_.exp.block->id) + " does not compute the exponential of a difference");
  c_.score = as<Binary>(difference)->a;
  const Load* top = as<Load>(as<Binary>(difference)->b);
  std::optional<std::vector<int>> rows;
  if (top != nullptr && top->predicate == nullptr) rows = row_indices(*c_.exp.block, c_.exp_dims, top->indices);
  if (!rows) return refuse(name(c_.exp.block->id) + " does not subtract one number a row");
  c_.top_at = *rows;
  TCC_TRY(ChainLink max, writer_of(top->buffer, "maximum"));
  c_.max = std::move(max);
  if (loads_from(c_.score, top->buffer)) return refuse("the scores depend on their maximum");
  if (c_.divided) return {};
  // Without a division before the product, some block sums the exponentials.
  for (const Block* block : collect_blocks(k_.root)) {
    if (block->id == c_.product.block->id || block->reducer != ReducerKind::kSum ||
        !reads_buffer(block->body, c_.weights))
      continue;
    TCC_TRY(ChainLink sum, link(block->id, "sum of the exponentials"));
    c_.sum = std::move(sum);
    return {};
  }
  return refuse("nothing sums " + name(c_.weights));
}

// M and L reduce the same S and E over the same dimension, one element a row.
Legal<void> ChainMatcher::match_rows() {
  c_.sum_term = term(c_.sum, ReducerKind::kSum, ExprKind::kAdd);
  c_.max_term = term(c_.max, ReducerKind::kMax, ExprKind::kMax);
  const Load* e = c_.sum_term == nullptr ? nullptr : load_of(c_.sum_term, c_.weights);
  if (e == nullptr || c_.max_term == nullptr)
    return refuse(fmt::format("expected {} to sum {} and {} to be a maximum", name(c_.sum.block->id), name(c_.weights),
                              name(c_.max.block->id)));
  std::optional<std::vector<int>> plain = plain_indices(*c_.sum.block, e->indices);
  if (!plain) return refuse(name(c_.sum.block->id) + " reads at computed indices");
  c_.sum_dims = dims_of(*c_.sum.block, *plain);
  std::optional<std::vector<int>> total = row_indices(*c_.sum.block, c_.sum_dims, c_.sum.store->indices);
  if (!total || (c_.divided && *total != c_.total_at))
    return refuse(name(c_.sum.block->id) + " does not make the number that each row is divided by");
  c_.total_at = *total;
  // The maximum's iterators, by where it stores and what is left over.
  c_.max_dims.assign(c_.max.block->iters.size(), -1);
  if (c_.max.at.size() != c_.top_at.size()) return refuse(name(c_.max.block->id) + " does not make one number a row");
  for (size_t d = 0; d < c_.max.at.size(); ++d) {
    if ((c_.max.at[d] < 0) != (c_.top_at[d] < 0))
      return refuse(name(c_.max.block->id) + " does not make one number a row");
    if (c_.max.at[d] >= 0) c_.max_dims[static_cast<size_t>(c_.max.at[d])] = c_.top_at[d];
  }
  for (const auto& [l, dims] : {std::pair{&c_.max, &c_.max_dims}, std::pair{&c_.sum, &c_.sum_dims}})
    for (size_t i = 0; i < l->block->iters.size(); ++i) {
      const Iter& it = l->block->iters[i];
      int& d = (*dims)[i];
      if (it.kind == IterKind::kReduce && d < 0) d = c_.key;
      bool fits = (it.kind == IterKind::kReduce) == (d == c_.key);
      if (!fits || d < 0 || !equal(it.extent, c_.extents[static_cast<size_t>(d)]))
        return refuse(fmt::format("{} does not reduce the keys of each row", name(l->block->id)));
    }
  for (const auto& [at, l] : {std::pair{&c_.top_at, &c_.max}, std::pair{&c_.total_at, &c_.sum}})
    for (size_t d = 0; d < c_.extents.size(); ++d)
      if (static_cast<int>(d) != c_.key && !is_int(c_.extents[d], 1) &&
          std::find(at->begin(), at->end(), static_cast<int>(d)) == at->end())
        return refuse(name(l->block->id) + " is shared by rows");
  // The same scores, in the iterators of the exponential.
  Substitution rename;
  for (size_t i = 0; i < c_.max.block->iters.size(); ++i)
    for (size_t j = 0; j < c_.exp.block->iters.size(); ++j)
      if (c_.exp_dims[j] == c_.max_dims[i]) rename.set(c_.max.block->iters[i].id, b_.var(c_.exp.block->iters[j].id));
  if (!equal(substitute(b_, c_.max_term, rename), c_.score))
    return refuse(fmt::format("{} is not the maximum of what {} takes the exponential of", name(c_.max.block->id),
                              name(c_.exp.block->id)));
  return {};
}

// Nothing else reads what has room for one tile only, or is between the blocks.
Legal<void> ChainMatcher::match_uses() {
  std::vector<Id> own = {c_.product.block->id, c_.exp.block->id, c_.sum.block->id, c_.max.block->id};
  if (c_.divided) own.push_back(c_.divide.block->id);
  std::vector<Id> tiles = {c_.weights};
  if (c_.divided) tiles.push_back(c_.divide.store->buffer);
  for (Id buffer : tiles) {
    if (k_.buffer(buffer)->role != BufferRole::kTemp) return reject(RejectReason::kIsOutput, name(buffer));
    if (has_operand(k_.root, buffer))
      return reject(RejectReason::kNotInlinable, name(buffer) + " is an instruction's operand");
  }
  Id result = c_.product.store->buffer, top = c_.max.store->buffer, total = c_.sum.store->buffer;
  bool behind = false;
  for (const Block* block : collect_blocks(k_.root)) {
    bool mine = std::find(own.begin(), own.end(), block->id) != own.end();
    behind |= block->id == c_.product.block->id;
    if (mine) continue;
    for (Id buffer : tiles)
      if (reads_buffer(block, buffer))
        return reject(RejectReason::kNotInScope, fmt::format("{} reads {} too", name(block->id), name(buffer)));
    if (!behind && (reads_buffer(block, top) || reads_buffer(block, total) || reads_buffer(block, result)))
      return reject(RejectReason::kNotInScope,
                    fmt::format("{} needs a row's maximum or sum before the weighted sum", name(block->id)));
    if (writes_buffer(block->body, top) || writes_buffer(block->body, total) || writes_buffer(block->body, result))
      return reject(RejectReason::kManyWriters, name(block->id) + " writes a result of the chain");
  }
  for (Id buffer : {result, top, total})
    if (!is_float(k_.buffer(buffer)->type))
      return reject(RejectReason::kReductionOrder, name(buffer) + " is not of a floating type");
  for (size_t i = 0; i < c_.exp.block->iters.size(); ++i) {
    int d = c_.exp_dims[i];
    if (d < 0 || !equal(c_.exp.block->iters[i].extent, c_.extents[static_cast<size_t>(d)]))
      return reject(RejectReason::kRegionCover, name(c_.exp.block->id) + " makes a part of the weights");
  }
  // The scores are read later than before: nothing may change them meanwhile.
  bool after = false;
  for (const Block* block : collect_blocks(k_.root)) {
    after |= block->id == c_.max.block->id;
    if (block->id == c_.product.block->id) break;
    if (!after || std::find(own.begin(), own.end(), block->id) != own.end()) continue;
    bool changes = false;
    visit(c_.score, [&](Expr e) {
      if (const Load* l = as<Load>(e)) changes |= writes_buffer(block->body, l->buffer);
      return !changes;
    });
    if (changes) return reject(RejectReason::kNotInScope, name(block->id) + " changes the scores");
  }
  return {};
}

}  // namespace

Legal<ChainLink> chain_link(const Kernel& k, Id block, const char* what, const char* chain) {
  const std::string name = describe(k, block);
  auto refuse = [&](const std::string& why) {
    return reject(RejectReason::kReductionOrder, fmt::format("no chain of {}: {}", chain, why));
  };
  ChainLink l;
  l.path = find_path(k.root, block);
  l.block = l.path.found() ? as<Block>(l.path.nodes.back()) : nullptr;
  if (l.block == nullptr) return unknown(k, "block", block);
  l.store = as<Store>(l.block->body);
  if (l.store == nullptr || l.store->predicate != nullptr || l.block->predicate != nullptr)
    return refuse(fmt::format("{}, the {}, is more than one unconditional store", name, what));
  std::optional<std::vector<int>> plain = plain_indices(*l.block, l.store->indices);
  if (!plain) return refuse(fmt::format("{}, the {}, stores at computed indices", name, what));
  l.at = *plain;
  std::vector<Id> own;
  for (const Iter& it : l.block->iters) {
    const Var* v = as<Var>(it.binding);
    const Loop* loop = v == nullptr ? nullptr : find_loop(k.root, v->id);
    bool naive = (it.kind == IterKind::kSpatial || it.kind == IterKind::kReduce) && loop != nullptr &&
                 equal(loop->extent, it.extent) && std::find(own.begin(), own.end(), v->id) == own.end();
    if (!naive)
      return reject(RejectReason::kNotAffine,
                    fmt::format("{}, the {}, is scheduled already: its loops are not its iterators", name, what));
    own.push_back(v->id);
  }
  for (size_t i = top_level_position(l.path); i + 1 < l.path.nodes.size(); ++i) {
    const Loop* loop = as<Loop>(l.path.nodes[i]);
    if (loop == nullptr || std::find(own.begin(), own.end(), loop->id) == own.end())
      return reject(RejectReason::kNotALoopChain, name + " is not alone in its nest");
    if (loop->loop_kind != LoopKind::kSerial || !loop->annotations.empty())
      return reject(RejectReason::kLoopKindTaken, describe(k, loop->id) + " is bound or annotated");
  }
  return l;
}

Legal<SoftmaxChain> find_softmax_chain(Builder& b, const Kernel& k, Id product) {
  return ChainMatcher(b, k).run(product);
}

}  // namespace tcc::schedule
