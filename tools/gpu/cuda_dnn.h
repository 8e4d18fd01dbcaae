// cuDNN as a peer to measure convolutions beside: opened at run time, never needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tcc/support/result.h"

namespace tcc::gpu_check {

struct DnnConv {
  int64_t batch = 1, channels = 1, height = 1, width = 1, filters = 1, group = 1;
  int64_t kernel_height = 1, kernel_width = 1, stride = 1, pad = 0;
};

class CudaDnn {
 public:
  // library "": libcudnn.so.9 or .8 by the loader's rules, then in /usr/local/cuda. A CUDA context must be current;
  // `stream` is a CUstream. Errors (environment): no library, no handle.
  static Result<std::unique_ptr<CudaDnn>> open(void* stream, const std::string& library = {});
  virtual ~CudaDnn() = default;
  virtual int64_t version() const = 0;  // 90100 = 9.1.0
  // Chooses the fastest algorithm by measuring, for fp32 NCHW without tf32. Returns the bytes of its workspace.
  virtual Result<int64_t> prepare(const DnnConv& conv) = 0;
  // Enqueues what was prepared, on device addresses.
  virtual Result<void> run(uint64_t x, uint64_t w, uint64_t y, uint64_t workspace) = 0;
};

}  // namespace tcc::gpu_check
