// Programs that nobody has run: what is recorded of them, and the time that is expected of them.
#include "search/anchor.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/draft.h"
#include "tcc/lower/lower.h"
#include "tcc/search/model_measurer.h"
#include "tcc/search/search.h"
#include "tcc/target/probe.h"

namespace tcc::search {
namespace {

double prior_of(const ir::Kernel& nest, const target::Target& target, int64_t threads) {
  const std::unique_ptr<cost::CostModel> prior = backend::backend_of(target).prior(target);
  return prior->expected_seconds(features::extract(prior->schema(), nest, target, threads));
}

}  // namespace

record::Record program_record(const task::Task& task, const target::Target& target, const schedule::Trace& trace,
                              uint64_t nest_hash) {
  record::Record r;
  r.task = task_hash(task);
  r.anchor = anchor_hash(task);
  AnchorShape shape = anchor_shape(task);
  r.family = shape.family;
  r.extents = std::move(shape.extents);
  r.workload = task.workload;
  r.target = target.name;
  r.target_features = target::feature_hash(target);
  r.platform = target::platform_text(target);
  r.skeleton = schedule::skeleton_hash(trace);
  r.decisions = trace.decisions;
  r.trace = schedule::trace_to_json(trace);
  r.nest_hash = nest_hash;
  return r;
}

double predicted_seconds(const Chosen& program, const codegen::Artifact& artifact, const task::Task& task,
                         const target::Target& target, int64_t threads) {
  const Result<schedule::Trace> trace = schedule::trace_from_json(program.trace);
  if (!trace) return 0;
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> nest = schedule::replay(*trace, trace->decisions, task.kernel, arena);
  if (nest) nest = lower::lower(*nest, target, ir::Stage::kNest, arena);
  if (!nest) return 0;
  const backend::Backend& backend = backend::backend_of(target);
  const bool compiled = std::any_of(artifact.launches.begin(), artifact.launches.end(),
                                    [](const codegen::Launch& l) { return l.registers > 0; });
  double seconds = 0;
  if (backend.compiled_seconds != nullptr && compiled) seconds = backend.compiled_seconds(*nest, target, artifact);
  if (seconds <= 0) seconds = prior_of(*nest, target, threads);
  if (seconds <= 0) seconds = cost::draft_kernel_seconds(*nest, target, threads).value_or(0);
  return seconds * compiler_factor(artifact);
}

}  // namespace tcc::search
