#include "tcc/measure/reference.h"

#include <algorithm>
#include <cstring>

#include "measure/reference_kernels.h"
#include "tcc/codegen/llvm.h"
#include "tcc/interp/interp.h"
#include "tcc/lower/lower.h"
#include "tcc/runtime/host_kernel.h"
#include "tcc/support/check.h"
#include "tcc/support/parallel.h"

namespace tcc::measure {
namespace {

// Less than the interpreter is slower (25 times on a matrix product, 45 on a convolution): the references of most
// operators of small networks stay whole, and take some seconds.
constexpr double kInterpreterSlowdown = 20;

// Not a number in every type of floats: what nothing writes shows.
void poison(interp::TensorData& tensor) {
  std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0xff});
}

Result<codegen::Artifact> compile_code(const ir::Kernel& f64_kernel, const target::Target& cpu,
                                       const ReferenceOptions& options) {
  auto arena = std::make_shared<Arena>();
  const ir::Kernel ordered = options.reorder ? interchange_reductions(f64_kernel) : f64_kernel;
  auto lowered = lower::lower(parallelise_outer(ordered), cpu, ir::Stage::kLowered, arena);
  if (!lowered)
    return environment_error("the reference of a task does not lower: {} ({})",
                             ir::reject_reason_name(lowered.error().reason), lowered.error().text);
  codegen::HostOptions code;
  code.vectorize = true;
  return codegen::compile_host(*lowered, cpu, code);
}

}  // namespace

// Loop nests run one after the other, the parts of one at the same time.
struct ReferenceProgram::Interpreted {
  std::vector<const ir::Buffer*> buffers;  // parameters and temporaries, in the order of the programs' parameters
  std::vector<std::vector<interp::Program>> nests;
  ArenaPtr arena;  // of the buffers
};

ReferenceEngine resolve_engine(ReferenceEngine engine) {
  if (engine != ReferenceEngine::kBest) return engine;
  return codegen::has_llvm() ? ReferenceEngine::kMachineCode : ReferenceEngine::kInterpreter;
}

double affordable_flops(double flops, ReferenceEngine engine) {
  return resolve_engine(engine) == ReferenceEngine::kInterpreter ? flops / kInterpreterSlowdown : flops;
}

Result<ReferenceProgram> ReferenceProgram::compile(const ir::Kernel& f64_kernel, const target::Target& cpu,
                                                   const ReferenceOptions& options) {
  TCC_CHECK(options.threads >= 1);
  ReferenceProgram program;
  program.options_ = options;
  if (resolve_engine(options.engine) == ReferenceEngine::kMachineCode) {
    TCC_TRY(program.artifact_, compile_code(f64_kernel, cpu, options));
    return program;
  }
  auto interpreted = std::make_shared<Interpreted>();
  interpreted->buffers.assign(f64_kernel.buffers.begin(), f64_kernel.buffers.end());
  interpreted->arena = f64_kernel.arena;
  for (const std::vector<ir::Kernel>& parts : split_nests(f64_kernel, options.threads)) {
    std::vector<interp::Program>& nest = interpreted->nests.emplace_back();
    for (const ir::Kernel& part : parts) nest.push_back(interp::Program::compile(part));
  }
  program.interpreted_ = std::move(interpreted);
  return program;
}

Result<void> ReferenceProgram::run(std::span<interp::TensorData> params) const {
  return artifact_ ? execute(params) : interpret(params);
}

Result<void> ReferenceProgram::interpret(std::span<interp::TensorData> params) const {
  std::vector<interp::TensorData> temporaries;
  temporaries.reserve(interpreted_->buffers.size());
  std::vector<interp::TensorData*> tensors;
  size_t next = 0;
  for (const ir::Buffer* buffer : interpreted_->buffers) {
    if (buffer->role == ir::BufferRole::kTemp) {
      std::vector<int64_t> shape;
      for (ir::Expr extent : buffer->shape) shape.push_back(ir::int_value(extent));
      temporaries.push_back(interp::TensorData::zeros(buffer->type, shape));
      tensors.push_back(&temporaries.back());
    } else {
      TCC_CHECK(next < params.size(), "a parameter has no tensor");
      tensors.push_back(&params[next++]);
    }
    if (buffer->role == ir::BufferRole::kTemp || buffer->role == ir::BufferRole::kOutput) poison(*tensors.back());
  }
  TCC_CHECK(next == params.size(), "{} tensors for {} parameters", params.size(), next);
  interp::Options options;
  options.poison = false;  // reading what was not written shows as not a number
  options.max_steps = options_.max_iterations;
  ThreadPool pool(options_.threads);
  for (const std::vector<interp::Program>& parts : interpreted_->nests) {
    std::vector<interp::Report> reports(parts.size());
    pool.parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t i, int) {
      reports[static_cast<size_t>(i)] = parts[static_cast<size_t>(i)].run(tensors, options);
    });
    for (const interp::Report& report : reports) {
      if (report.has(interp::Finding::Kind::kStepLimit))
        return make_error(ErrorClass::kEnvironment,
                          fmt::format("the reference of a task takes more than {:.3g} loop iterations a thread, too "
                                      "many for the interpreter",
                                      static_cast<double>(options_.max_iterations)),
                          "use a smaller batch or image, or a tcc that was built with LLVM");
      if (!report.ok()) return environment_error("the reference of a task did not run: {}", report.text());
    }
  }
  return {};
}

Result<void> ReferenceProgram::execute(std::span<interp::TensorData> params) const {
  TCC_TRY(auto pool, runtime::HostPool::create(options_.threads));
  TCC_TRY(auto kernel, runtime::HostKernel::load(*artifact_, std::move(pool)));
  std::vector<runtime::GuardedBuffer> buffers;
  std::vector<void*> pointers;
  for (const codegen::BufferInfo& info : kernel->buffers()) {
    if (info.role == ir::BufferRole::kTemp) continue;
    TCC_CHECK(buffers.size() < params.size(), "a parameter has no tensor");
    interp::TensorData& tensor = params[buffers.size()];
    TCC_CHECK(static_cast<int64_t>(tensor.bytes.size()) <= info.bytes, "a tensor is larger than its parameter");
    if (info.role == ir::BufferRole::kOutput) poison(tensor);
    TCC_TRY(auto buffer, runtime::GuardedBuffer::allocate(info.bytes, std::max<int64_t>(info.alignment, 64)));
    std::memcpy(buffer.data(), tensor.bytes.data(), tensor.bytes.size());
    pointers.push_back(buffer.data());
    buffers.push_back(std::move(buffer));
  }
  TCC_CHECK(buffers.size() == params.size(), "{} tensors for {} parameters", params.size(), buffers.size());
  kernel->poison_workspace(0xff);
  TCC_TRY_VOID(kernel->run(pointers));
  for (size_t i = 0; i < params.size(); ++i)
    std::memcpy(params[i].bytes.data(), buffers[i].data(), params[i].bytes.size());
  return {};
}

}  // namespace tcc::measure
