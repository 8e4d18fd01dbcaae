// Operators that nobody chose, beside ONNX Runtime: each is drawn, tuned with 64 trials or for 20 seconds (--trials 0:
// not at all), built, and timed in turns with the peer on the same cores. A seed repeats a run, and a row's name
// repeats a row. With --keep, an interrupted run goes on; a row of times is forgotten when its model or the number of
// trials changes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <random>

#include "bench.h"
#include "networks.h"
#include "random_operators.h"
#include "recorded_units.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::benchmarks {
namespace {

constexpr int64_t kTrials = 64;  // a task
constexpr const char* kTime = "20s";
constexpr size_t kWorst = 10;  // rows that are listed with their commands

struct Measured {
  std::string name;  // r017.1t
  int64_t row = 0;
  std::string family, description;
  double own = 0, peer = 0;  // seconds
  double difference = 0;     // of the output's scale
  bool wrong = false;
  double ratio() const { return peer / own; }
};

class RandomOps {
 public:
  RandomOps(std::string folder, uint64_t seed, double seconds)
      : folder_(std::move(folder)), seed_(seed), seconds_(seconds) {
    trials_ = options().trials_given ? options().trials : kTrials;
  }

  Result<void> open() {
    TCC_TRY(units_, RecordedUnits::open(options().keep.empty() ? folder_ + "/rows.json" : options().keep));
    return {};
  }

  void run(int threads, std::vector<Row>& rows) {
    const std::vector<int> all = usable_cpus();
    if (std::ssize(all) < threads) {
      rows.push_back({fmt::format("{}t", threads), 0, "", fmt::format("left out: {} CPU", all.size()), 0, 0});
      return;
    }
    const std::vector<int> cpus(all.end() - threads, all.end());
    std::vector<Measured> measured;
    int64_t missing = 0;
    for (int64_t i = 0; i < options().rows; ++i) {
      const std::string name = fmt::format("r{:03}.{}t", i, threads);
      const RandomOperator drawn = draw_operator(seed_, i);
      if (!wanted(fmt::format("{}.{}.{}", name, drawn.family, drawn.op))) continue;
      auto row = measure(drawn, i, name, threads, cpus);
      if (!row && row.error().message.empty()) {
        ++missing;
      } else if (!row) {
        rows.push_back({name, 0, "bool", "did not run: " + failed(row.error()).failure, 0, 0});
      } else if (row->peer > 0) {
        measured.push_back(*row);
      } else {
        rows.push_back({name, 1e3 * row->own, "ms", "ONNX Runtime does not run it: " + row->description, 0, 0});
      }
    }
    summarize(threads, measured, rows);
    if (missing > 0)
      rows.push_back({fmt::format("missing.{}t", threads), static_cast<double>(missing), "rows",
                      "not begun, --budget ended; the same call goes on", 0, 0});
  }

 private:
  bool out_of_budget() const { return options().budget > 0 && watch_.seconds() > 60 * options().budget; }

  // An Error without a message: the budget ended.
  Result<Measured> measure(const RandomOperator& drawn, int64_t i, const std::string& name, int threads,
                           const std::vector<int>& cpus) {
    Measured m{name, i, drawn.family, drawn.description};
    const std::string unit = fmt::format("seed{}.{}", seed_, name);
    const uint64_t inputs = combine_hash(hash_bytes(drawn.model), static_cast<uint64_t>(trials_));
    if (auto known = units_->find(unit, inputs)) {
      const auto value = [&](const char* key) { return known->contains(key) ? known->at(key) : 0.0; };
      m.own = value("own"), m.peer = value("peer"), m.difference = value("difference"), m.wrong = value("wrong") != 0;
      return m;
    }
    if (out_of_budget()) return tl::make_unexpected(Error{});
    Stopwatch watch;
    const std::string file = fmt::format("{}/r{:03}.onnx", folder_, i);
    TCC_TRY_VOID(write_file(file, drawn.model));
    const Network network{fmt::format("r{:03}", i), file, std::nullopt};
    const NetworkBench bench(folder_, {kTime, trials_, options().db, false});
    if (trials_ > 0) TCC_TRY_VOID(bench.tune(network, threads));
    TCC_TRY(std::string library, bench.build(network, threads));
    Contestant own = bench.start_library(library, threads, cpus);
    if (!own.failure.empty()) return environment_error("{}: {}", drawn.description, own.failure);
    Contestant peer = bench.start_onnx_runtime(network, threads, cpus);
    if (peer.failure.empty()) {
      const Result<double> apart = disagreement(own, peer, drawn.rounded ? 1 : 0);
      m.difference = apart ? *apart : INFINITY;
      m.wrong = !(m.difference <= (drawn.description.find("f16") != std::string::npos ? 1e-2 : 1e-3));
    }
    time_in_turns(own, peer, {.slice = seconds_ / 20, .rounds = 9, .seconds = seconds_});
    if (!own.failure.empty()) return environment_error("{}: {}", drawn.description, own.failure);
    m.own = median(own.seconds);
    if (peer.failure.empty()) m.peer = median(peer.seconds);
    std::fprintf(stderr, "%s %s: %.4g ms, %s%s\n", name.c_str(), drawn.description.c_str(), 1e3 * m.own,
                 m.peer > 0 ? fmt::format("{:.3f}x", m.ratio()).c_str() : peer.failure.c_str(),
                 m.wrong ? ", WRONG" : "");
    TCC_TRY_VOID(units_->keep(unit, inputs,
                              {{"own", m.own},
                               {"peer", m.peer},
                               {"difference", std::min(m.difference, 1e30)},
                               {"wrong", m.wrong ? 1.0 : 0.0}},
                              watch.seconds()));
    std::error_code none;
    std::filesystem::remove_all(std::filesystem::path(library).parent_path(), none);
    return m;
  }

