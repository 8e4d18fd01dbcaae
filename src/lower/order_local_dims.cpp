#include "lower/order_local_dims.h"

#include <map>
#include <vector>

#include "tcc/ir/build.h"
#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Orderer {
 public:
  Orderer(const Kernel& kernel, Arena& arena) : kernel_(kernel), b_(arena) {
    for (const Buffer* buffer : kernel.buffers)
      if (buffer->role == BufferRole::kTemp && buffer->scope == Scope::kLocal && buffer->layout == nullptr &&
          buffer->shape.size() > 1)
        dims_[buffer->id] = kUnseen;
  }

  Kernel run() {
    find(kernel_.root);
    for (auto it = dims_.begin(); it != dims_.end();) {
      bool moves = it->second >= 0 && static_cast<size_t>(it->second) + 1 < kernel_.buffer(it->first)->shape.size();
      it = moves ? std::next(it) : dims_.erase(it);
    }
    Kernel k = kernel_;
    if (dims_.empty()) return k;
    k.root = rewrite(k.root);
    std::vector<const Buffer*> buffers;
    for (const Buffer* buffer : kernel_.buffers) {
      auto it = dims_.find(buffer->id);
      if (it == dims_.end()) {
        buffers.push_back(buffer);
        continue;
      }
      Buffer moved = *buffer;
      std::vector<Expr> shape = permuted(buffer->shape, it->second);
      moved.shape = shape;
      buffers.push_back(b_.buffer(moved));
    }
    k.buffers = b_.arena().copy(buffers);
    return k;
  }

 private:
  static constexpr int kUnseen = -1, kMixed = -2;

  void access(Id buffer, std::span<const Expr> indices) {
    auto it = dims_.find(buffer);
    if (it == dims_.end() || vector_ == kNoId) return;
    int dim = kUnseen;
    for (size_t d = 0; d < indices.size(); ++d)
      if (mentions(indices[d], vector_)) dim = dim == kUnseen ? static_cast<int>(d) : kMixed;
    if (dim == kUnseen) return;  // the same element for all lanes
    if (it->second == kUnseen)
      it->second = dim;
    else if (it->second != dim)
      it->second = kMixed;
  }

  void find(Stmt s) {
    Id outer = vector_;
    if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind == LoopKind::kVectorized) vector_ = l->id;
    if (const Store* st = as<Store>(s)) access(st->buffer, st->indices);
    if (const InstrCall* call = as<InstrCall>(s))
      for (const Operand& o : call->operands)
        if (auto it = dims_.find(o.buffer); it != dims_.end()) it->second = kMixed;
    rewrite_children(
        b_, s,
        [&](Stmt c) {
          find(c);
          return c;
        },
        [&](Expr e) {
          visit(e, [&](Expr x) {
            if (const Load* l = as<Load>(x)) access(l->buffer, l->indices);
            return true;
          });
          return e;
        });
    vector_ = outer;
  }

  std::vector<Expr> permuted(std::span<const Expr> list, int last) const {
    std::vector<Expr> out;
    for (size_t d = 0; d < list.size(); ++d)
      if (static_cast<int>(d) != last) out.push_back(list[d]);
    out.push_back(list[static_cast<size_t>(last)]);
    return out;
  }

  Stmt rewrite(Stmt s) {
    Stmt out = rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); }, [&](Expr e) { return rewrite(e); });
    const Store* st = as<Store>(out);
    if (st == nullptr) return out;
    auto it = dims_.find(st->buffer);
    return it == dims_.end() ? out : b_.store(st->buffer, permuted(st->indices, it->second), st->value, st->predicate);
  }
  Expr rewrite(Expr e) {
    Expr out = rewrite_children(b_, e, [&](Expr c) { return rewrite(c); });
    const Load* l = as<Load>(out);
    if (l == nullptr) return out;
    auto it = dims_.find(l->buffer);
    return it == dims_.end() ? out
                             : b_.load(l->buffer, l->type, permuted(l->indices, it->second), l->predicate, l->other);
  }

  const Kernel& kernel_;
  Builder b_;
  std::map<Id, int> dims_;
  Id vector_ = kNoId;
};

}  // namespace

Kernel order_local_dims(const Kernel& kernel, const ArenaPtr& arena) {
  arena->keep_alive(kernel.arena);
  Kernel k = kernel;
  k.arena = arena;
  return Orderer(k, *arena).run();
}

}  // namespace tcc::lower
