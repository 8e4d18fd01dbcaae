// Choosing among the fastest programs of a task inside of the model: what wins there is the task's best from then on.
#include "tcc/driver/in_model.h"

#include <catch2/catch.hpp>

#include "tcc/driver/forms.h"
#include "tcc/driver/model.h"
#include "tcc/record/disturbed.h"
#include "tcc/search/search.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

constexpr double kMillisecond = 1e-3;

Result<Model> mlp(int64_t batch) {
  ModelSource source;
  source.model = "zoo:mlp";
  source.zoo.batch = batch;
  return load_model(source);
}

// A program whose record names these seconds.
void add_measured(record::Store& store, const task::Task& task, const search::Chosen& program, double seconds,
                  bool disturbed = false) {
  auto trace = program.trace.empty() ? schedule::Trace() : schedule::trace_from_json(program.trace);
  REQUIRE(trace.has_value());
  record::Record r = search::program_record(task, target::host_target(), *trace, program.nest_hash);
  r.kind = record::Kind::kMeasured;
  r.median = r.low = r.high = seconds;
  r.threads = 1;
  if (disturbed) r.statistic = record::kDisturbedStatistic;
  REQUIRE(store.add(r).has_value());
}

}  // namespace

TEST_CASE("the program that is fastest inside of the model is built, whatever its time alone") {
  auto model = mlp(64);
  REQUIRE(model.has_value());
  const target::Target host = target::host_target();
  auto program = make_program(*model);
  REQUIRE(program.has_value());
  const std::vector<task::Task>& tasks = program->tasks.tasks;
  REQUIRE(tasks.size() == 3);

  // By their times alone the plain loops of the first task are a little faster than scheduled ones, and those of the
  // second a little slower. The third has plain loops that are far behind.
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  TuneReport report;
  std::vector<uint64_t> scheduled;
  for (size_t i = 0; i < tasks.size(); ++i) {
    auto plain = search::unscheduled_program(tasks[i], host);
    auto fast = search::choose_program(tasks[i], host, nullptr, 1);
    REQUIRE(plain.has_value());
    REQUIRE(fast.has_value());
    REQUIRE(plain->nest_hash != fast->nest_hash);
    const double apart = i == 0 ? 0.95 : i == 1 ? 1.05 : 1.5;
    add_measured(**store, tasks[i], *fast, kMillisecond);
    add_measured(**store, tasks[i], *plain, apart * kMillisecond);
    scheduled.push_back(fast->nest_hash);
    TunedTask& tuned = report.tasks.emplace_back();
    tuned.result.key = tasks[i].key;
    tuned.result.best_seconds = std::min(apart, 1.0) * kMillisecond;
    report.best_seconds += tuned.result.best_seconds;
  }
  const auto best_nest = [&](size_t i) {
    auto best = (*store)->confirmed_best(search::task_hash(tasks[i]), search::machine_of(host), 1);
    REQUIRE(best.has_value());
    REQUIRE(best->has_value());
    return (*best)->nest_hash;
  };
  CHECK(best_nest(0) != scheduled[0]);

  InModelOptions options{.target = host, .store = store->get(), .database = store->get(), .seconds = 60};
  options.stop = [] { return true; };
  auto chosen = choose_in_model(*model, options, report);
  REQUIRE(chosen.has_value());
  CHECK_FALSE(chosen->has_value());
  CHECK(best_nest(0) != scheduled[0]);

  options.stop = nullptr;
  chosen = choose_in_model(*model, options, report);
  if (!chosen) FAIL(chosen.error().message);
  REQUIRE(chosen->has_value());
  CHECK((*chosen)->libraries == 2);
  CHECK((*chosen)->changed == 1);
  for (size_t i = 0; i < tasks.size(); ++i) CHECK(best_nest(i) == scheduled[i]);
  CHECK(report.tasks[0].result.best_seconds == kMillisecond);
  CHECK(report.best_seconds == Approx(3 * kMillisecond));

  // The winner meets the same programs again, and stays.
  chosen = choose_in_model(*model, options, report);
  if (!chosen) FAIL(chosen.error().message);
  REQUIRE(chosen->has_value());
  CHECK((*chosen)->changed == 0);
}

