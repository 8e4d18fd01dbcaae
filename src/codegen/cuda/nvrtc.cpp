#include "codegen/cuda/nvrtc.h"

#ifdef TCC_HAVE_NVRTC

#include <nvrtc.h>

#include <map>
#include <mutex>

#include "tcc/support/dynlib.h"

namespace tcc::codegen::cuda {
namespace {

#define TCC_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)              \
  X(nvrtcGetErrorString)       \
  X(nvrtcCreateProgram)        \
  X(nvrtcDestroyProgram)       \
  X(nvrtcCompileProgram)       \
  X(nvrtcGetProgramLogSize)    \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN) X(nvrtcGetPTXSize) X(nvrtcGetPTX) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs)

class LoadedNvrtc final : public Nvrtc {
 public:
  static Result<std::shared_ptr<Nvrtc>> load(const std::vector<std::string>& names) {
    auto opened = DynamicLibrary::open(names);
    if (!opened) {
      Error error = opened.error();
      error.message = "NVRTC is not available: " + error.message;
      error.hint = "install the CUDA Toolkit (or its NVRTC package), or name the library";
      return tl::unexpected<Error>(std::move(error));
    }
    auto nvrtc = std::make_shared<LoadedNvrtc>();
    nvrtc->library_ = *opened;
#define TCC_X(f)                                                                                                      \
  nvrtc->f##_ = nvrtc->library_->function<decltype(&::f)>(#f);                                                        \
  if (nvrtc->f##_ == nullptr)                                                                                         \
    return environment_error("{} has no function {}: it is not NVRTC of CUDA 11.2 or newer", nvrtc->library_->path(), \
                             #f);
    TCC_NVRTC_FUNCTIONS(TCC_X)
#undef TCC_X
    nvrtc->nvrtcVersion_(&nvrtc->major_, &nvrtc->minor_);
    int count = 0;
    nvrtc->nvrtcGetNumSupportedArchs_(&count);
    nvrtc->architectures_.resize(static_cast<size_t>(count));
    if (count > 0) nvrtc->nvrtcGetSupportedArchs_(nvrtc->architectures_.data());
    return std::shared_ptr<Nvrtc>(nvrtc);
  }

  int major() const override { return major_; }
  int minor() const override { return minor_; }
  const std::vector<int>& architectures() const override { return architectures_; }

  Result<NvrtcOutput> compile(const std::string& source, const std::vector<std::string>& options,
                              bool want_ptx) const override {
    nvrtcProgram program = nullptr;
    nvrtcResult status = nvrtcCreateProgram_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
    if (status != NVRTC_SUCCESS) return environment_error("NVRTC: {}", nvrtcGetErrorString_(status));
    struct Destroy {
      const LoadedNvrtc* nvrtc;
      nvrtcProgram program;
      ~Destroy() { nvrtc->nvrtcDestroyProgram_(&program); }
    } destroy{this, program};
    std::vector<const char*> words;
    for (const std::string& o : options) words.push_back(o.c_str());
    status = nvrtcCompileProgram_(program, static_cast<int>(words.size()), words.data());
    NvrtcOutput output;
    size_t bytes = 0;
    nvrtcGetProgramLogSize_(program, &bytes);
    output.log.resize(bytes);
    if (bytes > 0) nvrtcGetProgramLog_(program, output.log.data());
    while (!output.log.empty() && output.log.back() == '\0') output.log.pop_back();
    if (status != NVRTC_SUCCESS)
      return environment_error("NVRTC {}.{}: {}\n{}", major_, minor_, nvrtcGetErrorString_(status), output.log);
    status = want_ptx ? nvrtcGetPTXSize_(program, &bytes) : nvrtcGetCUBINSize_(program, &bytes);
    if (status == NVRTC_SUCCESS) {
      output.code.resize(bytes);
      status = want_ptx ? nvrtcGetPTX_(program, output.code.data()) : nvrtcGetCUBIN_(program, output.code.data());
    }
    if (status != NVRTC_SUCCESS || output.code.empty())
      return environment_error("NVRTC {}.{} gave no code: {}", major_, minor_, nvrtcGetErrorString_(status));
    while (want_ptx && !output.code.empty() && output.code.back() == '\0') output.code.pop_back();
    return output;
  }

 private:
  std::shared_ptr<DynamicLibrary> library_;
#define TCC_X(f) decltype(&::f) f##_ = nullptr;
  TCC_NVRTC_FUNCTIONS(TCC_X)
#undef TCC_X
  int major_ = 0, minor_ = 0;
  std::vector<int> architectures_;
};

}  // namespace

Result<std::shared_ptr<Nvrtc>> Nvrtc::open(const std::string& library) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Nvrtc>> opened;
  std::lock_guard lock(mutex);
  if (auto found = opened.find(library); found != opened.end()) return found->second;
  std::vector<std::string> names = {library};
  if (library.empty()) {
    names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      names.push_back(std::string("/usr/local/cuda/lib64/") + file);
  }
  TCC_TRY(std::shared_ptr<Nvrtc> nvrtc, LoadedNvrtc::load(names));
  opened[library] = nvrtc;
  return nvrtc;
}

}  // namespace tcc::codegen::cuda

#else

namespace tcc::codegen::cuda {

Result<std::shared_ptr<Nvrtc>> Nvrtc::open(const std::string&) {
  return make_error(ErrorClass::kEnvironment, "the CUDA compiler is not part of this build: nvrtc.h was not found",
                    "install the CUDA Toolkit's headers and build tcc again");
}

}  // namespace tcc::codegen::cuda

#endif
