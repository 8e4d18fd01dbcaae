// The cached machine facts: one file for each identity of a machine, so that a home folder may be shared between
// machines. The identity is in the file again: names can be copied, and hashes are short.
#include "tcc/driver/machine_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tcc/rt/rt.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFactsVersion = 1;
constexpr uint64_t kMaxFactsBytes = 1 << 20;
constexpr int kProbes = 3;              // at most, until one was undisturbed
constexpr double kMostDisturbed = 0.2;  // share of a probe's samples; the rates are medians and maxima of five
constexpr double kPeakBeaten = 1.03;    // times the measured peak; less is the noise of both

void do_nothing(void* const*, int64_t, int64_t) {}

// Seconds of one launch over all of the machine's cores: the median over batches, on the pool that libraries use.
Result<void> measure_fork_join(MachineFacts& facts) {
  constexpr int64_t kBatches = 15, kLaunches = 200;
  tcc_rt_pool* made = nullptr;
  const auto threads = static_cast<int32_t>(std::clamp<int64_t>(facts.target.cpu.cores, 1, TCC_RT_MAX_THREADS));
  if (tcc_rt_pool_create(threads, 0, 1, &made) != TCC_OK)
    return environment_error("{} threads for measuring a parallel launch could not be started: {}", threads,
                             tcc_rt_last_error());
  std::unique_ptr<tcc_rt_pool, decltype(&tcc_rt_pool_destroy)> pool(made, &tcc_rt_pool_destroy);
  std::vector<double> times;
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    Stopwatch watch;
    for (int64_t i = 0; i < kLaunches; ++i) tcc_rt_pool_run_each(pool.get(), do_nothing, nullptr);
    times.push_back(watch.seconds() / kLaunches);
  }
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  facts.fork_join_seconds = times[kBatches / 2];
  facts.fork_join_threads = threads;
  return {};
}

// `facts` with what the file says. Errors say what is wrong with the file.
Result<MachineFacts> read_facts(MachineFacts facts, const target::Target& host) {
  TCC_TRY(std::string text, read_file(facts.file, kMaxFactsBytes));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return input_error("it is damaged");
  if (!json.contains("version") || json["version"] != kFactsVersion)
    return input_error("another version of tcc wrote it");
  if (!json.contains("machine") || json["machine"] != facts.machine) return input_error("it is of another machine");
  auto probe = target::probe_from_json(text);
  if (!probe) return input_error("{}", probe.error().message);
  facts.probe = std::move(*probe);
  // From a machine of the 1990s to more than any has.
  for (const auto& [name, rate] : {std::pair("fp32", facts.probe.fp32), std::pair("l1_read", facts.probe.l1_read),
                                   std::pair("l2_read", facts.probe.l2_read), std::pair("l3_read", facts.probe.l3_read),
                                   std::pair("dram_read", facts.probe.dram_read)})
    for (double r : {rate.one_core, rate.all_cores})
      if (!(r == 0 && std::string_view(name) == "l3_read") && !(r >= 1e6 && r <= 1e16))
        return input_error("its '{}' of {:g} a second is not plausible", name, r);
  const auto positive = [&](const char* name) {
    return json.contains(name) && json[name].is_number() && json[name].get<double>() > 0;
  };
  for (const char* name : {"fork_join_seconds", "fork_join_threads", "unix_seconds"})
    if (!positive(name)) return input_error("it lacks a positive '{}'", name);
  facts.fork_join_seconds = json["fork_join_seconds"].get<double>();
  facts.fork_join_threads = json["fork_join_threads"].get<int64_t>();
  facts.unix_seconds = json["unix_seconds"].get<int64_t>();
  if (positive("beaten_by")) facts.beaten_by = json["beaten_by"].get<double>();
  facts.target = target::apply_probe(host, facts.probe);
  facts.cached = true;
  return facts;
}

Result<void> keep(const MachineFacts& facts, const std::string& folder) {
  TCC_TRY_VOID(make_directories(folder));
  return write_file(facts.file, machine_facts_to_json(facts) + "\n");
}

