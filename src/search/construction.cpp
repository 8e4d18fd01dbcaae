// The strategies that construct: Roller and Gensor decide the sketches' tiles (tcc/construct/construct.h), lowering
// checks the target's limits, and the cost model orders what is left. A round after the last of them is empty.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "search/candidates.h"
#include "search/trial.h"
#include "tcc/backend/backend.h"
#include "tcc/space/space.h"

namespace tcc::search {
namespace {

// A cost model has seen few programs like those that are constructed. On GPUs, what the analytical model expects to be
// slower than its best by this factor comes behind all others.
constexpr double kDoubt = 1.5;
// On CPUs the analytical model knows more than features tell: layouts, masks, which sums stay in registers. The cost
// model decides among programs within this factor of its best.
constexpr double kClose = 1.1;
// Of what is constructed for a search's first round, for each program that it begins with.
constexpr size_t kLookedAt = 8;

// What one construction makes of the task's sketches, as candidates of a round.
struct Outcome {
  std::vector<Individual> programs;
  std::string rule, reason;
};

// Two orders in turns: by the cost model, as far as the analytical model expects about the same, and by the analytical
// model alone. Where one of them is wrong about the fastest program, that is still among the first.
std::vector<Individual> in_turns(std::vector<Individual> programs, const std::vector<double>& seconds) {
  const double fastest = *std::min_element(seconds.begin(), seconds.end());
  std::array<std::vector<size_t>, 2> orders;
  for (std::vector<size_t>& order : orders)
    for (size_t i = 0; i < programs.size(); ++i) order.push_back(i);
  auto by_cost = [&](size_t i) { return std::pair(seconds[i] > kClose * fastest, -programs[i].score); };
  auto by_model = [&](size_t i) { return std::pair(seconds[i], -programs[i].score); };
  std::stable_sort(orders[0].begin(), orders[0].end(), [&](size_t x, size_t y) { return by_cost(x) < by_cost(y); });
  std::stable_sort(orders[1].begin(), orders[1].end(), [&](size_t x, size_t y) { return by_model(x) < by_model(y); });
  std::vector<Individual> out;
  std::vector<bool> taken(programs.size());
  for (size_t at = 0; at < programs.size(); ++at)
    for (const std::vector<size_t>& order : orders)
      if (const size_t i = order[at]; !taken[i]) taken[i] = true, out.push_back(std::move(programs[i]));
  return out;
}

// `most`: programs that are made into kernels, the fastest by the construction's own estimate; 0: all.
Outcome construct_candidates(const Round& round, construct::Method method, size_t most, Counts& counts) {
  std::vector<schedule::Trace> traces;
  for (const space::Sketch& sketch : round.state.sketches) traces.push_back(sketch.trace);
  construct::Options options = round.options.construction;
  options.method = method;
  options.threads = round.options.threads;
  options.seed = round.rng.state();
  construct::Construction made = construct::construct(traces, round.state.task->kernel, round.target, options);
  if (most > 0 && made.programs.size() > most) {
    std::stable_sort(made.programs.begin(), made.programs.end(),
                     [](const auto& x, const auto& y) { return x.seconds < y.seconds; });
    made.programs.resize(most);
  }
  Candidates candidates(round, counts);
  std::vector<Individual> legal =
      candidates.proposals(std::ssize(made.programs), 0x636f6e73, [&](Individual& out, int64_t at, Rng&) {
        const construct::Program& program = made.programs[static_cast<size_t>(at)];
        out.sketch = static_cast<int32_t>(program.trace);
        out.decisions = program.decisions;
      });
  std::vector<double> seconds;
  for (size_t i = 0; i < legal.size(); ++i)
    if (legal[i].sketch >= 0) seconds.push_back(made.programs[i].seconds);
  std::erase_if(legal, [](const Individual& i) { return i.sketch < 0; });
  if (options.order == construct::Order::kModel && !legal.empty()) {
    score_by(round.model, legal);
    if (round.target.cuda.sm_count == 0) {
      legal = in_turns(std::move(legal), seconds);
    } else {
      const double fastest = *std::min_element(seconds.begin(), seconds.end());
      std::set<uint64_t> slow;  // nests
      for (size_t i = 0; i < legal.size(); ++i)
        if (seconds[i] > kDoubt * fastest) slow.insert(legal[i].nest_hash);
      std::stable_sort(legal.begin(), legal.end(), [&](const auto& x, const auto& y) {
        return std::pair(!slow.contains(x.nest_hash), x.score) > std::pair(!slow.contains(y.nest_hash), y.score);
      });
    }
  }
  candidates.collect(legal);
  std::vector<Individual> kept = std::move(candidates.kept());
  if (std::ssize(kept) > round.plan.count) kept.resize(static_cast<size_t>(round.plan.count));
  return {std::move(kept), std::move(made.rule), std::move(made.reason)};
}

class ConstructionStrategy : public SearchStrategy {
 public:
  explicit ConstructionStrategy(construct::Method method) : method_(method) {}
  bool learns() const override { return false; }
  std::vector<Individual> propose(const Round& round, Counts& counts) const override {
    Outcome made = construct_candidates(round, method_, 0, counts);
    if (!made.reason.empty() && round.note && round.state.history.empty())  // once for each task
      round.note(fmt::format("{}: the {} instead of {}: {}", round.state.task->workload, made.rule,
                             construct::method_name(method_), made.reason));
    return std::move(made.programs);
  }

