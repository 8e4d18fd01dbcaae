// Shared libraries opened at run time (CUDA driver, NVRTC, CUPTI, built models). The seam that lets one binary
// run with or without them, and lets tests hand in a fake.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc {

class DynamicLibrary {
 public:
  // Opens the first of `names` that loads. Error: environment, naming all that were tried.
  static Result<std::shared_ptr<DynamicLibrary>> open(const std::vector<std::string>& names);
  virtual ~DynamicLibrary() = default;
  // nullptr when the symbol is absent.
  virtual void* symbol(const char* name) = 0;
  virtual const std::string& path() const = 0;
  template <class F>
  F function(const char* name) {
    return reinterpret_cast<F>(symbol(name));
  }
};

}  // namespace tcc
