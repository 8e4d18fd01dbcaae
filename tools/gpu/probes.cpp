// Constants of a device that the analytical model rests on, by kernels of a few lines each: how many clusters are
// resident, costs of launches and of fences, and what a copy moves by the bytes that it keeps in flight. Each probe is
// a module of its own: one that this compiler or device does not have is absent, and the others are measured.
#include <algorithm>
#include <cmath>

#include "codegen/cuda/nvrtc.h"
#include "gpu/run.h"
#include "tcc/runtime/cuda_device.h"

namespace tcc::gpu_check {
namespace {

constexpr int kRounds = 7;

struct Probe {
  std::string body;  // of the kernel: `in`, `out` are arrays of uint4
  int64_t grid = 1, block = 1;
};

// The code of a probe, for the backend's target.
Result<codegen::Artifact> compile_probe(Run& run, const Probe& probe, int64_t bytes) {
  const bool ptx = run.backend.is_small();
  TCC_TRY(auto nvrtc, codegen::cuda::Nvrtc::open(run.options.nvrtc));
  const std::string arch = target::sm_name(run.backend.target());
  const std::vector<std::string> words = {"--gpu-architecture=" + (ptx ? "compute_" + arch.substr(3) : arch),
                                          "--std=c++17", "--disable-warnings"};
  const std::string source = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) tcc_probes_0(const uint4* in, uint4* out) {{\n{}\n}}\n",
      probe.block, probe.body);
  TCC_TRY(auto compiled, nvrtc->compile(source, words, ptx));
  codegen::Artifact artifact;
  artifact.format = ptx ? codegen::CodeFormat::kPtx : codegen::CodeFormat::kCubin;
  artifact.code = std::move(compiled.code);
  codegen::Launch launch;
  launch.symbol = "tcc_probes_0";
  launch.grid[0] = probe.grid;
  launch.block[0] = probe.block;
  artifact.launches = {launch};
  for (const auto role : {ir::BufferRole::kInput, ir::BufferRole::kOutput}) {
    codegen::BufferInfo info;
    info.role = role;
    info.type = ir::Type::kF32;
    info.bytes = bytes;
    info.shape = {bytes / 4};
    artifact.buffers.push_back(info);
  }
  return artifact;
}

// Median seconds of a launch, `launches` in a row. Without a device: compiled only, 0 seconds.
Result<double> time_probe(Run& run, const Probe& probe, int64_t bytes, int launches) {
  TCC_TRY(const codegen::Artifact artifact, compile_probe(run, probe, bytes));
  ++run.tests;
  runtime::CudaDevice* device = run.backend.device();
  if (device == nullptr) return 0.0;
  TCC_TRY(auto kernel, device->load(artifact));
  TCC_TRY(const runtime::CudaBuffer in, device->allocate(bytes));
  TCC_TRY(const runtime::CudaBuffer out, device->allocate(bytes));
  TCC_TRY_VOID(device->fill(in, 0));
  const std::vector<uint64_t> addresses = {in.address(), out.address()};
  std::vector<double> rounds;
  const auto launch = [&] { return kernel->launch(addresses); };
  if (run.backend.is_small()) launches = 1;
  TCC_TRY_VOID(device->time(1, launch));
  for (int round = 0; round < (run.backend.is_small() ? 1 : kRounds); ++round) {
    TCC_TRY(const double seconds, device->time(launches, launch));
    rounds.push_back(seconds / launches);
  }
  return median(rounds);
}

// One that cannot be compiled or loaded says why, and no more.
std::optional<double> try_probe(Run& run, const std::string& name, const Probe& probe, int64_t bytes, int launches) {
  auto seconds = time_probe(run, probe, bytes, launches);
  if (seconds) return *seconds;
  runtime::CudaDevice* device = run.backend.device();
  if (device != nullptr && device->lost())
    run.fail(fmt::format("{}: {}", name, text_of(seconds.error())));
  else
    run.absent(fmt::format("{}: {}", name, seconds.error().message));
  return std::nullopt;
}

// --- clusters
// ----------------------------------------------------------------------------------------------------------

// What the driver says of clusters whose blocks fill a multiprocessor each (runtime::CudaDevice asks it).
Result<void> clusters(Run& run) {
  const target::CudaInfo& cuda = run.backend.target().cuda;
  for (const auto& [blocks, resident] :
       {std::pair{2, cuda.clusters_of_2}, {4, cuda.clusters_of_4}, {8, cuda.clusters_of_8}}) {
    if (run.backend.device() == nullptr || resident == 0) continue;
    TCC_TRY_VOID(run.row({fmt::format("probe.clusters.{}", blocks), static_cast<double>(resident), "", "", 0}));
  }
  return {};
}

// --- launches, fences, copies
// --------------------------------------------------------------------------------------------

