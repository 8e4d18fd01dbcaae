#include "gpu/backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu/cuda_blas.h"
#include "tcc/codegen/cuda.h"
#include "tcc/emulation/ptx.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/layout.h"
#include "tcc/ir/permute.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/support/files.h"

namespace tcc::gpu_check {
namespace {

constexpr int64_t kWaitLimit = 2'000'000'000;  // ns: a wait for a barrier that lasts longer will not end
constexpr int64_t kSmallCopyBytes = 1 << 20;

std::vector<Row> target_facts(const target::Target& t) {
  const auto number = [](int64_t v) { return static_cast<double>(v); };
  return {{"device.sm_arch", number(t.cuda.sm_arch), "", "", 0},
          {"device.sm_count", number(t.cuda.sm_count), "", "", 0},
          {"device.clock", t.clock_hz * 1e-6, "MHz", "", 0},
          {"device.memory", number(t.memory_bytes) * 1e-9, "GB", "", 0},
          {"device.memory_bandwidth", t.memory_bandwidth * 1e-9, "GB/s", "", 0},
          {"device.l2", number(t.cuda.l2_bytes), "bytes", "", 0},
          {"device.shared_per_block_optin", number(t.cuda.shared_per_block_optin), "bytes", "", 0},
          {"device.shared_per_sm", number(t.cuda.shared_per_sm), "bytes", "", 0},
          {"device.registers_per_sm", number(t.cuda.registers_per_sm), "", "", 0},
          {"device.threads_per_sm", number(t.cuda.max_threads_per_sm), "", "", 0},
          {"device.peak_fp32", t.peak.fp32 * 1e-9, "GFLOP/s", "", 0}};
}

// --- device ----------------------------------------------------------------------------------------------------------

class DeviceSession final : public Session {
 public:
  DeviceSession(runtime::CudaDevice& device, CudaBlas* blas) : device_(device), blas_(blas) {}

  Result<void> start(const codegen::Artifact& artifact) {
    TCC_TRY(kernel_, device_.load(artifact));
    for (const codegen::BufferInfo& b : artifact.buffers) {
      if (b.role == ir::BufferRole::kTemp) continue;
      TCC_TRY(runtime::CudaBuffer memory, device_.allocate(b.bytes));
      addresses_.push_back(memory.address());
      buffers_.push_back(std::move(memory));
    }
    return {};
  }
  Result<Floats> run(const std::vector<Floats>& inputs) override {
    for (size_t i = 0; i < inputs.size(); ++i)
      TCC_TRY_VOID(device_.upload(buffers_.at(i), std::as_bytes(std::span<const float>(inputs[i]))));
    TCC_TRY_VOID(device_.fill(buffers_.back(), 0xff));  // NaNs
    TCC_TRY_VOID(kernel_->launch(addresses_));
    Floats output(static_cast<size_t>(buffers_.back().bytes()) / sizeof(float));
    TCC_TRY_VOID(device_.download(std::as_writable_bytes(std::span<float>(output)), buffers_.back()));
    return output;
  }
  Result<double> time(int count) override {
    TCC_TRY(const double seconds, device_.time(count, [&] { return kernel_->launch(addresses_); }));
    return seconds / count;
  }
  Result<std::optional<double>> time_peer(const GemmSize& s, int count) override {
    if (blas_ == nullptr) return std::optional<double>();
    TCC_TRY(const double seconds, device_.time(count, [&] {
      return blas_->gemm(s.m, s.n, s.k, addresses_[0], addresses_[1], addresses_[2]);
    }));
    return std::optional<double>(seconds / count);
  }

