// "Too many threads", "too much shared memory", "too much stack": whether a target can run a kernel, read off its Nest.
// Nothing is compiled for it.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"
#include "tcc/target/target.h"

namespace tcc::lower {

// Rejects: loops bound to GPU axes (kUnsupported), vectors (kVectorTooWide), stack (kTooMuchLocal), temporaries
// (kTooLarge).
ir::Legal<void> check_cpu_limits(const ir::Kernel& nest, const target::Target& target);
// Rejects: threads and virtual threads, vectors, shared memory, registers of a thread, copies and products that the
// device's instructions cannot do (kTooManyThreads, kVectorTooWide, kTooMuchShared, kTooMuchLocal, kBadInstruction).
ir::Legal<void> check_cuda_limits(const ir::Kernel& nest, const target::Target& target);

// Bytes of a buffer of `k`. Rejects: a symbolic shape (kNotConstant), more than 64 bits count (kTooLarge).
ir::Legal<int64_t> storage_bytes(const ir::Kernel& k, const ir::Buffer& b);

}  // namespace tcc::lower
