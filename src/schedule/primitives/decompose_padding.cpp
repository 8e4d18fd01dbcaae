// decompose_padding: "the element where it exists, else a constant" becomes a block that fills with the constant and a
// block that copies what exists, without a condition on each element.
#include "common.h"

namespace tcc::schedule {
namespace {

// What the condition says of one iterator: low <= v < high, nullptr where it says nothing.
struct Bounds {
  Expr low = nullptr, high = nullptr;
};

// The value where the padding's condition holds, the condition and the constant.
struct Padding {
  Expr condition = nullptr, inside = nullptr, constant = nullptr;
};

bool is_constant(Expr e) {
  return e->kind == ExprKind::kFloatConst || e->kind == ExprKind::kIntConst;
}

Padding padding_of(Builder& b, const Store& store) {
  Padding p;
  if (const Load* l = as<Load>(store.value); l != nullptr && l->predicate != nullptr) {
    p = {l->predicate, b.load(l->buffer, l->type, l->indices, nullptr, nullptr), l->other};
  } else if (const Select* s = as<Select>(store.value)) {
    p = {s->condition, s->a, s->b};
  }
  return p;
}

class Decomposer {
 public:
  Decomposer(const Kernel& k, Path path, size_t at)
      : edit_(k), path_(std::move(path)), at_(at), block_(*as<Block>(path_.nodes.back())), ranges_(all_ranges(k)) {}

  Legal<Kernel> run(Id& out) {
    const Store* store = as<Store>(block_.body);
    if (store == nullptr || store->predicate != nullptr || block_.init != nullptr)
      return refuse("is more than one unconditional store");
    padding_ = padding_of(b(), *store);
    if (padding_.condition == nullptr) return refuse("stores no value that is chosen by a condition");
    if (!is_constant(padding_.constant)) return refuse("pads with a value that is not constant");
    for (const Iter& it : block_.iters)
      if (it.kind != IterKind::kSpatial) return refuse("has an iterator that is not spatial");
    if (count_writers(edit_.k, store->buffer) > 1)
      return reject(RejectReason::kManyWriters, name(store->buffer) + " is written by other blocks too");
    bool reads_itself = false;
    visit(store->value, [&](Expr e) {
      if (const Load* l = as<Load>(e)) reads_itself |= l->buffer == store->buffer;
      return true;
    });
    if (reads_itself) return refuse("reads what it writes");
    TCC_TRY_VOID(check_loops());
    TCC_TRY_VOID(find_bounds());
    Stmt fill = fill_nest(*store, out);
    Stmt copy = copy_block(*store);
    Stmt root = replace_at(b(), path_, copy);
    root = tighten(root);
    Path again = find_path(root, as<Loop>(path_.nodes[at_])->id);
    return edit_.finish(insert_beside(b(), again, again.nodes.size() - 1, fill, true));
  }

 private:
  Builder& b() { return edit_.b; }
  std::string name(Id id) const { return describe(edit_.k, id); }
  tl::unexpected<Reject> refuse(const std::string& why) const {
    return reject(RejectReason::kNotInlinable, name(block_.id) + " " + why);
  }

  Legal<void> check_loops() {
    for (size_t i = at_; i + 1 < path_.nodes.size(); ++i) {
      const Loop* l = as<Loop>(path_.nodes[i]);
      if (as<Block>(path_.nodes[i]) != nullptr) return refuse("is a block in a block");
      if (l == nullptr) continue;
      if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty())
        return reject(RejectReason::kLoopKindTaken, name(l->id) + " is bound or annotated");
      for (size_t j = at_; j < i; ++j)
        if (const Loop* outer = as<Loop>(path_.nodes[j]); outer != nullptr && mentions(l->extent, outer->id))
          return reject(RejectReason::kDependentExtent, "extent of " + name(l->id));
    }
    return {};
  }

  // Each conjunct of the condition bounds one iterator, with stride one.
  Legal<void> find_bounds() {
    bounds_.resize(block_.iters.size());
    std::vector<Expr> conjuncts;
    split_conjunction(padding_.condition, conjuncts);
    for (Expr c : conjuncts) {
      if (c->kind != ExprKind::kLt || as<Binary>(c)->a->type != Type::kI64)
        return reject(RejectReason::kNotAffine,
                      "the condition of " + name(block_.id) + " does not bound its iterators");
      Expr d = b().sub(as<Binary>(c)->a, as<Binary>(c)->b);  // d < 0
      int found = -1;
      for (size_t i = 0; i < block_.iters.size(); ++i)
        if (mentions(d, block_.iters[i].id)) {
          if (found >= 0)
            return reject(RejectReason::kNotAffine, "a condition of " + name(block_.id) + " ties " +
                                                        name(block_.iters[i].id) + " to another iterator");
          found = static_cast<int>(i);
        }
      if (found < 0) return refuse("has a condition that no iterator decides");
      auto i = static_cast<size_t>(found);
      Expr v = b().var(block_.iters[i].id);
      Expr up = b().sub(d, v), down = b().add(d, v);  // d = v + up, or down - v
      Bounds& mine = bounds_[i];
      if (!mentions(up, block_.iters[i].id)) {
        Expr high = b().sub(b().integer(0), up);
        mine.high = mine.high == nullptr ? high : b().min(mine.high, high);
      } else if (!mentions(down, block_.iters[i].id)) {
        Expr low = b().offset(down, 1);
        mine.low = mine.low == nullptr ? low : b().max(mine.low, low);
      } else {
        return reject(RejectReason::kNotAffine,
                      "a condition of " + name(block_.id) + " moves with a multiple of " + name(block_.iters[i].id));
      }
    }
    for (size_t i = 0; i < bounds_.size(); ++i) {
      Bounds& mine = bounds_[i];
      Expr extent = block_.iters[i].extent;
      if (mine.low != nullptr) mine.low = analysis::simplify(b(), b().max(mine.low, b().integer(0)), ranges_);
      if (mine.high != nullptr) mine.high = analysis::simplify(b(), b().min(mine.high, extent), ranges_);
      Expr low = mine.low == nullptr ? b().integer(0) : mine.low, high = mine.high == nullptr ? extent : mine.high;
      if (!ranges_.prove_less(b(), low, high)) return refuse("may have nothing that is not padding");
    }
    return {};
  }

