#include "lower/compact_buffers.h"

#include <algorithm>

#include <fmt/format.h>

#include "tcc/analysis/region.h"
#include "tcc/analysis/simplify.h"
#include "tcc/support/result.h"

namespace tcc::lower {

using namespace ir;
using analysis::DimRange;

namespace {

struct Live {
  const Buffer* buffer;
  std::vector<const Loop*> around;  // loops that enclose every access
  bool seen = false;
  std::vector<std::vector<Expr>> accesses;  // simplified index lists
  std::vector<DimRange> box;                // base over `around`, extent
};

// Re-indexes accesses to compacted buffers and puts Allocs into the bodies of their loops.
class Rewriter {
 public:
  Rewriter(Builder& b, const std::vector<Live>& lives) : b_(b), lives_(lives) {
    for (const Live& l : lives) mask_ |= id_bit(l.buffer->id);
  }

  Stmt stmt(Stmt s) {
    Stmt out = rewrite_children(b_, s, [&](Stmt c) { return stmt(c); }, [&](Expr e) { return expr(e); });
    if (out == nullptr) return nullptr;
    if (const Store* st = as<Store>(out))
      if (const Live* live = find(st->buffer))
        return b_.store(st->buffer, shifted(*live, st->indices), st->value, st->predicate);
    if (const InstrCall* call = as<InstrCall>(out)) {
      std::vector<Operand> operands;
      for (const Operand& o : call->operands) {
        const Live* live = find(o.buffer);
        operands.push_back({o.buffer, live == nullptr ? o.indices : b_.arena().copy(shifted(*live, o.indices))});
      }
      return b_.instr(call->instr, operands, call->args, call->predicate);
    }
    if (const Loop* l = as<Loop>(out)) {
      std::vector<Id> here;
      for (const Live& live : lives_)
        if (!live.around.empty() && live.around.back()->id == l->id) here.push_back(live.buffer->id);
      if (!here.empty()) return b_.with_body(*l, b_.alloc(here, l->body));
    }
    return out;
  }
  Expr expr(Expr e) {
    if ((e->ids & mask_) == 0) return e;
    Expr out = rewrite_children(b_, e, [&](Expr c) { return expr(c); });
    if (const Load* l = as<Load>(out))
      if (const Live* live = find(l->buffer))
        return b_.load(l->buffer, l->type, shifted(*live, l->indices), l->predicate, l->other);
    return out;
  }

