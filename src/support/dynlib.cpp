#include "tcc/support/dynlib.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

namespace tcc {
namespace {

class LoadedLibrary final : public DynamicLibrary {
 public:
  LoadedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  ~LoadedLibrary() override { dlclose(handle_); }
  void* symbol(const char* name) override { return dlsym(handle_, name); }
  const std::string& path() const override { return path_; }

 private:
  void* handle_;
  std::string path_;
};

}  // namespace

Result<std::shared_ptr<DynamicLibrary>> DynamicLibrary::open(const std::vector<std::string>& names) {
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return std::shared_ptr<DynamicLibrary>(std::make_shared<LoadedLibrary>(handle, name));
    const char* why = dlerror();
    reasons.push_back(why ? why : name);
  }
  return make_error(ErrorClass::kEnvironment, fmt::format("cannot load {}", fmt::join(names, " or ")), "", reasons);
}

}  // namespace tcc
