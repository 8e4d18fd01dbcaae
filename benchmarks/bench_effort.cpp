// Rows "effort0.NETWORK" of the suite `construction`: networks that `tcc build` builds without any record, on two
// threads, beside the same networks built from the records of --db, where a network without records is first tuned with
// --trials programs a task. The ratio is of speed, timed in turns. "effort0.NETWORK.seconds": wall time of that build,
// linking and the estimates of what tuning would gain included. "effort0.NETWORK.wide": in the design spaces of --space
// wide.
#include <algorithm>
#include <filesystem>

#include "bench.h"
#include "networks.h"
#include "tcc/record/store.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

constexpr int kEffortThreads = 2;
constexpr double kEffortSlice = 0.4;  // seconds
constexpr int kEffortRounds = 9;
constexpr double kEffortRunTimeout = 120;

Result<double> slice_of(Contestant& contestant) {
  if (!contestant.failure.empty()) return environment_error("{}", contestant.failure);
  TCC_TRY(const nlohmann::json answer, contestant.process->ask(fmt::format("run {}", kEffortSlice), kEffortRunTimeout));
  return answer.value("seconds", 0.0);
}

Result<void> add_network(const Network& network, const std::string& folder, std::vector<Row>& rows) {
  const std::vector<int> all = usable_cpus();
  if (static_cast<int>(all.size()) < kEffortThreads)
    return environment_error("expected {} CPUs, found {}", kEffortThreads, all.size());
  const std::vector<int> cpus(all.end() - kEffortThreads, all.end());
  std::error_code ignored;
  for (const char* part : {"/tuned", "/plain", "/plain.wide"})
    std::filesystem::create_directories(folder + part, ignored);
  const NetworkBench tuned(folder + "/tuned", {"", options().trials, options().db});
  if (options().trials_given) TCC_TRY_VOID(tuned.tune(network, kEffortThreads));
  TCC_TRY(const std::string best, tuned.build(network, kEffortThreads));
  std::vector<Contestant> contestants = {tuned.start_library(best, kEffortThreads, cpus)};
  const std::string none = folder + "/none.db";
  TCC_TRY(const auto empty, record::Store::open(none));  // a file without records
  const std::pair<std::string, std::vector<std::string>> kSpaces[] = {{"", {}}, {".wide", {"--space", "wide"}}};
  std::vector<std::string> names;
  for (const auto& [suffix, words] : kSpaces) {
    const std::string name = "effort0." + network.name + suffix;
    if (!wanted(name)) continue;
    const NetworkBench plain(folder + "/plain" + suffix, {"", 0, none});
    const Stopwatch watch;
    TCC_TRY(const std::string library, plain.build(network, kEffortThreads, words));
    rows.push_back({name + ".seconds", watch.seconds(), "s", "", 0, 0});
    contestants.push_back(plain.start_library(library, kEffortThreads, cpus));
    names.push_back(name);
  }
  for (int round = 0; round < kEffortRounds; ++round)
    for (Contestant& contestant : contestants) {
      TCC_TRY(const double seconds, slice_of(contestant));
      contestant.seconds.push_back(seconds);
    }
  const double reached = median(contestants[0].seconds);
  for (size_t i = 0; i < names.size(); ++i) {
    const double own = median(contestants[i + 1].seconds);
    rows.push_back({names[i], 1e3 * own, "ms", "from the records of --db", 1e3 * reached, reached / own});
  }
  return {};
}

}  // namespace

void add_effort_rows(std::vector<Row>& rows) {
  for (const Network& network : all_networks("")) {
    if (!wanted("effort0." + network.name) && !wanted("effort0." + network.name + ".wide")) continue;
    auto folder = TemporaryDirectory::create("tcc-bench-effort");
    const Result<void> done =
        folder ? add_network(network, (*folder)->path(), rows) : tl::make_unexpected(folder.error());
    if (!done) rows.push_back({"effort0." + network.name, 0, "", "did not run: " + done.error().message, 0, 0});
  }
}

}  // namespace tcc::benchmarks