 private:
  const Live* find(Id id) const {
    for (const Live& l : lives_)
      if (l.buffer->id == id) return &l;
    return nullptr;
  }
  std::vector<Expr> shifted(const Live& live, std::span<const Expr> indices) {
    std::vector<Expr> out;
    for (size_t d = 0; d < indices.size(); ++d) out.push_back(b_.sub(indices[d], live.box[d].base));
    return out;
  }
  Builder& b_;
  const std::vector<Live>& lives_;
  uint64_t mask_ = 0;
};

// The temporaries that something accesses, with their accesses; `ranges` gets the extents of all loops.
std::vector<Live> find_lives(Builder& b, const Kernel& k, analysis::Ranges& ranges) {
  std::vector<Live> lives;
  for (const Buffer* buffer : k.buffers)
    if (buffer->role == BufferRole::kTemp) lives.push_back({buffer, {}, false, {}, {}});
  visit(k.root, [&](Stmt s) {
    if (const Loop* l = as<Loop>(s)) ranges.set(l->id, l->extent);
    return true;
  });
  analysis::visit_accesses(
      b, k.root, [&](const analysis::AccessInfo& access, const analysis::LoopStack& loops, const Block*) {
        for (Live& live : lives) {
          if (live.buffer->id != access.buffer) continue;
          if (!live.seen) {
            live.around = loops;
            live.seen = true;
          } else {
            size_t common = 0;
            while (common < live.around.size() && common < loops.size() && live.around[common] == loops[common])
              ++common;
            live.around.resize(common);
          }
          std::vector<Expr> indices;
          for (Expr i : access.indices) indices.push_back(analysis::simplify(b, i, ranges));
          live.accesses.push_back(std::move(indices));
        }
      });
  std::erase_if(lives, [](const Live& l) { return !l.seen; });
  // Storage must not live inside a loop whose iterations run together.
  for (Live& live : lives)
    while (!live.around.empty() && live.around.back()->loop_kind == LoopKind::kVectorized) live.around.pop_back();
  return lives;
}

// What one iteration of the loops around touches of dimension `d`.
Legal<DimRange> touched_range(Builder& b, const Kernel& k, const analysis::Ranges& ranges, const Live& live, size_t d) {
  // What the threads of a block share is indexed across them.
  const bool shared = live.buffer->scope == Scope::kShared || live.buffer->scope == Scope::kClusterShared;
  auto inner = [&](Id v) {
    return ranges.extent(v) != nullptr && std::none_of(live.around.begin(), live.around.end(), [&](const Loop* l) {
             return l->id == v && !(shared && (is_thread(l->axis) || l->axis == Axis::kVthread));
           });
  };
  auto needs_numbers = [&](std::string_view question) {
    return reject(RejectReason::kDependentExtent, fmt::format("{}: {}", name_hint(k, live.buffer->id), question));
  };
  const DimRange whole{b.integer(0), live.buffer->shape[d]};
  std::optional<DimRange> box;
  bool affine = live.buffer->layout == nullptr;
  for (size_t a = 0; a < live.accesses.size() && affine; ++a) {
    const Expr index = live.accesses[a][d];
    std::optional<DimRange> r = analysis::dim_range(b, index, ranges, inner);
    if (r && a > 0) r = analysis::unite(b, *box, *r);
    affine = r.has_value();
    if (!affine && (ranges.depends_on_decisions(index) || (box && ranges.depends_on_decisions(box->base))))
      return needs_numbers("which part of it is touched");
    box = r;
  }
  if (!affine) box = whole;
  // Predicated accesses may overhang the buffer; its own size is always enough.
  if (ranges.bounds(box->base).low >= 0) return analysis::clip(b, *box, whole.extent, ranges);
  if (is_int(box->base)) return whole;
  if (ranges.depends_on_decisions(box->base))
    return needs_numbers("whether all of it is in front of its first element");
  return *box;
}

// The buffers of the kernel, temporaries in the size of their boxes. `at_root`: those that no loop encloses.
std::vector<const Buffer*> resized_buffers(Builder& b, const Kernel& k, const std::vector<Live>& lives,
                                           std::vector<Id>& at_root) {
  std::vector<const Buffer*> buffers;
  for (const Buffer* buffer : k.buffers) {
    const Live* live = nullptr;
    for (const Live& l : lives)
      if (l.buffer == buffer) live = &l;
    if (buffer->role == BufferRole::kTemp && live == nullptr) continue;  // no access is left
    if (live == nullptr) {
      buffers.push_back(buffer);
      continue;
    }
    std::vector<Expr> shape;
    for (const DimRange& r : live->box) shape.push_back(r.extent);
    Buffer small = *buffer;
    small.shape = shape;
    buffers.push_back(b.buffer(small));
    if (live->around.empty()) at_root.push_back(buffer->id);
  }
  return buffers;
}

}  // namespace

Legal<Kernel> compact_buffers(const Kernel& kernel, const ArenaPtr& arena) {
  const bool any = std::any_of(kernel.buffers.begin(), kernel.buffers.end(),
                               [](const Buffer* buffer) { return buffer->role == BufferRole::kTemp; });
  if (!any) return kernel;
  Kernel k = kernel;
  Builder b(*arena);
  analysis::Ranges ranges(k);
  std::vector<Live> lives = find_lives(b, k, ranges);
  for (Live& live : lives)
    for (size_t d = 0; d < live.buffer->shape.size(); ++d) {
      TCC_TRY(const DimRange range, touched_range(b, k, ranges, live, d));
      live.box.push_back(range);
    }
  k.root = Rewriter(b, lives).stmt(k.root);
  std::vector<Id> at_root;
  k.buffers = b.arena().copy(resized_buffers(b, kernel, lives, at_root));
  k.root = b.alloc(at_root, k.root);
  return k;
}

}  // namespace tcc::lower
