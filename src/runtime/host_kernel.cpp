#include "tcc/runtime/host_kernel.h"

#include "tcc/codegen/llvm.h"
#include "tcc/rt/rt.h"
#include "tcc/support/check.h"

namespace tcc::runtime {

Result<std::shared_ptr<HostPool>> HostPool::create(int threads, bool pin) {
  // Tiles need the system's permission, once per process and before its threads start. Where it is refused, kernels
  // with tiles are ended by a signal, and that is what is reported of them.
  uint64_t tiles = tcc_rt_cpu_feature("amx-tile");
  if (tcc_rt_cpu_features() & tiles) (void)tcc_rt_require_cpu(tiles);
  tcc_rt_pool* pool = nullptr;
  tcc_status status = tcc_rt_pool_create(threads, /*spin_us=*/0, pin ? 1 : 0, &pool);
  if (status != TCC_OK)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot start {} threads for kernels: {}", threads, tcc_rt_last_error()),
                      "ask for fewer threads");
  return std::shared_ptr<HostPool>(new HostPool(pool));
}

HostPool::~HostPool() {
  tcc_rt_pool_destroy(pool_);
}
int HostPool::threads() const {
  return tcc_rt_pool_threads(pool_);
}

struct HostKernel::State {
  std::shared_ptr<HostPool> pool;
  std::shared_ptr<codegen::LoadedObject> object;
  std::vector<codegen::BufferInfo> infos;
  std::vector<tcc_rt_launch> launches;
  tcc_rt_kernel kernel{};
  std::vector<GuardedBuffer> workspace;
  std::vector<void*> pointers;  // parameters (set by run), then workspace
  int64_t num_params = 0;
};

HostKernel::HostKernel(std::unique_ptr<State> state) : state_(std::move(state)) {}
HostKernel::~HostKernel() = default;

Result<std::unique_ptr<HostKernel>> HostKernel::load(const codegen::Artifact& artifact,
                                                     std::shared_ptr<HostPool> pool) {
  TCC_CHECK(artifact.format == codegen::CodeFormat::kHostObject, "not host code");
  auto state = std::make_unique<State>();
  state->pool = std::move(pool);
  TCC_TRY(state->object, codegen::load_host(artifact));
  for (const codegen::Launch& launch : artifact.launches) {
    codegen::HostFunction fn = state->object->function(launch.symbol);
    if (!fn) return environment_error("the kernel's object has no symbol '{}'", launch.symbol);
    state->launches.push_back({fn, launch.extent});
  }
  state->infos = artifact.buffers;
  for (const codegen::BufferInfo& info : state->infos) {
    if (info.role != ir::BufferRole::kTemp) {
      TCC_CHECK(state->workspace.empty(), "parameters come before workspace");
      state->pointers.push_back(nullptr);
      continue;
    }
    int64_t alignment = info.alignment > TCC_RT_WORKSPACE_ALIGNMENT ? info.alignment : TCC_RT_WORKSPACE_ALIGNMENT;
    TCC_TRY(GuardedBuffer buffer, GuardedBuffer::allocate(info.bytes, alignment));
    state->pointers.push_back(buffer.data());
    state->workspace.push_back(std::move(buffer));
  }
  state->num_params = static_cast<int64_t>(state->pointers.size() - state->workspace.size());
  state->kernel = {state->launches.data(), static_cast<uint32_t>(state->launches.size()),
                   static_cast<uint32_t>(state->pointers.size())};
  return std::unique_ptr<HostKernel>(new HostKernel(std::move(state)));
}

Result<void> HostKernel::run(std::span<void* const> params) {
  State& s = *state_;
  TCC_CHECK(static_cast<int64_t>(params.size()) == s.num_params, "{} parameters, not {}", params.size(), s.num_params);
  for (size_t i = 0; i < params.size(); ++i) s.pointers[i] = params[i];
  if (tcc_rt_run_kernel(s.pool->handle(), &s.kernel, s.pointers.data()) != TCC_OK)
    return environment_error("a kernel did not run: {}", tcc_rt_last_error());
  return {};
}

int64_t HostKernel::num_params() const {
  return state_->num_params;
}
const std::vector<codegen::BufferInfo>& HostKernel::buffers() const {
  return state_->infos;
}
std::span<const GuardedBuffer> HostKernel::workspace() const {
  return state_->workspace;
}
void HostKernel::poison_workspace(uint8_t value) const {
  for (const GuardedBuffer& buffer : state_->workspace) buffer.fill(value);
}

}  // namespace tcc::runtime
