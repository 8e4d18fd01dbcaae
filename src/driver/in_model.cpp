#include "tcc/driver/in_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "driver/bench.h"
#include "driver/host_tensors.h"
#include "driver/student.h"
#include "tcc/driver/forms.h"
#include "tcc/record/disturbed.h"
#include "tcc/support/files.h"

namespace tcc::driver {
namespace {

constexpr double kTuningShare = 0.25, kLeastSeconds = 0.5, kMostSeconds = 30;  // of tuning
constexpr double kBuildShare = 0.6;                                            // of the time, at most
constexpr int64_t kMostLibraries = 5;
constexpr double kMemoryShare = 0.25;     // of the machine's, for all libraries at one time
constexpr double kInReach = 0.1;          // programs of a form that are further behind its best alone are not tried
constexpr int64_t kRecordsLookedAt = 16;  // as many as a confirmed best is looked for in
constexpr double kClearLead = 0.015;      // over the program that is fastest alone, in the median round ...
constexpr double kWins = 0.75;            // ... and in this share of them
constexpr int64_t kLeastRounds = 4, kMostRounds = 32;
constexpr double kTurnSeconds = 20e-3;
constexpr int64_t kRunsOfTurn = 2;  // at least

// The programs of a task that are tried, the present choice first.
struct Contest {
  TunedTask* task = nullptr;
  uint64_t first_form = 0;  // hash of the form that stands for all; 0: the task has one form only
  std::vector<record::Record> programs;
};

std::string key_of(const record::Record& program) {
  return record::hash_text(program.task);
}

// Adds the best program of a form, and those nearly as fast to `others`.
Result<void> add_programs(const std::string& key, double limit, const InModelOptions& options, Contest& contest,
                          std::vector<record::Record>& others) {
  const uint64_t hash = search::task_hash(key);
  const record::Machine machine = search::machine_of(options.target);
  TCC_TRY(std::optional<record::Record> best, options.database->confirmed_best(hash, machine, options.threads));
  if (!best || record::is_untimed(best->kind) || record::comparable_seconds(*best) > limit) return {};
  const double seconds = record::comparable_seconds(*best);
  const uint64_t nest = best->nest_hash;
  contest.programs.push_back(std::move(*best));
  TCC_TRY(std::vector<record::Record> fastest,
          options.store->fastest(hash, machine, options.threads, kRecordsLookedAt));
  for (const record::Record& r : fastest)
    if (r.nest_hash != nest && record::comparable_seconds(r) < std::min(seconds * (1 + kInReach), limit) &&
        record::may_be_confirmed(r, fastest[0]))
      others.push_back(r);
  return {};
}

// The key of the form that is built now: one that has won inside of the model, or the fastest alone.
Result<std::string> present_form(const TunedTask& task, uint64_t first_form, const InModelOptions& options) {
  if (first_form == 0) return task.result.key;
  TCC_TRY(const std::optional<std::string> chosen,
          options.database->load_session(
              record::chosen_form_key(first_form, search::machine_of(options.target), options.threads)));
  for (const TunedForm& form : task.forms)
    if (chosen == form.key && form.best_seconds > 0 && form.best_seconds <= kFormInReach * task.result.best_seconds)
      return form.key;
  return task.result.key;
}

// The program that is built without tuning, where it was measured: what is chosen must not be slower in the model.
Result<std::optional<record::Record>> default_program(const TunedTask& task, const InModelOptions& options) {
  const record::Machine machine = search::machine_of(options.target);
  std::vector<std::string> keys;
  for (const TunedForm& form : task.forms) keys.push_back(form.key);
  if (keys.empty()) keys.push_back(task.result.key);
  for (const std::string& key : keys) {
    TCC_TRY(const std::vector<record::Record> all, options.store->all(search::task_hash(key)));
    const auto built = std::find_if(all.begin(), all.end(), [&](const record::Record& r) {
      return record::is_untimed(r.kind) && r.threads == options.threads && record::is_of(r, machine);
    });
    if (built == all.end()) continue;
    const auto timed = std::find_if(all.rbegin(), all.rend(), [&](const record::Record& r) {
      return r.kind == record::Kind::kMeasured && r.nest_hash == built->nest_hash && r.threads == options.threads &&
             r.status == record::Status::kOk && record::is_of(r, machine);
    });
    if (timed == all.rend()) continue;
    TCC_TRY(const std::optional<record::Record> best,
            options.store->best(search::task_hash(key), machine, options.threads));
    return best && record::may_be_confirmed(*timed, *best) ? std::optional(*timed) : std::optional<record::Record>();
  }
  return std::optional<record::Record>();
}

Result<Contest> find_contest(TunedTask& task, const InModelOptions& options) {
  Contest contest{&task, task.forms.empty() ? 0 : search::task_hash(task.forms[0].key), {}};
  TCC_TRY(const std::string present, present_form(task, contest.first_form, options));
  std::vector<record::Record> others;
  TCC_TRY_VOID(add_programs(present, HUGE_VAL, options, contest, others));
  if (contest.programs.empty()) return contest;
  const double limit = kFormInReach * record::comparable_seconds(contest.programs[0]);
  for (const TunedForm& form : task.forms)
    if (form.key != present) TCC_TRY_VOID(add_programs(form.key, limit, options, contest, others));
  TCC_TRY(std::optional<record::Record> built, default_program(task, options));
  if (built && record::comparable_seconds(*built) <= limit && built->nest_hash != contest.programs[0].nest_hash) {
    const auto is_built = [&](const record::Record& r) { return r.nest_hash == built->nest_hash; };
    std::erase_if(contest.programs, is_built);
    std::erase_if(others, is_built);
    contest.programs.insert(contest.programs.begin() + 1, std::move(*built));
  }
  std::stable_sort(others.begin(), others.end(), record::is_faster);
  for (record::Record& r : others)
    if (std::ssize(contest.programs) < kMostLibraries) contest.programs.push_back(std::move(r));
  return contest;
}

// The library of each task's program `place`; of its first one where it has not as many.
Result<std::string> build_place(const Model& model, const InModelOptions& options, const std::vector<Contest>& contests,
                                size_t place, const std::string& folder) {
  TCC_TRY(const std::unique_ptr<record::Store> chosen, record::Store::open(":memory:"));
  const record::Machine machine = search::machine_of(options.target);
  for (const Contest& c : contests) {
    if (c.programs.empty()) continue;
    const record::Record& program = c.programs[place < c.programs.size() ? place : 0];
    TCC_TRY_VOID(chosen->add(program));
    if (c.first_form != 0)
      TCC_TRY_VOID(
          chosen->save_session(record::chosen_form_key(c.first_form, machine, options.threads), key_of(program)));
  }
  // Only asked, never written.
  auto* others = const_cast<record::Database*>(options.database);
  const std::unique_ptr<record::Database> database = record::make_ordered_union({chosen.get(), others});
  BuildOptions build;
  build.folder = folder;
  build.targets = {options.target};
  build.store = database.get();
  build.threads = options.threads;
  TCC_TRY(const BuildReport report, build_model(model, build));
  return report.package.library;
}

double bytes_of(const std::string& folder) {
  double bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.is_regular_file(error)) bytes += static_cast<double>(entry.file_size(error));
  return bytes;
}

// A built library that is timed task by task.
struct Entrant {
  std::shared_ptr<package::LoadedModel> model;
  LibraryFacts facts;
  std::unique_ptr<HostTensors> tensors;
  std::map<std::string, std::vector<double>> rounds;  // seconds by the task's key

