// The twelve operators that MetaSchedule was judged by (its appendix A.2, batch 1), on two threads.
//
// "<operator>": tuned, beside the best of the peers; `geomean` is over all twelve, where all of them ran. One of the
// peers is TVM, which tunes each operator with MetaSchedule and the same number of trials: "<operator> [tuning]" is
// the time that both take for it.
// "<operator>.search": evolutionary beside random search over the same space, trials and gate, three seeds each. The
// winners of all six runs are timed in turns until the interval of the ratio, which the row gives, is within half a
// percent. Where every run finds programs of the same speed the space is flat, which the row says.
// "<operator>.search.after.<n>" is the best speed among the first n trials of each of its kernels, as a share of the
// best of all six runs.
//
// "<operator>.composed" is the same over another space: tcc's modules of the names that MetaSchedule lists for CPUs
// (section 4.2), without those that know families of operators. The default space is made of good programs, which few
// draws exhaust; this one is what the paper's searches go through, thousands of programs that differ by a factor of ten
// and more. Winners here are slower than the default space's: the row compares searches, not compilers.
//
// --db keeps what is tuned, so that the suite can be run piece by piece (--only); each run of a search has a store of
// its own beside it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench.h"
#include "op_bench.h"
#include "search_curve.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr int kOperatorThreads = 2;
constexpr uint64_t kOperatorSeeds = 3;
constexpr size_t kMinRounds = 9, kMaxRounds = 25;  // of the winners of searches, all timed once in each
constexpr double kPrecision = 0.005;               // half the width of the ratio's interval at which rounds end
constexpr std::string_view kTuning = " [tuning]";
constexpr double kFlat = 1.02;  // the slowest winner within 2 % of the fastest

}  // namespace

std::vector<OpCase> metaschedule_cases() {
  const std::vector<int64_t> image = {224, 224};
  return {
      window_case("C1D", {.channels = 64, .filters = 128, .size = {256}, .kernel = 3, .stride = 2, .pad = 1}),
      window_case("C2D", {.channels = 3, .filters = 64, .size = image, .kernel = 7, .stride = 2, .pad = 3}),
      window_case("C3D", {.channels = 3, .filters = 64, .size = {16, 224, 224}, .kernel = 7, .stride = 2, .pad = 3}),
      window_case("DEP", {.channels = 32, .filters = 32, .size = {112, 112}, .kernel = 3, .pad = 1, .group = 32}),
      window_case("DIL",
                  {.channels = 3, .filters = 64, .size = image, .kernel = 7, .stride = 2, .pad = 3, .dilation = 2}),
      gemm_case("GMM", 128, 128, 128),
      window_case("GRP",
                  {.channels = 64, .filters = 128, .size = {56, 56}, .kernel = 3, .stride = 2, .pad = 1, .group = 4}),
      window_case(
          "T2D",
          {.channels = 512, .filters = 256, .size = {4, 4}, .kernel = 4, .stride = 2, .pad = 1, .transposed = true}),
      window_case("CBR",
                  {.channels = 3, .filters = 64, .size = image, .kernel = 7, .stride = 2, .pad = 3, .folded = true}),
      attention_product_case("TBG", 128, 12, 64),
      norm_case("NRM", 256, 256),
      softmax_case("SFM", {256, 256}),
  };
}

namespace {

// --- beside peers ---------------------------------------------------------------------------------------------------

void compare_with_peers(const OpCase& c, const Models& models, OpBench& bench, double seconds, std::vector<Row>& rows) {
  std::vector<Contender> contenders = {own_contender("tcc", c, bench)};
  std::vector<PeerProgram> peers = peer_programs();
  peers.push_back(tvm_program(bench.trials));
  for (Contender& peer : peer_contenders(c, models, bench, peers)) contenders.push_back(std::move(peer));
  run_rounds(contenders, seconds);
  const double flops = case_flops(c) / 1e9, own = contenders[0].median_seconds();
  const Contender* best = best_peer(contenders);
  auto row = [&](const std::string& name, const Contender* peer) {
    Row r{name, own > 0 ? flops / own : 0, "GFLOP/s", peer != nullptr ? peer->name : "no peer ran", 0, 0};
    if (own == 0) r.peer = "did not run: " + contenders[0].failure;
    if (peer != nullptr && !peer->failure.empty()) r.peer += ": " + peer->failure;
    if (peer != nullptr && peer->median_seconds() > 0) r.peer_value = flops / peer->median_seconds();
    if (r.peer_value > 0) r.ratio = r.value / r.peer_value;
    return r;
  };
  rows.push_back(row(c.name, best));
  for (size_t i = 1; i < contenders.size(); ++i)
    rows.push_back(row(fmt::format("{} [{}]", c.name, contenders[i].name), &contenders[i]));
  for (const Contender& peer : contenders) {
    if (&peer == &contenders[0] || peer.tuning_seconds == 0) continue;
    const double mine = contenders[0].tuning_seconds;
    rows.push_back(
        {c.name + std::string(kTuning), mine, "s", peer.name, peer.tuning_seconds, peer.tuning_seconds / mine});
  }
}

void add_geomean(const std::vector<OpCase>& cases, std::vector<Row>& rows) {
  double log_sum = 0;
  for (const OpCase& c : cases) {
    auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == c.name; });
    if (it == rows.end() || it->ratio <= 0) return;
    log_sum += std::log(it->ratio);
  }
  const auto count = static_cast<double>(cases.size());
  rows.push_back({"geomean", std::exp(log_sum / count), "x of the best peers", "", 0, 0});
}

