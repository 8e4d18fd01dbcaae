// Before: shared buffers in row-major order, with all their accesses in place. After: those whose accesses wait for
// each other at the banks of shared memory have the layout, out of a few, in which they wait least: pieces of 16 bytes
// swapped within lines of 128 bytes (an xor with the line's or the row's number) where matrix instructions read rows,
// or longer rows as far as the block's shared memory goes. After the passes that change
// accesses; changes none itself.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::lower {

ir::Kernel swizzle_shared(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
