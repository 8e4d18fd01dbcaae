#include "driver/predict.h"

#include <algorithm>
#include <mutex>

#include "driver/gpu_search.h"
#include "tcc/codegen/cuda.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"

namespace tcc::driver {
namespace {

constexpr int64_t kMostFinalists = 12;  // of a task: compiled and stored
constexpr int64_t kSpare = 4;           // further ones, for those that do not compile

// One task: its result, and its records in the order in which they are stored.
struct Prediction {
  TunedTask task;
  std::vector<record::Record> records;
};

class Predictor {
 public:
  Predictor(const task::Task& task, const TuneRequest& request, std::function<bool()> stop)
      : task_(task),
        request_(request),
        search_(task, request.target, {request.options.space, request.options.seed, 2400, stop}),
        stop_(std::move(stop)) {}

  Result<Prediction> run(int64_t finalists) {
    TunedTask& out = prediction_.task;
    out.result.key = task_.key;
    out.result.workload = task_.workload;
    out.result.weight = task_.weight;
    out.flops = task_.flops;
    out.baseline_failure = "nothing runs here";
    search_.explore(out.result.counts);
    out.result.design_spaces = search_.design_spaces();
    for (const GpuCandidate& one : search_.finalists(static_cast<size_t>(finalists + kSpare))) {
      if (out.result.counts.compiled == finalists || stop_()) break;
      TCC_TRY_VOID(finish(one));
    }
    if (out.result.best_seconds > 0) out.result.best_gflops = task_.flops / out.result.best_seconds / 1e9;
    return std::move(prediction_);
  }

 private:
  // Lowered, compiled, written down.
  Result<void> finish(const GpuCandidate& one) {
    const schedule::Trace trace = search_.trace_of(one);
    record::Record r;
    r.kind = record::Kind::kPredicted;
    r.task = task_key_hash(task_.key);
    r.workload = task_.workload;
    r.target = request_.target.name;
    r.target_features = target::feature_hash(request_.target);
    r.skeleton = schedule::skeleton_hash(trace);
    r.decisions = one.decisions;
    r.trace = schedule::trace_to_json(trace);
    r.nest = one.nest;
    r.tool_version = tool_version();
    r.unix_time = Clock::system().unix_seconds();
    r.isa = target::sm_name(request_.target);
    search::TaskResult& result = prediction_.task.result;
    ++result.trials;
    ir::Legal<ir::Kernel> kernel = search_.lower(one);
    if (!kernel) {
      r.status = record::Status::kRejected;
      r.failure = fmt::format("{}: {}", ir::reject_reason_name(kernel.error().reason), kernel.error().text);
    } else {
      Result<codegen::Artifact> artifact = codegen::compile_cuda(*kernel, request_.target);
      // Without a compiler for this architecture there is nothing to store.
      if (!artifact && artifact.error().cls == ErrorClass::kEnvironment) return tl::make_unexpected(artifact.error());
      if (artifact) {
        ++result.counts.compiled;
        r.compile_seconds = artifact->facts.at("compile_seconds");
        r.code = hash_bytes(artifact->code);
        r.median = with_spills(one.seconds, *artifact);
        if (result.best_seconds == 0 || r.median < result.best_seconds)
          result.best_seconds = r.median, result.best_nest = one.nest, result.best_trace = r.trace;
      } else {
        ++result.counts.compile_failed;
        r.status = record::Status::kCompileFailed;
        r.failure = artifact.error().message;
      }
    }
    prediction_.records.push_back(std::move(r));
    return {};
  }

  const task::Task& task_;
  const TuneRequest& request_;
  GpuSearch search_;
  std::function<bool()> stop_;
  Prediction prediction_;
};

// Tasks are worked on by several threads; what comes of them is stored and reported in their order, so that the same
// seed gives the same records in the same order.
class Desk {
 public:
  Desk(record::Store& store, const TuneRequest& request, size_t tasks, int64_t trials)
      : store_(store), request_(request), done_(tasks), trials_limit_(trials) {}

