// Which program is built for a task: the best record's, else the default schedule.
#include <algorithm>

#include "search/anchor.h"
#include "search/best.h"
#include "tcc/codegen/llvm.h"
#include "tcc/cost/cost_model.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/space.h"

namespace tcc::search {
namespace {

constexpr int kDefaultDraws = 64;  // of each design space

Result<Chosen> build(const schedule::Trace& trace, std::span<const int64_t> decisions, const task::Task& task,
                     const target::Target& target) {
  auto arena = std::make_shared<Arena>();
  std::vector<int64_t> used;
  ir::Legal<ir::Kernel> kernel = schedule::replay(trace, decisions, task.kernel, arena, &used);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kNest, arena);
  Chosen chosen;
  if (kernel) chosen.nest = ir::hash_kernel(*kernel);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kLowered, arena);
  if (!kernel)
    return input_error("{}: {}: {}", task.workload, ir::reject_reason_name(kernel.error().reason), kernel.error().text);
  chosen.lowered = std::move(*kernel);
  schedule::Trace exact = trace;
  exact.decisions = std::move(used);
  chosen.trace = schedule::trace_to_json(exact);
  return chosen;
}

// The best by rule among seeded draws; the first that lowers, tried in the order of the scores.
Result<Chosen> default_program(const task::Task& task, const target::Target& target, int64_t threads) {
  struct Draw {
    size_t sketch;
    std::vector<int64_t> decisions;
    float score;
  };
  std::vector<schedule::Trace> traces = space::generate_space(task.kernel, target);
  const std::unique_ptr<cost::CostModel> prior = prior_model(target);
  std::vector<Draw> draws;
  Rng rng(1);
  for (size_t t = 0; t < traces.size(); ++t) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(traces[t], task.kernel, target);
    if (!sketch) continue;
    std::vector<int64_t> decisions = traces[t].decisions;
    for (int i = 0; i < kDefaultDraws; ++i) {
      if (i > 0) space::draw_decisions(*sketch, decisions, rng);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
      if (!nest) continue;
      draws.push_back({t, decisions, prior->score(features::extract(prior->schema(), *nest, target, threads))});
      if (decisions.empty()) break;
    }
  }
  std::stable_sort(draws.begin(), draws.end(), [](const Draw& x, const Draw& y) { return x.score > y.score; });
  for (size_t i = 0; i < std::min<size_t>(draws.size(), 8); ++i) {
    Result<Chosen> chosen = build(traces[draws[i].sketch], draws[i].decisions, task, target);
    if (chosen) return chosen;
  }
  return unscheduled_program(task, target);
}

std::string threads_text(int64_t n) {
  return n == 1 ? "1 thread" : fmt::format("{} threads", n);
}

std::string of_other_threads(const task::Task& task, const Chosen& chosen, int64_t threads) {
  bool parallel = false;
  ir::visit(chosen.lowered.root, [&](ir::Stmt s) {
    const ir::Loop* loop = ir::as<ir::Loop>(s);
    parallel |= loop != nullptr && loop->loop_kind == ir::LoopKind::kParallel;
    return !parallel;
  });
  return fmt::format("{}: not tuned on {}; the schedule measured on {} is used{}", task.workload, threads_text(threads),
                     threads_text(chosen.threads),
                     parallel || threads == 1 ? "" : ", which has no parallel loop and runs on 1 thread");
}

Result<ChosenArtifact> compile(Result<Chosen> program, const target::Target& target, const std::string& prefix) {
  TCC_TRY(Chosen chosen, std::move(program));
  codegen::HostOptions options;
  options.prefix = prefix;
  TCC_TRY(codegen::Artifact artifact, codegen::compile_host(chosen.lowered, target, options));
  return ChosenArtifact{std::move(chosen), std::move(artifact)};
}

}  // namespace

Result<Chosen> program_of_trace(const schedule::Trace& trace, const task::Task& task, const target::Target& target) {
  return build(trace, trace.decisions, task, target);
}

Result<Chosen> unscheduled_program(const task::Task& task, const target::Target& target) {
  TCC_TRY(Chosen chosen, build(schedule::Trace{}, {}, task, target));
  chosen.note = "the unscheduled loops";
  return chosen;
}

Result<Chosen> choose_program(const task::Task& task, const target::Target& target, const record::Database* store,
                              int64_t threads, const Gate& gate) {
  std::string why = "no valid measurement of it is in the store";
  if (store != nullptr) {
    TCC_TRY(std::optional<record::Record> best, find_best(*store, task_hash(task), target, threads));
    if (best) {
      Result<schedule::Trace> trace = schedule::trace_from_json(best->trace);
      Result<Chosen> chosen =
          trace ? build(*trace, trace->decisions, task, target) : Result<Chosen>(tl::make_unexpected(trace.error()));
      if (chosen && chosen->nest == best->nest) {
        chosen->tuned = true;
        chosen->seconds = best->median;
        chosen->threads = best->threads;
        if (best->threads != threads) chosen->note = of_other_threads(task, *chosen, threads);
        return chosen;
      }
      why = chosen ? "its best record gives another program with this version"
                   : "its best record does not replay: " + chosen.error().message;
    }
  }
  if (store != nullptr) {
    std::string relatives;
    TCC_TRY(std::optional<Chosen> taken, relative_program(task, target, *store, threads, gate, relatives));
    if (taken) {
      taken->note = fmt::format(
          "{}: not tuned ({}); the schedule of '{}' is used, which has the same anchor: replayed "
          "and checked here",
          task.workload, why, taken->relative);
      return std::move(*taken);
    }
    why += relatives;
  }
  TCC_TRY(Chosen chosen, default_program(task, target, threads));
  chosen.note = fmt::format("{}: not tuned ({}); the default schedule is used", task.workload, why);
  return chosen;
}

Result<ChosenArtifact> best_artifact(const task::Task& task, const target::Target& target,
                                     const record::Database* store, int64_t threads, const std::string& prefix,
                                     const Gate& gate) {
  return compile(choose_program(task, target, store, threads, gate), target, prefix);
}
Result<ChosenArtifact> unscheduled_artifact(const task::Task& task, const target::Target& target,
                                            const std::string& prefix) {
  return compile(unscheduled_program(task, target), target, prefix);
}

}  // namespace tcc::search
