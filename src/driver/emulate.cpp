#include "tcc/driver/emulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "driver/build.h"
#include "tcc/backend/backend.h"
#include "tcc/codegen/cuda.h"
#include "tcc/emulation/ptx.h"
#include "tcc/interp/tensor.h"
#include "tcc/measure/reference.h"
#include "tcc/measure/task.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"
#include "tcc/support/rng.h"

namespace tcc::driver {
namespace {

using interp::TensorData;
using Status = EmulatedTask::Status;

// Reals in [-1, 1), or in [0.5, 1.5) where roots and logarithms of negative numbers would compare nothing.
std::vector<TensorData> make_data(const task::Task& task, uint64_t seed, bool positive) {
  const std::map<ir::Id, int64_t> limits = measure::index_limits(task.kernel);
  std::vector<TensorData> data;
  for (const ir::Buffer* b : task.kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    Rng rng = Rng(seed).fork(data.size());
    TensorData tensor = TensorData::make_random(b->type, shape, rng.next());
    const auto limit = limits.find(b->id);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      if (limit != limits.end()) tensor.set(i, static_cast<double>(rng.below(std::max<int64_t>(limit->second, 1))));
      if (limit == limits.end() && positive && ir::is_float(b->type)) tensor.set(i, 0.5 + rng.uniform());
    }
    if (b->role == ir::BufferRole::kOutput) std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0xff});
    data.push_back(std::move(tensor));
  }
  return data;
}

// The naive kernel, all reals in double precision, on the same values.
Result<std::vector<TensorData>> run_naive(const measure::ReferenceProgram& reference,
                                          const std::vector<TensorData>& data) {
  std::vector<TensorData> tensors;
  for (const TensorData& from : data) {
    TensorData tensor = from;
    if (ir::is_float(from.type) && from.type != ir::Type::kF64)
      tensor = TensorData::from_doubles(ir::Type::kF64, from.shape, from.to_doubles());
    tensors.push_back(std::move(tensor));
  }
  TCC_TRY_VOID(reference.run(tensors));
  return tensors;
}

bool is_finite(const task::Task& task, const std::vector<TensorData>& tensors) {
  size_t n = 0;
  for (const ir::Buffer* b : task.kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    const TensorData& t = tensors[n++];
    for (int64_t i = 0; b->role == ir::BufferRole::kOutput && i < t.size(); ++i)
      if (!std::isfinite(t.at(i))) return false;
  }
  return true;
}

// Eight units in the last place of a 16-bit output: chains of operations round after each. What is multiplied may be
// rounded on the way, too: the weights of an attention to the type of what they weigh.
double allowed_error(const task::Task& task, const ir::Buffer& output, double tolerance) {
  double unit = task.kernel.tf32 ? 0x1p-11 : 0;
  for (const ir::Buffer* b : task.kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp || (b != &output && task.anchor != task::AnchorKind::kAttention)) continue;
    if (b->type == ir::Type::kF16) unit = std::max(unit, 0x1p-11);
    if (b->type == ir::Type::kBF16) unit = std::max(unit, 0x1p-8);
  }
  return std::max(tolerance, 8 * unit);
}

void compare(const task::Task& task, const std::vector<TensorData>& got, const std::vector<TensorData>& expected,
             const std::vector<std::vector<bool>>& written, double tolerance, EmulatedTask& result) {
  size_t n = 0;
  for (const ir::Buffer* b : task.kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    const size_t p = n++;
    if (b->role != ir::BufferRole::kOutput) continue;
    double scale = std::numeric_limits<double>::min();
    for (int64_t i = 0; i < expected[p].size(); ++i)
      if (std::isfinite(expected[p].at(i))) scale = std::max(scale, std::fabs(expected[p].at(i)));
    const double allowed = allowed_error(task, *b, tolerance);
    result.allowed = std::max(result.allowed, allowed);
    for (int64_t i = 0; i < got[p].size(); ++i) {
      if (!written.empty() && !written[p][static_cast<size_t>(i)]) continue;
      const double x = got[p].at(i), y = expected[p].at(i);
      const bool same = x == y || (std::isnan(x) && std::isnan(y));
      const double error = same ? 0 : std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) / scale : HUGE_VAL;
      result.max_error = std::max(result.max_error, error);
      if (error > allowed && result.failure.empty())
        result.failure = fmt::format("element {} of output {} is {:.7g}, not {:.7g}", i, p, x, y);
    }
  }
}

class Emulation {
 public:
  Emulation(const task::Task& task, const codegen::Artifact& ptx, const EmulateOptions& options, EmulatedTask& result)
      : task_(task), ptx_(ptx), options_(options), result_(result) {}

