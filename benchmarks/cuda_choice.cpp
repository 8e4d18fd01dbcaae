#include "cuda_choice.h"

#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/codegen/cuda.h"
#include "tcc/search/model_measurer.h"

namespace tcc::benchmarks {

namespace {
constexpr int64_t kCompiled = 12;  // programs of the ranking
}  // namespace

Result<search::ChosenArtifact> choose_without_device(const task::Task& task, const target::Target& device) {
  TCC_TRY(auto store, record::Store::open(":memory:"));
  search::ModelMeasurer model([&](const ir::Kernel& lowered) { return codegen::compile_cuda(lowered, device); },
                              target::sm_name(device), nullptr,
                              [&](const ir::Kernel& nest, const codegen::Artifact& artifact) {
                                return backend::backend_of(device).compiled_seconds(nest, device, artifact);
                              });
  TCC_TRY_VOID(search::tune({&task, 1}, device, search::ranking_options({}, device, kCompiled),
                            {.store = store.get(), .measurer = &model}));
  return search::best_artifact(task, device, store.get(), 1, "bench");
}

int64_t resident_blocks(const search::ChosenArtifact& chosen, const target::Target& device) {
  const codegen::Launch& launch = chosen.artifact.launches.at(0);
  const target::CudaInfo& c = device.cuda;
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const int64_t warps = (threads + c.warp_size - 1) / c.warp_size;
  const auto fact = [&](const char* name) { return static_cast<int64_t>(chosen.artifact.facts.at(name)); };
  const int64_t unit = std::max<int64_t>(c.register_allocation_unit, 1);
  const int64_t registers = (fact("registers") * c.warp_size + unit - 1) / unit * unit * warps;
  const int64_t resident = std::min({c.max_blocks_per_sm, c.max_threads_per_sm / (warps * c.warp_size),
                                     c.registers_per_sm / std::max<int64_t>(registers, 1)});
  // Before sm_80 a block without shared memory takes none.
  const int64_t shared = std::max<int64_t>(fact("shared_bytes") + c.shared_reserved_per_block, 1);
  return std::min(resident, c.shared_per_sm / shared);
}

}  // namespace tcc::benchmarks
