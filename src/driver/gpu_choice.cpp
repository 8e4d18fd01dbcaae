#include "driver/gpu_choice.h"

#include <algorithm>
#include <map>
#include <optional>

#include "driver/gpu_search.h"
#include "tcc/codegen/cuda.h"
#include "tcc/driver/compile.h"

namespace tcc::driver {
namespace {

using package::Origin;

constexpr int64_t kDefaultRanked = 384;  // programs that the default schedule is chosen from
constexpr size_t kDefaultFinalists = 8;  // of those, tried until one compiles
constexpr size_t kMostPredictions = 4;   // records that are tried until one replays

// Predictions that are ok, by predicted time: the newest of each program.
Result<std::vector<record::Record>> predictions(const task::Task& task, const target::Target& target,
                                                const record::Database& store) {
  TCC_TRY(std::vector<record::Record> all, store.all(task_key_hash(task.key)));
  std::map<uint64_t, record::Record> newest;
  for (record::Record& r : all)
    if (r.kind == record::Kind::kPredicted && r.target_features == target::feature_hash(target))
      newest.insert_or_assign(r.nest, std::move(r));
  std::vector<record::Record> chosen;
  for (auto& [nest, r] : newest)
    if (r.status == record::Status::kOk) chosen.push_back(std::move(r));
  std::sort(chosen.begin(), chosen.end(), [](const record::Record& x, const record::Record& y) {
    return x.median != y.median ? x.median < y.median : x.nest < y.nest;
  });
  if (chosen.size() > kMostPredictions) chosen.resize(kMostPredictions);
  return chosen;
}

class Chooser {
 public:
  // `compiles`: else programs are taken as they come.
  Chooser(const task::Task& task, const target::Target& target, const record::Database* store, bool compiles,
          std::string prefix)
      : task_(task), target_(target), store_(store), compiles_(compiles) {
    options_.prefix = std::move(prefix);
  }

  // From the fastest measurement, else the best prediction, else the default.
  Result<GpuKernel> choose() {
    std::string why = "no valid measurement or prediction of it is in the store";
    if (store_ != nullptr) {
      TCC_TRY(std::optional<record::Record> best,
              store_->best(task_key_hash(task_.key), target::feature_hash(target_)));
      TCC_TRY(std::vector<record::Record> records, predictions(task_, target_, *store_));
      if (best) records.insert(records.begin(), std::move(*best));
      for (const record::Record& r : records) {
        Result<GpuKernel> kernel = of_record(r);
        if (kernel || kernel.error().cls == ErrorClass::kEnvironment) return kernel;
        why = kernel.error().message;
      }
    }
    TCC_TRY(GpuKernel kernel, by_default());
    kernel.program.note =
        fmt::format("{}: not tuned for {} ({}); the default schedule is used", task_.workload, target_.name, why);
    return kernel;
  }

 private:
  Result<GpuKernel> of_record(const record::Record& r) const {
    TCC_TRY(schedule::Trace trace, schedule::trace_from_json(r.trace));
    auto program = search::program_of_trace(trace, task_, target_);
    if (!program) return input_error("its best record does not replay: {}", program.error().message);
    if (program->nest != r.nest) return input_error("its best record gives another program with this version");
    program->tuned = true;
    program->seconds = r.median;
    TCC_TRY(GpuKernel kernel, compile(std::move(*program)));
    kernel.origin = r.kind == record::Kind::kMeasured ? Origin::kMeasured : Origin::kPredicted;
    return kernel;
  }

  Result<GpuKernel> by_default() const {
    GpuSearch search(task_, target_, {.ranked = kDefaultRanked});
    search::Counts counts;
    search.explore(counts);
    std::optional<GpuKernel> spilling;
    for (const GpuCandidate& candidate : search.finalists(kDefaultFinalists)) {
      auto program = search::program_of_trace(search.trace_of(candidate), task_, target_);
      if (!program) continue;
      Result<GpuKernel> kernel = compile(std::move(*program));
      if (!kernel && kernel.error().cls != ErrorClass::kEnvironment) continue;
      if (!kernel || with_spills(1, kernel->artifact) == 1) return kernel;
      if (!spilling) spilling = std::move(*kernel);
    }
    if (spilling) return std::move(*spilling);
    TCC_TRY(search::Chosen plain, search::unscheduled_program(task_, target_));
    return compile(std::move(plain));
  }

  Result<GpuKernel> compile(search::Chosen program) const {
    if (!compiles_) return GpuKernel{std::move(program), {}, Origin::kDefault};
    TCC_TRY(codegen::Artifact artifact, codegen::compile_cuda(program.lowered, target_, options_));
    return GpuKernel{std::move(program), std::move(artifact), Origin::kDefault};
  }

  const task::Task& task_;
  const target::Target& target_;
  const record::Database* store_;
  const bool compiles_;
  codegen::CudaOptions options_;
};

}  // namespace

Result<GpuKernel> choose_gpu_kernel(const task::Task& task, const target::Target& target, const record::Database* store,
                                    const std::string& prefix) {
  return Chooser(task, target, store, true, prefix).choose();
}

Result<TaskProgram> program_of_task(const task::Task& task, const target::Target& target, const record::Database* store,
                                    int64_t threads) {
  if (target.is_cpu()) {
    TCC_TRY(search::Chosen chosen, search::choose_program(task, target, store, threads));
    return TaskProgram{std::move(chosen), false};
  }
  Result<GpuKernel> kernel = choose_gpu_kernel(task, target, store, "kernel");
  if (!kernel && kernel.error().cls == ErrorClass::kEnvironment)
    kernel = Chooser(task, target, store, false, "kernel").choose();
  if (!kernel) return tl::make_unexpected(std::move(kernel).error());
  return TaskProgram{std::move(kernel->program), kernel->origin == Origin::kPredicted};
}

}  // namespace tcc::driver
