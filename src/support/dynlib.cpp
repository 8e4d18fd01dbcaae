#include "tcc/support/dynlib.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

namespace tcc {

DynamicLibrary::~DynamicLibrary() {
  dlclose(handle_);
}
void* DynamicLibrary::symbol(const char* name) const {
  return dlsym(handle_, name);
}

Result<std::shared_ptr<DynamicLibrary>> DynamicLibrary::open(const std::vector<std::string>& names) {
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return std::make_shared<DynamicLibrary>(handle, name);
    const char* why = dlerror();
    reasons.push_back(why ? why : name);
  }
  return make_error(ErrorClass::kEnvironment, fmt::format("cannot load {}", fmt::join(names, " or ")), "", reasons);
}

}  // namespace tcc