 private:
  const construct::Method method_;
};

// The design spaces as traces alone: symbols, which make mutations fast, do not pay for a handful of programs. With
// `drawn` their decisions are those of a legal draw. On GPUs few draws are legal, and constructions need none.
TaskState state_of(const task::Task& task, const target::Target& target, const TuneOptions& options, bool drawn) {
  TaskState state;
  state.task = &task;
  state.hash = task_hash(task);
  space::SpaceOptions spaces = options.space;
  space::ModuleList modules = space::modules_for(target);
  if (!drawn) modules.draws = 0;
  if (spaces.metaschedule && !modules.metaschedule.empty()) {
    spaces.metaschedule = false;
    spaces.modules.assign(modules.metaschedule.begin(), modules.metaschedule.end());
  }
  for (schedule::Trace& trace : space::explore_space(task.kernel, target, modules, spaces).traces) {
    space::Sketch& sketch = state.sketches.emplace_back();
    sketch.trace = std::move(trace);
    sketch.start = task.kernel;
    sketch.concrete = "its programs are constructed";
  }
  return state;
}

}  // namespace

std::vector<Seed> constructed_seeds(const Round& round, Counts& counts) {
  const int64_t count = round.options.constructed;
  if (count <= 0 || !round.state.history.empty() || !round.state.known.empty()) return {};
  std::vector<std::vector<Seed>> made;
  for (const construct::Method method : {construct::Method::kGensor, construct::Method::kRoller}) {
    Outcome outcome = construct_candidates(round, method, kLookedAt * static_cast<size_t>(count), counts);
    std::vector<Seed>& seeds = made.emplace_back();
    if (outcome.rule == construct::kSimpleSchedule) continue;
    for (Individual& i : outcome.programs) seeds.push_back({i.sketch, std::move(i.decisions)});
  }
  std::vector<Seed> out;
  for (size_t rank = 0; std::ssize(out) < count; ++rank) {
    bool any = false;
    for (std::vector<Seed>& seeds : made)
      if (rank < seeds.size() && std::ssize(out) < count) out.push_back(std::move(seeds[rank])), any = true;
    if (!any) break;
  }
  return out;
}

std::unique_ptr<SearchStrategy> make_construction(construct::Method method) {
  return std::make_unique<ConstructionStrategy>(method);
}

Result<ConstructedPrograms> construct_programs(const task::Task& task, const target::Target& target, int64_t count,
                                               const TuneOptions& options) {
  const backend::Backend& backend = backend::backend_of(target);
  TCC_TRY(const std::unique_ptr<cost::CostModel> model, cost::make_model({.name = options.cost_model,
                                                                          .pretrained = options.pretrained,
                                                                          .adaptation = cost::Adaptation::kNone,
                                                                          .trace = backend.trace_table},
                                                                         backend.prior(target)));
  TaskState state = state_of(task, target, options, false);
  const Settings settings = settings_for(target);
  const RoundPlan plan{.count = count};
  const Rng rng = Rng(options.seed).fork(state.hash);
  const auto method = options.strategy == Strategy::kGensor ? construct::Method::kGensor : construct::Method::kRoller;
  Counts counts;
  auto construct = [&] {
    return construct_candidates({state, *model, plan, target, options, settings, rng, nullptr}, method, 0, counts);
  };
  Outcome made = construct();
  if (made.rule == construct::kSimpleSchedule || made.programs.empty()) {  // a draw is the program then
    state = state_of(task, target, options, true);
    made = construct();
  }
  ConstructedPrograms out{{}, std::move(made.rule), std::move(made.reason)};
  for (const Individual& i : made.programs) out.traces.push_back(trace_of(state, i.sketch, i.decisions));
  return out;
}

}  // namespace tcc::search