  Result<void> load(const std::string& library) {
    TCC_TRY(model, package::LoadedModel::open(library));
    TCC_TRY(facts, library_facts(*model));
    tensors = std::make_unique<HostTensors>(*model, BenchOptions().seed);
    return {};
  }
  // Its threads are new ones: where the system keeps two of them on one processor it does so for a turn only.
  Result<void> turn(int64_t threads) {
    TCC_TRY(const auto context, model->create_context({.threads = static_cast<int>(threads)}));
    TCC_TRY_VOID(time_tasks(*context, facts, *tensors));  // finds another library's data in the caches
    std::vector<std::vector<double>> samples(facts.tasks.size());
    Stopwatch watch;
    for (int64_t run = 0; run < kRunsOfTurn || watch.seconds() < kTurnSeconds; ++run) {
      TCC_TRY(const std::vector<double> seconds, time_tasks(*context, facts, *tensors));
      for (size_t t = 0; t < seconds.size(); ++t) samples[t].push_back(seconds[t]);
    }
    for (size_t t = 0; t < samples.size(); ++t) rounds[facts.tasks[t].key].push_back(median_of(samples[t]));
    return {};
  }
};

// Drops the last entrants where the time suffices for fewer: of a model whose run takes long.
Result<void> keep_affordable(std::vector<Entrant>& entrants, int64_t threads, double seconds) {
  Stopwatch watch;
  TCC_TRY_VOID(entrants[0].turn(threads));
  entrants[0].rounds.clear();
  const double round = static_cast<double>(kLeastRounds) * std::max(watch.seconds(), kTurnSeconds);
  entrants.resize(std::min(entrants.size(), static_cast<size_t>(std::max(seconds / round, 0.0))));
  return {};
}

// The number of rounds.
Result<int64_t> time_in_turns(std::vector<Entrant>& entrants, const InModelOptions& options, double seconds) {
  Stopwatch watch;
  int64_t round = 0;
  for (; round < kLeastRounds || (round < kMostRounds && watch.seconds() < seconds); ++round)
    for (size_t i = 0; i < entrants.size(); ++i) {
      if (options.stop && options.stop()) return round;
      TCC_TRY_VOID(entrants[(i + static_cast<size_t>(round)) % entrants.size()].turn(options.threads));
    }
  return round;
}

// The time of the program `place` over that of the first one: the median round; 1 where it does not win clearly.
double clear_ratio(const Contest& contest, const std::vector<Entrant>& entrants, size_t place) {
  const auto first = entrants[0].rounds.find(key_of(contest.programs[0])),
             other = entrants[place].rounds.find(key_of(contest.programs[place]));
  if (first == entrants[0].rounds.end() || other == entrants[place].rounds.end()) return 1;
  std::vector<double> ratios;
  int64_t wins = 0;
  for (size_t i = 0; i < first->second.size(); ++i) {
    ratios.push_back(other->second[i] / first->second[i]);
    wins += ratios.back() < 1 ? 1 : 0;
  }
  const double ratio = median_of(ratios);
  const bool clear = ratio < 1 - kClearLead && static_cast<double>(wins) >= kWins * static_cast<double>(ratios.size());
  return clear ? ratio : 1;
}

// Does another program of the task win? The time alone of the one that is built from now on is the task's.
Result<bool> decide(Contest& contest, const std::vector<Entrant>& entrants, const InModelOptions& options,
                    TuneReport& report) {
  if (contest.programs.empty()) return false;
  TunedTask& task = *contest.task;
  size_t winner = 0;
  double ratio = 1;
  for (size_t place = 1; place < std::min(contest.programs.size(), entrants.size()); ++place)
    if (const double r = clear_ratio(contest, entrants, place); r < ratio) ratio = r, winner = place;
  const record::Record& won = contest.programs[winner];
  const record::Machine machine = search::machine_of(options.target);
  if (winner == 0 && key_of(won) == task.result.key) return false;
  if (winner != 0) {
    TCC_TRY_VOID(options.store->save_session(record::confirmed_best_key(won.task, machine, options.threads),
                                             record::hash_text(won.nest_hash)));
    if (contest.first_form != 0)
      TCC_TRY_VOID(options.store->save_session(record::chosen_form_key(contest.first_form, machine, options.threads),
                                               key_of(won)));
  }
  // The report shows the record that every other command reads.
  TCC_TRY(const std::optional<record::Record> read,
          options.database->confirmed_best(won.task, machine, options.threads));
  const record::Record& r = read ? *read : won;
  if (report.best_seconds > 0)
    report.best_seconds += static_cast<double>(task.result.weight) * (r.median - task.result.best_seconds);
  for (TunedForm& form : task.forms) {
    if (form.key != key_of(r)) continue;
    form.best_seconds = r.median;
    task.flops = form.flops;
  }
  task.result.key = key_of(r);
  task.result.workload = r.workload;
  task.result.best_seconds = r.median;
  task.result.best_disturbed = record::is_disturbed(r);
  task.result.best_gflops = r.median > 0 ? task.flops / r.median / 1e9 : 0;
  task.result.best_nest_hash = r.nest_hash;
  task.result.best_trace = r.trace;
  return winner != 0;
}

}  // namespace

