// reindex: the block reads (or writes) one buffer through a copy whose dimensions are the block's iterators, in their
// order. What is a convolution's window or a permuted operand becomes a plain operand that instructions understand.
#include "common.h"
#include "tcc/analysis/injective.h"

namespace tcc::schedule {
namespace {

bool same_access(const Load& x, std::span<const Expr> indices, Expr predicate, Expr other) {
  auto same = [](Expr a, Expr b) { return a == b || (a != nullptr && b != nullptr && equal(a, b)); };
  return equal(x.indices, indices) && same(x.predicate, predicate) && same(x.other, other);
}

// A predicate says only that the iterators stay in their ranges.
bool whole_range(Builder& b, const Block& block) {
  std::vector<Expr> conjuncts;
  split_conjunction(block.predicate, conjuncts);
  return std::all_of(conjuncts.begin(), conjuncts.end(), [&](Expr c) {
    return std::any_of(block.iters.begin(), block.iters.end(),
                       [&](const Iter& it) { return equal(c, b.lt(it.binding, it.extent)); });
  });
}

// Replaces every load of `buffer` by loads of `copy` at `indices`.
Stmt redirect(Builder& b, Stmt s, Id buffer, const Buffer& copy, std::span<const Expr> indices, bool stores) {
  struct Loads {
    Builder& b;
    Id buffer;
    const Buffer& copy;
    std::span<const Expr> indices;
    Expr operator()(Expr e) const {
      if (!may_mention(e, buffer)) return e;
      if (const Load* l = as<Load>(e); l != nullptr && l->buffer == buffer) return b.load(copy, indices);
      return rewrite_children(b, e, *this);
    }
  } loads{b, buffer, copy, indices};
  Stmt out = rewrite_children(b, s, [&](Stmt c) { return redirect(b, c, buffer, copy, indices, stores); }, loads);
  if (const Store* st = as<Store>(out); st != nullptr && stores && st->buffer == buffer)
    return b.store(copy.id, indices, st->value, st->predicate);
  return out;
}

class Reindexer {
 public:
  Reindexer(const Kernel& k, const Path& path)
      : edit_(k), path_(path), block_(*as<Block>(path.nodes.back())), ranges_(all_ranges(k)) {}

  Legal<Kernel> read(Id buffer, Id& out) {
    std::vector<const Load*> loads;
    bool one = true;
    visit_loads(block_.body, [&](const Load& l) {
      if (l.buffer != buffer) return;
      if (!loads.empty()) one &= same_access(l, loads[0]->indices, loads[0]->predicate, loads[0]->other);
      loads.push_back(&l);
    });
    if (!one || loads.empty())
      return reject(RejectReason::kNotAffine,
                    fmt::format("{} reads {} at more than one place", name(block_.id), name(buffer)));
    const Load& load = *loads[0];
    choose_iterators([&](const Iter& it) {
      bool used = load.predicate != nullptr && (mentions(load.predicate, it.id) || mentions(load.other, it.id));
      for (Expr e : load.indices) used |= mentions(e, it.id);
      return used;
    });
    const Buffer* copy = new_buffer(*edit_.k.buffer(buffer));
    Stmt reading = redirect(b(), block_.body, buffer, *copy, plain_, false);
    Stmt nest = nest_of(*copy, out, [&](std::span<const Expr> vars, const Substitution& rename) {
      std::vector<Expr> indices;
      Expr inside = load.predicate == nullptr ? nullptr : substitute(b(), load.predicate, rename);
      Expr other = load.predicate == nullptr ? nullptr : substitute(b(), load.other, rename);
      for (size_t d = 0; d < load.indices.size(); ++d) {
        Expr extent = edit_.k.buffer(buffer)->shape[d];
        indices.push_back(substitute(b(), load.indices[d], rename));
        if (inside != nullptr) continue;
        if (!ranges_.prove_non_negative(b(), load.indices[d]) || !ranges_.prove_less(b(), load.indices[d], extent))
          other = b().constant(0, copy->type);
      }
      if (inside == nullptr && other != nullptr)
        for (size_t d = 0; d < indices.size(); ++d)
          inside = b().logical_and(inside, b().logical_and(b().le(b().integer(0), indices[d]),
                                                           b().lt(indices[d], edit_.k.buffer(buffer)->shape[d])));
      Expr value = b().load(*edit_.k.buffer(buffer), indices, inside, inside == nullptr ? nullptr : other);
      return b().store(copy->id, vars, value);
    });
    return put_beside(reading, block_.init, nest, true);
  }

