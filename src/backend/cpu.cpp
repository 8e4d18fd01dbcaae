// The host's kind: x86-64 code by LLVM, run in a child process.
#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/codegen/llvm.h"
#include "tcc/measure/host.h"

namespace tcc::backend {
namespace {

std::string isa(const target::Target& target) {
  return target::isa_level_name(target::isa_level(target));
}

bool runs_on_host(const target::Target& target) {
  return target::isa_level(target) <= target::isa_level(target::host_target());
}

bool multiplies(const target::Target& target, target::Precision precision) {
  const target::CpuFeatures& features = target.cpu.features;
  return precision == target::Precision::kF32 ||
         (precision == target::Precision::kBF16 && (features.avx512_bf16 || features.amx_bf16));
}

// A vector of results; of bytes a row of a tile, where the target multiplies tiles of them.
int64_t channel_block(const target::Target& target, bool bytes) {
  constexpr int64_t kTileRow = 64;
  const target::CpuFeatures& features = target.cpu.features;
  return bytes && features.amx_tile && features.amx_int8 ? kTileRow : std::max<int64_t>(target.cpu.vector_bits / 32, 4);
}

Result<void> check_tunable(const target::Target& target) {
  if (!codegen::has_llvm())
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot tune for '{}': this tcc was built without LLVM", target.name),
                      "name a GPU, for example --target a100, or use a tcc that was built with LLVM");
  if (runs_on_host(target)) return {};
  const target::Target host = target::host_target();
  return make_error(
      ErrorClass::kInput,
      fmt::format("'{}' cannot be tuned here: this machine is {} and runs {}", target.name, host.source, isa(host)),
      "tune on a machine of that kind, or use --target host");
}

Result<codegen::Artifact> compile(const ir::Kernel& lowered, const target::Target& target,
                                  const CompileOptions& options) {
  return codegen::compile_host(lowered, target, {.prefix = options.prefix, .want_ir = options.want_source});
}

Result<std::unique_ptr<Machine>> open(const target::Target& target, const OpenOptions& options) {
  TCC_TRY_VOID(check_tunable(target));
  measure::HostMeasureOptions host;
  host.threads = static_cast<int>(options.threads);
  host.device = options.device;
  host.budget_seconds = options.budget_seconds;
  host.sandbox = options.sandbox;
  host.cold_weights = options.cold_weights;
  if (options.memory_limit_bytes > 0) host.memory_limit_bytes = options.memory_limit_bytes;
  host.compile_pool = options.compile_pool;
  auto machine = std::make_unique<Machine>();
  TCC_TRY(machine->measurer, measure::IsolatedHostMeasurer::create(host));
  return machine;
}

Result<void> add_texts(const ir::Kernel& lowered, const target::Target& target, const CompileOptions& given,
                       const package::Emit& emit, package::TaskCode& code) {
  if (emit.llvm) {
    TCC_TRY(codegen::Artifact artifact,
            codegen::compile_host(lowered, target, {.prefix = given.prefix, .want_ir = true}));
    code.artifact.source = std::move(artifact.source);
    code.artifact.source_ending = artifact.source_ending;
  }
  if (emit.assembly) {
    TCC_TRY(codegen::Artifact artifact,
            codegen::compile_host(lowered, target, {.prefix = given.prefix, .want_assembly = true}));
    code.assembly = std::move(artifact.source);
  }
  return {};
}

Result<package::PackageReport> write(package::PackagePlan plan, std::vector<package::ArchitectureCode> code,
                                     const package::PackageOptions& options) {
  plan.codes = std::move(code.at(0).codes);
  plan.older.assign(std::make_move_iterator(code.begin() + 1), std::make_move_iterator(code.end()));
  return package::build_library(plan, options);
}

constexpr std::string_view kTexts[] = {"obj", "llvm", "asm", "ir", "trace"};
constexpr Payload kObjects = {
    .texts = kTexts, .several_targets = true, .overwrites_inputs = true, .add_texts = add_texts, .write = write};

}  // namespace

const Backend kCpu = {
    .kind = target::TargetKind::kCpu,
    .modules = &space::kCpuModules,
    .pipeline = lower::cpu_pipeline,
    .multiplies = multiplies,
    .mutators = schedule::mutator_weights(false),
    .prior = [](const target::Target& t) { return cost::make_rule_model(target::core_model(t)); },
    .default_model = "pacm",
    .search_model = "mlp",
    .by_threads = true,
    .runs_unscheduled = true,
    .channel_block = channel_block,
    .compile = compile,
    .payload = &kObjects,
    .isa = isa,
    .check_tunable = check_tunable,
    .runs_on_host = runs_on_host,
    .open = open,
};

}  // namespace tcc::backend
