// pad_einsum: the extents of a sum of products become multiples, so that whole instructions fit (TVM has a primitive of
// the same name). Operands are copied into larger buffers with zeros around them; the results of the overhang are
// computed and dropped. Zeros add nothing to a sum as long as every factor of a term along the padded reduction is one
// of the padded operands: zero times a foreign factor might be zero times infinity.
#include <map>

#include "common.h"

namespace tcc::schedule {
namespace {

const Load* factor(Expr e) {
  if (e->kind == ExprKind::kCast) e = as<Unary>(e)->a;
  return as<Load>(e);
}

// The loads of `C[at] = C[at] + x` with x a load or a product of two, each possibly cast; empty for other forms.
std::vector<const Load*> einsum_factors(const Block& block, const Store& store) {
  if (block.reducer != ReducerKind::kSum || store.value->kind != ExprKind::kAdd) return {};
  const Binary* sum = as<Binary>(store.value);
  for (auto [mine, term] : {std::pair{sum->a, sum->b}, std::pair{sum->b, sum->a}}) {
    const Load* old = as<Load>(mine);
    if (old == nullptr || old->buffer != store.buffer || old->predicate != nullptr) continue;
    std::vector<const Load*> out;
    if (term->kind == ExprKind::kMul)
      out = {factor(as<Binary>(term)->a), factor(as<Binary>(term)->b)};
    else
      out = {factor(term)};
    bool good = std::all_of(out.begin(), out.end(), [&](const Load* l) {
      return l != nullptr && l->predicate == nullptr && l->buffer != store.buffer;
    });
    if (good) return out;
  }
  return {};
}

class Padder {
 public:
  Padder(const Kernel& k, const Path& path, std::span<const int64_t> multiples)
      : edit_(k), path_(path), block_(*as<Block>(path.nodes.back())), multiples_(multiples) {}

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
                                    name_hint(edit_.kernel, l->buffer), describe(edit_.kernel, block_.iters[i].id)));
      }
    std::map<Id, Id> renamed;
    std::vector<Stmt> before, after;
    for (const Load* l : factors) {
      if (renamed.count(l->buffer) != 0) return refuse("reads one buffer twice");
      TCC_TRY(const Buffer* padded, padded_buffer(l->buffer, l->indices));
      if (padded == nullptr) continue;
      renamed[l->buffer] = padded->id;
      before.push_back(copy_in(*padded, *edit_.kernel.buffer(l->buffer)));
    }
    TCC_TRY(const Buffer* result, padded_buffer(store->buffer, store->indices));
    if (result != nullptr) {
      renamed[store->buffer] = result->id;
      after.push_back(copy_out(*edit_.kernel.buffer(store->buffer), *result));
    }
    if (renamed.empty())
      return reject(RejectReason::kBadFactor, describe(edit_.kernel, block_.id) + " has whole tiles already");
    before.push_back(padded_nest(renamed));
    before.insert(before.end(), after.begin(), after.end());
    return edit_.finish(replace_at(edit_.b, prefix(path_, top_level_position(path_) + 1), edit_.b.seq(before)));
  }

 private:
  tl::unexpected<Reject> refuse(const std::string& why) const {
    return reject(RejectReason::kReductionOrder, describe(edit_.kernel, block_.id) + " " + why);
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
        return reject(RejectReason::kLoopKindTaken, describe(edit_.kernel, l->id));
      loops.push_back(l);
    }
    bool naive = loops.size() == block_.iters.size();
    for (size_t i = 0; i < block_.iters.size() && naive; ++i) {
      const Iter& it = block_.iters[i];
      if (!is_int(it.extent)) return reject(RejectReason::kNotConstant, "extent of " + describe(edit_.kernel, it.id));
      const Var* v = as<Var>(it.binding);
      naive = v != nullptr && std::any_of(loops.begin(), loops.end(),
                                          [&](const Loop* l) { return l->id == v->id && equal(l->extent, it.extent); });
    }
    if (!naive)
      return reject(RejectReason::kNotAffine, "the loops are not the block's iterators: pad before splitting");
    return {};
  }

  // nullptr: nothing grows.
  Legal<const Buffer*> padded_buffer(Id id, std::span<const Expr> indices) {
    const Buffer* buffer = edit_.kernel.buffer(id);
    std::optional<std::vector<int>> plain = plain_indices(block_, indices);
    if (!plain) return reject(RejectReason::kNotAffine, describe(edit_.kernel, id) + " is read at computed indices");
    std::vector<Expr> shape(buffer->shape.begin(), buffer->shape.end());
    bool grows = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if ((*plain)[d] < 0 || !grown(static_cast<size_t>((*plain)[d]))) continue;
      auto i = static_cast<size_t>((*plain)[d]);
      if (!is_int(shape[d], extent(i)))
        return reject(RejectReason::kRegionCover, describe(edit_.kernel, id) + " is larger than its iterator");
      shape[d] = edit_.b.integer(target(i));
      grows = true;
    }
    if (!grows) return nullptr;
    Buffer copy = *buffer;
    copy.id = edit_.fresh_named(name_hint(edit_.kernel, id) + "_padded");
    copy.scope = Scope::kWorkspace;
    copy.role = BufferRole::kTemp;
    copy.layout = nullptr;
    copy.padding = {};
    copy.alignment = 64;
    copy.shape = shape;
    const Buffer* made = edit_.b.buffer(copy);
    edit_.add_buffer(made);
    return made;
  }

  Stmt copy_nest(const Buffer& dst, const Buffer& src, std::span<const Expr> shape, bool fill) {
    Builder& b = edit_.b;
    Id block = edit_.fresh_named((fill ? name_hint(edit_.kernel, dst.id) : name_hint(edit_.kernel, src.id)) + "_copy");
    std::vector<Iter> iters;
    std::vector<Id> loops;
    std::vector<Expr> indices;
    Expr inside = nullptr;
    for (size_t d = 0; d < shape.size(); ++d) {
      Id loop = edit_.fresh_named(fmt::format("c{}", d)), it = edit_.fresh_named(fmt::format("vc{}", d));
      loops.push_back(loop);
      iters.push_back({it, IterKind::kSpatial, shape[d], b.var(loop)});
      indices.push_back(b.var(it));
      if (fill && !equal(shape[d], src.shape[d])) inside = b.logical_and(inside, b.lt(b.var(it), src.shape[d]));
    }
    Expr zero = is_float(src.type) ? b.real(0, src.type) : b.integer(0, src.type);
    Expr value = fill ? b.load(src, indices, inside, zero) : b.load(src, indices);
    Stmt nest = b.block(block, iters, b.store(dst.id, indices, value));
    for (size_t d = loops.size(); d-- > 0;) nest = b.loop(loops[d], shape[d], nest);
    return nest;
  }
  Stmt copy_in(const Buffer& padded, const Buffer& from) { return copy_nest(padded, from, padded.shape, true); }
  Stmt copy_out(const Buffer& to, const Buffer& padded) { return copy_nest(to, padded, to.shape, false); }

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
};

}  // namespace

Legal<Kernel> pad_einsum(const Kernel& k, Id block_id, std::span<const int64_t> multiples) {
  Path path = find_path(k.root, block_id);
  if (!path.found() || as<Block>(path.nodes.back()) == nullptr) return unknown(k, "block", block_id);
  return Padder(k, path, multiples).run();
}

}  // namespace tcc::schedule
