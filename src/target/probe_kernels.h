// The measured loops, one set for each vector width. Every function runs a fixed amount of work and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcc::target {

struct ProbeKernels {
  int64_t vector_bits;
  int64_t flops_per_iteration;  // of fma
  // Independent multiply-add chains, enough of them to hide the latency. Returns a value that depends on all.
  float (*fma)(int64_t iterations);
  // Reads bytes [0, bytes) once. bytes: a multiple of 1024; data: 64-byte aligned.
  float (*read)(const std::byte* data, int64_t bytes);
  // Copies with non-temporal stores, which bypass the caches. The same conditions.
  void (*copy)(std::byte* to, const std::byte* from, int64_t bytes);
};

// Set for 128 (SSE: separate multiply and add), 256 (AVX2 with FMA) or 512 bits (AVX-512F). The caller makes sure
// that the machine has the instructions.
const ProbeKernels& probe_kernels(int64_t vector_bits);

}  // namespace tcc::target
