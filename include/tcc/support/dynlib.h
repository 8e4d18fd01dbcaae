// Shared libraries opened at run time (CUDA driver, NVRTC, CUPTI, built models), so that one binary runs with or
// without them.
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
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  // nullptr when the symbol is absent.
  void* symbol(const char* name) const;
  const std::string& path() const { return path_; }
  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(symbol(name));
  }

 private:
  void* handle_;
  std::string path_;
};

}  // namespace tcc
