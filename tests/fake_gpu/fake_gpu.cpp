// The kernels of the fake CUDA driver run: what they were compiled to, on the machine for PTX. With it
// `tcc tune --target cuda` goes its whole way on a machine without a GPU. What the machine finds fault with (a race, an
// access beyond a buffer) loses the CUDA context, as a fault does on a device.
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "rt/fake_cuda.h"
#include "tcc/emulation/ptx.h"

using namespace tcc;

namespace {

constexpr double kSecondsOfInstruction = 1e-9;  // of a thread
constexpr int kLaunchFailed = 719, kInvalidProgram = 218;

// The module of a text; nullptr for text that is not PTX.
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

// The fake driver's tensor map as the machine takes it; nullopt: it does not begin where a parameter does.
std::optional<codegen::TensorMap> map_of(const fake_cuda_tensor_map& from,
                                         const std::vector<emulation::PtxBuffer>& buffers) {
  codegen::TensorMap map;
  map.buffer = -1;
  for (size_t i = 0; i < buffers.size() && map.buffer < 0; ++i)
    if (buffers[i].data == static_cast<std::byte*>(from.address)) map.buffer = static_cast<int>(i);
  if (map.buffer < 0 || (from.type != 6 && from.type != 7 && from.type != 9 && from.type != 11)) return std::nullopt;
  map.tf32 = from.type == 11;
  map.type = from.type == 6 ? ir::Type::kF16 : from.type == 9 ? ir::Type::kBF16 : ir::Type::kF32;
  map.swizzle = from.swizzle;
  for (size_t d = 0; d < from.rank; ++d) {
    map.dims.push_back(static_cast<int64_t>(from.dims[d]));
    map.box.push_back(from.box[d]);
    if (d > 0) map.strides.push_back(static_cast<int64_t>(from.strides[d - 1]));
  }
  return map;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fake_cuda_run(const char* ptx, const char* symbol,
                                                                    fake_cuda_shape shape,
                                                                    const fake_cuda_piece* parameters, int count,
                                                                    const fake_cuda_tensor_map* maps, int map_count,
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
  for (int m = 0; m < map_count; ++m) {
    const auto map = map_of(maps[m], buffers);
    if (!map) return kInvalidProgram;
    launch.tensor_maps.push_back(*map);
  }
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
