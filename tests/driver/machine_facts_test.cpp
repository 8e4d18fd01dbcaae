#include "tcc/driver/machine_facts.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

// A folder of its own, with a folder to be made within it.
// Tests run beside others, which disturb the probe, so much even that it finds no rate.
Result<target::ProbeResult> probe_calmly(const target::Target& host, const target::ProbeOptions& options) {
  TCC_TRY(target::ProbeResult probe, target::probe_host(host, options));
  probe.disturbed = 0;
  probe.fp32.all_cores = std::max(probe.fp32.all_cores, 1e9);
  // Wide vectors that were disturbed would seem slower than narrow ones, whose rate would be the peak.
  probe.fp32.one_core = std::max(probe.fp32.one_core, probe.fp32_256.one_core);
  return probe;
}

struct Cache {
  Cache() {
    auto made = TemporaryDirectory::create("tcc-facts-");
    REQUIRE(made.has_value());
    folder = std::move(*made);
  }
  MachineFacts facts(bool refresh = false) const {
    auto facts = machine_facts(
        {folder->path() + "/deep/tcc", refresh, {.seconds = 0.02, .repeats = 1, .threads = 0}, probe_calmly});
    if (!facts) FAIL(facts.error().message);
    return *facts;
  }
  std::unique_ptr<TemporaryDirectory> folder;
};

std::string read(const std::string& path) {
  auto text = read_file(path);
  REQUIRE(text.has_value());
  return *text;
}

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read(path);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(write_file(path, text.replace(at, from.size(), to)).has_value());
}

