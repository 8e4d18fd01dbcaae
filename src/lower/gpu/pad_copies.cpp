#include "lower/gpu/pad_copies.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "tcc/analysis/padded_copies.h"

namespace tcc::lower {
namespace {

using namespace ir;

class CopyPadder {
 public:
  CopyPadder(Edit& edit, std::vector<analysis::PaddedCopy> copies) : b_(edit.b), copies_(std::move(copies)) {}

  Stmt rewrite(Stmt s) {
    const If* branch = as<If>(s);
    const Store* store = as<Store>(branch != nullptr && branch->else_case == nullptr ? branch->then_case : s);
    const analysis::PaddedCopy* copy = store != nullptr ? find(store->buffer) : nullptr;
    if (copy == nullptr)
      return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); }, [&](Expr e) { return rewrite(e); });
    const Load& from = *as<Load>(store->value);
    Expr condition = branch != nullptr && branch->then_case == store ? branch->condition : nullptr;
    condition = b_.logical_and(condition, store->predicate);
    return b_.store(store->buffer, store->indices,
                    b_.load(from.buffer, from.type, from.indices, condition, copy->constant));
  }

 private:
  Expr rewrite(Expr e) {
    Expr out = rewrite_children(b_, e, [&](Expr c) { return rewrite(c); });
    const Load* l = as<Load>(out);
    return l != nullptr && find(l->buffer) != nullptr ? b_.load(l->buffer, l->type, l->indices, nullptr, nullptr) : out;
  }
  const analysis::PaddedCopy* find(Id buffer) const {
    auto found = std::find_if(copies_.begin(), copies_.end(), [&](const auto& c) { return c.buffer == buffer; });
    return found != copies_.end() ? &*found : nullptr;
  }

  Builder& b_;
  std::vector<analysis::PaddedCopy> copies_;
};

}  // namespace

Kernel pad_copies(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  std::vector<analysis::PaddedCopy> copies = analysis::padded_copies(edit.b, kernel);
  if (!copies.empty()) edit.k.root = CopyPadder(edit, std::move(copies)).rewrite(kernel.root);
  return edit.k;
}

}  // namespace tcc::lower