Result<void> launches(Run& run) {
  const Probe empty{"", 1, 32};
  if (const auto seconds = try_probe(run, "launch", empty, 16, 1000))
    TCC_TRY_VOID(run.row({"probe.launch.stream", *seconds * 1e6, "us", "", 0}));
  runtime::CudaDevice* device = run.backend.device();
  if (device == nullptr || run.backend.is_small()) return {};
  constexpr int kInGraph = 100;
  TCC_TRY(const codegen::Artifact artifact, compile_probe(run, empty, 16));
  TCC_TRY(auto kernel, device->load(artifact));
  TCC_TRY(const runtime::CudaBuffer memory, device->allocate(16));
  const std::vector<uint64_t> addresses = {memory.address(), memory.address()};
  TCC_TRY(auto graph, device->record([&]() -> Result<void> {
    for (int i = 0; i < kInGraph; ++i) TCC_TRY_VOID(kernel->launch(addresses));
    return {};
  }));
  if (graph == nullptr) return {};
  TCC_TRY_VOID(device->time(1, [&] { return graph->launch(); }));
  TCC_TRY(const double seconds, device->time(10, [&] { return graph->launch(); }));
  return run.row({"probe.launch.graph", seconds / 10 / kInGraph * 1e6, "us", "", 0});
}

// Cycles of one of them, where each thread has a store under way: the time of many, less that of the stores alone.
Result<void> fences(Run& run) {
  struct Fence {
    const char *name, *text;
  };
  constexpr Fence kFences[] = {{"membar.cta", "membar.cta;"},
                               {"membar.gl", "membar.gl;"},
                               {"bar.sync", "bar.sync 0;"},
                               {"fence.acq_rel.cluster", "fence.acq_rel.cluster;"},
                               {"fence.proxy.async", "fence.proxy.async;"},
                               {"fence.proxy.async.shared::cta", "fence.proxy.async.shared::cta;"}};
  const int64_t steps = run.backend.is_small() ? 4 : 4096, threads = 128;
  const int64_t blocks = run.backend.is_small() ? 1 : run.backend.target().cuda.sm_count;
  auto probe = [&](const char* text) {
    const std::string statement = *text == '\0' ? "" : fmt::format("asm volatile(\"{}\" ::: \"memory\");", text);
    return Probe{fmt::format("volatile unsigned* to = (volatile unsigned*)out + blockIdx.x * {0} + threadIdx.x;\n"
                             "#pragma unroll 1\n"
                             "for (unsigned i = 0; i < {1}; ++i) {{ *to = i; {2} }}",
                             threads, steps, statement),
                 blocks, threads};
  };
  const int64_t bytes = blocks * threads * 4;
  const auto plain = try_probe(run, "stores without a fence", probe(""), bytes, 1);
  for (const Fence& fence : kFences) {
    const bool of_hopper = std::string_view(fence.name).starts_with("fence.");
    if (!plain || (of_hopper && run.backend.target().cuda.sm_arch < 90)) continue;
    const auto seconds = try_probe(run, fence.name, probe(fence.text), bytes, 1);
    if (!seconds) continue;
    const double cycles = (*seconds - *plain) / static_cast<double>(steps) * run.backend.target().clock_hz;
    TCC_TRY_VOID(run.row({fmt::format("probe.fence.{}", fence.name), cycles, "cycles", "", 0}));
  }
  return {};
}

// A grid that fills the device once copies with `loads` 16-byte reads a thread before the first write.
Result<void> bytes_in_flight(Run& run) {
  const bool small = run.backend.is_small();
  const int64_t sms = small ? 2 : run.backend.target().cuda.sm_count;
  const int64_t bytes = small ? 1 << 14 : int64_t{1} << 29, elements = bytes / 16;
  for (const int64_t threads : {256, 512, 1024, 2048})  // of a multiprocessor
    for (const int64_t loads : {1, 2, 4, 8}) {
      if (small && threads > 256) continue;
      if (threads > run.backend.target().cuda.max_threads_per_sm) continue;
      const int64_t block = 256, grid = sms * threads / block, step = grid * block;
      const Probe probe{
          fmt::format("for (unsigned base = blockIdx.x * {0}u + threadIdx.x; base < {1}u; base += {2}u) {{\n"
                      "  uint4 v[{3}];\n"
                      "  #pragma unroll\n"
                      "  for (unsigned l = 0; l < {3}; ++l) if (base + l * {4}u < {1}u) v[l] = in[base + l * {4}u];\n"
                      "  #pragma unroll\n"
                      "  for (unsigned l = 0; l < {3}; ++l) if (base + l * {4}u < {1}u) out[base + l * {4}u] = v[l];\n"
                      "}}",
                      block, elements, step * loads, loads, step),
          grid, block};
      const std::string name = fmt::format("probe.copy.{}KiB.{}loads", threads * loads * 16 / 1024, loads);
      const auto seconds = try_probe(run, name, probe, bytes, 4);
      if (seconds && *seconds > 0)
        TCC_TRY_VOID(run.row({name, 2.0 * static_cast<double>(bytes) / *seconds * 1e-9, "GB/s",
                              run.copy_rate > 0 ? "copy" : "", run.copy_rate * 1e-9}));
      if (run.out_of_time()) return {};
    }
  return {};
}

}  // namespace

Result<void> probes(Run& run) {
  TCC_TRY_VOID(know_copy_rate(run));
  TCC_TRY_VOID(clusters(run));
  TCC_TRY_VOID(launches(run));
  TCC_TRY_VOID(fences(run));
  return bytes_in_flight(run);
}

}  // namespace tcc::gpu_check
