// Local buffers around loops over the threads of a row become parts of the threads. A step of bind_threads.
//
//   before   alloc X { t in 32 bound(thread.x) { r { X[r*32 + t] = .. } }; .. }          X: f32[1024] local
//   after    alloc X { t in 32 bound(thread.x) { r { X[r] = .. } }; .. }                 X: f32[32] local
//
// A buffer that is written outside of the loops is left as it is: every thread computes it.
#pragma once

#include <set>

#include "lower/gpu/edit.h"

namespace tcc::lower {

struct SpreadLocals {
  std::set<ir::Id> parts;   // of which each thread has elements of its own
  std::set<ir::Id> copies;  // that each thread has whole
};
// Rewrites the launch and the buffers of `edit`. Loads below loops with the annotation tree_reduce keep the number of
// the thread whose element they read: bind_threads turns them into shuffles. Rejects (kUnsupported): a thread uses
// elements of others.
ir::Legal<SpreadLocals> spread_local(Edit& edit, ir::Stmt& launch);

}  // namespace tcc::lower