  static double geometric_mean(const std::vector<const Measured*>& rows) {
    double sum = 0;
    for (const Measured* m : rows) sum += std::log(m->ratio());
    return rows.empty() ? 0 : std::exp(sum / static_cast<double>(rows.size()));
  }

  void summarize(int threads, const std::vector<Measured>& measured, std::vector<Row>& rows) const {
    if (measured.empty()) return;
    std::vector<const Measured*> sorted;
    std::map<std::string, std::vector<const Measured*>> families;
    int64_t wrong = 0;
    for (const Measured& m : measured) {
      rows.push_back({m.name, 1e3 * m.own, "ms", "ONNX Runtime", 1e3 * m.peer, m.ratio()});
      if (m.wrong) {
        ++wrong;
        rows.push_back({m.name + " [difference]", m.difference, "of the output's scale", "WRONG: " + m.description});
      }
      sorted.push_back(&m);
      families[m.family].push_back(&m);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const Measured* a, const Measured* b) { return a->ratio() < b->ratio(); });
    for (const auto& [family, members] : families)
      rows.push_back({fmt::format("{}.{}t [geometric mean]", family, threads), geometric_mean(members), "x",
                      fmt::format("ONNX Runtime, {} rows", members.size()), 0, 0});
    const auto add = [&](const char* what, double value) {
      rows.push_back({fmt::format("random-ops.{}t [{}]", threads, what), value, "x",
                      fmt::format("ONNX Runtime, {} rows, seed {}", sorted.size(), seed_), 0, 0});
    };
    add("geometric mean", geometric_mean(sorted));
    add("tenth percentile", sorted[sorted.size() / 10]->ratio());
    add("least", sorted[0]->ratio());
    rows.push_back({fmt::format("random-ops.{}t [all right]", threads), wrong == 0 ? 1.0 : 0.0, "bool",
                    fmt::format("{} of {} wrong", wrong, sorted.size()), 0, 0});
    for (size_t i = 0; i < std::min(kWorst, sorted.size()); ++i)
      rows.push_back({fmt::format("worst {}: {}", i + 1, sorted[i]->name), sorted[i]->ratio(), "x",
                      fmt::format("{}; tools/bench random-ops --seed {} --rows {} --only {}", sorted[i]->description,
                                  seed_, sorted[i]->row + 1, sorted[i]->name),
                      0, 0});
  }

  std::string folder_;
  uint64_t seed_;
  double seconds_;
  int64_t trials_;
  std::optional<RecordedUnits> units_;
  Stopwatch watch_;
};

}  // namespace

std::vector<Row> run_random_ops_suite(double seconds) {
  const uint64_t seed = options().seed != 0 ? options().seed : std::random_device{}() % 1'000'000 + 1;
  std::fprintf(stderr, "random-ops: seed %llu\n", static_cast<unsigned long long>(seed));
  auto folder = TemporaryDirectory::create("tcc-bench-random");
  if (!folder) return {{"random-ops", 0, "bool", "did not run: " + folder.error().message, 0, 0}};
  RandomOps suite((*folder)->path(), seed, seconds);
  if (Result<void> ready = suite.open(); !ready)
    return {{"random-ops", 0, "bool", "did not run: " + ready.error().message, 0, 0}};
  std::vector<Row> rows;
  for (int threads : {1, 2}) suite.run(threads, rows);
  return rows;
}

}  // namespace tcc::benchmarks
