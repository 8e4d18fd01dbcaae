#include "gpu/cuda_blas.h"

#include "tcc/support/dynlib.h"

namespace tcc::gpu_check {
namespace {

// Own declarations of the few functions used, as in cublas_api.h: status and enumerations are ints.
using Create = int (*)(void** handle);
using Destroy = int (*)(void* handle);
using SetStream = int (*)(void* handle, void* stream);
using SetMathMode = int (*)(void* handle, int mode);
using GetVersion = int (*)(void* handle, int* version);
using Sgemm = int (*)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const float* alpha,
                      const float* a, int lda, const float* b, int ldb, const float* beta, float* c, int ldc);
using GemmEx = int (*)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                       const void* a, int type_a, int lda, const void* b, int type_b, int ldb, const void* beta,
                       void* c, int type_c, int ldc, int compute, int algorithm);
constexpr int kTypeF16 = 2, kTypeBF16 = 14, kComputeF32 = 68, kDefaultAlgorithm = -1;
constexpr int kNoTranspose = 0;
constexpr int kDefaultMath = 0;  // fp32 throughout for Sgemm: tf32 only by request

class LoadedBlas final : public CudaBlas {
 public:
  ~LoadedBlas() override {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Result<void> start(std::shared_ptr<DynamicLibrary> library, void* stream) {
    library_ = std::move(library);
    auto create = library_->function<Create>("cublasCreate_v2");
    auto set_stream = library_->function<SetStream>("cublasSetStream_v2");
    auto set_math = library_->function<SetMathMode>("cublasSetMathMode");
    auto get_version = library_->function<GetVersion>("cublasGetVersion_v2");
    destroy_ = library_->function<Destroy>("cublasDestroy_v2");
    sgemm_ = library_->function<Sgemm>("cublasSgemm_v2");
    gemm_ex_ = library_->function<GemmEx>("cublasGemmEx");
    if (!create || !set_stream || !set_math || !get_version || !destroy_ || !sgemm_ || !gemm_ex_)
      return environment_error("{} lacks functions of cuBLAS 11 or newer", library_->path());
    if (int status = create(&handle_)) {
      handle_ = nullptr;
      return environment_error("cublasCreate: status {}", status);
    }
    if (int status = set_stream(handle_, stream)) return environment_error("cublasSetStream: status {}", status);
    if (int status = set_math(handle_, kDefaultMath)) return environment_error("cublasSetMathMode: status {}", status);
    if (int status = get_version(handle_, &version_)) return environment_error("cublasGetVersion: status {}", status);
    return {};
  }
  int version() const override { return version_; }
  Result<void> gemm(int64_t m, int64_t n, int64_t k, uint64_t a, uint64_t b, uint64_t c) override {
    // Column-major cuBLAS sees the transposes: C' = B' A'.
    const float one = 1, zero = 0;
    auto i = [](int64_t v) { return static_cast<int>(v); };
    const int status =
        sgemm_(handle_, kNoTranspose, kNoTranspose, i(n), i(m), i(k), &one, reinterpret_cast<const float*>(b), i(n),
               reinterpret_cast<const float*>(a), i(k), &zero, reinterpret_cast<float*>(c), i(n));
    if (status != 0) return environment_error("cublasSgemm {}x{}x{}: status {}", m, n, k, status);
    return {};
  }
  Result<void> gemm_half(Half type, int64_t m, int64_t n, int64_t k, uint64_t a, uint64_t b, uint64_t c) override {
    const float one = 1, zero = 0;
    const int element = type == Half::kF16 ? kTypeF16 : kTypeBF16;
    auto i = [](int64_t v) { return static_cast<int>(v); };
    auto at = [](uint64_t address) { return reinterpret_cast<void*>(address); };
    const int status = gemm_ex_(handle_, kNoTranspose, kNoTranspose, i(n), i(m), i(k), &one, at(b), element, i(n),
                                at(a), element, i(k), &zero, at(c), element, i(n), kComputeF32, kDefaultAlgorithm);
    if (status != 0) return environment_error("cublasGemmEx {}x{}x{}: status {}", m, n, k, status);
    return {};
  }

 private:
  std::shared_ptr<DynamicLibrary> library_;
  void* handle_ = nullptr;
  Destroy destroy_ = nullptr;
  Sgemm sgemm_ = nullptr;
  GemmEx gemm_ex_ = nullptr;
  int version_ = 0;
};

}  // namespace

Result<std::unique_ptr<CudaBlas>> CudaBlas::open(void* stream, const std::string& library) {
  std::vector<std::string> names = {library};
  if (library.empty()) {
    const std::vector<std::string> files = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
    names = files;
    for (const std::string& file : files) names.push_back("/usr/local/cuda/lib64/" + file);
  }
  TCC_TRY(std::shared_ptr<DynamicLibrary> opened, DynamicLibrary::open(names));
  auto blas = std::make_unique<LoadedBlas>();
  TCC_TRY_VOID(blas->start(std::move(opened), stream));
  return std::unique_ptr<CudaBlas>(std::move(blas));
}

}  // namespace tcc::gpu_check
