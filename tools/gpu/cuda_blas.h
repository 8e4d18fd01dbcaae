// cuBLAS as a peer to measure beside: opened at run time, never needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tcc/support/result.h"

namespace tcc::gpu_check {

class CudaBlas {
 public:
  // library "": libcublas.so.13, .12, .11 by the loader's rules, then in /usr/local/cuda. A CUDA context must be
  // current; `stream` is a CUstream. Errors (environment): no library, no handle.
  static Result<std::unique_ptr<CudaBlas>> open(void* stream, const std::string& library = {});
  virtual ~CudaBlas() = default;
  virtual int version() const = 0;  // 130000 = 13.0
  // Enqueues C = A B in fp32 (no tf32), row-major, A m x k, B k x n, device addresses.
  virtual Result<void> gemm(int64_t m, int64_t n, int64_t k, uint64_t a, uint64_t b, uint64_t c) = 0;
  // The same of fp16 or bf16 matrices, summed up in fp32.
  enum class Half : uint8_t { kF16, kBF16 };
  virtual Result<void> gemm_half(Half type, int64_t m, int64_t n, int64_t k, uint64_t a, uint64_t b, uint64_t c) = 0;
};

}  // namespace tcc::gpu_check