 private:
  runtime::CudaDevice& device_;
  CudaBlas* blas_;
  std::unique_ptr<runtime::CudaKernel> kernel_;
  std::vector<runtime::CudaBuffer> buffers_;
  std::vector<uint64_t> addresses_;
};

// A tensor in the order that the artifact wants it in.
Result<std::vector<std::byte>> to_artifact(const codegen::BufferInfo& info, const interp::TensorData& tensor) {
  if (info.layout.empty()) return tensor.bytes;
  Arena arena;
  TCC_TRY(const ir::Layout* layout, ir::parse_layout(arena, info.layout));
  std::vector<std::byte> bytes(static_cast<size_t>(info.bytes));
  ir::to_physical(*layout, tensor.bytes, bytes, ir::type_bytes(info.type));
  return bytes;
}
Result<void> from_artifact(const codegen::BufferInfo& info, std::span<const std::byte> bytes,
                           interp::TensorData& tensor) {
  if (info.layout.empty()) {
    std::memcpy(tensor.bytes.data(), bytes.data(), tensor.bytes.size());
    return {};
  }
  Arena arena;
  TCC_TRY(const ir::Layout* layout, ir::parse_layout(arena, info.layout));
  ir::to_logical(*layout, bytes, tensor.bytes, ir::type_bytes(info.type));
  return {};
}

class DeviceProgram final : public Program {
 public:
  DeviceProgram(runtime::CudaDevice& device, codegen::Artifact artifact)
      : device_(device), artifact_(std::move(artifact)) {}
  Result<void> start() {
    TCC_TRY(kernel_, device_.load(artifact_));
    for (const codegen::BufferInfo& b : artifact_.buffers) {
      if (b.role == ir::BufferRole::kTemp) continue;
      TCC_TRY(runtime::GuardedCudaBuffer memory, runtime::GuardedCudaBuffer::allocate(device_, b.bytes));
      addresses_.push_back(memory.address());
      buffers_.push_back(std::move(memory));
    }
    return {};
  }
  Result<void> run(std::vector<interp::TensorData>& params) override {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (artifact_.buffers[i].role == ir::BufferRole::kOutput) {
        TCC_TRY_VOID(device_.fill_at(addresses_[i], buffers_[i].bytes(), 0xff));
        continue;
      }
      TCC_TRY(const std::vector<std::byte> bytes, to_artifact(artifact_.buffers[i], params.at(i)));
      TCC_TRY_VOID(device_.upload_at(addresses_[i], bytes));
    }
    TCC_TRY_VOID(kernel_->fill_workspace(0xff));
    TCC_TRY_VOID(kernel_->launch(addresses_));
    TCC_TRY_VOID(device_.synchronise());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      TCC_TRY(const bool intact, buffers_[i].margins_intact());
      if (!intact) return environment_error("it writes beside parameter {}", i);
      if (artifact_.buffers[i].role != ir::BufferRole::kOutput) continue;
      std::vector<std::byte> bytes(static_cast<size_t>(buffers_[i].bytes()));
      TCC_TRY_VOID(device_.download_at(bytes, addresses_[i]));
      TCC_TRY_VOID(from_artifact(artifact_.buffers[i], bytes, params[i]));
    }
    return {};
  }
  Result<double> time(int count) override {
    TCC_TRY(const double seconds, device_.time(count, [&] { return kernel_->launch(addresses_); }));
    return seconds / count;
  }
  const codegen::Artifact& artifact() const override { return artifact_; }

 private:
  runtime::CudaDevice& device_;
  codegen::Artifact artifact_;
  std::unique_ptr<runtime::CudaKernel> kernel_;
  std::vector<runtime::GuardedCudaBuffer> buffers_;
  std::vector<uint64_t> addresses_;
};

