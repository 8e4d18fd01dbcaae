// pad_einsum: the extents of a sum of products become multiples, so that whole instructions fit (TVM has a primitive of
// the same name). Operands are copied into larger buffers with zeros around them; the results of the overhang are
// computed and dropped. A constant operand may grow in place instead: its layout, of the data's shape, has holes of
// zeros, which whatever lays out the data ahead leaves. Zeros add nothing to a sum as long as every factor of a term
// along the padded reduction is one of the padded operands: zero times a foreign factor might be zero times infinity.
#include <map>
#include <set>

#include "common.h"
#include "tcc/ir/interval.h"

namespace tcc::schedule {
namespace {

const Load* factor(Expr e) {
  if (e->kind == ExprKind::kCast) e = as<Unary>(e)->a;
  return as<Load>(e);
}

// The loads of `C[at] = C[at] + x` with x a load or a product of two, each possibly cast; empty for other forms.
std::vector<const Load*> einsum_factors(const Block& block, const Store& store) {
  if (block.reducer != ReducerKind::kSum || store.value->kind != ExprKind::kAdd) return {};
  Expr term = update_term(store);
  if (term == nullptr) return {};
  std::vector<const Load*> out = {factor(term)};
  if (term->kind == ExprKind::kMul) out = {factor(as<Binary>(term)->a), factor(as<Binary>(term)->b)};
  const bool good =
      std::all_of(out.begin(), out.end(), [](const Load* l) { return l != nullptr && l->predicate == nullptr; });
  return good ? out : std::vector<const Load*>{};
}

class Padder {
 public:
  Padder(const Kernel& k, const Path& path, std::span<const int64_t> multiples)
      : edit_(k), path_(path), block_(*as<Block>(path.nodes.back())), multiples_(multiples) {
    if (multiples.size() != block_.iters.size() + 1) return;
    constants_ahead_ = multiples.back() != 0;
    multiples_ = multiples.first(block_.iters.size());
  }

  Legal<Kernel> run() {
    TCC_TRY_VOID(check_nest());
    const Store* store = as<Store>(block_.body);
    if (store == nullptr || store->predicate != nullptr || block_.predicate != nullptr)
      return refuse("is more than one unconditional store");
    std::vector<const Load*> factors = einsum_factors(block_, *store);
    if (factors.empty()) return refuse("does not compute a sum of products of loads");
    for (const Load* l : factors)
      for (size_t i = 0; i < block_.iters.size(); ++i) {
        bool there =
            std::any_of(l->indices.begin(), l->indices.end(), [&](Expr e) { return mentions(e, block_.iters[i].id); });
        if (block_.iters[i].kind == IterKind::kReduce && grown(i) && !there)
          return refuse(fmt::format("reads '{}', which padding would not make zero along {}",
                                    name_hint(edit_.k, l->buffer), describe(edit_.k, block_.iters[i].id)));
      }
    std::map<Id, Id> renamed;
    std::vector<Stmt> before, after;
    bool grown_constant = false;
    for (const Load* l : factors) {
      if (renamed.count(l->buffer) != 0) return refuse("reads one buffer twice");
      TCC_TRY(const std::vector<Expr> shape, padded_shape(l->buffer, l->indices));
      if (shape.empty()) continue;
      if (const Buffer& constant = *edit_.k.buffer(l->buffer); constants_ahead_ && grows_in_place(constant)) {
        grow(constant, shape);
        grown_constant = true;
        continue;
      }
      const Buffer* padded = add_padded(l->buffer, shape);
      renamed[l->buffer] = padded->id;
      before.push_back(copy_in(*padded, *edit_.k.buffer(l->buffer)));
    }
    TCC_TRY(const std::vector<Expr> shape, padded_shape(store->buffer, store->indices));
    if (!shape.empty()) {
      const Buffer* result = add_padded(store->buffer, shape);
      renamed[store->buffer] = result->id;
      after.push_back(copy_out(*edit_.k.buffer(store->buffer), *result));
    }
    if (renamed.empty() && !grown_constant)
      return reject(RejectReason::kBadFactor, describe(edit_.k, block_.id) + " has whole tiles already");
    before.push_back(padded_nest(renamed));
    before.insert(before.end(), after.begin(), after.end());
    return edit_.finish(replace_at(edit_.b, prefix(path_, top_level_position(path_) + 1), edit_.b.seq(before)));
  }

