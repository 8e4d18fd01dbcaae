// NVRTC, opened at run time. Private to codegen/cuda.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::codegen::cuda {

struct NvrtcOutput {
  std::string code;  // cubin or PTX
  std::string log;   // of the front end and of ptxas
};

class Nvrtc {
 public:
  // One library per path for the life of the process. Error (environment): see nvrtc_version().
  static Result<std::shared_ptr<Nvrtc>> open(const std::string& library);
  virtual ~Nvrtc() = default;
  virtual int major() const = 0;
  virtual int minor() const = 0;
  virtual const std::vector<int>& architectures() const = 0;  // 75, 80, ...
  virtual Result<NvrtcOutput> compile(const std::string& source, const std::vector<std::string>& options,
                                      bool want_ptx) const = 0;
};

}  // namespace tcc::codegen::cuda
