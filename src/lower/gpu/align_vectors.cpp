#include "lower/gpu/align_vectors.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "tcc/analysis/address.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/gpu_sizes.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Aligner {
 public:
  explicit Aligner(Edit& edit) : edit_(edit), b_(edit.b), ranges_(edit.k) {}

  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    Expr outer = ranges_.set(l->id, l->extent);
    Stmt whole = s;
    if (l->loop_kind == LoopKind::kVectorized && is_int(l->extent))
      whole = b_.with_body(*l, keep_vectors_whole(edit_, l->body, l->id, int_value(l->extent)));
    l = as<Loop>(whole);
    const bool plain = l->loop_kind == LoopKind::kVectorized && (!is_int(l->extent) || !aligned(*l));
    if (Stmt parts = plain ? peel(*l) : nullptr; parts != nullptr) {
      ranges_.set(l->id, outer);
      return parts;
    }
    Stmt body = rewrite(l->body);
    ranges_.set(l->id, outer);
    if (plain) return b_.loop(l->id, l->extent, body, LoopKind::kUnrolled, Axis::kNone, l->annotations);
    return b_.with_body(*l, body);
  }

 private:
  bool aligned(const Loop& l) {
    bool all = true;
    visit(l.body, [&](Stmt s) {
      if (const Store* store = as<Store>(s)) all &= starts_whole(l, store->buffer, store->indices);
      return all;
    });
    visit_loads(l.body, [&](const Load& load) { all &= starts_whole(l, load.buffer, load.indices); });
    return all;
  }

  // A copy to registers from a run of memory whose beginning is known within a vector: single elements up to the first
  // whole vector, vectors, and the rest. nullptr: another loop.
  Stmt peel(const Loop& l) {
    const If* branch = as<If>(l.body);
    const Store* store = as<Store>(branch != nullptr && branch->else_case == nullptr ? branch->then_case : l.body);
    if (store == nullptr || !is_int(l.extent) || edit_.k.buffer(store->buffer)->scope != Scope::kLocal) return nullptr;
    const Load* load = as<Load>(store->value);
    if (load == nullptr || edit_.k.buffer(load->buffer)->scope == Scope::kLocal) return nullptr;
    const Expr flat = analysis::flat_address(b_, *edit_.k.buffer(load->buffer), load->indices);
    auto at = [&](Expr lane) {
      Substitution element;
      element.set(l.id, lane);
      return element;
    };
    auto address = [&](int64_t lane) {
      return analysis::simplify(b_, substitute(b_, flat, at(b_.integer(lane))), ranges_);
    };
    const Expr start = address(0);
    const int64_t extent = int_value(l.extent);
    if (!is_int(b_.sub(address(1), start), 1) || !is_int(b_.sub(address(extent - 1), start), extent - 1))
      return nullptr;
    const int64_t constant = is_int(start)               ? int_value(start)
                             : as<Sum>(start) != nullptr ? as<Sum>(start)->constant
                                                         : 0;
    const int64_t step = analysis::known_divisor(edit_.k, b_.offset(start, -constant));
    int64_t width = kMaxAccessBytes / std::max<int64_t>(type_bytes(load->type), 1);
    while (width > 1 && step % width != 0) width /= 2;
    if (width < 2) return nullptr;
    const int64_t head = floor_mod(-constant, width), whole = (extent - head) / width * width;
    if (whole < width) return nullptr;
    std::vector<Stmt> parts;
    auto single = [&](int64_t lane) { parts.push_back(substitute(b_, l.body, at(b_.integer(lane)))); };
    for (int64_t lane = 0; lane < head; ++lane) single(lane);
    if (width < kMaxAccessBytes / type_bytes(load->type)) {
      // A vectorized loop promises the widest vectors: narrower ones are loops of their own.
      const Id inner = edit_.fresh(l.id, 0);
      const Expr element = b_.offset(b_.add(b_.scale(b_.var(l.id), width), b_.var(inner)), head);
      parts.push_back(b_.loop(l.id, b_.integer(whole / width),
                              b_.loop(inner, b_.integer(width), substitute(b_, l.body, at(element)),
                                      LoopKind::kVectorized, Axis::kNone, l.annotations),
                              LoopKind::kUnrolled));
    } else {
      parts.push_back(b_.loop(l.id, b_.integer(whole), substitute(b_, l.body, at(b_.offset(b_.var(l.id), head))),
                              LoopKind::kVectorized, Axis::kNone, l.annotations));
    }
    for (int64_t lane = head + whole; lane < extent; ++lane) single(lane);
    return b_.seq(parts);
  }

  bool starts_whole(const Loop& l, Id id, std::span<const Expr> indices) {
    const Buffer& buffer = *edit_.k.buffer(id);
    if (buffer.scope == Scope::kLocal) return true;
    Expr flat = analysis::flat_address(b_, buffer, indices);
    if (!may_mention(flat, l.id)) return true;
    const int64_t width =
        std::min(int_value(l.extent), kMaxAccessBytes / std::max<int64_t>(type_bytes(buffer.type), 1));
    if (width <= 1) return true;
    Substitution first;
    first.set(l.id, b_.integer(0));
    Expr start = analysis::simplify(b_, substitute(b_, flat, first), ranges_);
    return analysis::known_divisor(edit_.k, start) % width == 0;
  }

  Edit& edit_;
  Builder& b_;
  analysis::Ranges ranges_;
};

}  // namespace

Kernel align_vectors(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  edit.k.root = Aligner(edit).rewrite(kernel.root);
  return edit.k;
}

}  // namespace tcc::lower
