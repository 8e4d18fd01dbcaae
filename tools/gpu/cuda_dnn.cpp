#include "gpu/cuda_dnn.h"

#include "tcc/support/dynlib.h"

namespace tcc::gpu_check {
namespace {

// Own declarations of the few functions used, as in cudnn_cnn.h and cudnn_ops.h: status and enumerations are ints.
struct AlgorithmTime {
  int algorithm, status;
  float time;
  size_t memory;
  int deterministic, math, reserved[3];
};
using Create = int (*)(void** handle);
using Destroy = int (*)(void* object);
using SetStream = int (*)(void* handle, void* stream);
using Version = size_t (*)();
using SetTensor = int (*)(void* tensor, int format, int type, int n, int c, int h, int w);
using SetFilter = int (*)(void* filter, int type, int format, int k, int c, int h, int w);
using SetConv = int (*)(void* conv, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                        int mode, int type);
using SetInt = int (*)(void* conv, int value);
using Find = int (*)(void* handle, void* x, void* w, void* conv, void* y, int wanted, int* found, AlgorithmTime* times);
using Forward = int (*)(void* handle, const void* alpha, void* x_tensor, const void* x, void* filter, const void* w,
                        void* conv, int algorithm, void* workspace, size_t bytes, const void* beta, void* y_tensor,
                        void* y);
constexpr int kNchw = 0, kFloat = 0, kCrossCorrelation = 1, kFmaMath = 3;

class LoadedDnn final : public CudaDnn {
 public:
  ~LoadedDnn() override {
    for (void* tensor : {x_, y_})
      if (tensor != nullptr) destroy_tensor_(tensor);
    if (w_ != nullptr) destroy_filter_(w_);
    if (conv_ != nullptr) destroy_conv_(conv_);
    if (handle_ != nullptr) destroy_(handle_);
  }
  Result<void> start(std::shared_ptr<DynamicLibrary> library, void* stream) {
    library_ = std::move(library);
    bool whole = true;
    auto get = [&]<class F>(F& to, const char* name) {
      to = library_->function<F>(name);
      whole = whole && to != nullptr;
    };
    Create create, create_tensor, create_filter, create_conv;
    SetStream set_stream;
    Version version;
    get(create, "cudnnCreate");
    get(destroy_, "cudnnDestroy");
    get(create_tensor, "cudnnCreateTensorDescriptor");
    get(destroy_tensor_, "cudnnDestroyTensorDescriptor");
    get(create_filter, "cudnnCreateFilterDescriptor");
    get(destroy_filter_, "cudnnDestroyFilterDescriptor");
    get(create_conv, "cudnnCreateConvolutionDescriptor");
    get(destroy_conv_, "cudnnDestroyConvolutionDescriptor");
    get(set_stream, "cudnnSetStream");
    get(version, "cudnnGetVersion");
    get(set_tensor_, "cudnnSetTensor4dDescriptor");
    get(set_filter_, "cudnnSetFilter4dDescriptor");
    get(set_conv_, "cudnnSetConvolution2dDescriptor");
    get(set_groups_, "cudnnSetConvolutionGroupCount");
    get(set_math_, "cudnnSetConvolutionMathType");
    get(find_, "cudnnFindConvolutionForwardAlgorithm");
    get(forward_, "cudnnConvolutionForward");
    if (!whole) return environment_error("{} lacks functions of cuDNN 8 or newer", library_->path());
    version_ = static_cast<int64_t>(version());
    if (int status = create(&handle_)) {
      handle_ = nullptr;
      return environment_error("cudnnCreate: status {}", status);
    }
    if (int status = set_stream(handle_, stream)) return environment_error("cudnnSetStream: status {}", status);
    for (void** tensor : {&x_, &y_})
      if (int status = create_tensor(tensor)) return environment_error("cuDNN tensor: status {}", status);
    if (int status = create_filter(&w_)) return environment_error("cuDNN filter: status {}", status);
    if (int status = create_conv(&conv_)) return environment_error("cuDNN convolution: status {}", status);
    return {};
  }
  int64_t version() const override { return version_; }

  Result<int64_t> prepare(const DnnConv& c) override {
    auto i = [](int64_t v) { return static_cast<int>(v); };
    const int64_t out_h = (c.height + 2 * c.pad - c.kernel_height) / c.stride + 1;
    const int64_t out_w = (c.width + 2 * c.pad - c.kernel_width) / c.stride + 1;
    AlgorithmTime best{};
    int found = 0;
    const int statuses[] = {
        set_tensor_(x_, kNchw, kFloat, i(c.batch), i(c.channels), i(c.height), i(c.width)),
        set_tensor_(y_, kNchw, kFloat, i(c.batch), i(c.filters), i(out_h), i(out_w)),
        set_filter_(w_, kFloat, kNchw, i(c.filters), i(c.channels / c.group), i(c.kernel_height), i(c.kernel_width)),
        set_conv_(conv_, i(c.pad), i(c.pad), i(c.stride), i(c.stride), 1, 1, kCrossCorrelation, kFloat),
        set_groups_(conv_, i(c.group)),
        set_math_(conv_, kFmaMath)};
    for (int status : statuses)
      if (status != 0) return environment_error("cuDNN does not take the convolution: status {}", status);
    const int status = find_(handle_, x_, w_, conv_, y_, 1, &found, &best);
    if (status != 0 || found == 0 || best.status != 0)
      return environment_error("cuDNN has no algorithm for the convolution: status {}", status);
    algorithm_ = best.algorithm;
    workspace_ = best.memory;
    return static_cast<int64_t>(workspace_);
  }
  Result<void> run(uint64_t x, uint64_t w, uint64_t y, uint64_t workspace) override {
    const float one = 1, zero = 0;
    auto at = [](uint64_t address) { return reinterpret_cast<void*>(address); };
    const int status =
        forward_(handle_, &one, x_, at(x), w_, at(w), conv_, algorithm_, at(workspace), workspace_, &zero, y_, at(y));
    if (status != 0) return environment_error("cudnnConvolutionForward: status {}", status);
    return {};
  }

 private:
  std::shared_ptr<DynamicLibrary> library_;
  void *handle_ = nullptr, *x_ = nullptr, *y_ = nullptr, *w_ = nullptr, *conv_ = nullptr;
  Destroy destroy_ = nullptr, destroy_tensor_ = nullptr, destroy_filter_ = nullptr, destroy_conv_ = nullptr;
  SetTensor set_tensor_ = nullptr;
  SetFilter set_filter_ = nullptr;
  SetConv set_conv_ = nullptr;
  SetInt set_groups_ = nullptr, set_math_ = nullptr;
  Find find_ = nullptr;
  Forward forward_ = nullptr;
  int64_t version_ = 0;
  int algorithm_ = 0;
  size_t workspace_ = 0;
};

}  // namespace

Result<std::unique_ptr<CudaDnn>> CudaDnn::open(void* stream, const std::string& library) {
  std::vector<std::string> names = {library};
  if (library.empty())
    names = {"libcudnn.so.9", "libcudnn.so.8", "/usr/local/cuda/lib64/libcudnn.so.9",
             "/usr/local/cuda/lib64/libcudnn.so.8"};
  TCC_TRY(std::shared_ptr<DynamicLibrary> opened, DynamicLibrary::open(names));
  auto dnn = std::make_unique<LoadedDnn>();
  TCC_TRY_VOID(dnn->start(std::move(opened), stream));
  return std::unique_ptr<CudaDnn>(std::move(dnn));
}

}  // namespace tcc::gpu_check