// Of the operators that both have tuned.
void add_tuning_times(std::vector<Row>& rows) {
  double own = 0, peer = 0;
  for (const Row& r : rows)
    if (r.name.ends_with(kTuning)) own += r.value, peer += r.peer_value;
  if (own > 0) rows.push_back({"tuning.total", own, "s", "TVM MetaSchedule", peer, peer / own});
}

// --- evolutionary beside random -------------------------------------------------------------------------------------

struct SearchSpace {
  std::string word;                  // in the names of rows
  std::vector<std::string> modules;  // empty: the default
};

const std::vector<SearchSpace>& search_spaces() {
  static const std::vector<SearchSpace> all = {{"search", {}},
                                               {"composed",
                                                {"inline_constants", "auto_inline", "add_rfactor", "multi_level_tiling",
                                                 "random_compute_location", "parallel_vectorize_unroll"}}};
  return all;
}

struct SearchRun {
  search::Strategy strategy;
  std::vector<OwnKernel> kernels;
  std::vector<std::vector<record::Record>> logs;  // of each kernel, each in the order of measuring
  std::vector<double> times;                      // of the rounds
  bool evolved() const { return strategy == search::Strategy::kEvolutionary; }
};

Result<SearchRun> search_once(const OpCase& c, const SearchSpace& space, search::Strategy strategy, uint64_t seed,
                              OpBench& bench) {
  const std::string name(search::strategy_name(strategy));
  const std::string path =
      options().db.empty() ? ":memory:" : fmt::format("{}.{}.{}.{}.{}", options().db, c.name, space.word, name, seed);
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(path));
  OpBench own{bench.host, *store, bench.pool, bench.references, bench.measurer, "metaschedule-search"};
  own.tune.strategy = strategy;
  own.tune.seed = seed;
  own.tune.space.modules = space.modules;
  SearchRun run{strategy, {}, {}, {}};
  TCC_TRY(OwnOperator tuned, own_operator(c, own));
  run.kernels = std::move(tuned.kernels);
  TCC_TRY(std::vector<record::Record> records, store->all());
  for (const OwnKernel& kernel : run.kernels) {
    std::vector<record::Record>& log = run.logs.emplace_back();
    for (const record::Record& r : records)
      if (r.workload == kernel.workload) log.push_back(r);
    if (log.empty()) return environment_error("{} has no record of {}", path, kernel.workload);
  }
  return run;
}

// Random over evolved time: a round's is the geometric mean over seeds, and these have a median and its interval.
measure::Interval ratio_of(const std::vector<SearchRun>& runs) {
  std::vector<double> ratios(runs[0].times.size());
  for (size_t round = 0; round < ratios.size(); ++round) {
    double log_ratio = 0;
    for (const SearchRun& run : runs)
      log_ratio += (run.evolved() ? -1 : 1) * std::log(run.times[round]) / kOperatorSeeds;
    ratios[round] = std::exp(log_ratio);
  }
  std::sort(ratios.begin(), ratios.end());
  return measure::median_interval(ratios);
}

Result<measure::Interval> time_winners(std::vector<SearchRun>& runs, OpBench& bench) {
  for (size_t round = 1;; ++round) {
    for (SearchRun& run : runs) {
      TCC_TRY(double seconds, own_slice(run.kernels, bench));
      run.times.push_back(seconds);
    }
    const measure::Interval ratio = ratio_of(runs);
    const bool precise = ratio.high - ratio.low < 2 * kPrecision * ratio.median;
    if (round >= kMaxRounds || (round >= kMinRounds && precise)) return ratio;
  }
}

// The operator's curve: its kernels' best so far, added up.
Curves curves_of(const std::vector<SearchRun>& runs) {
  std::vector<double> best(runs[0].logs.size(), HUGE_VAL);
  for (const SearchRun& run : runs)
    for (size_t i = 0; i < best.size(); ++i)
      for (const record::Record& r : run.logs[i])
        if (r.status == record::Status::kOk) best[i] = std::min(best[i], r.median);
  Curves curves;
  for (size_t k = 0; k < kAfter.size(); ++k)
    for (const SearchRun& run : runs) {
      double least = 0, reached = 0;
      for (size_t i = 0; i < best.size(); ++i) {
        const double seconds = static_cast<double>(run.kernels[i].weight) * best[i];
        least += seconds, reached += seconds / best_after(run.logs[i], kAfter[k], best[i]);
      }
      (run.evolved() ? curves.evolved : curves.random)[k] += std::log(least / reached) / kOperatorSeeds;
    }
  return curves;
}

