#include "tcc/runtime/cuda_device.h"

#include <fmt/format.h>

#include "tcc/codegen/tensor_map.h"
#include "tcc/rt/cuda_driver.h"
#include "tcc/rt/rt.h"
#include "tcc/target/device.h"

namespace tcc::runtime {

namespace {

constexpr char kEmptyKernel[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry tcc_clusters()\n{\n  ret;\n}\n";
constexpr int kTakesPtxOnly = 0x7463;               // attribute of an emulated device, and its value
constexpr std::string_view kEmulated = "Fake GPU";  // its name

tl::unexpected<Error> device_error(const std::string& hint = {}) {
  return make_error(ErrorClass::kEnvironment, tcc_rt_last_error(), hint);
}

// Where the errors of one device meet.
struct Driver {
  const tcc_cuda_driver& cuda;
  int last_error = 0;
  bool lost = false;

  Result<void> check(tcc_cu_result result, const char* what, const std::string& hint = {}) {
    if (tcc_cuda_check(&cuda, result, what) == TCC_OK) return {};
    last_error = result;
    lost = lost || gives_up(result);
    return device_error(hint);
  }

 private:
  // Errors after which the context is of no use: faults of kernels, and a device that is gone or broken.
  static bool gives_up(tcc_cu_result result) {
    switch (result) {
      case 46:   // device unavailable
      case 101:  // the device is no longer there
      case 201:  // the context is destroyed
      case 214:  // memory errors beyond repair
      case 220:  // NVLink
      case 226:
      case 700:  // illegal address
      case 702:  // the watchdog ended a kernel
      case 709:  // the context is destroyed
      case 710:  // assertion
      case 714:  // hardware stack
      case 715:  // illegal instruction
      case 716:  // misaligned address
      case 717:  // invalid address space
      case 718:  // invalid program counter
      case 719:  // launch failure
      case 721:  // tensor memory
      case 999:  // unknown
        return true;
      default:
        return false;
    }
  }
};

class Kernel final : public CudaKernel {
 public:
  Kernel(Driver& driver, tcc_cu_stream stream) : driver_(driver), cuda_(driver.cuda), stream_(stream) {}
  ~Kernel() override {
    if (module_ != nullptr) cuda_.cuModuleUnload(module_);
  }

  Result<void> load(CudaDevice& device, const codegen::Artifact& artifact) {
    if (artifact.format == codegen::CodeFormat::kHostObject)
      return input_error("the artifact holds host code, not device code");
    std::string image = artifact.code;  // with the terminating zero that PTX needs
    auto loaded =
        driver_.check(cuda_.cuModuleLoadData(&module_, image.c_str()), "loading the device code",
                      fmt::format("the code must be made for this device ({})", target::sm_name(device.target())));
    if (!loaded) {
      module_ = nullptr;
      return loaded;
    }
    launches_ = artifact.launches;
    for (const codegen::Launch& l : launches_) {
      tcc_cu_function function = nullptr;
      TCC_TRY_VOID(driver_.check(cuda_.cuModuleGetFunction(&function, module_, l.symbol.c_str()), l.symbol.c_str()));
      if (l.shared_bytes > 0)
        TCC_TRY_VOID(driver_.check(
            cuda_.cuFuncSetAttribute(function, TCC_CU_FUNC_MAX_DYNAMIC_SHARED_BYTES, static_cast<int>(l.shared_bytes)),
            "asking for dynamic shared memory"));
      functions_.push_back(function);
    }
    for (const codegen::BufferInfo& b : artifact.buffers) {
      if (b.role != ir::BufferRole::kTemp) {
        ++num_params_;
        continue;
      }
      TCC_TRY(GuardedCudaBuffer memory, GuardedCudaBuffer::allocate(device, b.bytes));
      workspace_.push_back(std::move(memory));
    }
    return {};
  }

  Result<void> fill_workspace(uint8_t value) override {
    for (const GuardedCudaBuffer& w : workspace_)
      TCC_TRY_VOID(
          driver_.check(cuda_.cuMemsetD8Async(w.address(), value, static_cast<size_t>(w.bytes()), stream_), "filling"));
    return {};
  }
  std::span<const GuardedCudaBuffer> workspace() const override { return workspace_; }

  Result<void> launch(std::span<const uint64_t> parameters) override {
    if (parameters.size() != num_params_)
      return input_error("the kernel takes {} parameters, {} were given", num_params_, parameters.size());
    addresses_.assign(parameters.begin(), parameters.end());
    for (const GuardedCudaBuffer& w : workspace_) addresses_.push_back(w.address());
    for (size_t i = 0; i < launches_.size(); ++i) {
      TCC_TRY_VOID(place_parameters(launches_[i]));
      TCC_TRY_VOID(launch_one(launches_[i], functions_[i]));
    }
    return {};
  }

  Result<int> occupancy() const override {
    int blocks = 0;
    const codegen::Launch& l = launches_.at(0);
    TCC_TRY_VOID(driver_.check(cuda_.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                   &blocks, functions_.at(0), static_cast<int>(l.block[0] * l.block[1] * l.block[2]),
                                   static_cast<size_t>(l.shared_bytes)),
                               "occupancy"));
    return blocks;
  }

 private:
  // Addresses, then tensor maps; a launch takes a copy.
  Result<void> place_parameters(const codegen::Launch& l) {
    pointers_.clear();
    for (uint64_t& a : addresses_) pointers_.push_back(&a);
    maps_.resize(l.tensor_maps.size());
    for (size_t m = 0; m < maps_.size(); ++m) {
      const auto what = codegen::describe_to_driver<tcc_cuda_tensor_map>(l.tensor_maps[m]);
      if (tcc_cuda_encode_tensor_map(&cuda_, &what, addresses_.at(what.buffer), &maps_[m]) != TCC_OK)
        return device_error();
      pointers_.push_back(&maps_[m]);
    }
    return {};
  }

  // A cooperative launch has all its blocks resident at once, or is refused.
  Result<void> launch_one(const codegen::Launch& l, tcc_cu_function function) {
    auto u = [](int64_t v) { return static_cast<unsigned>(v); };
    const tcc_cu_result launched =
        l.cooperative
            ? cuda_.cuLaunchCooperativeKernel(function, u(l.grid[0]), u(l.grid[1]), u(l.grid[2]), u(l.block[0]),
                                              u(l.block[1]), u(l.block[2]), u(l.shared_bytes), stream_,
                                              pointers_.data())
            : cuda_.cuLaunchKernel(function, u(l.grid[0]), u(l.grid[1]), u(l.grid[2]), u(l.block[0]), u(l.block[1]),
                                   u(l.block[2]), u(l.shared_bytes), stream_, pointers_.data(), nullptr);
    return driver_.check(launched, l.symbol.c_str());
  }

  Driver& driver_;
  const tcc_cuda_driver& cuda_;
  tcc_cu_stream stream_;
  tcc_cu_module module_ = nullptr;
  std::vector<codegen::Launch> launches_;
  std::vector<tcc_cu_function> functions_;
  std::vector<GuardedCudaBuffer> workspace_;
  size_t num_params_ = 0;
  std::vector<uint64_t> addresses_;
  std::vector<void*> pointers_;
  std::vector<tcc_cu_tensor_map> maps_;
};

class Graph final : public CudaGraph {
 public:
  Graph(Driver& driver, tcc_cu_stream stream) : driver_(driver), stream_(stream) {}
  ~Graph() override {
    if (exec_ != nullptr) driver_.cuda.cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) driver_.cuda.cuGraphDestroy(graph_);
  }
  Result<void> record(const std::function<Result<void>()>& enqueue) {
    const tcc_cuda_driver& cuda = driver_.cuda;
    TCC_TRY_VOID(driver_.check(cuda.cuStreamBeginCapture(stream_, TCC_CU_CAPTURE_THREAD_LOCAL), "recording a graph"));
    Result<void> enqueued = enqueue();
    // Also after a failure: the stream must not stay in capture.
    auto ended = driver_.check(cuda.cuStreamEndCapture(stream_, &graph_), "recording a graph");
    TCC_TRY_VOID(std::move(enqueued));
    TCC_TRY_VOID(std::move(ended));
    return driver_.check(cuda.cuGraphInstantiate(&exec_, graph_, 0), "making a graph");
  }
  Result<void> launch() override {
    return driver_.check(driver_.cuda.cuGraphLaunch(exec_, stream_), "launching a graph");
  }