  void hand_in(size_t index, Result<Prediction> prediction) {
    std::lock_guard lock(mutex_);
    done_[index] = std::move(prediction);
    while (next_ < done_.size() && done_[next_]) take(next_++);
  }
  bool failed() const {
    std::lock_guard lock(mutex_);
    return error_.has_value();
  }
  Result<TuneReport> close(bool stopped) {
    if (error_) return tl::make_unexpected(*error_);
    report_.seconds = watch_.seconds();
    report_.stopped = stopped;
    if (stopped || !all_known_) report_.best_seconds = 0;
    return std::move(report_);
  }

 private:
  void take(size_t index) {
    Result<Prediction>& one = *done_[index];
    if (error_) return;
    if (one) {
      if (Result<void> stored = store_.add_all(one->records); !stored) error_ = std::move(stored).error();
    } else {
      error_ = std::move(one).error();
    }
    if (error_) return;
    const search::TaskResult& result = one->task.result;
    report_.trials += result.trials;
    report_.counts.add(result.counts);
    report_.best_seconds += static_cast<double>(result.weight) * result.best_seconds;
    all_known_ = all_known_ && result.best_seconds > 0;
    if (request_.progress) request_.progress(progress(index, result));
    report_.tasks.push_back(std::move(one->task));
  }

  search::Progress progress(size_t index, const search::TaskResult& result) const {
    search::Progress p;
    p.kind = search::Progress::Kind::kNote;
    p.task = static_cast<int64_t>(index);
    p.workload = result.workload;
    p.trials = report_.trials;
    p.trials_limit = trials_limit_;
    p.task_trials = result.trials;
    p.best_seconds = result.best_seconds;
    p.best_gflops = result.best_gflops;
    p.elapsed_seconds = watch_.seconds();
    p.task_counts = result.counts;
    const search::Counts& c = result.counts;
    p.note = fmt::format("{} of {} tasks: {}: {} programs ranked, {} compiled", report_.tasks.size() + 1, done_.size(),
                         result.workload, c.proposed - c.duplicate - c.rejected, c.compiled);
    return p;
  }

  record::Store& store_;
  const TuneRequest& request_;
  mutable std::mutex mutex_;
  Stopwatch watch_;
  std::vector<std::optional<Result<Prediction>>> done_;
  size_t next_ = 0;
  const int64_t trials_limit_;
  TuneReport report_;
  bool all_known_ = true;
  std::optional<Error> error_;
};

}  // namespace

Result<TuneReport> predict_program(const Program& program, record::Store& store, const TuneRequest& request) {
  TCC_TRY_VOID(codegen::nvrtc_version());
  Stopwatch watch;
  std::vector<const task::Task*> tasks;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i)
    if (request.tasks.empty() || std::count(request.tasks.begin(), request.tasks.end(), i) > 0)
      tasks.push_back(&program.tasks.tasks[i]);
  const auto count = static_cast<int64_t>(std::max<size_t>(tasks.size(), 1));
  int64_t finalists = std::clamp<int64_t>(request.options.trials / count, 1, kMostFinalists);
  if (request.options.trials_per_task > 0) finalists = std::min(finalists, request.options.trials_per_task);
  Desk desk(store, request, tasks.size(), finalists * count);
  auto stop = [&] {
    const double limit = request.options.seconds;
    return (request.stop && request.stop()) || (limit > 0 && watch.seconds() > limit) || desk.failed();
  };
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  pool.parallel_for(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
    const auto index = static_cast<size_t>(i);
    if (stop()) return;
    desk.hand_in(index, Predictor(*tasks[index], request, stop).run(finalists));
  });
  TCC_TRY(TuneReport report, desk.close(request.stop && request.stop()));
  report.predicted = true;
  report.notes.push_back(fmt::format(
      "times for '{}' are predicted by an analytical model; programs were compiled, none was run or checked",
      request.target.name));
  return report;
}

}  // namespace tcc::driver
