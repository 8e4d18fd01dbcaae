#include "tcc/space/space.h"

#include <algorithm>
#include <set>

#include "tcc/lower/lower.h"

namespace tcc::space {

using schedule::Schedule;
using schedule::Trace;

std::vector<std::unique_ptr<Module>> modules_for(const target::Target& target) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(make_inline_constants());
  if (target.is_cuda()) {
    modules.push_back(make_gpu_attention());
    modules.push_back(make_gpu_split_k());
    modules.push_back(make_gpu_wgmma());
    modules.push_back(make_gpu_tensor_core());
    modules.push_back(make_gpu_tiling());
    modules.push_back(make_gpu_inline());
    modules.push_back(make_gpu_store());
    modules.push_back(make_gpu_reduction());
    modules.push_back(make_gpu_unroll());
    modules.push_back(make_gpu_bind());
  } else {
    modules.push_back(make_attention());
    modules.push_back(make_auto_inline());
    modules.push_back(make_vector_dot());
    modules.push_back(make_lane_dot());
    modules.push_back(make_matmul_tiling());
    modules.push_back(make_window_tiling());
    modules.push_back(make_blocked_conv_tiling());
    modules.push_back(make_conv_tiling());
    modules.push_back(make_gemv_tiling());
    modules.push_back(make_row_tiling());
    modules.push_back(make_add_rfactor());
    modules.push_back(make_multi_level_tiling());
    modules.push_back(make_random_compute_location());
    modules.push_back(make_parallel_vectorize_unroll());
  }
  return modules;
}

std::vector<std::string> module_names(const target::Target& target) {
  std::vector<std::string> names;
  for (const std::unique_ptr<Module>& module : modules_for(target)) names.emplace_back(module->name());
  names.emplace_back("none");
  return names;
}

namespace {

// Few of a GPU's tilings fit its blocks' threads and registers.
constexpr int kDraws = 24, kGpuDraws = 1024;

// Some draws of the decisions must give a program within the target's limits; the trace keeps the first that does.
bool has_legal_draw(Trace& trace, const ir::Kernel& start, const target::Target& target, Rng& rng) {
  for (int attempt = 0; attempt < (target.is_cuda() ? kGpuDraws : kDraws); ++attempt) {
    auto arena = std::make_shared<Arena>();
    std::vector<int64_t> decisions = trace.decisions;
    ir::Legal<ir::Kernel> kernel = attempt == 0 ? schedule::replay(trace, decisions, start, arena, &decisions)
                                                : schedule::sample(trace, decisions, start, arena, rng);
    if (!kernel || !lower::lower(*kernel, target, ir::Stage::kNest, arena)) continue;
    trace.decisions = std::move(decisions);
    return true;
  }
  return false;
}

}  // namespace

std::vector<Trace> generate_space(const ir::Kernel& start, const target::Target& target, const SpaceOptions& options) {
  Rng rng(options.seed);
  std::vector<Schedule> states = {Schedule(start, std::make_shared<Arena>(), &rng)};
  for (const std::unique_ptr<Module>& module : modules_for(target)) {
    const std::vector<std::string>& wanted = options.modules;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), module->name()) == wanted.end()) continue;
    std::vector<Schedule> next;
    for (const Schedule& state : states)
      for (Schedule& s : module->apply(state, target, options)) next.push_back(std::move(s));
    states = std::move(next);
  }
  std::vector<Trace> traces;
  std::set<uint64_t> seen;
  auto keep = [&](Trace trace) {
    if (seen.insert(schedule::skeleton_hash(trace)).second && has_legal_draw(trace, start, target, rng))
      traces.push_back(std::move(trace));
  };
  for (const Schedule& s : states)
    if (s.ok()) keep(s.trace());
  if (traces.empty()) traces.push_back(Trace{});
  return traces;
}

}  // namespace tcc::space