class DeviceBackend final : public Backend {
 public:
  Result<void> start(int ordinal, const std::string& cublas, const std::string& driver) {
    TCC_TRY(device_, runtime::CudaDevice::open(ordinal, driver));
    cublas_ = cublas;
    return {};
  }
  bool is_device() const override { return true; }
  bool is_small() const override { return device_->facts().takes_ptx_only; }
  std::string machine() const override { return device_->facts().name; }
  const target::Target& target() const override { return device_->target(); }
  std::vector<Row> facts() const override {
    std::vector<Row> rows = target_facts(device_->target());
    const runtime::CudaDeviceFacts& f = device_->facts();
    rows.push_back({"device.driver_version", static_cast<double>(f.driver_version), "", "", 0});
    rows.push_back({"device.free_memory", static_cast<double>(f.free_bytes) * 1e-9, "GB", "", 0});
    rows.push_back({"device.ecc", f.ecc ? 1.0 : 0.0, "", "", 0});
    return rows;
  }
  std::string peer_name() const override { return blas_ != nullptr ? fmt::format("cuBLAS {}", blas_->version()) : ""; }
  Result<double> copy_rate() override {
    const int64_t bytes =
        is_small() ? kSmallCopyBytes : std::min<int64_t>(int64_t{1} << 30, device_->facts().free_bytes / 4);
    TCC_TRY(runtime::CudaBuffer from, device_->allocate(bytes));
    TCC_TRY(runtime::CudaBuffer to, device_->allocate(bytes));
    TCC_TRY_VOID(device_->fill(from, 0x5a));
    std::vector<double> rates;
    for (int round = 0; round < 7; ++round) {
      TCC_TRY(const double seconds, device_->time(10, [&] { return device_->copy(to, from, bytes); }));
      rates.push_back(2.0 * static_cast<double>(bytes) * 10 / seconds);
    }
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  }
  Result<std::unique_ptr<Session>> open(const ir::Kernel&, const codegen::Artifact& artifact) override {
    TCC_TRY_VOID(find_blas());
    auto session = std::make_unique<DeviceSession>(*device_, blas_.get());
    TCC_TRY_VOID(session->start(artifact));
    return std::unique_ptr<Session>(std::move(session));
  }
  Result<codegen::Artifact> compile(const ir::Kernel& lowered, const CodeRequest& request) const override {
    codegen::CudaOptions options;
    options.prefix = request.prefix;
    options.nvrtc_library = request.nvrtc;
    options.want_ptx = is_small();
    if (!is_small()) options.wait_limit = kWaitLimit;  // an emulated device finds out by itself
    return codegen::compile_cuda(lowered, device_->target(), options);
  }
  Result<std::unique_ptr<Program>> load(codegen::Artifact artifact) override {
    auto program = std::make_unique<DeviceProgram>(*device_, std::move(artifact));
    TCC_TRY_VOID(program->start());
    return std::unique_ptr<Program>(std::move(program));
  }
  runtime::CudaDevice* device() override { return device_.get(); }

 private:
  // Opens cuBLAS once. Error: it was named, and does not load.
  Result<void> find_blas() {
    if (std::exchange(looked_for_blas_, true)) return {};
    auto blas = CudaBlas::open(device_->stream(), cublas_);
    if (blas)
      blas_ = std::move(*blas);
    else if (!cublas_.empty())
      return tl::unexpected<Error>(std::move(blas).error());
    else
      fmt::print("absent: cuBLAS: {}\n", blas.error().message);
    return {};
  }

  std::unique_ptr<runtime::CudaDevice> device_;
  std::string cublas_;
  bool looked_for_blas_ = false;
  std::unique_ptr<CudaBlas> blas_;  // uses the device's stream: goes first
};

// --- dry run ---------------------------------------------------------------------------------------------------------

class InterpSession final : public Session {
 public:
  explicit InterpSession(const ir::Kernel& kernel) : program_(interp::Program::compile(kernel)) {
    for (const ir::Buffer* b : kernel.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      params_.push_back(interp::TensorData::zeros(b->type, shape));
    }
    for (interp::TensorData& t : params_) pointers_.push_back(&t);
  }
  Result<Floats> run(const std::vector<Floats>& inputs) override {
    for (size_t i = 0; i < inputs.size(); ++i)
      std::memcpy(params_[i].bytes.data(), inputs[i].data(), params_[i].bytes.size());
    std::fill(params_.back().bytes.begin(), params_.back().bytes.end(), std::byte{0xff});
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      const interp::Report report = program_.run(pointers_, {.seed = seed, .check_races = true});
      if (!report.ok()) return environment_error("the interpreter reports:\n{}", report.text());
    }
    Floats output(params_.back().bytes.size() / sizeof(float));
    std::memcpy(output.data(), params_.back().bytes.data(), params_.back().bytes.size());
    return output;
  }
  Result<double> time(int count) override {
    Stopwatch watch;
    for (int i = 0; i < count; ++i)
      if (const interp::Report report = program_.run(pointers_); !report.ok())
        return environment_error("{}", report.text());
    return watch.seconds() / count;
  }
  Result<std::optional<double>> time_peer(const GemmSize& size, int count) override {
    Stopwatch watch;
    const float* a = reinterpret_cast<const float*>(params_[0].bytes.data());
    const float* b = reinterpret_cast<const float*>(params_[1].bytes.data());
    Floats c(static_cast<size_t>(size.m * size.n));
    for (int r = 0; r < count; ++r)
      for (int64_t i = 0; i < size.m; ++i)
        for (int64_t p = 0; p < size.k; ++p)
          for (int64_t j = 0; j < size.n; ++j)
            c[static_cast<size_t>(i * size.n + j)] += a[i * size.k + p] * b[p * size.n + j];
    return std::optional<double>(std::max(watch.seconds(), 1e-9) / count);
  }

 private:
  interp::Program program_;
  std::vector<interp::TensorData> params_;
  std::vector<interp::TensorData*> pointers_;
};