 private:
  tl::unexpected<Reject> refuse(const std::string& why) const {
    return reject(RejectReason::kReductionOrder, describe(edit_.k, block_.id) + " " + why);
  }
  int64_t extent(size_t i) const { return int_value(block_.iters[i].extent); }
  int64_t target(size_t i) const { return (extent(i) + multiples_[i] - 1) / multiples_[i] * multiples_[i]; }
  bool grown(size_t i) const { return target(i) != extent(i); }

  // One loop for each iterator, nothing else, and no decisions on them yet.
  Legal<void> check_nest() {
    if (multiples_.size() != block_.iters.size())
      return reject(RejectReason::kBadFactor,
                    fmt::format("{} multiples for {} iterators", multiples_.size(), block_.iters.size()));
    for (int64_t m : multiples_)
      if (m < 1 || m > 4096) return reject(RejectReason::kBadFactor, fmt::format("a multiple of {}", m));
    size_t first = top_level_position(path_);
    std::vector<const Loop*> loops;
    for (size_t i = first; i + 1 < path_.nodes.size(); ++i) {
      const Loop* l = as<Loop>(path_.nodes[i]);
      if (l == nullptr) return reject(RejectReason::kNotALoopChain, "other statements share the nest");
      if (l->loop_kind != LoopKind::kSerial || !l->annotations.empty())
        return reject(RejectReason::kLoopKindTaken, describe(edit_.k, l->id));
      loops.push_back(l);
    }
    bool naive = loops.size() == block_.iters.size();
    for (size_t i = 0; i < block_.iters.size() && naive; ++i) {
      const Iter& it = block_.iters[i];
      if (!is_int(it.extent)) return reject(RejectReason::kNotConstant, "extent of " + describe(edit_.k, it.id));
      const Var* v = as<Var>(it.binding);
      naive = v != nullptr && std::any_of(loops.begin(), loops.end(),
                                          [&](const Loop* l) { return l->id == v->id && equal(l->extent, it.extent); });
    }
    if (!naive)
      return reject(RejectReason::kNotAffine, "the loops are not the block's iterators: pad before splitting");
    return {};
  }

  // Empty: nothing grows. A dimension read at one iterator grows with it. One read at a sum of them, the window of a
  // convolution, gets room for the places that the new extents reach.
  Legal<std::vector<Expr>> padded_shape(Id id, std::span<const Expr> indices) {
    const Buffer* buffer = edit_.k.buffer(id);
    std::vector<Expr> shape(buffer->shape.begin(), buffer->shape.end());
    std::set<size_t> seen;
    bool grows = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<size_t> moved_by;
      for (size_t i = 0; i < block_.iters.size(); ++i)
        if (mentions(indices[d], block_.iters[i].id)) moved_by.push_back(i);
      for (size_t i : moved_by)
        if (grown(i) && !seen.insert(i).second)
          return reject(RejectReason::kNotAffine, describe(edit_.k, id) + " is read at computed indices");
      if (std::none_of(moved_by.begin(), moved_by.end(), [&](size_t i) { return grown(i); })) continue;
      TCC_TRY(const int64_t needed,
              as<Var>(indices[d]) != nullptr ? whole(id, shape[d], moved_by[0]) : reached(id, indices[d], moved_by));
      if (is_int(shape[d]) && needed <= int_value(shape[d])) continue;
      shape[d] = edit_.b.integer(needed);
      grows = true;
    }
    if (!grows) shape.clear();
    return shape;
  }
  Legal<int64_t> whole(Id id, Expr have, size_t i) const {
    if (is_int(have, extent(i))) return target(i);
    return reject(RejectReason::kRegionCover, describe(edit_.k, id) + " is larger than its iterator");
  }
  // One above the largest index. Places outside of the data are zero, and are read for results that are dropped: so no
  // term along a sum may grow.
  Legal<int64_t> reached(Id id, Expr index, std::span<const size_t> moved_by) const {
    bool along_sum = false;
    for (size_t i : moved_by) along_sum |= grown(i) && block_.iters[i].kind != IterKind::kSpatial;
    const Interval reach = interval_of(index, [&](Id v) {
      for (size_t i : moved_by)
        if (block_.iters[i].id == v) return Interval{0, target(i) - 1};
      return Interval{};
    });
    if (!along_sum && reach.known() && reach.low >= 0) return reach.high + 1;
    return reject(RejectReason::kNotAffine, describe(edit_.k, id) + " is read at computed indices");
  }
  const Buffer* add_padded(Id id, std::span<const Expr> shape) {
    return edit_.add_temporary(*edit_.k.buffer(id), name_hint(edit_.k, id) + "_padded", Scope::kWorkspace, shape);
  }

