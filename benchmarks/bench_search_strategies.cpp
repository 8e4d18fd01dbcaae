// Strategies side by side with equal trials: the value that each reaches, and the trials and seconds until it has that
// of evolutionary search with trees at its end, over three seeds. A mode says who answers the trials:
//
//   live        this machine: whole networks in the wide space, all phases counted
//   recorded    selection: rounds of the programs that a model ranks first, in pools of wide spaces
//   exhaustive  tables of all programs of twelve operators' default spaces (--mode tables measures them): any strategy
//               replays exactly
//   simulated   simulated GPUs, twelve operators
//
// "MODE.SET.METHOD.final": the value after all trials, beside the baseline's; the ratio is of speed. ".trials" and
// ".seconds": to the baseline's final value, beside the baseline's own. Seconds of the modes that run nothing are those
// of proposing and learning and kTrialSeconds a trial. Values are of a run's networks (live: all kernels by weight) or
// geometric means over the operators, and geometric means over the seeds.
//
// A unit is a method, a set and a seed. With --keep FILE units are kept there, and a later call takes them from there.
// --budget MIN: then no further unit is begun. Without --only the core methods run. --svg DIR draws the curves.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench.h"
#include "cli/svg_curve.h"
#include "recorded_units.h"
#include "search_curve.h"
#include "strategies.h"
#include "strategy_modes.h"
#include "tcc/driver/compile.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::benchmarks {
namespace {

constexpr uint64_t kStrategySeeds = 3;
constexpr int kVersion = 1;  // raised whenever the same settings give other curves

// The curves of one set, by method.
using Runs = std::map<std::string, std::vector<Curve>>;

struct Means {
  double value = 0;
  int reached = 0, runs = 0;
  std::string text(const char* unit) const { return fmt::format("{}, {} of {} seeds", unit, reached, runs); }
};

class Comparison {
 public:
  Comparison(RecordedUnits* kept, std::vector<Row>& rows) : kept_(kept), rows_(rows) {}

  Result<void> compare(Mode& mode) {
    std::vector<Method> chosen;
    for (const Method& m : methods())
      if (options().only.empty() ? m.core || m.name == kBaseline : wanted(m.name) || m.name == kBaseline)
        chosen.push_back(m);
    std::map<std::string, Runs> all;
    // Seed by seed, so that an interrupted call has whole comparisons of every set.
    for (uint64_t seed = 1; seed <= kStrategySeeds; ++seed)
      for (const std::string& set : mode.sets())
        for (const Method& method : chosen) {
          if (!mode.offers(method)) continue;
          TCC_TRY(std::optional<Curve> curve, unit(mode, set, method, seed));
          if (curve && !curve->empty()) all[set][method.name].push_back(std::move(*curve));
        }
    for (const std::string& set : mode.sets()) {
      add_rows(mode, set, all[set]);
      if (!options().svg.empty()) TCC_TRY_VOID(draw(mode, set, all[set]));
    }
    return {};
  }

  const std::vector<std::string>& left() const { return left_; }

 private:
  Result<std::optional<Curve>> unit(Mode& mode, const std::string& set, const Method& method, uint64_t seed) {
    // Without draws, all seeds are one.
    if (!method.searches && seed > 1) return std::optional<Curve>();
    const std::string name = fmt::format("{}.{}.{}.{}", mode.name(), set, method.name, seed);
    TCC_TRY(const std::string settings, mode.settings(set, method));
    const uint64_t inputs =
        hash_bytes(fmt::format("{} {} {} {}", kVersion, driver::tool_version(), method.model, settings));
    if (kept_ != nullptr)
      if (const auto known = kept_->find(name, inputs)) return std::optional(from_values(*known));
    if (options().budget > 0 && watch_.seconds() >= options().budget * 60) {
      left_.push_back(name);
      return std::optional<Curve>();
    }
    const Stopwatch watch;
    TCC_TRY(const Curve curve, mode.run(set, method, seed));
    const RecordedUnits::Values values = to_values(curve);
    if (kept_ != nullptr) TCC_TRY_VOID(kept_->keep(name, inputs, values, watch.seconds()));
    const std::string reached =
        curve.empty() ? "nothing ran" : fmt::format("{:.4g} after {:.0f}", curve.back().value, curve.back().trials);
    std::fprintf(stderr, "%s: %s, %.1f s\n", name.c_str(), reached.c_str(), watch.seconds());
    return std::optional(from_values(values));
  }