  Legal<Kernel> write(Id buffer, Id& out) {
    std::vector<const Store*> stores;
    bool one = true;
    auto collect = [&](Stmt root) {
      if (root == nullptr) return;
      visit(root, [&](Stmt s) {
        const Store* st = as<Store>(s);
        if (st == nullptr) return true;
        if (!stores.empty()) one &= equal(st->indices, stores[0]->indices);
        one &= st->predicate == nullptr;
        stores.push_back(st);
        return true;
      });
    };
    collect(block_.body);
    if (!one || stores.size() != 1)
      return reject(RejectReason::kNotAffine, name(block_.id) + " has not just one unconditional store");
    collect(block_.init);
    visit_loads(block_.body, [&](const Load& l) {
      if (l.buffer == buffer) one &= same_access(l, stores[0]->indices, nullptr, nullptr);
    });
    if (!one)
      return reject(RejectReason::kNotAffine,
                    fmt::format("{} uses {} at more than one place", name(block_.id), name(buffer)));
    if (!whole_range(b(), block_))
      return reject(RejectReason::kRegionCover, name(block_.id) + " does not run for all of its iterators' values");
    choose_iterators([](const Iter& it) { return it.kind == IterKind::kSpatial; });
    if (!distinct(stores[0]->indices))
      return reject(RejectReason::kNotAffine, fmt::format("{} may write an element of {} from several iterations",
                                                          name(block_.id), name(buffer)));
    const Buffer* copy = new_buffer(*edit_.k.buffer(buffer));
    Stmt body = redirect(b(), block_.body, buffer, *copy, plain_, true);
    Stmt init = block_.init == nullptr ? nullptr : redirect(b(), block_.init, buffer, *copy, plain_, true);
    Stmt nest = nest_of(*copy, out, [&](std::span<const Expr> vars, const Substitution& rename) {
      return b().store(buffer, substitute(b(), stores[0]->indices, rename), b().load(*copy, vars));
    });
    return put_beside(body, init, nest, false);
  }

 private:
  Builder& b() { return edit_.b; }
  std::string name(Id id) const { return describe(edit_.k, id); }

  template <class F>
  void choose_iterators(const F& used) {
    for (const Iter& it : block_.iters)
      if (used(it)) chosen_.push_back(&it), plain_.push_back(b().var(it.id));
    if (!chosen_.empty()) return;
    plain_.push_back(b().integer(0));
  }
  const Buffer* new_buffer(const Buffer& of) {
    std::vector<Expr> shape;
    for (const Iter* it : chosen_) shape.push_back(it->extent);
    if (shape.empty()) shape.push_back(b().integer(1));
    return edit_.add_temporary(of, name_hint(edit_.k, of.id) + "_reindex", Scope::kGlobal, shape);
  }
  // Distinct values of the spatial iterators have distinct indices.
  bool distinct(std::span<const Expr> indices) {
    std::vector<Iter> as_bindings;
    std::vector<const Loop*> as_loops;
    for (Expr e : indices) as_bindings.push_back({edit_.k.next_id, IterKind::kSpatial, b().integer(1), e});
    Stmt nothing = block_.body;
    const Block* map = as<Block>(b().block(edit_.k.next_id, as_bindings, nothing));
    for (const Iter* it : chosen_) as_loops.push_back(as<Loop>(b().loop(it->id, it->extent, nothing)));
    return analysis::is_injective(b(), *map, as_loops, ranges_);
  }
  template <class F>
  Stmt nest_of(const Buffer& copy, Id& out, const F& body) {
    return edit_.copy_nest(name_hint(edit_.k, copy.id), copy.shape, out, [&](std::span<const Expr> vars) {
      Substitution rename;
      for (size_t d = 0; d < chosen_.size(); ++d) rename.set(chosen_[d]->id, vars[d]);
      return body(vars, rename);
    });
  }
  Legal<Kernel> put_beside(Stmt body, Stmt init, Stmt nest, bool before) {
    Stmt root = replace_at(b(), path_, b().with_body(block_, body, init));
    Path path = find_path(root, block_.id);
    return edit_.finish(insert_beside(b(), path, top_level_position(path), nest, before));
  }

  Editor edit_;
  const Path& path_;
  const Block& block_;
  analysis::Ranges ranges_;
  std::vector<const Iter*> chosen_;
  std::vector<Expr> plain_;
};

}  // namespace

Legal<Kernel> reindex(const Kernel& k, Id block_id, int read_index, Id& out) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  bool nested = std::count_if(path.nodes.begin(), path.nodes.end(), [](Stmt s) { return as<Block>(s) != nullptr; }) > 1;
  if (nested || collect_blocks(path.nodes.back()).size() > 1)
    return reject(RejectReason::kNotALoopChain,
                  describe(k, block_id) + " is a block in a block: reindex before blockize");
  Reindexer reindexer(k, path);
  if (read_index < 0) {
    Id buffer = written_buffer(k, block_id);
    if (buffer == kNoId)
      return reject(RejectReason::kManyWriters, describe(k, block_id) + " does not write exactly one buffer");
    if (count_writers(k, buffer) > 1)
      return reject(RejectReason::kManyWriters, describe(k, buffer) + " is written by other blocks too");
    TCC_TRY_VOID(check_apart(k, path, consumers_of(k, block_id)));
    return reindexer.write(buffer, out);
  }
  std::vector<Id> reads = read_buffers(k, block_id);
  if (static_cast<size_t>(read_index) >= reads.size())
    return reject(RejectReason::kBadFactor,
                  fmt::format("block {} has {} read buffers", describe(k, block_id), reads.size()));
  Id buffer = reads[static_cast<size_t>(read_index)];
  if (count_writers(k, buffer) > 1)
    return reject(RejectReason::kManyWriters, describe(k, buffer) + " is written by several blocks");
  std::vector<Id> writers;
  for (const Block* other : collect_blocks(k.root))
    if (writes_buffer(other->body, buffer)) writers.push_back(other->id);
  TCC_TRY_VOID(check_apart(k, path, writers));
  return reindexer.read(buffer, out);
}

}  // namespace tcc::schedule
