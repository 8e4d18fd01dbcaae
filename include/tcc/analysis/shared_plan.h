// The places of a launch's shared buffers. Buffers whose lives do not meet may have the same place. A barrier then
// separates their uses (lower/gpu/insert_barriers.h).
#pragma once

#include <map>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

struct SharedPlan {
  std::vector<const ir::Buffer*> buffers;  // in the order of their Allocs
  std::vector<int64_t> offsets;            // bytes, one for each
  int64_t total = 0;                       // bytes of all, as placed
  int64_t separate = 0;                    // bytes of all, one behind the other
  int64_t alignment = 16;
  // What a block takes: up to `apart` bytes buffers have places of their own.
  int64_t bytes(int64_t apart) const { return separate > apart ? total : separate; }
};
// Decisions that the kernel does not hold yet: the scopes of buffers, and how many versions of each will be stored.
struct SharedRequests {
  std::map<ir::Id, ir::Scope> scopes;
  std::map<ir::Id, int64_t> versions;
};
// Buffers of symbolic shape are not placed.
SharedPlan plan_shared(const ir::Kernel& kernel, ir::Stmt launch, const SharedRequests& requests = {});
// Bytes of plan_shared() with `apart`. Computes the lives of buffers only where they do not fit `apart` one by one.
int64_t shared_bytes(const ir::Kernel& kernel, ir::Stmt launch, const SharedRequests& requests, int64_t apart);

// From the first to the last use of each shared buffer, as numbers of statements in the order of the text; the use in a
// loop lasts as long as the loop.
struct Life {
  int64_t first = 0, last = 0;
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};
std::map<ir::Id, Life> shared_lives(const ir::Kernel& kernel, ir::Stmt launch, const SharedRequests& requests = {});

}  // namespace tcc::analysis
