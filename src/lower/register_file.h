// The registers that hold the elements of local buffers.
#pragma once

#include <span>

#include "tcc/ir/stmt.h"
#include "tcc/target/target.h"

namespace tcc::lower {

struct RegisterFile {
  int64_t count = 0, bytes = 0;  // bytes of each

  int64_t size() const { return count * bytes; }
  // What accumulators may take while a sum runs: the rest is for what it reads.
  int64_t for_sums() const { return count - count / 8; }
  // Registers of what loops around elements of `element_bytes` choose; vectorized loops fill whole registers.
  int64_t taken_by(std::span<const ir::Loop* const> loops, int64_t element_bytes) const {
    int64_t n = 1, vector = element_bytes;
    for (const ir::Loop* l : loops)
      (l->loop_kind == ir::LoopKind::kVectorized ? vector : n) *= ir::int_value(l->extent);
    return n * ((vector + bytes - 1) / bytes);
  }
};

// The vector registers of a CPU, those of one thread of a GPU.
inline RegisterFile register_file(const target::Target& target) {
  if (target.is_cpu()) return {target.cpu.num_vector_registers, target.cpu.vector_bits / 8};
  return {target.cuda.max_registers_per_thread, 4};
}

}  // namespace tcc::lower