// The least disturbed of `best` and up to `most` probes: one that others disturbed is followed by another.
Result<target::ProbeResult> probe_undisturbed(const target::Target& host, const MachineFactsOptions& options, int most,
                                              std::optional<target::ProbeResult> best) {
  for (int attempt = 0; attempt < most; ++attempt) {
    TCC_TRY(target::ProbeResult probe,
            options.prober ? options.prober(host, options.probe) : target::probe_host(host, options.probe));
    if (!best || probe.disturbed < best->disturbed) best = std::move(probe);
    if (best->disturbed <= kMostDisturbed) break;
  }
  return *best;
}

// Measures into `facts`, whose machine and file are set, and keeps the result.
// `before`: what an earlier command measured, disturbed.
Result<MachineFacts> measure_facts(MachineFacts facts, const target::Target& host, const MachineFactsOptions& options,
                                   std::optional<target::ProbeResult> before = std::nullopt) {
  Stopwatch watch;
  const int most = before ? 1 : kProbes;
  TCC_TRY(facts.probe, probe_undisturbed(host, options, most, std::move(before)));
  if (is_disturbed(facts))
    facts.notes.push_back(
        fmt::format("other programs ran during {:.0f}% of the measurements of this machine: its rates may be too low, "
                    "and the next command measures it again",
                    100 * facts.probe.disturbed));
  facts.target = target::apply_probe(host, facts.probe);
  TCC_TRY_VOID(measure_fork_join(facts));
  facts.unix_seconds = Clock::system().unix_seconds();
  facts.cached = false;
  facts.seconds = watch.seconds();
  if (facts.file.empty()) return facts;
  if (auto kept = keep(facts, options.folder); !kept) {
    facts.notes.push_back(
        fmt::format("what was measured of this machine could not be kept, and will be measured again: "
                    "{}",
                    sanitize(kept.error().message)));
    facts.file.clear();
  }
  return facts;
}

}  // namespace

bool is_disturbed(const MachineFacts& facts) {
  return facts.probe.disturbed > kMostDisturbed;
}

Result<MachineFacts> machine_facts(const MachineFactsOptions& options) {
  const target::Target host = target::host_target();
  MachineFacts facts;
  facts.machine = target::host_identity(host);
  if (!options.folder.empty())
    facts.file = fmt::format("{}/machine-{:016x}.json", options.folder, hash_bytes(facts.machine));
  if (!facts.file.empty() && !options.refresh && file_exists(facts.file)) {
    Result<MachineFacts> kept = read_facts(facts, host);
    if (kept && !is_disturbed(*kept)) return kept;
    if (kept) {
      facts.beaten_by = kept->beaten_by;
      return measure_facts(std::move(facts), host, options, kept->probe);
    }
    facts.notes.push_back(fmt::format("'{}' is not used: {}; this machine was measured again", sanitize(facts.file),
                                      kept.error().message));
  }
  return measure_facts(std::move(facts), host, options);
}

Result<MachineFacts> remeasure_if_beaten(MachineFacts facts, double rate, const MachineFactsOptions& options) {
  const double peak = facts.probe.fp32.all_cores;
  if (rate <= kPeakBeaten * std::max(peak, facts.beaten_by)) return facts;
  facts.beaten_by = rate;
  facts.notes = {
      fmt::format("a program reached {:.0f} GFLOP/s where {:.0f} had been measured as this machine's peak; "
                  "it was measured again",
                  rate / 1e9, peak / 1e9)};
  return measure_facts(std::move(facts), target::host_target(), options);
}

std::string machine_facts_to_json(const MachineFacts& facts) {
  Json json = {{"version", kFactsVersion},
               {"machine", facts.machine},
               {"unix_seconds", facts.unix_seconds},
               {"beaten_by", facts.beaten_by},
               {"fork_join_seconds", facts.fork_join_seconds},
               {"fork_join_threads", facts.fork_join_threads}};
  json.update(Json::parse(target::probe_to_json(facts.probe)));
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tcc::driver
