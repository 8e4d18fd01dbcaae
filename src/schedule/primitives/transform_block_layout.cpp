// transform_block_layout: the block runs over other iterators, which are split and fused parts of its own.
//
// The map is given as digits, as layouts are (ir/layout.h): new iterator w is the mixed radix number of some digits,
// each (v / divisor) % extent of an old iterator v. The digits of one old iterator must be all of it exactly once, so
// the map is a bijection and its inverse is the sum of digit * divisor. Old iterators become expressions of the new
// ones in the body, and the loops are made anew, one for each new iterator.
#include "common.h"

namespace tcc::schedule {
namespace {

class BlockTransformer {
 public:
  BlockTransformer(const Kernel& k, const Path& path, std::span<const std::vector<IterDigit>> map)
      : edit_(k), path_(path), block_(*as<Block>(path.nodes.back())) {
    for (const std::vector<IterDigit>& digits : map) map_.push_back(digits);
  }

  Legal<Kernel> run() {
    TCC_TRY_VOID(check_loops());
    TCC_TRY_VOID(check_map());
    return edit_.finish(replace_at(b(), prefix(path_, first_ + 1), new_nest()));
  }

 private:
  Builder& b() { return edit_.b; }
  std::string name(Id id) const { return describe(edit_.k, id); }
  tl::unexpected<Reject> bad(const std::string& why) const { return reject(RejectReason::kBadFactor, why); }

  // Each iterator is one serial loop, and these loops are one chain down to the block.
  Legal<void> check_loops() {
    if (block_.predicate != nullptr)
      return reject(RejectReason::kNotAffine, name(block_.id) + " has a predicate: transform before splitting");
    first_ = path_.nodes.size() - 1;
    std::vector<Id> own;
    for (const Iter& it : block_.iters) {
      if (it.kind != IterKind::kSpatial && it.kind != IterKind::kReduce)
        return reject(RejectReason::kReductionOrder, name(block_.id) + " runs in order");
      const Var* v = as<Var>(it.binding);
      size_t at = path_.nodes.size();
      for (size_t i = 0; v != nullptr && i + 1 < path_.nodes.size(); ++i)
        if (const Loop* l = as<Loop>(path_.nodes[i]); l != nullptr && l->id == v->id && equal(l->extent, it.extent))
          at = i;
      if (at == path_.nodes.size() || std::find(own.begin(), own.end(), v->id) != own.end())
        return reject(RejectReason::kNotAffine, name(it.id) + " is not bound to a loop of its own");
      own.push_back(v->id);
      first_ = std::min(first_, at);
    }
    if (own.empty()) return reject(RejectReason::kNotAffine, name(block_.id) + " has no iterators");
    for (size_t i = first_; i + 1 < path_.nodes.size(); ++i) {
      const Loop* l = as<Loop>(path_.nodes[i]);
      if (l == nullptr || std::find(own.begin(), own.end(), l->id) == own.end())
        return reject(RejectReason::kNotALoopChain,
                      "the loops of " + name(block_.id) + " are not one chain of its own");
      if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty())
        return reject(RejectReason::kLoopKindTaken, name(l->id) + " is bound or annotated");
    }
    return {};
  }

  // Extents of 0, "the rest", become what they are; every old iterator is covered exactly once.
  Legal<void> check_map() {
    std::vector<std::vector<IterDigit*>> by_iter(block_.iters.size());
    for (std::vector<IterDigit>& digits : map_) {
      for (IterDigit& d : digits) {
        if (d.iter < 0 || static_cast<size_t>(d.iter) >= block_.iters.size())
          return bad(fmt::format("{} has {} iterators, there is no iterator {}", name(block_.id), block_.iters.size(),
                                 d.iter));
        if (d.divisor < 1 || d.extent < 0) return bad("a digit's divisor is at least 1, its extent at least 0");
        if (block_.iters[static_cast<size_t>(d.iter)].kind != block_.iters[static_cast<size_t>(digits[0].iter)].kind)
          return reject(RejectReason::kReductionOrder, "an iterator would be spatial and reduce at once");
        by_iter[static_cast<size_t>(d.iter)].push_back(&d);
      }
    }
    for (size_t i = 0; i < by_iter.size(); ++i) {
      const Iter& it = block_.iters[i];
      std::vector<IterDigit*>& digits = by_iter[i];
      if (digits.size() == 1 && digits[0]->divisor == 1 && digits[0]->extent == 0) continue;  // the iterator itself
      if (!is_int(it.extent)) return reject(RejectReason::kNotConstant, "extent of " + name(it.id));
      std::sort(digits.begin(), digits.end(), [](IterDigit* x, IterDigit* y) { return x->divisor < y->divisor; });
      int64_t extent = int_value(it.extent), covered = 1;
      for (IterDigit* d : digits) {
        if (d->divisor != covered || extent % covered != 0)
          return bad(fmt::format("the digits of {} leave a gap or overlap at {}", name(it.id), covered));
        if (d->extent == 0) d->extent = extent / covered;
        if (d->extent > extent / covered) return bad(fmt::format("the digits of {} exceed its extent", name(it.id)));
        covered *= d->extent;
      }
      if (covered != extent)
        return bad(fmt::format("the digits of {} cover {} of its {} values", name(it.id), covered, extent));
    }
    return {};
  }

  Expr extent_of(const IterDigit& d) {
    return d.extent == 0 ? block_.iters[static_cast<size_t>(d.iter)].extent : b().integer(d.extent);
  }

  Stmt new_nest() {
    std::vector<Expr> old(block_.iters.size(), b().integer(0));
    std::vector<Iter> iters;
    std::vector<Id> loops;
    for (const std::vector<IterDigit>& digits : map_) {
      Expr extent = b().integer(1);
      for (const IterDigit& d : digits) extent = b().mul(extent, extent_of(d));
      IterKind kind = digits.empty() ? IterKind::kSpatial : block_.iters[static_cast<size_t>(digits[0].iter)].kind;
      Id from = digits.empty() ? block_.id : block_.iters[static_cast<size_t>(digits[0].iter)].id;
      loops.push_back(edit_.fresh(from, 0));
      iters.push_back({edit_.fresh(from, 1), kind, extent, b().var(loops.back())});
      Expr inner = b().integer(1);
      for (size_t i = digits.size(); i-- > 0;) {
        Expr value = b().floor_div(b().var(iters.back().id), inner);
        if (i > 0) value = b().floor_mod(value, extent_of(digits[i]));
        Expr& into = old[static_cast<size_t>(digits[i].iter)];
        into = b().add(into, b().mul(value, b().integer(digits[i].divisor)));
        inner = b().mul(inner, extent_of(digits[i]));
      }
    }
    Substitution names;
    for (size_t i = 0; i < old.size(); ++i) names.set(block_.iters[i].id, old[i]);
    Stmt init = block_.init == nullptr ? nullptr : substitute(b(), block_.init, names);
    Stmt nest = b().block(block_.id, iters, substitute(b(), block_.body, names), init, nullptr, block_.reducer,
                          block_.annotations);
    for (size_t i = loops.size(); i-- > 0;) nest = b().loop(loops[i], iters[i].extent, nest);
    return nest;
  }

  Editor edit_;
  const Path& path_;
  const Block& block_;
  std::vector<std::vector<IterDigit>> map_;
  size_t first_ = 0;
};

}  // namespace

Legal<Kernel> transform_block_layout(const Kernel& k, Id block_id, std::span<const std::vector<IterDigit>> map) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  return BlockTransformer(k, path, map).run();
}

}  // namespace tcc::schedule
