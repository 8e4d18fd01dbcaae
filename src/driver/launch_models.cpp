#include "driver/launch_models.h"

#include "tcc/backend/backend.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/trace.h"

namespace tcc::driver {

std::optional<ir::Kernel> nest_of_trace(const std::string& json, const task::Task& task, const target::Target& target) {
  const Result<schedule::Trace> trace = schedule::trace_from_json(json);
  if (!trace) return std::nullopt;
  const auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> nest = schedule::replay(*trace, trace->decisions, task.kernel, arena);
  if (nest) nest = lower::lower(*nest, target, ir::Stage::kNest, arena);
  if (!nest) return std::nullopt;
  return std::move(*nest);
}

std::vector<cost::LaunchModel> launch_models_of(const search::Chosen& program, const codegen::Artifact& artifact,
                                                const task::Task& task, const target::Target& target) {
  const auto model = backend::backend_of(target).launch_models;
  if (model == nullptr) return {};
  const std::optional<ir::Kernel> nest = nest_of_trace(program.trace, task, target);
  return nest ? model(*nest, program.lowered, target, artifact) : std::vector<cost::LaunchModel>();
}

}  // namespace tcc::driver
