// CUDA source -> cubin, and what ptxas says about it.
#include <algorithm>

#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/prelude.h"
#include "tcc/codegen/cuda.h"
#include "tcc/support/files.h"

namespace tcc::codegen {
namespace {

// CUDA Toolkit releases that compile an architecture.
struct ToolkitRow {
  int64_t first_arch, last_arch;
  const char* toolkits;
};
constexpr ToolkitRow kToolkits[] = {
    {30, 37, "CUDA Toolkit 11.8 or older"},   {50, 72, "CUDA Toolkit 12.9 or older"},
    {73, 79, "CUDA Toolkit 10.0 or newer"},   {80, 87, "CUDA Toolkit 11.4 or newer"},
    {88, 88, "CUDA Toolkit 13.0 or newer"},   {89, 90, "CUDA Toolkit 12.0 or newer"},
    {100, 101, "CUDA Toolkit 12.8 or newer"}, {103, 103, "CUDA Toolkit 12.9 or newer"},
    {110, 110, "CUDA Toolkit 13.0 or newer"}, {120, 121, "CUDA Toolkit 12.9 or newer"},
};

Result<void> check_architecture(const cuda::Nvrtc& nvrtc, const target::Target& target) {
  const std::vector<int>& known = nvrtc.architectures();
  const int64_t arch = target.cuda.sm_arch;
  if (std::find(known.begin(), known.end(), static_cast<int>(arch)) != known.end()) return {};
  std::string hint = "a newer CUDA Toolkit may compile it";
  for (const ToolkitRow& row : kToolkits)
    if (arch >= row.first_arch && arch <= row.last_arch) hint = fmt::format("{} compiles it", row.toolkits);
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("NVRTC {}.{} does not compile {} (target '{}'); it compiles sm_{} to sm_{}",
                                nvrtc.major(), nvrtc.minor(), target::sm_name(target), target.name,
                                known.empty() ? 0 : known.front(), known.empty() ? 0 : known.back()),
                    hint);
}

// The largest number in front of an occurrence of `unit` ("0 bytes spill stores", "Used 40 registers").
double largest_before(const std::string& log, const std::string& unit) {
  double most = 0;
  for (size_t at = log.find(unit); at != std::string::npos; at = log.find(unit, at + 1)) {
    size_t begin = at;
    while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
    if (begin < at) most = std::max(most, std::stod(log.substr(begin, at - begin)));
  }
  return most;
}

// ptxas' report about each function comes behind the line that names it.
void read_functions(const std::string& log, std::vector<Launch>& launches) {
  constexpr std::string_view kNext = "Compiling entry function";
  for (Launch& l : launches) {
    const size_t begin = log.find(fmt::format("{} '{}'", kNext, l.symbol));
    if (begin == std::string::npos) continue;
    const std::string own = log.substr(begin, log.find(kNext, begin + kNext.size()) - begin);
    l.registers = static_cast<int64_t>(largest_before(own, " registers"));
    l.static_shared_bytes = static_cast<int64_t>(largest_before(own, " bytes smem"));
  }
}

double count_of(const std::string& log, std::string_view part) {
  double count = 0;
  for (size_t at = log.find(part); at != std::string::npos; at = log.find(part, at + part.size())) ++count;
  return count;
}

// Notes of ptxas about code that is right and slow. NVRTC's log has them for programs that compile, too. They are told
// by their text: the numbers of messages change between releases.
void read_notes(const std::string& log, std::map<std::string, double>& facts) {
  facts["serialized_products"] = count_of(log, "wgmma.mma_async instructions are serialized");  // C7510 to C7516
  facts["injected_waits"] =
      count_of(log, "warpgroup.wait is injected") + count_of(log, "warpgroup.arrive is injected");  // C7517, C7519
  facts["ignored_register_budgets"] = count_of(log, "'setmaxnreg' ignored");                        // C7508
}

}  // namespace

Result<void> check_cuda_architecture(const target::Target& target, const std::string& nvrtc_library) {
  TCC_TRY(auto nvrtc, cuda::Nvrtc::open(nvrtc_library));
  return check_architecture(*nvrtc, target);
}

Result<std::string> nvrtc_version(const std::string& library) {
  TCC_TRY(auto nvrtc, cuda::Nvrtc::open(library));
  return fmt::format("{}.{}", nvrtc->major(), nvrtc->minor());
}

Result<Artifact> compile_cuda(const ir::Kernel& lowered, const target::Target& target, const CudaOptions& options) {
  Stopwatch watch;
  TCC_TRY(CudaSource source, emit_cuda_source(lowered, target, options));
  Artifact artifact = as_artifact(std::move(source));
  artifact.facts["emit_seconds"] = watch.seconds();
  TCC_TRY(auto nvrtc, cuda::Nvrtc::open(options.nvrtc_library));
  TCC_TRY_VOID(check_architecture(*nvrtc, target));
  std::vector<std::string> words = {"--gpu-architecture=" + target::sm_name(target),
                                    "--std=c++17",
                                    "--ftz=true",
                                    "--prec-div=false",
                                    "--prec-sqrt=false",
                                    "--ptxas-options=-v",
                                    "--disable-warnings"};
  if (options.want_ptx) {
    words[0] = "--gpu-architecture=compute_" + target::sm_name(target).substr(3);
    std::erase(words, "--ptxas-options=-v");
  }
  // Leaves out what no kernel of ours uses of the built-in declarations, a third of the time of an empty kernel.
  if (nvrtc->major() >= 13) words.push_back("--minimal");
  if (options.wait_limit > 0) words.push_back(fmt::format("-DTCC_WAIT_LIMIT={}", options.wait_limit));
  if (options.max_registers > 0) words.push_back(fmt::format("--maxrregcount={}", options.max_registers));
  watch.restart();
  auto compiled = nvrtc->compile(cuda::without_unused(artifact.source), words, options.want_ptx);
  if (!compiled)
    return tl::unexpected<Error>(std::move(compiled).error().with_context("compiling " + artifact.launches[0].symbol));
  artifact.facts["compile_seconds"] = watch.seconds();
  artifact.facts["nvrtc_version"] = nvrtc->major() + nvrtc->minor() / 10.0;
  artifact.format = options.want_ptx ? CodeFormat::kPtx : CodeFormat::kCubin;
  artifact.code = std::move(compiled->code);
  artifact.facts["code_bytes"] = static_cast<double>(artifact.code.size());
  if (!options.want_ptx) {
    const std::string& log = compiled->log;
    double dynamic = 0;
    for (const Launch& l : artifact.launches) dynamic = std::max(dynamic, static_cast<double>(l.shared_bytes));
    artifact.facts["registers"] = largest_before(log, " registers");
    artifact.facts["stack_bytes"] = largest_before(log, " bytes stack frame");
    artifact.facts["spill_bytes"] =
        largest_before(log, " bytes spill stores") + largest_before(log, " bytes spill loads");
    read_notes(log, artifact.facts);
    read_functions(log, artifact.launches);
    artifact.facts["shared_bytes"] = std::max(dynamic, largest_before(log, " bytes smem"));
  }
  return artifact;
}

}  // namespace tcc::codegen