double in_model_seconds(double command_seconds) {
  return std::clamp(kTuningShare * command_seconds, kLeastSeconds, kMostSeconds);
}

Result<std::optional<InModel>> choose_in_model(const Model& model, const InModelOptions& options, TuneReport& report) {
  Stopwatch watch;
  std::vector<Contest> contests;
  size_t most = 1;
  for (TunedTask& task : report.tasks) {
    TCC_TRY(Contest contest, find_contest(task, options));
    most = std::max(most, contest.programs.size());
    contests.push_back(std::move(contest));
  }
  if (most < 2) return std::optional<InModel>();
  TCC_TRY(const auto folder, TemporaryDirectory::create("tcc-in-model-"));
  std::vector<Entrant> entrants;
  double bytes = 0;
  const double room = kMemoryShare * static_cast<double>(target::host_target().memory_bytes);
  for (size_t place = 0; place < most; ++place) {
    const double each = watch.seconds() / static_cast<double>(std::max<size_t>(place, 1));
    if (place > 0 && watch.seconds() + each > kBuildShare * options.seconds) break;
    if (options.stop && options.stop()) return std::optional<InModel>();
    const std::string here = fmt::format("{}/{}", folder->path(), place);
    TCC_TRY(const std::string library, build_place(model, options, contests, place, here));
    bytes += bytes_of(here);
    if (place > 0 && bytes > room) break;
    TCC_TRY_VOID(entrants.emplace_back().load(library));
  }
  TCC_TRY_VOID(keep_affordable(entrants, options.threads, options.seconds - watch.seconds()));
  if (entrants.size() < 2) return std::optional<InModel>();
  InModel result;
  result.libraries = std::ssize(entrants);
  TCC_TRY(result.rounds, time_in_turns(entrants, options, options.seconds - watch.seconds()));
  if (options.stop && options.stop()) return std::optional<InModel>();
  for (Contest& contest : contests) {
    TCC_TRY(const bool changed, decide(contest, entrants, options, report));
    result.changed += changed ? 1 : 0;
  }
  result.seconds = watch.seconds();
  return std::optional(result);
}

}  // namespace tcc::driver