 private:
  Driver& driver_;
  tcc_cu_stream stream_;
  tcc_cu_graph graph_ = nullptr;
  tcc_cu_graph_exec exec_ = nullptr;
};

class DriverDevice final : public CudaDevice {
 public:
  explicit DriverDevice(const tcc_cuda_driver& driver) : cuda_(driver) {}
  ~DriverDevice() override {
    if (start_ != nullptr) cuda_.cuEventDestroy(start_);
    if (end_ != nullptr) cuda_.cuEventDestroy(end_);
    if (stream_ != nullptr) cuda_.cuStreamDestroy(stream_);
    if (context_ != nullptr) cuda_.cuDevicePrimaryCtxRelease(device_);
  }

  Result<void> start(int ordinal) {
    int count = 0;
    TCC_TRY_VOID(driver_.check(cuda_.cuDeviceGetCount(&count), "counting CUDA devices"));
    if (ordinal < 0 || ordinal >= count)
      return environment_error("there is no CUDA device {}: the driver shows {}", ordinal, count);
    TCC_TRY_VOID(driver_.check(cuda_.cuDeviceGet(&device_, ordinal), "cuDeviceGet"));
    TCC_TRY_VOID(driver_.check(cuda_.cuDevicePrimaryCtxRetain(&context_, device_), "making a CUDA context"));
    TCC_TRY_VOID(driver_.check(cuda_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"));
    TCC_TRY_VOID(driver_.check(cuda_.cuStreamCreate(&stream_, TCC_CU_STREAM_NON_BLOCKING), "making a stream"));
    TCC_TRY_VOID(driver_.check(cuda_.cuEventCreate(&start_, 0), "making an event"));
    TCC_TRY_VOID(driver_.check(cuda_.cuEventCreate(&end_, 0), "making an event"));
    TCC_TRY_VOID(read_facts());
    return describe();
  }

  const CudaDeviceFacts& facts() const override { return facts_; }
  const target::Target& target() const override { return target_; }
  void* stream() const override { return stream_; }
  void* context() const override { return context_; }

  Result<CudaBuffer> allocate(int64_t bytes) override {
    tcc_cu_ptr pointer = 0;
    const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 16));
    TCC_TRY_VOID(driver_.check(cuda_.cuMemAlloc(&pointer, size), "allocating device memory",
                               fmt::format("{} bytes were asked for; free device memory or use smaller sizes", bytes)));
    return make_buffer(this, pointer, bytes);
  }
  Result<void> upload(const CudaBuffer& to, std::span<const std::byte> from) override {
    if (static_cast<int64_t>(from.size()) > to.bytes())
      return input_error("upload of {} bytes into {}", from.size(), to.bytes());
    return upload_at(to.address(), from);
  }
  Result<void> download(std::span<std::byte> to, const CudaBuffer& from) override {
    if (static_cast<int64_t>(to.size()) > from.bytes())
      return input_error("download of {} bytes from {}", to.size(), from.bytes());
    return download_at(to, from.address());
  }
  Result<void> fill(const CudaBuffer& to, uint8_t value) override { return fill_at(to.address(), to.bytes(), value); }
  Result<void> copy(const CudaBuffer& to, const CudaBuffer& from, int64_t bytes) override {
    if (bytes > to.bytes() || bytes > from.bytes())
      return input_error("copy of {} bytes is larger than a buffer", bytes);
    return copy_at(to.address(), from.address(), bytes);
  }
  Result<void> upload_at(uint64_t to, std::span<const std::byte> from) override {
    // On the stream: a plain copy may still be under way when it returns, and this stream does not wait for it.
    TCC_TRY_VOID(
        driver_.check(cuda_.cuMemcpyHtoDAsync(to, from.data(), from.size(), stream_), "copying to the device"));
    return synchronise();
  }
  Result<void> download_at(std::span<std::byte> to, uint64_t from) override {
    TCC_TRY_VOID(
        driver_.check(cuda_.cuMemcpyDtoHAsync(to.data(), from, to.size(), stream_), "copying from the device"));
    return synchronise();
  }
  Result<void> fill_at(uint64_t to, int64_t bytes, uint8_t value) override {
    if (bytes == 0) return {};
    return driver_.check(cuda_.cuMemsetD8Async(to, value, static_cast<size_t>(bytes), stream_), "filling");
  }
  Result<void> copy_at(uint64_t to, uint64_t from, int64_t bytes) override {
    return driver_.check(cuda_.cuMemcpyDtoDAsync(to, from, static_cast<size_t>(bytes), stream_),
                         "copying on the device");
  }
  Result<int64_t> free_bytes() override {
    size_t free_bytes = 0, total_bytes = 0;
    TCC_TRY_VOID(driver_.check(cuda_.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
    return static_cast<int64_t>(free_bytes);
  }
  int last_error() const override { return driver_.last_error; }
  bool lost() const override { return driver_.lost; }
  Result<void> synchronise() override {
    return driver_.check(cuda_.cuStreamSynchronize(stream_), "waiting for the device");
  }

  Result<std::unique_ptr<CudaKernel>> load(const codegen::Artifact& artifact) override {
    auto kernel = std::make_unique<Kernel>(driver_, stream_);
    TCC_TRY_VOID(kernel->load(*this, artifact));
    return std::unique_ptr<CudaKernel>(std::move(kernel));
  }

  Result<double> time(int count, const std::function<Result<void>()>& enqueue) override {
    TCC_TRY_VOID(driver_.check(cuda_.cuEventRecord(start_, stream_), "recording an event"));
    for (int i = 0; i < count; ++i) TCC_TRY_VOID(enqueue());
    TCC_TRY_VOID(driver_.check(cuda_.cuEventRecord(end_, stream_), "recording an event"));
    TCC_TRY_VOID(driver_.check(cuda_.cuEventSynchronize(end_), "waiting for the device"));
    float milliseconds = 0;
    TCC_TRY_VOID(driver_.check(cuda_.cuEventElapsedTime(&milliseconds, start_, end_), "reading a time"));
    return static_cast<double>(milliseconds) * 1e-3;
  }
  Result<std::unique_ptr<CudaGraph>> record(const std::function<Result<void>()>& enqueue) override {
    if (cuda_.cuGraphLaunch == nullptr) return std::unique_ptr<CudaGraph>();
    auto graph = std::make_unique<Graph>(driver_, stream_);
    TCC_TRY_VOID(graph->record(enqueue));
    return std::unique_ptr<CudaGraph>(std::move(graph));
  }

 protected:
  void release(uint64_t address) override { cuda_.cuMemFree(address); }

 private:
  Result<int64_t> attribute(int which) {
    int value = 0;
    TCC_TRY_VOID(driver_.check(cuda_.cuDeviceGetAttribute(&value, which, device_), "reading a device attribute"));
    return value;
  }

  Result<void> read_facts() {
    char name[256] = {};
    TCC_TRY_VOID(driver_.check(cuda_.cuDeviceGetName(name, sizeof name - 1, device_), "cuDeviceGetName"));
    facts_.name = name;
    tcc_cu_uuid uuid{};
    TCC_TRY_VOID(driver_.check(cuda_.cuDeviceGetUuid(&uuid, device_), "cuDeviceGetUuid"));
    for (char c : uuid.bytes) facts_.uuid += fmt::format("{:02x}", static_cast<unsigned char>(c));
    TCC_TRY_VOID(driver_.check(cuda_.cuDriverGetVersion(&facts_.driver_version), "cuDriverGetVersion"));
    TCC_TRY(const int64_t major, attribute(TCC_CU_COMPUTE_CAPABILITY_MAJOR));
    TCC_TRY(const int64_t minor, attribute(TCC_CU_COMPUTE_CAPABILITY_MINOR));
    facts_.sm_arch = major * 10 + minor;
    const std::pair<int, int64_t*> rows[] = {
        {TCC_CU_MULTIPROCESSORS, &facts_.sm_count},
        {TCC_CU_CLOCK_KHZ, &facts_.clock_khz},
        {TCC_CU_MEMORY_CLOCK_KHZ, &facts_.memory_clock_khz},
        {TCC_CU_MEMORY_BUS_BITS, &facts_.memory_bus_bits},
        {TCC_CU_L2_BYTES, &facts_.l2_bytes},
        {TCC_CU_MAX_SHARED_BYTES_PER_BLOCK_OPTIN, &facts_.shared_per_block_optin},
        {TCC_CU_MAX_SHARED_BYTES_PER_MULTIPROCESSOR, &facts_.shared_per_sm},
        {TCC_CU_MAX_REGISTERS_PER_MULTIPROCESSOR, &facts_.registers_per_sm},
        {TCC_CU_MAX_THREADS_PER_MULTIPROCESSOR, &facts_.threads_per_sm},
    };
    for (const auto& [which, value] : rows) {
      TCC_TRY(*value, attribute(which));
    }
    TCC_TRY(const int64_t ecc, attribute(TCC_CU_ECC_ENABLED));
    facts_.ecc = ecc != 0;
    int emulated = 0;  // real drivers are not asked: they do not know the number, and tools report the failed call
    facts_.takes_ptx_only = facts_.name == kEmulated &&
                            cuda_.cuDeviceGetAttribute(&emulated, kTakesPtxOnly, device_) == 0 &&
                            emulated == kTakesPtxOnly;
    size_t free_bytes = 0, total_bytes = 0;
    TCC_TRY_VOID(driver_.check(cuda_.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
    facts_.memory_bytes = static_cast<int64_t>(total_bytes);
    facts_.free_bytes = static_cast<int64_t>(free_bytes);
    return {};
  }

  // Clusters of 2, 4 and 8 blocks that each take the shared memory of a multiprocessor. Whether the driver told.
  bool count_clusters() {
    if (cuda_.cuOccupancyMaxActiveClusters == nullptr) return false;
    tcc_cu_module module = nullptr;
    tcc_cu_function function = nullptr;
    if (cuda_.cuModuleLoadData(&module, kEmptyKernel) != 0) return false;
    const auto shared = static_cast<int>(target_.cuda.shared_per_block_optin);
    bool told = cuda_.cuModuleGetFunction(&function, module, "tcc_clusters") == 0 &&
                cuda_.cuFuncSetAttribute(function, TCC_CU_FUNC_MAX_DYNAMIC_SHARED_BYTES, shared) == 0;
    for (const auto& [size, clusters] : {std::pair{2u, &target_.cuda.clusters_of_2},
                                         {4u, &target_.cuda.clusters_of_4},
                                         {8u, &target_.cuda.clusters_of_8}}) {
      tcc_cu_launch_attribute attribute = {};
      attribute.id = TCC_CU_LAUNCH_CLUSTER;
      attribute.value[0] = size, attribute.value[1] = attribute.value[2] = 1;
      const tcc_cu_launch_config config = {{size, 1, 1}, {128, 1, 1}, static_cast<unsigned>(shared),
                                           nullptr,      &attribute,  1};
      int count = 0;
      told = told && cuda_.cuOccupancyMaxActiveClusters(&count, function, &config) == 0;
      if (told) *clusters = count;
    }
    cuda_.cuModuleUnload(module);
    return told;
  }

  Result<void> describe() {
    TCC_TRY(target_, target::cuda_target_for(facts_.sm_arch));
    target_.name = "cuda";
    target_.source = fmt::format("attributes of {}", facts_.name);
    target::CudaInfo& c = target_.cuda;
    c.sm_count = facts_.sm_count;
    c.l2_bytes = facts_.l2_bytes;
    c.shared_per_block_optin = facts_.shared_per_block_optin;
    c.shared_per_sm = facts_.shared_per_sm;
    c.registers_per_sm = facts_.registers_per_sm;
    c.max_threads_per_sm = facts_.threads_per_sm;
    target_.clock_hz = static_cast<double>(facts_.clock_khz) * 1e3;
    target_.memory_bandwidth =
        2.0 * static_cast<double>(facts_.memory_clock_khz) * 1e3 * static_cast<double>(facts_.memory_bus_bits) / 8;
    target_.memory_bytes = facts_.memory_bytes;
    target_.peak.fp32 = 2.0 * static_cast<double>(c.fp32_lanes_per_sm * c.sm_count) * target_.clock_hz;
    target::complete_device(target_);
    if (c.features.clusters && !count_clusters())
      target_.notes.push_back("the driver does not tell how many clusters the device holds: a formula does");
    return {};
  }

  const tcc_cuda_driver& cuda_;
  Driver driver_{cuda_};
  tcc_cu_device device_ = 0;
  tcc_cu_context context_ = nullptr;
  tcc_cu_stream stream_ = nullptr;
  tcc_cu_event start_ = nullptr, end_ = nullptr;
  CudaDeviceFacts facts_;
  target::Target target_;
};

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int ordinal, const std::string& library) {
  const tcc_cuda_driver* driver = nullptr;
  if (tcc_cuda_driver_open(library.empty() ? nullptr : library.c_str(), &driver) != TCC_OK)
    return device_error("run on a machine with an NVIDIA GPU and its driver");
  auto device = std::make_unique<DriverDevice>(*driver);
  TCC_TRY_VOID(device->start(ordinal));
  return std::unique_ptr<CudaDevice>(std::move(device));
}

}  // namespace tcc::runtime
