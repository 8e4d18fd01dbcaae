// Times that other programs disturb: counted, taken again when the machine is quiet, and never a title beside others.
#include "tcc/record/disturbed.h"
#include "search/best.h"
#include "small_run.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

// A machine that is busy for a while: times come out longer, and are marked.
struct BusyMachine : measure::Measurer {
  measure::FakeMeasurer inner{3};
  std::function<bool()> busy;
  int64_t measured = 0;
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override {
    TCC_TRY(std::vector<measure::Measurement> times, inner.measure(candidates));
    for (measure::Measurement& m : times) {
      ++measured;
      m.run_seconds = 1e-3;
      if (!busy()) continue;
      m.disturbed = true;
      m.converged = false;
      m.median *= 1.5;
    }
    return times;
  }
};

struct Run {
  std::unique_ptr<record::Store> store = memory_store();
  BusyMachine machine;
  std::vector<search::Progress> events;

  search::TuneResult tune(const search::TuneOptions& options) {
    search::Environment env = environment(*store, machine);
    env.progress = [&](const search::Progress& p) { events.push_back(p); };
    auto result = search::tune(tasks(), avx512(), options, env);
    if (!result) FAIL(result.error().message);
    return *result;
  }
};

}  // namespace

TEST_CASE("U3: disturbed timings are counted, and titles that rest on them are marked") {
  Run run;
  run.machine.busy = [] { return true; };
  const search::TuneResult result = run.tune(small_options());
  for (const search::TaskResult& t : result.tasks) {
    INFO(t.workload);
    CHECK(t.best_disturbed);
    CHECK(t.counts.disturbed == t.counts.measured);
    CHECK(t.counts.measured > 0);
  }
  // The same call on a quiet machine takes the fastest of them anew, beside its own trials.
  run.machine.busy = [] { return false; };
  search::TuneOptions again = small_options();
  again.trials = 6;
  const int64_t before = run.machine.measured;
  const search::TuneResult quiet = run.tune(again);
  CHECK(run.machine.measured > before + quiet.trials);
  for (size_t i = 0; i < quiet.tasks.size(); ++i) {
    INFO(quiet.tasks[i].workload);
    CHECK_FALSE(quiet.tasks[i].best_disturbed);
    CHECK(quiet.tasks[i].best_seconds < result.tasks[i].best_seconds);
    const task::Task task = tasks()[i];
    auto best = run.store->best(search::task_hash(task), search::machine_of(avx512()), again.threads);
    REQUIRE((best.has_value() && best->has_value()));
    CHECK_FALSE(record::is_disturbed(**best));
    CHECK((*best)->median == quiet.tasks[i].best_seconds);
  }
}

TEST_CASE("U3: a burst of load costs no title: what it disturbed is taken again at the end") {
  Run run;
  int64_t calls = 0;
  run.machine.busy = [&] { return ++calls > 12 && calls <= 40; };
  const search::TuneResult result = run.tune(small_options());
  int64_t disturbed = 0;
  for (const search::TaskResult& t : result.tasks) {
    INFO(t.workload);
    CHECK_FALSE(t.best_disturbed);
    disturbed += t.counts.disturbed;
    // No disturbed time that was taken again is below the title.
    auto best = run.store->best(search::task_hash(t.key), search::machine_of(avx512()), small_options().threads);
    REQUIRE((best.has_value() && best->has_value()));
    CHECK((*best)->median == t.best_seconds);
  }
  CHECK(disturbed > 0);
  CHECK(disturbed <= 28);
}

TEST_CASE("U2: what is left counts finals, and a resumed run counts its own trials") {
  Run run;
  run.machine.busy = [] { return false; };
  search::TuneOptions options = small_options();
  options.round_size = 6;
  int64_t rounds = 0;
  {
    search::Environment env = environment(*run.store, run.machine);
    env.progress = [&](const search::Progress& p) { rounds += p.kind == search::Progress::Kind::kRound ? 1 : 0; };
    env.stop = [&] { return rounds >= 8; };
    auto stopped = search::tune(tasks(), avx512(), options, env);
    REQUIRE(stopped.has_value());
    REQUIRE(stopped->stopped);
    REQUIRE(stopped->trials > 20);
  }
  const search::TuneResult result = run.tune(options);
  CHECK(result.resumed);
  bool first = true;
  for (const search::Progress& p : run.events) {
    if (p.kind != search::Progress::Kind::kRound) continue;
    INFO(p.trials << " of " << p.trials_limit << " after " << p.elapsed_seconds);
    // The rate is that of this run alone: what is left takes at least a tenth of it for finals.
    CHECK(p.remaining_seconds >= 0.1 * p.elapsed_seconds * 0.99);
    if (first && p.trials < p.trials_limit) {
      // Were all runs' trials counted, far less would be left after the first round of this one.
      CHECK(p.remaining_seconds > p.elapsed_seconds * 0.1 + 0.5 * p.elapsed_seconds *
                                                                static_cast<double>(p.trials_limit - p.trials) /
                                                                static_cast<double>(p.trials));
      first = false;
    }
  }
  CHECK_FALSE(first);
  CHECK(run.events.back().remaining_seconds == 0);
}