struct SearchTotals {
  int operators = 0, better = 0, worse = 0, flat = 0;
  double log_ratio = 0;
  Curves curves;
};

Result<void> compare_operator_searches(const OpCase& c, const SearchSpace& space, OpBench& bench, SearchTotals& totals,
                                       std::vector<Row>& rows) {
  std::vector<SearchRun> runs;
  for (uint64_t seed = 1; seed <= kOperatorSeeds; ++seed)
    for (search::Strategy strategy : {search::Strategy::kEvolutionary, search::Strategy::kRandom}) {
      TCC_TRY(SearchRun run, search_once(c, space, strategy, seed, bench));
      runs.push_back(std::move(run));
    }
  TCC_TRY(measure::Interval ratio, time_winners(runs, bench));
  double evolved = 0, low = HUGE_VAL, high = 0;
  for (const SearchRun& run : runs) {
    const double t = median(run.times);
    if (run.evolved()) evolved += std::log(t) / kOperatorSeeds;
    low = std::min(low, t), high = std::max(high, t);
  }
  const double rate = case_flops(c) / 1e9 / std::exp(evolved);
  const bool flat = high < kFlat * low;
  const std::string name = fmt::format("{}.{}", c.name, space.word);
  rows.push_back({name, rate, "GFLOP/s",
                  fmt::format("random search [{:.4f}, {:.4f}]{}", ratio.low, ratio.high, flat ? ", flat" : ""),
                  rate / ratio.median, ratio.median});
  const Curves curves = curves_of(runs);
  add_curve_rows(name, curves, bench.trials, rows);
  ++totals.operators;
  totals.better += ratio.low > 1 ? 1 : 0;
  totals.worse += ratio.high < 1 ? 1 : 0;
  totals.flat += flat ? 1 : 0;
  totals.log_ratio += std::log(ratio.median);
  totals.curves.add(curves);
  return {};
}

Result<void> compare_operator_searches(const std::vector<OpCase>& cases, const SearchSpace& space, OpBench& bench,
                                       std::vector<Row>& rows) {
  SearchTotals totals;
  for (const OpCase& c : cases)
    if (wanted(fmt::format("{}.{}", c.name, space.word)))
      TCC_TRY_VOID(compare_operator_searches(c, space, bench, totals, rows));
  if (totals.operators == 0) return {};
  const std::string of = fmt::format("of {} operators", totals.operators);
  auto row = [&](const char* what, double value, const std::string& unit) {
    rows.push_back({fmt::format("{}.{}", space.word, what), value, unit, "", 0, 0});
  };
  row("mean", std::exp(totals.log_ratio / totals.operators), "x of random search");
  row("better", totals.better, of);  // all of the ratio's interval is above 1
  row("worse", totals.worse, of);
  row("flat", totals.flat, of);
  Curves mean;
  mean.add(totals.curves, 1.0 / totals.operators);
  add_curve_rows(space.word, mean, bench.trials, rows);
  return {};
}

Result<std::vector<Row>> run_metaschedule_ops(double seconds) {
  std::vector<Row> rows;
  std::vector<int> cpus = usable_cpus();
  if (std::ssize(cpus) < kOperatorThreads) return environment_error("this process may use {} CPU", cpus.size());
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_WORKER_PATH;
  measure_options.cpus.assign(cpus.end() - kOperatorThreads, cpus.end());
  measure_options.threads = kOperatorThreads;
  measure_options.budget_seconds = kSlice;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(options().db.empty() ? ":memory:" : options().db));
  TCC_TRY(Models models, Models::create());
  ThreadPool pool(static_cast<int>(cpus.size()));
  const target::Target host = target::host_target();
  References references(*measurer, host);
  OpBench bench{host, *store, pool, references, *measurer, "metaschedule-ops"};
  const std::vector<OpCase> cases = metaschedule_cases();
  for (const OpCase& c : cases)
    if (wanted(c.name + ".peers")) compare_with_peers(c, models, bench, seconds, rows);
  add_geomean(cases, rows);
  add_tuning_times(rows);
  for (const SearchSpace& space : search_spaces()) TCC_TRY_VOID(compare_operator_searches(cases, space, bench, rows));
  if (rows.empty())
    return make_error(ErrorClass::kUsage, "no operator has any of the words of --only in its name",
                      "names are as C1D.peers, C1D.search and C1D.composed");
  return rows;
}

}  // namespace

std::vector<Row> run_metaschedule_ops_suite(double seconds) {
  Result<std::vector<Row>> rows = run_metaschedule_ops(seconds);
  if (rows) return *rows;
  std::fprintf(stderr, "metaschedule-ops: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"metaschedule-ops", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