bool mentions(const std::vector<std::string>& notes, const std::string& text) {
  return notes.size() == 1 && notes[0].find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("machine facts are measured once, and again when asked") {
  const Cache cache;
  const MachineFacts first = cache.facts();
  CHECK_FALSE(first.cached);
  CHECK(first.notes.empty());
  CHECK(first.target.measured);
  CHECK(first.target.peak.fp32 == first.probe.fp32.all_cores);
  CHECK(first.fork_join_seconds > 0);
  CHECK(first.fork_join_threads == target::host_target().cpu.cores);
  CHECK(first.unix_seconds > 1'600'000'000);
  REQUIRE(file_exists(first.file));

  // The second call reads the file: a mark in it shows.
  replace_in(first.file, "\"unix_seconds\": " + std::to_string(first.unix_seconds), "\"unix_seconds\": 1700000000");
  const MachineFacts second = cache.facts();
  CHECK(second.cached);
  CHECK(second.seconds == 0);
  CHECK(second.unix_seconds == 1'700'000'000);
  CHECK(second.fork_join_seconds == first.fork_join_seconds);
  CHECK(second.target == first.target);

  const MachineFacts third = cache.facts(true);
  CHECK_FALSE(third.cached);
  CHECK(third.notes.empty());
  CHECK(third.unix_seconds >= first.unix_seconds);
  CHECK(cache.facts().unix_seconds == third.unix_seconds);
}

TEST_CASE("machine facts that cannot be used are measured over, with a note", "[errors]") {
  const Cache cache;
  const MachineFacts good = cache.facts();
  const auto again_after = [&](const std::string& reason) {
    const MachineFacts again = cache.facts();
    CAPTURE(again.notes);
    CHECK_FALSE(again.cached);
    CHECK(mentions(again.notes, reason));
    CHECK(mentions(again.notes, good.file));
    CHECK(cache.facts().cached);
  };
  replace_in(good.file, "\"machine\": \"", "\"machine\": \"Other ");
  again_after("another machine");
  replace_in(good.file, "\"version\": 1", "\"version\": 999");
  again_after("another version");
  replace_in(good.file, "\"l2_read\"", "\"l2_reed\"");
  again_after("l2_read");
  replace_in(good.file, "\"fork_join_seconds\": ", "\"fork_join_seconds\": -");
  again_after("fork_join_seconds");
  for (const char* text : {"", "{", "[]", "3"}) {
    CAPTURE(text);
    REQUIRE(write_file(good.file, text).has_value());
    again_after("damaged");
  }
}

TEST_CASE("a cache folder that cannot be written costs the cache only", "[errors]") {
  const Cache cache;
  REQUIRE(write_file(cache.folder->path() + "/deep", "a file where a folder should be").has_value());
  const MachineFacts facts = cache.facts();
  CHECK_FALSE(facts.cached);
  CHECK(facts.target.measured);
  CHECK(facts.file.empty());
  CAPTURE(facts.notes);
  CHECK(mentions(facts.notes, "could not be kept"));

  auto nowhere = machine_facts({"", false, {.seconds = 0.02, .repeats = 1, .threads = 0}});
  REQUIRE(nowhere.has_value());
  CAPTURE(nowhere->notes);
  CHECK_FALSE(mentions(nowhere->notes, "kept"));  // other programs may have disturbed it, which is told, too
  CHECK(nowhere->target.measured);
}

TEST_CASE("a machine is told by its model, features, cores and caches") {
  const target::Target host = target::host_target();
  const std::string identity = target::host_identity(host);
  CHECK(identity == target::host_identity(target::host_target()));
  target::Target fewer = host, older = host;
  fewer.cpu.cores += 1;
  older.cpu.features.avx512f = !older.cpu.features.avx512f;
  CHECK(target::host_identity(fewer) != identity);
  CHECK(target::host_identity(older) != identity);
  target::Target faster = host;
  faster.peak.fp32 *= 2;
  CHECK(target::host_identity(faster) == identity);
}

TEST_CASE("a program that beats the machine's peak has it measured again, once") {
  const Cache cache;
  const MachineFacts first = cache.facts();
  const MachineFactsOptions options{
      cache.folder->path() + "/deep/tcc", false, {.seconds = 0.02, .repeats = 1, .threads = 0}, probe_calmly};
  const double peak = first.probe.fp32.all_cores;
  const auto below = remeasure_if_beaten(first, peak, options);
  REQUIRE(below);
  CHECK(below->notes.empty());
  CHECK(below->beaten_by == 0);

  const auto beaten = remeasure_if_beaten(first, 100 * peak, options);
  REQUIRE(beaten);
  CHECK(mentions(beaten->notes, "measured again"));
  CHECK(beaten->seconds > 0);
  const MachineFacts kept = cache.facts();
  CHECK(kept.cached);
  CHECK(kept.beaten_by == 100 * peak);

  const auto again = remeasure_if_beaten(kept, 100 * peak, options);
  REQUIRE(again);
  CHECK(again->notes.empty());
  CHECK(again->cached);
}

TEST_CASE("U7: a disturbed probe is repeated, and what stays disturbed is measured again by the next command") {
  const Cache cache;
  target::ProbeResult seen = cache.facts().probe;
  std::vector<double> disturbed;
  int64_t probes = 0;
  MachineFactsOptions options{cache.folder->path() + "/busy", false, {.seconds = 0.02, .repeats = 1, .threads = 0}};
  options.prober = [&](const target::Target&, const target::ProbeOptions&) -> Result<target::ProbeResult> {
    seen.disturbed = disturbed.at(static_cast<size_t>(probes++));
    return seen;
  };
  auto facts = [&] {
    auto made = machine_facts(options);
    if (!made) FAIL(made.error().message);
    return *made;
  };
  disturbed = {0.9, 0.0};
  MachineFacts quiet = facts();
  CHECK(probes == 2);
  CHECK_FALSE(is_disturbed(quiet));
  CHECK(quiet.notes.empty());
  CHECK(facts().cached);

  options.folder = cache.folder->path() + "/busier";
  probes = 0;
  disturbed = {0.9, 0.7, 0.8, 0.1};
  const MachineFacts busy = facts();
  CHECK(probes == 3);
  CHECK(busy.probe.disturbed == 0.7);
  CHECK(is_disturbed(busy));
  CHECK(mentions(busy.notes, "other programs ran during 70% of the measurements"));
  const MachineFacts again = facts();
  CHECK(probes == 4);
  CHECK_FALSE(again.cached);
  CHECK_FALSE(is_disturbed(again));
  CHECK(facts().cached);
}
