// The kernels of the fake CUDA driver run: what they were compiled to, on the machine for PTX. With it
// `tcc tune --target cuda` goes its whole way on a machine without a GPU. What the machine finds fault with (a race, an
// access beyond a buffer) loses the CUDA context, as a fault does on a device.
#include <cstdio>
#include <map>
#include <string>

#include "rt/fake_cuda.h"
#include "tcc/emulation/ptx.h"

using namespace tcc;

namespace {

constexpr double kSecondsOfInstruction = 1e-9;  // of a thread
constexpr int kLaunchFailed = 719, kInvalidProgram = 218;

// The module of a text; nullptr where it is none.
const emulation::PtxModule* module_of(const std::string& text) {
  static std::map<std::string, Result<emulation::PtxModule>> modules;
  auto found = modules.find(text);
  if (found == modules.end()) {
    if (modules.size() > 64) modules.clear();
    found = modules.emplace(text, emulation::parse_ptx(text)).first;
    if (!found->second) std::fprintf(stderr, "fake GPU: %s\n", found->second.error().message.c_str());
  }
  return found->second ? &*found->second : nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fake_cuda_run(const char* ptx, const char* symbol,
                                                                    fake_cuda_shape shape,
                                                                    const fake_cuda_piece* parameters, int count,
                                                                    double* seconds) {
  const emulation::PtxModule* module = module_of(ptx);
  if (module == nullptr) return kInvalidProgram;
  if (symbol == nullptr) return 0;
  codegen::Launch launch;
  launch.symbol = symbol;
  for (size_t i = 0; i < 3; ++i) launch.grid[i] = shape.grid[i], launch.block[i] = shape.block[i];
  launch.shared_bytes = shape.shared;
  launch.cooperative = shape.cooperative != 0;
  std::vector<emulation::PtxBuffer> buffers;
  for (int i = 0; i < count; ++i)
    buffers.push_back({static_cast<std::byte*>(parameters[i].begin), static_cast<int64_t>(parameters[i].bytes),
                       "parameter " + std::to_string(i)});
  auto report = emulation::run_ptx(*module, launch, buffers);
  if (!report) {
    std::fprintf(stderr, "fake GPU: %s\n", report.error().message.c_str());
    return kInvalidProgram;
  }
  if (!report->ok()) {
    std::fprintf(stderr, "fake GPU: %s\n", report->text().c_str());
    return kLaunchFailed;
  }
  *seconds = kSecondsOfInstruction * static_cast<double>(report->instructions);
  return 0;
}
