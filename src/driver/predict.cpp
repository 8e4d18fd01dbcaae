#include "driver/predict.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "tcc/codegen/cuda.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/driver/explain.h"
#include "tcc/driver/show.h"
#include "tcc/features/gpu_facts.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/target/target.h"

namespace tcc::driver {
namespace {

constexpr int kDrawsPerSketch = 256;
constexpr int kGenerations = 8;
constexpr size_t kPopulation = 64;
constexpr int kChildren = 4;           // of each program of a generation
constexpr int64_t kMostFinalists = 8;  // of a task: compiled and stored

struct Individual {
  size_t sketch = 0;
  std::vector<int64_t> decisions;
  uint64_t nest = 0;
  double seconds = 0;  // predicted
};

class Predictor {
 public:
  Predictor(const task::Task& task, record::Store& store, const TuneRequest& request)
      : task_(task),
        store_(store),
        request_(request),
        rng_(combine_hash(task_key_hash(task.key), request.options.seed)) {}

  Result<TunedTask> run(int64_t finalists) {
    result_.result.key = task_.key;
    result_.result.workload = task_.workload;
    result_.result.weight = task_.weight;
    result_.flops = task_.flops;
    result_.baseline_failure = "nothing runs here";
    explore();
    for (const Individual& one : best_) {
      if (finalists-- == 0 || stopped()) break;
      TCC_TRY_VOID(finish(one));
    }
    if (result_.result.best_seconds > 0) result_.result.best_gflops = task_.flops / result_.result.best_seconds / 1e9;
    return std::move(result_);
  }

 private:
  bool stopped() const { return request_.stop && request_.stop(); }

  void explore() {
    space::SpaceOptions options = request_.options.space;
    options.seed = request_.options.seed;
    for (schedule::Trace& trace : space::generate_space(task_.kernel, request_.target, options))
      if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task_.kernel, request_.target))
        sketches_.push_back(std::move(*sketch));
    result_.result.design_spaces = static_cast<int64_t>(sketches_.size());
    for (size_t s = 0; s < sketches_.size(); ++s) {
      consider({s, sketches_[s].trace.decisions, 0, 0});
      for (int i = 0; i < kDrawsPerSketch && !stopped(); ++i) {
        Individual one{s, sketches_[s].trace.decisions, 0, 0};
        space::draw_decisions(sketches_[s], one.decisions, rng_);
        consider(std::move(one));
      }
    }
    for (int g = 0; g < kGenerations && !stopped(); ++g) {
      const std::vector<Individual> parents = best_;
      for (const Individual& parent : parents)
        for (int c = 0; c < kChildren; ++c) {
          Individual child = parent;
          if (schedule::mutate(sketches_[child.sketch].trace, child.decisions, rng_)) consider(std::move(child));
        }
    }
  }

  // Keeps the program if it is legal, new, and among the best.
  void consider(Individual one) {
    search::Counts& counts = result_.result.counts;
    ++counts.proposed;
    arena_->reset();
    ir::Legal<ir::Kernel> nest = space::instantiate(sketches_[one.sketch], one.decisions, request_.target, arena_);
    if (!nest) {
      ++counts.rejected;
      const std::string reason(ir::reject_reason_name(nest.error().reason));
      ++counts.rejected_by_reason[reason];
      counts.reject_examples.emplace(reason, nest.error().text);
      return;
    }
    one.nest = ir::hash_kernel(*nest);
    if (!seen_.insert(one.nest).second) {
      ++counts.duplicate;
      return;
    }
    one.seconds =
        cost::predict_gpu_seconds(features::gpu_facts(*nest, request_.target), request_.target.cuda.launch_seconds);
    if (!std::isfinite(one.seconds)) return;
    auto before = [](const Individual& x, const Individual& y) {
      return x.seconds != y.seconds ? x.seconds < y.seconds : x.nest < y.nest;
    };
    best_.insert(std::upper_bound(best_.begin(), best_.end(), one, before), one);
    if (best_.size() > kPopulation) best_.pop_back();
  }

  // Lowered, compiled, stored.
  Result<void> finish(const Individual& one) {
    const space::Sketch& sketch = sketches_[one.sketch];
    schedule::Trace trace = sketch.trace;
    trace.decisions = one.decisions;
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
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> kernel = space::instantiate(sketch, one.decisions, request_.target, arena);
    if (kernel) kernel = lower::lower(*kernel, request_.target, ir::Stage::kLowered, arena);
    search::TaskResult& result = result_.result;
    ++result.trials;
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
        r.median = one.seconds;
        if (result.best_seconds == 0)
          result.best_seconds = one.seconds, result.best_nest = one.nest, result.best_trace = r.trace;
      } else {
        ++result.counts.compile_failed;
        r.status = record::Status::kCompileFailed;
        r.failure = artifact.error().message;
      }
    }
    TCC_TRY(r.id, store_.add(r));
    return {};
  }

  const task::Task& task_;
  record::Store& store_;
  const TuneRequest& request_;
  Rng rng_;
  ArenaPtr arena_ = std::make_shared<Arena>();
  std::vector<space::Sketch> sketches_;
  std::vector<Individual> best_;  // by predicted time
  std::unordered_set<uint64_t> seen_;
  TunedTask result_;
};

}  // namespace

Result<TuneReport> predict_program(const Program& program, record::Store& store, const TuneRequest& request) {
  TCC_TRY_VOID(codegen::nvrtc_version());
  Stopwatch watch;
  TuneReport report;
  std::vector<const task::Task*> tasks;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i)
    if (request.tasks.empty() || std::count(request.tasks.begin(), request.tasks.end(), i) > 0)
      tasks.push_back(&program.tasks.tasks[i]);
  const auto count = static_cast<int64_t>(std::max<size_t>(tasks.size(), 1));
  const int64_t finalists = std::clamp<int64_t>(request.options.trials / count, 1, kMostFinalists);
  bool all_known = true;
  for (const task::Task* task : tasks) {
    if (request.stop && request.stop()) {
      report.stopped = true;
      break;
    }
    TCC_TRY(TunedTask one, Predictor(*task, store, request).run(finalists));
    report.trials += one.result.trials;
    report.counts.add(one.result.counts);
    report.best_seconds += static_cast<double>(one.result.weight) * one.result.best_seconds;
    all_known = all_known && one.result.best_seconds > 0;
    report.tasks.push_back(std::move(one));
  }
  if (!all_known || report.stopped) report.best_seconds = 0;
  report.seconds = watch.seconds();
  report.notes.push_back(fmt::format(
      "times for '{}' are predicted by an analytical model; programs were compiled, none was run or checked",
      request.target.name));
  return report;
}

}  // namespace tcc::driver