  Result<void> run() {
    if (task_.flops > measure::affordable_flops(options_.max_flops, options_.engine)) {
      result_.status = Status::kTooLarge;
      result_.failure = fmt::format("too large to emulate: its reference takes {:.3g} operations", task_.flops);
      return {};
    }
    measure::ReferenceOptions how;
    how.engine = options_.engine;
    TCC_TRY(const measure::ReferenceProgram reference,
            measure::ReferenceProgram::compile(measure::to_double(task_.kernel), target::host_target(), how));
    std::vector<TensorData> data = make_data(task_, options_.seed, false);
    TCC_TRY(std::vector<TensorData> expected, run_naive(reference, data));
    if (!is_finite(task_, expected)) {
      data = make_data(task_, options_.seed, true);
      TCC_TRY(expected, run_naive(reference, data));
    }
    std::vector<TensorData> got = data;
    TCC_TRY(emulation::PtxReport report, emulate(got, 0));
    const bool large = report.has(interp::Finding::Kind::kStepLimit);
    if (large) {
      // Blocks that fit, judged by the first.
      const int64_t fit = report.expected > 0 ? static_cast<int64_t>(static_cast<double>(options_.max_instructions) /
                                                                     static_cast<double>(report.expected) *
                                                                     static_cast<double>(report.all_blocks))
                                              : 0;
      const bool parts = ptx_.launches.size() == 1 && !ptx_.launches[0].cooperative && fit >= 2;
      if (!parts) {
        result_.status = Status::kTooLarge;
        result_.needed = report.expected;
        result_.failure =
            fmt::format("too large to emulate: {:.3g} instructions", static_cast<double>(report.expected));
        return {};
      }
      got = data;
      TCC_TRY(report, emulate(got, std::max<int64_t>(fit / 2, 2)));
    }
    result_.instructions = report.instructions;
    result_.needed = report.expected;
    result_.blocks = report.blocks;
    result_.all_blocks = report.all_blocks;
    for (const interp::Finding& f : report.findings) {
      if (f.kind == interp::Finding::Kind::kRace) result_.races += f.count;
      result_.findings.push_back(fmt::format("{}: {}", interp::finding_name(f.kind), f.text));
    }
    if (report.ok()) {
      compare(task_, got, expected, report.written, options_.tolerance, result_);
    } else {
      result_.failure = result_.findings[0];
    }
    result_.status = !result_.failure.empty() ? Status::kFailed : large ? Status::kPart : Status::kOk;
    return {};
  }

 private:
  Result<emulation::PtxReport> emulate(std::vector<TensorData>& data, int64_t max_blocks) const {
    std::vector<TensorData*> pointers;
    for (TensorData& t : data) pointers.push_back(&t);
    emulation::PtxOptions options;
    options.seed = options_.seed;
    options.max_instructions = options_.max_instructions;
    options.max_blocks = max_blocks;
    return emulation::run_artifact(ptx_, pointers, options);
  }

  const task::Task& task_;
  const codegen::Artifact& ptx_;
  const EmulateOptions& options_;
  EmulatedTask& result_;
};

}  // namespace

int64_t EmulateReport::count(EmulatedTask::Status status) const {
  return std::count_if(tasks.begin(), tasks.end(), [&](const EmulatedTask& t) { return t.status == status; });
}

Result<EmulateReport> emulate_model(const Model& model, const EmulateOptions& options) {
  if (backend::backend_of(options.target).payload->compile_portable == nullptr)
    return make_error(ErrorClass::kUsage,
                      fmt::format("--emulate: expected a GPU as target, not {}", options.target.name),
                      "add --target a100 or another GPU; `tcc targets` lists them");
  TCC_TRY(Program program, make_program(model, options.target));
  BuildOptions build;
  build.targets = {options.target};
  build.store = options.store;
  build.emit.ptx = true;
  TCC_TRY(std::vector<search::ChosenArtifact> kernels, choose_kernels(program, build));
  TCC_TRY(const std::vector<package::ArchitectureCode> codes, package_kernels(program, build, std::move(kernels)));
  const std::vector<task::Task>& tasks = program.tasks.tasks;
  EmulateReport report;
  report.model = model.source.model;
  report.target = options.target.name;
  TCC_TRY(report.toolkit, codegen::nvrtc_version());
  report.tasks.resize(tasks.size());
  std::vector<Result<void>> done(tasks.size());
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  pool.parallel_for(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
    const auto n = static_cast<size_t>(i);
    EmulatedTask& result = report.tasks[n];
    result.key = tasks[n].key;
    result.workload = tasks[n].workload;
    result.weight = tasks[n].weight;
    result.origin = codes[0].codes[n].origin;
    codegen::Artifact ptx = codes[0].codes[n].artifact;
    ptx.format = codegen::CodeFormat::kPtx;
    ptx.code = codes[0].codes[n].ptx_text;
    const Stopwatch watch;
    done[n] = Emulation(tasks[n], ptx, options, result).run();
    result.seconds = watch.seconds();
  });
  for (size_t n = 0; n < done.size(); ++n)
    if (!done[n]) return tl::make_unexpected(std::move(done[n]).error().with_context(tasks[n].workload));
  return report;
}

}  // namespace tcc::driver