  // Geometric means over the seeds of what `of` gives: nullopt where a run never has it.
  template <class Of>
  static Means mean_over(const std::vector<Curve>& runs, const Of& of) {
    Means out;
    double sum = 0;
    for (const Curve& c : runs) {
      ++out.runs;
      const std::optional<double> value = of(c);
      if (!value) continue;
      ++out.reached;
      sum += std::log(std::max(*value, 1e-9));
    }
    out.value = out.reached > 0 ? std::exp(sum / out.reached) : 0;
    return out;
  }

  void add_rows(const Mode& mode, const std::string& set, const Runs& runs) {
    const auto baseline = runs.find(kBaseline);
    auto final_of = [](const Curve& c) { return std::optional(c.back().value); };
    const double target = baseline == runs.end() ? 0 : mean_over(baseline->second, final_of).value;
    auto trials_to = [&](const Curve& c) -> std::optional<double> {
      const auto r = first_with(c, target * (1 + 1e-9));
      return r ? std::optional(std::max(r->trials, 1.0)) : std::nullopt;
    };
    auto seconds_to = [&](const Curve& c) -> std::optional<double> {
      const auto r = first_with(c, target * (1 + 1e-9));
      return r ? std::optional(r->seconds) : std::nullopt;
    };
    for (const auto& [method, curves] : runs) {
      const std::string name = fmt::format("{}.{}.{}", mode.name(), set, method);
      const Means last = mean_over(curves, final_of);
      rows_.push_back({name + ".final", last.value, mode.unit(), kBaseline, target, target / last.value});
      if (baseline == runs.end()) continue;
      add_time(name + ".trials", "trials", mean_over(curves, trials_to), mean_over(baseline->second, trials_to));
      add_time(name + ".seconds", "s", mean_over(curves, seconds_to), mean_over(baseline->second, seconds_to));
    }
  }

  void add_time(const std::string& name, const char* unit, const Means& mine, const Means& base) {
    if (mine.reached == 0)
      rows_.push_back({name, 0, mine.text(unit), "the baseline's final value is not reached", 0, 0});
    else
      rows_.push_back({name, mine.value, mine.text(unit), kBaseline, base.value, base.value / mine.value});
  }

  static Result<void> draw(const Mode& mode, const std::string& set, const Runs& runs) {
    std::vector<cli::SvgCurve> by_trials, by_seconds;
    for (const auto& [method, curves] : runs) {
      cli::SvgCurve trials{method, {}}, seconds{method, {}};
      for (const Reached& r : mean_of_runs(curves)) {
        trials.points.emplace_back(r.trials, 1 / r.value);
        seconds.points.emplace_back(r.seconds, 1 / r.value);
      }
      by_trials.push_back(std::move(trials)), by_seconds.push_back(std::move(seconds));
    }
    const std::string title = fmt::format("{}, {}", mode.name(), set),
                      path = fmt::format("{}/{}.{}", options().svg, mode.name(), set);
    TCC_TRY_VOID(make_directories(options().svg));
    TCC_TRY_VOID(write_file(path + ".trials.svg", cli::draw_curves(title, "trials", mode.speed(), by_trials)));
    return write_file(path + ".seconds.svg", cli::draw_curves(title, "seconds", mode.speed(), by_seconds));
  }

  RecordedUnits* const kept_;
  std::vector<Row>& rows_;
  std::vector<std::string> left_;
  const Stopwatch watch_;
};

Result<std::vector<Row>> run_search_strategies() {
  std::vector<Row> rows;
  std::optional<RecordedUnits> kept;
  if (!options().keep.empty()) {
    TCC_TRY(kept, RecordedUnits::open(options().keep));
  }
  Comparison comparison(kept ? &*kept : nullptr, rows);
  const std::vector<std::string> asked = options().modes.empty()
                                             ? std::vector<std::string>{"recorded", "exhaustive", "simulated", "live"}
                                             : options().modes;
  for (const std::string& name : asked) {
    if (name == "tables") {
      TCC_TRY_VOID(measure_tables(rows));
      continue;
    }
    TCC_TRY(const std::unique_ptr<Mode> mode, make_mode(name));
    TCC_TRY_VOID(comparison.compare(*mode));
  }
  if (!comparison.left().empty())
    std::fprintf(stderr, "search-strategies: the time was spent before %s%s\n",
                 fmt::format("{}", fmt::join(comparison.left(), ", ")).c_str(),
                 kept ? "; the same call goes on from there" : "; with --keep FILE a later call goes on");
  return rows;
}

}  // namespace

std::vector<Row> run_search_strategies_suite(double) {
  Result<std::vector<Row>> rows = run_search_strategies();
  if (rows) return *rows;
  std::fprintf(stderr, "search-strategies: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"search-strategies", 0, "bool", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
