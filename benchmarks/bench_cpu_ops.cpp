// Operators on the CPU: each is tuned, then timed in turns with the peers, slice by slice, on the same cores.
//
// The best peer is a row's denominator; a row "name [who]" compares with each one, or tells why it did not run.
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "bench.h"
#include "op_bench.h"
#include "tcc/support/check.h"
#include "tcc/support/rng.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

// An operator, and another one of tcc's to compare it with (bare GEMM, the f32 one).
struct Entry {
  OpCase op;
  std::optional<OpCase> beside;
};

std::vector<Entry> named_entries() {
  std::vector<Entry> out;
  struct Gemm {
    const char* name;
    int64_t m, n, k;
  };
  for (const Gemm& g : {Gemm{"gemm512", 512, 512, 512},
                        {"gemm1024", 1024, 1024, 1024},
                        {"gemm2048", 2048, 2048, 2048},
                        {"gemm128x768x3072", 128, 3072, 768}}) {
    OpCase bare = gemm_case(g.name, g.m, g.n, g.k);
    out.push_back({bare, {}});
    out.push_back({gemm_case(bare.name + ".bias_relu", g.m, g.n, g.k, true), bare});
  }
  out.push_back({gemm_case("gemm1024.bf16", 1024, 1024, 1024, false, true), gemm_case("gemm1024", 1024, 1024, 1024)});
  for (int64_t size : {512, 1024, 2048})
    out.push_back({int8_gemm_case(fmt::format("gemm{}.int8", size), size, size, size),
                   gemm_case(fmt::format("gemm{}", size), size, size, size)});
  out.push_back({gemm_case("gemv4096", 1, 4096, 4096), {}});
  out.push_back({conv_case("conv7x7s2.3-64.224", 3, 64, 224, 7, 2), {}});
  for (auto [channels, size] : {std::pair<int64_t, int64_t>{64, 56}, {128, 28}, {256, 14}, {512, 7}})
    out.push_back({conv_case(fmt::format("conv3x3.{}.{}", channels, size), channels, channels, size, 3, 1), {}});
  out.push_back({conv_case("conv1x1.64-256.56", 64, 256, 56, 1, 1), {}});
  out.push_back({conv_case("depthwise3x3.32.112", 32, 32, 112, 3, 1, 32), {}});
  out.push_back({softmax_case("softmax256x256", {256, 256}), {}});
  out.push_back({softmax_case("softmax12x128x128x128", {12, 128, 128, 128}), {}});
  out.push_back({layernorm_case("layernorm128x768", 128, 768), {}});
  return out;
}

// Four shapes that nobody could have prepared for.
std::vector<Entry> random_entries(uint64_t seed) {
  Rng rng(seed);
  auto draw = [&](int64_t low, int64_t high) { return low + rng.below(high - low + 1); };
  std::vector<Entry> out;
  int64_t m = draw(16, 1024), n = draw(16, 2048), k = draw(16, 2048);
  out.push_back({gemm_case(fmt::format("random.gemm{}x{}x{}", m, k, n), m, n, k), {}});
  int64_t c = draw(8, 256), f = draw(8, 256), size = draw(7, 56), kernel = 1 + 2 * draw(0, 2), stride = draw(1, 2);
  out.push_back({conv_case(fmt::format("random.conv{0}x{0}s{1}.{2}-{3}.{4}", kernel, stride, c, f, size), c, f, size,
                           kernel, stride),
                 {}});
  int64_t channels = draw(8, 128), extent = draw(7, 112);
  out.push_back({conv_case(fmt::format("random.depthwise3x3.{}.{}", channels, extent), channels, channels, extent, 3,
                           draw(1, 2), channels),
                 {}});
  int64_t rows = draw(16, 4096), cols = draw(16, 2048);
  out.push_back({softmax_case(fmt::format("random.softmax{}x{}", rows, cols), {rows, cols}), {}});
  return out;
}

// contenders[0] is tcc, and contenders[1] the kernel of tcc's own to compare with, where there is one.
void add_rows(const OpCase& c, const std::string& name, const std::vector<Contender>& contenders, bool has_beside,
              std::vector<Row>& rows) {
  double flops = case_flops(c) / 1e9, own = contenders[0].median_seconds();
  auto row = [&](const std::string& row_name, const Contender* peer) {
    Row r{row_name, own > 0 ? flops / own : 0, "GFLOP/s", peer != nullptr ? peer->name : "no peer ran", 0, 0};
    if (peer != nullptr && !peer->failure.empty()) r.peer += ": " + peer->failure;
    if (peer == nullptr || peer->median_seconds() == 0) return r;
    r.peer_value = flops / peer->median_seconds();
    r.ratio = r.value / r.peer_value;
    return r;
  };
  const Contender* best = best_peer(contenders);
  rows.push_back(row(name, best));
  if (own == 0) rows.push_back({name + " [tcc]", 0, "GFLOP/s", "did not run: " + contenders[0].failure, 0, 0});
  for (size_t i = 1; i < contenders.size(); ++i) {
    const Contender& p = contenders[i];
    if (has_beside && i == 1) {
      double time = own > 0 && p.median_seconds() > 0 ? own / p.median_seconds() : 0;
      rows.push_back({fmt::format("{} [time over {}]", name, p.name), time, "x", p.failure, 0, 0});
    } else {
      rows.push_back(row(fmt::format("{} [{}]", name, p.name), &p));
    }
  }
}

