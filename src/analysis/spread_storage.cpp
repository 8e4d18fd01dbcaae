#include "tcc/analysis/spread_storage.h"

#include <algorithm>

#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

std::map<Id, int64_t> spread_threads(const Kernel& nest) {
  std::map<Id, int64_t> out;
  visit(nest.root, [&](Stmt s) {
    const Loop* around = as<Loop>(s);
    if (around != nullptr && around->axis == Axis::kThreadX) return false;
    const Alloc* alloc = as<Alloc>(s);
    if (alloc == nullptr) return true;
    int64_t threads = 1;
    bool in_launch = false;
    visit(alloc->body, [&](Stmt c) {
      const Loop* l = as<Loop>(c);
      if (l != nullptr && l->axis == Axis::kThreadX && is_int(l->extent))
        threads = std::max(threads, int_value(l->extent));
      in_launch |= l != nullptr && is_grid(l->axis);
      return true;
    });
    for (Id id : alloc->buffers) {
      const Buffer* b = nest.buffer(id);
      if (b != nullptr && b->scope == Scope::kLocal && threads > 1 && !in_launch) out[id] = threads;
    }
    return true;
  });
  return out;
}

}  // namespace tcc::analysis
