#include "tcc/space/space.h"

#include <algorithm>
#include <set>

#include "space/modules.h"
#include "tcc/lower/lower.h"
#include "tcc/space/matrix_instruction.h"
#include "tcc/support/check.h"

namespace tcc::space {

using schedule::Schedule;
using schedule::Trace;

namespace {

#define TCC_X(name) {#name, name},
constexpr Module kForCpu[] = {TCC_CPU_MODULES(TCC_X)};
constexpr Module kForCuda[] = {TCC_CUDA_MODULES(TCC_X)};
#undef TCC_X

constexpr std::string_view kCpuRules[] = {
    "inline_constants",         "auto_inline", "add_rfactor", "multi_level_tiling", "random_compute_location",
    "parallel_vectorize_unroll"};
constexpr std::string_view kCudaRules[] = {"inline_constants", "gpu_tensor_core", "gpu_tiling", "gpu_inline",
                                           "gpu_reduction",    "gpu_unroll",      "gpu_bind"};

}  // namespace

const ModuleList kCpuModules = {kForCpu, 24, unmet_conditions_of_amx, kCpuRules};
// Few of a GPU's tilings fit its blocks' threads and registers.
const ModuleList kCudaModules = {kForCuda, 1024, unmet_conditions_of_tensor_cores, kCudaRules};

namespace {
std::map<target::TargetKind, const ModuleList*>& lists() {
  static std::map<target::TargetKind, const ModuleList*> instance = {{target::TargetKind::kCpu, &kCpuModules},
                                                                     {target::TargetKind::kCuda, &kCudaModules}};
  return instance;
}
}  // namespace

const ModuleList& modules_for(const target::Target& target) {
  const auto found = lists().find(target.kind);
  TCC_CHECK(found != lists().end(), "no modules for target '{}'", target.name);
  return *found->second;
}
void add_modules(target::TargetKind kind, const ModuleList& modules) {
  lists()[kind] = &modules;
}

std::vector<std::string> module_names(const target::Target& target) {
  std::vector<std::string> names;
  for (const Module& module : modules_for(target).modules) names.emplace_back(module.name);
  names.emplace_back("none");
  return names;
}

std::vector<std::string> unmet_conditions_of_matrix_instruction(const ir::Kernel& kernel,
                                                                const target::Target& target) {
  const auto unmet = modules_for(target).unmet_matrix_conditions;
  return unmet == nullptr ? std::vector<std::string>() : unmet(kernel, target);
}

void RejectTally::add(const std::string& reason, const std::string& example) {
  Entry& entry = by_reason[reason];
  if (entry.count++ == 0) entry.example = example;
}
void RejectTally::add(const ir::Reject& reject) {
  add(std::string(ir::reject_reason_name(reject.reason)), reject.text);
}
int64_t RejectTally::total() const {
  int64_t n = 0;
  for (const auto& [reason, entry] : by_reason) n += entry.count;
  return n;
}

namespace {

// Some draws of the decisions must give a program within the target's limits; the trace keeps the first that does.
bool has_legal_draw(Trace& trace, const ir::Kernel& start, const target::Target& target, int draws, Rng& rng,
                    RejectTally& rejects) {
  for (int attempt = 0; attempt < draws; ++attempt) {
    auto arena = std::make_shared<Arena>();
    std::vector<int64_t> decisions = trace.decisions;
    ir::Legal<ir::Kernel> kernel = attempt == 0 ? schedule::replay(trace, decisions, start, arena, &decisions)
                                                : schedule::sample(trace, decisions, start, arena, rng);
    if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kNest, arena);
    if (!kernel) {
      rejects.add(kernel.error());
      continue;
    }
    trace.decisions = std::move(decisions);
    return true;
  }
  return false;
}

// A schedule so far, and the modules that made its steps.
struct State {
  Schedule schedule;
  std::string modules;
};

}  // namespace

namespace {

// Adds to `report` what the wanted modules make, but for the skeletons that were `seen`.
void explore(const ir::Kernel& start, const target::Target& target, const ModuleList& modules,
             const SpaceOptions& options, std::set<uint64_t>& seen, SpaceReport& report) {
  Rng rng(options.seed);
  std::vector<State> states = {{Schedule(start, std::make_shared<Arena>(), &rng), ""}};
  for (const Module& module : modules.modules) {
    const std::vector<std::string>& wanted = options.modules;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), module.name) == wanted.end()) continue;
    std::vector<State> next;
    RejectTally rejects;
    for (const State& state : states) {
      Ways ways = module.apply(state.schedule, target, options);
      for (Schedule& s : ways.states) {
        std::string names = state.modules;
        if (s.trace().instructions.size() > state.schedule.trace().instructions.size())
          names += fmt::format("{}{}", names.empty() ? "" : ", ", module.name);
        next.push_back({std::move(s), std::move(names)});
      }
      for (const auto& [reason, entry] : ways.rejects.by_reason)
        for (int64_t i = 0; i < entry.count; ++i) rejects.add(reason, entry.example);
    }
    if (rejects.total() > 0) report.modules.push_back({module.name, std::move(rejects)});
    states = std::move(next);
  }
  for (const State& state : states) {
    if (!state.schedule.ok()) continue;
    Trace trace = state.schedule.trace();
    if (!seen.insert(schedule::skeleton_hash(trace)).second) continue;
    RejectTally rejects;
    if (modules.draws == 0 || has_legal_draw(trace, start, target, modules.draws, rng, rejects))
      report.traces.push_back(std::move(trace));
    else
      report.dropped.push_back({state.modules, modules.draws, std::move(rejects)});
  }
}

}  // namespace

SpaceReport explore_space(const ir::Kernel& start, const target::Target& target, const ModuleList& modules,
                          const SpaceOptions& options) {
  SpaceReport report;
  std::set<uint64_t> seen;
  explore(start, target, modules, options, seen, report);
  if (options.metaschedule && !modules.metaschedule.empty()) {
    SpaceOptions rules = options;
    rules.modules.assign(modules.metaschedule.begin(), modules.metaschedule.end());
    explore(start, target, modules, rules, seen, report);
  }
  if (report.traces.empty()) report.traces.push_back(Trace{});
  return report;
}

std::string space_name(const SpaceOptions& options) {
  if (options.modules.empty()) return std::string(options.metaschedule ? kWideSpace : kDefaultSpace);
  return fmt::format("{}", fmt::join(options.modules, ","));
}

std::vector<Trace> generate_space(const ir::Kernel& start, const target::Target& target, const SpaceOptions& options) {
  return explore_space(start, target, modules_for(target), options).traces;
}

}  // namespace tcc::space