TEST_CASE("a program that a build would not take does not compete inside of the model") {
  auto model = mlp(64);
  REQUIRE(model.has_value());
  const target::Target host = target::host_target();
  auto program = make_program(*model);
  REQUIRE(program.has_value());
  const task::Task& task = program->tasks.tasks[0];
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  auto plain = search::unscheduled_program(task, host);
  auto fast = search::choose_program(task, host, nullptr, 1);
  REQUIRE(plain.has_value());
  REQUIRE(fast.has_value());
  // The faster program's time is disturbed: it gives way to the other's.
  add_measured(**store, task, *plain, 1.2 * kMillisecond);
  add_measured(**store, task, *fast, kMillisecond, true);
  TuneReport report;
  TunedTask& tuned = report.tasks.emplace_back();
  tuned.result.key = task.key;
  tuned.result.best_seconds = 1.2 * kMillisecond;
  const InModelOptions options{.target = host, .store = store->get(), .database = store->get(), .seconds = 60};
  auto chosen = choose_in_model(*model, options, report);
  if (!chosen) FAIL(chosen.error().message);
  CHECK_FALSE(chosen->has_value());
  CHECK(tuned.result.best_seconds == 1.2 * kMillisecond);
  auto built = (*store)->confirmed_best(search::task_hash(task), search::machine_of(host), 1);
  REQUIRE(built.has_value());
  CHECK((*built)->median == tuned.result.best_seconds);
}

TEST_CASE("the form that is fastest inside of the model is built, whatever its time alone") {
  ModelSource source;
  source.model = "zoo:resnet18";
  source.zoo.image = 64;
  auto model = load_model(source);
  REQUIRE(model.has_value());
  model->source.winograd = kAutoForm;
  const target::Target host = target::host_target();
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  const auto program = [&] {
    auto made = make_program(*model, host, {store->get(), 1});
    REQUIRE(made.has_value());
    return std::move(*made);
  };
  const Program untuned = program();
  size_t at = 0;
  while (at < untuned.forms.size() && untuned.forms[at].empty()) ++at;
  REQUIRE(at < untuned.forms.size());
  const std::vector<TaskForm>& forms = untuned.forms[at];

  // By its time alone the last form is the fastest, but its program is the plain loops.
  auto direct = search::choose_program(forms[0].task, host, nullptr, 1);
  auto plain = search::unscheduled_program(forms.back().task, host);
  REQUIRE(direct.has_value());
  REQUIRE(plain.has_value());
  add_measured(**store, forms[0].task, *direct, kMillisecond);
  add_measured(**store, forms.back().task, *plain, 0.8 * kMillisecond);
  CHECK(program().tasks.tasks[at].key == forms.back().task.key);

  TuneReport report;
  report.best_seconds = 0.8 * kMillisecond;
  TunedTask& tuned = report.tasks.emplace_back();
  tuned.result.key = forms.back().task.key;
  tuned.result.best_seconds = 0.8 * kMillisecond;
  tuned.forms.push_back({form_of(forms[0].task.workload), forms[0].task.key, 1, kMillisecond, 5});
  tuned.forms.push_back({form_of(forms.back().task.workload), forms.back().task.key, 1, 0.8 * kMillisecond, 7});
  const InModelOptions options{.target = host, .store = store->get(), .database = store->get(), .seconds = 60};
  const auto chosen = choose_in_model(*model, options, report);
  if (!chosen) FAIL(chosen.error().message);
  REQUIRE(chosen->has_value());
  CHECK((*chosen)->libraries == 2);
  CHECK((*chosen)->changed == 1);
  CHECK(tuned.result.key == forms[0].task.key);
  CHECK(tuned.result.workload == forms[0].task.workload);
  CHECK(tuned.flops == 5);
  CHECK(report.best_seconds == Approx(kMillisecond));
  CHECK(program().tasks.tasks[at].key == forms[0].task.key);

  // After another tuning the report begins with the form that is fastest alone. The one that is built stays.
  tuned.result.key = forms.back().task.key;
  tuned.result.best_seconds = report.best_seconds = 0.8 * kMillisecond;
  const auto again = choose_in_model(*model, options, report);
  if (!again) FAIL(again.error().message);
  REQUIRE(again->has_value());
  CHECK((*again)->changed == 0);
  CHECK(tuned.result.key == forms[0].task.key);
  CHECK(report.best_seconds == Approx(kMillisecond));
  CHECK(program().tasks.tasks[at].key == forms[0].task.key);
}

TEST_CASE("tasks without another program in reach are not compared inside of the model") {
  auto model = mlp(2);
  REQUIRE(model.has_value());
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  TuneReport report;
  auto program = make_program(*model);
  REQUIRE(program.has_value());
  report.tasks.emplace_back().result.key = program->tasks.tasks[0].key;
  const InModelOptions options{.target = target::host_target(), .store = store->get(), .database = store->get()};
  const auto chosen = choose_in_model(*model, options, report);
  REQUIRE(chosen.has_value());
  CHECK_FALSE(chosen->has_value());
}