// The geometric mean of the main rows' ratios of the convolutions that are not depthwise, where all of them ran.
void add_mean_row(const std::vector<Entry>& entries, int threads, std::vector<Row>& rows) {
  double log_sum = 0;
  int count = 0;
  for (const Entry& entry : entries) {
    if (!entry.op.name.starts_with("conv")) continue;
    std::string name = fmt::format("{}.{}t", entry.op.name, threads);
    auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    if (it == rows.end() || !(it->ratio > 0)) return;
    log_sum += std::log(it->ratio);
    ++count;
  }
  rows.push_back({fmt::format("conv.mean.{}t", threads), std::exp(log_sum / count), "x of the best peers", "", 0, 0});
}

void run_entry(const Entry& entry, const std::string& name, const Models& models, OpBench& bench, double seconds,
               std::vector<Row>& rows) {
  std::vector<Contender> contenders = {own_contender("tcc", entry.op, bench)};
  if (entry.beside) contenders.push_back(own_contender("tcc " + entry.beside->name, *entry.beside, bench));
  for (Contender& peer : peer_contenders(entry.op, models, bench)) contenders.push_back(std::move(peer));
  run_rounds(contenders, seconds);
  add_rows(entry.op, name, contenders, entry.beside.has_value(), rows);
}

Result<std::vector<Row>> run_suite(double seconds) {
  std::vector<Row> rows;
  uint64_t seed = options().seed != 0 ? options().seed : static_cast<uint64_t>(Clock::system().unix_seconds());
  rows.push_back({"seed", static_cast<double>(seed), "of the random shapes", "", 0, 0});
  // Figures from a machine with other work on it mean little: say so.
  double load = 0;
  if (getloadavg(&load, 1) == 1) rows.push_back({"load", load, "processes running before", "", 0, 0});
  std::vector<int> cpus = usable_cpus();
  // The workers first: they are forked, and that goes best before there are threads.
  std::vector<std::unique_ptr<measure::IsolatedHostMeasurer>> measurers;
  for (int threads : {1, 2}) {
    if (threads > static_cast<int>(cpus.size())) {
      rows.push_back({fmt::format("{}t", threads), 0, "",
                      fmt::format("left out: this process may use {} CPU", cpus.size()), 0, 0});
      continue;
    }
    measure::HostMeasureOptions measure_options;
    measure_options.worker_path = TCC_WORKER_PATH;
    measure_options.cpus.assign(cpus.end() - threads, cpus.end());
    measure_options.threads = threads;
    measure_options.budget_seconds = kSlice;
    TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
    measurers.push_back(std::move(measurer));
  }
  if (measurers.empty()) return environment_error("the CPUs that this process may use cannot be told");
  TCC_TRY(target::ProbeResult probe, target::probe_host());
  rows.push_back({"peak.1t", probe.fp32.one_core / 1e9, "GFLOP/s", "", 0, 0});
  rows.push_back({fmt::format("peak.{}t", probe.threads), probe.fp32.all_cores / 1e9, "GFLOP/s", "", 0, 0});
  rows.push_back({"dram_read.1t", probe.dram_read.one_core / 1e9, "GB/s", "", 0, 0});
  rows.push_back({fmt::format("dram_read.{}t", probe.threads), probe.dram_read.all_cores / 1e9, "GB/s", "", 0, 0});
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(options().db.empty() ? ":memory:" : options().db));
  TCC_TRY(Models models, Models::create());
  ThreadPool pool(static_cast<int>(cpus.size()));
  std::vector<Entry> entries = named_entries();
  for (Entry& e : random_entries(seed)) entries.push_back(std::move(e));
  target::Target host = target::apply_probe(target::host_target(), probe);
  References references(*measurers.back(), host);
  bool any = false;
  for (auto& measurer : measurers) {
    OpBench bench{host, *store, pool, references, *measurer, "cpu-ops"};
    for (const Entry& entry : entries) {
      std::string name = fmt::format("{}.{}t", entry.op.name, bench.threads);
      if (!wanted(name)) continue;
      any = true;
      run_entry(entry, name, models, bench, seconds, rows);
    }
    add_mean_row(entries, bench.threads, rows);
  }
  if (!any)
    return make_error(ErrorClass::kUsage,
                      "no operator has any of these in its name: " + fmt::format("{}", fmt::join(options().only, ", ")),
                      "run without --only to see the names");
  return rows;
}

}  // namespace

std::vector<Row> run_cpu_ops_suite(double seconds) {
  Result<std::vector<Row>> rows = run_suite(seconds);
  if (rows) return *rows;
  std::fprintf(stderr, "cpu-ops: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"cpu-ops", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