// PTX on the machine for it. Its time is that of a thread instruction a nanosecond: an order, no promise.
class MachineProgram final : public Program {
 public:
  explicit MachineProgram(codegen::Artifact artifact) : artifact_(std::move(artifact)) {}
  Result<void> run(std::vector<interp::TensorData>& params) override {
    for (size_t i = 0; i < params.size(); ++i)
      if (artifact_.buffers.at(i).role == ir::BufferRole::kOutput)
        std::fill(params[i].bytes.begin(), params[i].bytes.end(), std::byte{0xff});
    std::vector<interp::TensorData*> pointers;
    for (interp::TensorData& p : params) pointers.push_back(&p);
    TCC_TRY(const emulation::PtxReport report, emulation::run_artifact(artifact_, pointers));
    if (!report.ok()) return environment_error("the machine for PTX reports:\n{}", report.text());
    seconds_ = 1e-9 * static_cast<double>(std::max<int64_t>(report.instructions, 1));
    return {};
  }
  Result<double> time(int) override {
    if (seconds_ == 0) return environment_error("a program is timed after it has run");
    return seconds_;
  }
  const codegen::Artifact& artifact() const override { return artifact_; }

 private:
  codegen::Artifact artifact_;
  double seconds_ = 0;
};

class DryBackend final : public Backend {
 public:
  explicit DryBackend(target::Target target) : target_(std::move(target)) {}
  bool is_device() const override { return false; }
  bool is_small() const override { return true; }
  std::string machine() const override { return fmt::format("no device: {} by interpreter", target_.name); }
  const target::Target& target() const override { return target_; }
  std::vector<Row> facts() const override { return target_facts(target_); }
  std::string peer_name() const override { return "host loop"; }
  Result<double> copy_rate() override {
    std::vector<char> from(1 << 22, 1), to(1 << 22);
    Stopwatch watch;
    std::memcpy(to.data(), from.data(), from.size());
    const double seconds = std::max(watch.seconds(), 1e-9);
    if (to.back() != 1) return environment_error("the copy did not arrive");
    return 2.0 * static_cast<double>(from.size()) / seconds;
  }
  Result<std::unique_ptr<Session>> open(const ir::Kernel& kernel, const codegen::Artifact&) override {
    return std::unique_ptr<Session>(std::make_unique<InterpSession>(kernel));
  }
  Result<codegen::Artifact> compile(const ir::Kernel& lowered, const CodeRequest& request) const override {
    return codegen::compile_cuda(lowered, target_, {.prefix = request.prefix, .nvrtc_library = request.nvrtc});
  }
  Result<codegen::Artifact> loadable(const ir::Kernel& lowered, const CodeRequest& request) const override {
    return codegen::compile_cuda(lowered, target_,
                                 {.prefix = request.prefix, .nvrtc_library = request.nvrtc, .want_ptx = true});
  }
  Result<std::unique_ptr<Program>> load(codegen::Artifact artifact) override {
    return std::unique_ptr<Program>(std::make_unique<MachineProgram>(std::move(artifact)));
  }

 private:
  target::Target target_;
};

}  // namespace

Result<std::unique_ptr<Backend>> Backend::device(int ordinal, const std::string& cublas, const std::string& driver) {
  auto backend = std::make_unique<DeviceBackend>();
  TCC_TRY_VOID(backend->start(ordinal, cublas, driver));
  return std::unique_ptr<Backend>(std::move(backend));
}

Result<std::unique_ptr<Backend>> Backend::dry_run(const std::string& target_name) {
  TCC_TRY(target::Target target, target::find_target(target_name));
  if (target.cuda.sm_arch == 0)
    return make_error(ErrorClass::kUsage, fmt::format("target '{}' is not a CUDA device", target_name),
                      "name one such as h200, a100 or t4");
  return std::unique_ptr<Backend>(std::make_unique<DryBackend>(std::move(target)));
}

}  // namespace tcc::gpu_check