  Stmt fill_nest(const Store& store, Id& out) {
    std::vector<std::pair<const Loop*, Id>> copies;
    Substitution loops, names;
    for (size_t i = at_; i + 1 < path_.nodes.size(); ++i)
      if (const Loop* l = as<Loop>(path_.nodes[i])) {
        copies.emplace_back(l, edit_.fresh(l->id, 0));
        loops.set(l->id, b().var(copies.back().second));
      }
    std::vector<Iter> iters;
    for (const Iter& it : block_.iters) {
      iters.push_back({edit_.fresh(it.id, 0), it.kind, it.extent, substitute(b(), it.binding, loops)});
      names.set(it.id, b().var(iters.back().id));
    }
    const std::vector<Expr> indices = substitute(b(), store.indices, names);
    Expr predicate = block_.predicate == nullptr ? nullptr : substitute(b(), block_.predicate, loops);
    out = edit_.fresh_named(name_hint(edit_.k, block_.id) + "_fill");
    Stmt nest = b().block(out, iters, b().store(store.buffer, indices, padding_.constant), nullptr, predicate);
    for (size_t i = copies.size(); i-- > 0;) nest = b().loop(copies[i].second, copies[i].first->extent, nest);
    return nest;
  }

  // The loop that alone is the iterator, and may shrink with it: it feeds nothing else.
  const Loop* own_loop(size_t i) const {
    const Var* v = as<Var>(block_.iters[i].binding);
    if (v == nullptr) return nullptr;
    for (size_t j = at_; j + 1 < path_.nodes.size(); ++j) {
      const Loop* l = as<Loop>(path_.nodes[j]);
      if (l == nullptr || l->id != v->id || !equal(l->extent, block_.iters[i].extent)) continue;
      for (size_t other = 0; other < block_.iters.size(); ++other)
        if (other != i && mentions(block_.iters[other].binding, l->id)) return nullptr;
      if (block_.predicate != nullptr && mentions(block_.predicate, l->id)) return nullptr;
      return collect_blocks(l->body).size() == 1 ? l : nullptr;
    }
    return nullptr;
  }

  Stmt copy_block(const Store& store) {
    std::vector<Iter> iters(block_.iters.begin(), block_.iters.end());
    Expr predicate = block_.predicate;
    for (size_t i = 0; i < iters.size(); ++i) {
      const Bounds& mine = bounds_[i];
      if (mine.low == nullptr && mine.high == nullptr) continue;
      if (const Loop* l = own_loop(i)) {
        Expr low = mine.low == nullptr ? b().integer(0) : mine.low;
        Expr high = mine.high == nullptr ? iters[i].extent : mine.high;
        extents_.emplace_back(l->id, b().sub(high, low));
        iters[i].binding = b().add(iters[i].binding, low);
        continue;
      }
      if (mine.low != nullptr && !is_int(mine.low, 0))
        predicate = b().logical_and(predicate, b().le(mine.low, iters[i].binding));
      if (mine.high != nullptr && !equal(mine.high, iters[i].extent))
        predicate = b().logical_and(predicate, b().lt(iters[i].binding, mine.high));
    }
    return b().block(block_.id, iters, b().store(store.buffer, store.indices, padding_.inside), nullptr, predicate,
                     block_.reducer, block_.annotations);
  }

  Stmt tighten(Stmt root) {
    for (const auto& [id, extent] : extents_) {
      Path path = find_path(root, id);
      const Loop* l = as<Loop>(path.nodes.back());
      root = replace_at(b(), path, b().loop(id, extent, l->body, l->loop_kind, l->axis, l->annotations));
    }
    return root;
  }

  Editor edit_;
  Path path_;
  size_t at_;
  const Block& block_;
  analysis::Ranges ranges_;
  Padding padding_;
  std::vector<Bounds> bounds_;
  std::vector<std::pair<Id, Expr>> extents_;
};

}  // namespace

Legal<Kernel> decompose_padding(const Kernel& k, Id block_id, Id loop_id, Id& out) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  TCC_TRY(const size_t at, position_of_loop(k, path, loop_id));
  return Decomposer(k, std::move(path), at).run(out);
}

}  // namespace tcc::schedule
