// Whole networks on the CPU beside ONNX Runtime. `models`: each is tuned and built by `tcc` as a user would, then
// library and peer are timed in turns, slice by slice, on the same cores; the one that does not run is stopped. Their
// outputs have to agree before anything is timed. `end-to-end` times nothing and takes more networks: tuned, built,
// linked, compared with the reference in double precision and with ONNX Runtime.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench.h"
#include "networks.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

constexpr double kTolerance = 1e-3;  // of an output's largest magnitude

// A row that says whether the outputs agree; a difference is own's failure.
void compare_outputs(const std::string& name, const NetworkBench& bench, const Result<std::string>& library,
                     Contestant& own, const Contestant& peer, std::vector<Row>& rows) {
  if (!own.failure.empty() || !peer.failure.empty()) return;
  const Result<double> apart = disagreement(own, peer);
  std::string verdict = "agrees with ONNX Runtime";
  if (!apart) {
    own.failure = apart.error().message;
  } else if (*apart > kTolerance) {
    const Result<double> allowed = bench.allowed_difference(*library);
    if (!allowed)
      own.failure = allowed.error().message;
    else if (*apart > *allowed)
      own.failure = fmt::format("the outputs differ by {:.3g} of their scale, {:.3g} are allowed", *apart, *allowed);
    else
      verdict += fmt::format(": {:.3g} are allowed for what rounds to integers", *allowed);
  }
  if (!own.failure.empty()) verdict = "WRONG";
  rows.push_back({name + " [difference]", apart ? *apart : NAN, "of the output's scale", verdict, 0, 0});
}

void add_times(const std::string& name, const Contestant& own, const Contestant& peer, std::vector<Row>& rows) {
  Row row{name, 1e3 * median(own.seconds), "ms", "ONNX Runtime", 0, 0};
  if (!peer.failure.empty()) row.peer += ": " + peer.failure;
  if (!own.failure.empty()) row.value = 0, row.peer = "did not run: " + own.failure;
  if (own.failure.empty() && peer.failure.empty()) {
    row.peer_value = 1e3 * median(peer.seconds);
    row.ratio = row.peer_value / row.value;
  }
  rows.push_back(row);
  auto spread = [&](const char* who, const Contestant& c) {
    if (c.seconds.size() < 2) return;
    auto [low, high] = std::minmax_element(c.seconds.begin(), c.seconds.end());
    rows.push_back({fmt::format("{} [{} slices, slowest over fastest]", name, who), *high / *low, "x", "", 0, 0});
  };
  spread("tcc", own);
  spread("peer", peer);
}

// Of the records in --db, where no trials are asked for.
Result<std::string> make_library(const NetworkBench& bench, const Network& network, int threads) {
  if (options().trials > 0) TCC_TRY_VOID(bench.tune(network, threads));
  return bench.build(network, threads);
}

void run_beside_peer(const NetworkBench& bench, const Network& network, int threads, double seconds,
                     std::vector<Row>& rows) {
  const std::string name = fmt::format("{}.{}t", network.name, threads);
  const std::vector<int> all = usable_cpus();
  if (static_cast<int>(all.size()) < threads) {
    rows.push_back({name, 0, "", fmt::format("left out: this process may use {} CPU", all.size()), 0, 0});
    return;
  }
  const std::vector<int> cpus(all.end() - threads, all.end());
  auto library = make_library(bench, network, threads);
  Contestant own = library ? bench.start_library(*library, threads, cpus) : failed(library.error());
  Contestant peer = bench.start_onnx_runtime(network, threads, cpus);
  compare_outputs(name, bench, library, own, peer, rows);
  time_in_turns(own, peer, {.seconds = seconds});
  add_times(name, own, peer, rows);
}

// "passed", or what is wrong.
std::string checked(const NetworkBench& bench, const Network& network, std::vector<Row>& rows) {
  const std::vector<int> cpus = usable_cpus();
  const auto threads = static_cast<int>(cpus.size());
  auto library = make_library(bench, network, threads);
  if (!library) return failed(library.error()).failure;
  auto report = bench.verify(*library);
  if (!report) return failed(report.error()).failure;
  for (const auto& output : report->value("outputs", nlohmann::json::array()))
    rows.push_back({fmt::format("{} [error]", network.name), output.value("max_error", NAN), "of the output's scale",
                    output.value("failure", ""), 0, 0});
  if (!report->value("passed", false)) return "`tcc verify` failed";
  Contestant own = bench.start_library(*library, threads, cpus);
  const Contestant peer = bench.start_onnx_runtime(network, threads, cpus);
  compare_outputs(network.name, bench, library, own, peer, rows);
  if (!own.failure.empty()) return own.failure;
  std::error_code none;
  std::filesystem::remove_all(std::filesystem::path(*library).parent_path(), none);
  return peer.failure.empty() ? "passed" : "passed; not compared with ONNX Runtime: " + peer.failure;
}

TuningLimits limits() {
  const bool only_time = !options().time.empty() && !options().trials_given;
  return {options().time, only_time ? 0 : options().trials, options().db};
}

}  // namespace

std::vector<Row> run_models_suite(double seconds) {
  auto folder = TemporaryDirectory::create("tcc-bench-models");
  if (!folder) return {{"models", 0, "", "did not run: " + folder.error().message, 0, 0}};
  std::vector<Row> rows;
  double load = 0;
  if (getloadavg(&load, 1) == 1) rows.push_back({"load", load, "processes running before", "", 0, 0});
  const NetworkBench bench((*folder)->path(), limits());
  for (const Network& network : all_networks(options().only.empty() ? "" : models_folder(options().models)))
    for (int threads : {1, 2})
      if (wanted(fmt::format("{}.{}t", network.name, threads))) run_beside_peer(bench, network, threads, seconds, rows);
  return rows;
}

std::vector<Row> run_end_to_end_suite(double) {
  auto folder = TemporaryDirectory::create("tcc-bench-models");
  if (!folder) return {{"end-to-end", 0, "bool", "did not run: " + folder.error().message, 0, 0}};
  const NetworkBench bench((*folder)->path(), limits());
  std::vector<Row> rows;
  for (const Network& network : all_networks(models_folder(options().models))) {
    if (!wanted(network.name)) continue;
    const std::string result = checked(bench, network, rows);
    std::fprintf(stderr, "%s: %s\n", network.name.c_str(), result.c_str());
    rows.push_back({network.name, result.starts_with("passed") ? 1.0 : 0.0, "bool", result, 0, 0});
  }
  return rows;
}

}  // namespace tcc::benchmarks