  static bool grows_in_place(const Buffer& b) { return b.role == BufferRole::kWeight && b.layout == nullptr; }
  // Row-major with room for the new shape.
  void grow(const Buffer& constant, std::span<const Expr> shape) {
    std::vector<int64_t> room, data;
    std::vector<int32_t> order;
    for (size_t d = 0; d < shape.size(); ++d) {
      room.push_back(int_value(shape[d]));
      data.push_back(int_value(constant.shape[d]));
      order.push_back(static_cast<int32_t>(d));
    }
    Buffer changed = constant;
    changed.shape = edit_.b.arena().copy(shape);
    changed.layout = of_shape(edit_.b.arena(), *make_blocked(edit_.b.arena(), room, order, {}), data);
    edit_.replace_buffer(changed);
  }

  Stmt copy_in(const Buffer& padded, const Buffer& from) {
    Builder& b = edit_.b;
    return copy_nest(padded, padded, [&](std::span<const Expr> at) {
      Expr inside = nullptr;
      for (size_t d = 0; d < at.size(); ++d)
        if (!equal(padded.shape[d], from.shape[d])) inside = b.logical_and(inside, b.lt(at[d], from.shape[d]));
      return b.load(from, at, inside, b.constant(0, from.type));
    });
  }
  Stmt copy_out(const Buffer& to, const Buffer& padded) {
    return copy_nest(to, padded, [&](std::span<const Expr> at) { return edit_.b.load(padded, at); });
  }
  // Fills `dst`, in a block named after `padded`.
  Stmt copy_nest(const Buffer& dst, const Buffer& padded, FunctionRef<Expr(std::span<const Expr>)> value) {
    Id block = kNoId;
    return edit_.copy_nest(name_hint(edit_.k, padded.id) + "_copy", dst.shape, block,
                           [&](std::span<const Expr> at) { return edit_.b.store(dst.id, at, value(at)); });
  }

  Stmt padded_nest(const std::map<Id, Id>& renamed) {
    Builder& b = edit_.b;
    std::vector<Iter> iters(block_.iters.begin(), block_.iters.end());
    std::map<Id, Expr> extents;
    for (size_t i = 0; i < iters.size(); ++i) {
      iters[i].extent = b.integer(target(i));
      extents[as<Var>(iters[i].binding)->id] = iters[i].extent;
    }
    Stmt body = block_.body, init = block_.init;
    for (const auto& [from, to] : renamed) {
      body = rename_buffer(b, body, from, to, true, true);
      if (init != nullptr) init = rename_buffer(b, init, from, to, true, true);
    }
    Stmt nest = b.block(block_.id, iters, body, init, nullptr, block_.reducer, block_.annotations);
    for (size_t i = path_.nodes.size() - 1; i-- > top_level_position(path_);) {
      const Loop* l = as<Loop>(path_.nodes[i]);
      nest = b.loop(l->id, extents.at(l->id), nest);
    }
    return nest;
  }

  Editor edit_;
  const Path& path_;
  const Block& block_;
  std::span<const int64_t> multiples_;
  bool constants_ahead_ = false;
};

}  // namespace

Legal<Kernel> pad_einsum(const Kernel& k, Id block_id, std::span<const int64_t> multiples) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  return Padder(k, path, multiples).run();
}

}  // namespace tcc::schedule
