// Models built with convolutions by tiles, held against the reference of the model as it was imported.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tcc/driver/compile.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/history.h"
#include "tcc/driver/library.h"
#include "tcc/driver/report.h"
#include "tcc/driver/show.h"
#include "tcc/graph/winograd.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

Model resnet(int64_t winograd) {
  auto model = load_model({"zoo:resnet18", {}, {1, 64, 1}, {}});
  REQUIRE(model.has_value());
  model->source.winograd = winograd;
  return std::move(*model);
}

int64_t winograd_tasks(const Program& program) {
  int64_t count = 0;
  for (const task::Task& task : program.tasks.tasks) count += task.workload.find("winograd") != std::string::npos;
  return count;
}

std::unique_ptr<record::Store> memory_store() {
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  return std::move(*store);
}

// A measurement of the task's default program, said to take so long.
void add_time(record::Store& store, const task::Task& task, double seconds, int64_t threads, int64_t unix_time = 0) {
  const target::Target host = target::host_target();
  auto chosen = search::choose_program(task, host, nullptr, threads);
  REQUIRE(chosen.has_value());
  auto trace = schedule::trace_from_json(chosen->trace);
  REQUIRE(trace.has_value());
  record::Record r = search::program_record(task, host, *trace, chosen->nest_hash);
  r.median = r.low = r.high = seconds;
  r.threads = threads;
  r.unix_time = unix_time;
  REQUIRE(store.add(r).has_value());
}

// The first task of a program that has as many forms.
size_t task_with_forms(const Program& program, size_t count) {
  for (size_t i = 0; i < program.forms.size(); ++i)
    if (program.forms[i].size() == count) return i;
  FAIL("no task has " << count << " forms");
  return 0;
}

}  // namespace

TEST_CASE("records decide which form a convolution takes") {
  const Model model = resnet(kAutoForm);
  const target::Target host = target::host_target();
  auto untuned = make_program(model);
  REQUIRE(untuned.has_value());
  CHECK(winograd_tasks(*untuned) == 0);
  REQUIRE(untuned->forms.size() == untuned->tasks.tasks.size());
  const size_t at = task_with_forms(*untuned, 3);
  const std::vector<TaskForm>& forms = untuned->forms[at];
  CHECK(forms[0].task.key == untuned->tasks.tasks[at].key);
  CHECK(forms[1].winograd == 2);
  CHECK(forms[2].winograd == 4);
  CHECK(form_of(forms[0].task.workload) == "direct");
  CHECK(form_of(forms[2].task.workload) == "winograd4");
  for (const TaskForm& form : forms) {
    CHECK(form.task.weight == untuned->tasks.tasks[at].weight);
    CHECK(form.task.nodes == untuned->tasks.tasks[at].nodes);
    CHECK(find_task(*untuned, form.task.key) == at);
    CHECK(find_form(*untuned, at, form.task.key).key == form.task.key);
  }
  // A fixed form of the whole model has the same key, so that they share records.
  auto fixed = make_program(resnet(4));
  REQUIRE(fixed.has_value());
  CHECK(fixed->forms.empty());
  CHECK(fixed->tasks.tasks[at].key == forms[2].task.key);

  auto store = memory_store();
  const auto chosen = [&](int64_t threads, int64_t winograd = kAutoForm) {
    Model same = model;
    same.source.winograd = winograd;
    auto program = make_program(same, host, {store.get(), threads});
    REQUIRE(program.has_value());
    return std::move(*program);
  };
  add_time(*store, forms[2].task, 1e-3, 1);
  CHECK(chosen(1).tasks.tasks[at].key == forms[2].task.key);  // the others are not measured
  add_time(*store, forms[0].task, 2e-3, 1);
  const Program tiles = chosen(1);
  CHECK(tiles.tasks.tasks[at].key == forms[2].task.key);
  CHECK(tiles.tasks.tasks.size() == untuned->tasks.tasks.size());
  CHECK(chosen(1, 0).tasks.tasks[at].key == forms[0].task.key);  // --winograd 0
  // Every kernel of the task has its own transformed weight.
  std::set<graph::ValueId> weights;
  for (size_t g = 0; g < tiles.groups.size(); ++g) {
    if (tiles.tasks.bindings[g].task != static_cast<int64_t>(at)) continue;
    const graph::Node& node = tiles.graph.node(tiles.groups[g].anchor);
    CHECK(node.as<graph::ConvAttrs>().winograd == 4);
    CHECK(tiles.graph.value(node.inputs[1]).shape[0] == 36);
    CHECK(tiles.tasks.bindings[g].params[1].value == node.inputs[1]);
    CHECK(std::count(tiles.groups[g].constants.begin(), tiles.groups[g].constants.end(), node.inputs[1]) == 1);
    weights.insert(node.inputs[1]);
  }
  CHECK(std::ssize(weights) == tiles.tasks.tasks[at].weight);

  add_time(*store, forms[0].task, 4e-4, 2);  // only the direct form was measured on two threads
  CHECK(chosen(2).tasks.tasks[at].key == forms[0].task.key);
  CHECK(chosen(1).tasks.tasks[at].key == forms[2].task.key);
  add_time(*store, forms[1].task, 3e-4, 2);
  CHECK(chosen(2).tasks.tasks[at].key == forms[1].task.key);

  // What won inside of the model is built, while it is not far behind alone.
  const auto wins_in_model = [&](const TaskForm& form) {
    const uint64_t direct = search::task_hash(forms[0].task);
    const std::string text = record::hash_text(search::task_hash(form.task));
    REQUIRE(store->save_session(record::chosen_form_key(direct, search::machine_of(host), 2), text));
  };
  wins_in_model(forms[0]);
  CHECK(chosen(2).tasks.tasks[at].key == forms[0].task.key);
  wins_in_model(forms[2]);  // not measured on two threads
  CHECK(chosen(2).tasks.tasks[at].key == forms[1].task.key);
  add_time(*store, forms[2].task, 9e-4, 2);
  CHECK(chosen(2).tasks.tasks[at].key == forms[1].task.key);

  auto summaries = summarise_tasks(chosen(2), store.get(), host, 2);
  REQUIRE(summaries.has_value());
  CHECK(summaries->at(at).form == "winograd2");
  REQUIRE(summaries->at(at).forms.size() == 3);
  CHECK(summaries->at(at).forms[0].best_seconds == 4e-4);
  CHECK(summaries->at(at).forms[1].best_seconds == 3e-4);
}

TEST_CASE("the history of a task counts all of its forms, whichever is built") {
  const Model model = resnet(kAutoForm);
  const target::Target host = target::host_target();
  auto store = memory_store();
  auto untuned = make_program(model, host, {store.get(), 1});
  REQUIRE(untuned.has_value());
  const size_t at = task_with_forms(*untuned, 3);
  const std::vector<TaskForm>& forms = untuned->forms[at];
  // While the direct form was the one that is built.
  REQUIRE(record_phases(*untuned, {.measure = 7}, 8, *store));
  const int64_t now = Clock::system().unix_seconds();
  add_time(*store, forms[0].task, 4e-3, 1, now - 2);
  add_time(*store, forms[1].task, 2e-3, 1, now - 1);
  add_time(*store, forms[0].task, 3e-3, 1, now);
  add_time(*store, forms[2].task, 1e-3, 1, now);
  auto tuned = make_program(model, host, {store.get(), 1});
  REQUIRE(tuned.has_value());
  REQUIRE(tuned->tasks.tasks[at].key == forms[2].task.key);
  for (const Program* program : {&*untuned, &*tuned}) {
    auto history = tuning_history(*program, *store, host, 1);
    REQUIRE(history.has_value());
    const TaskHistory& task = history->tasks.at(at);
    CHECK(task.records == 4);
    REQUIRE(task.best.size() == 3);
    CHECK(task.best[0].form == "direct");
    CHECK(task.best[1].form == "winograd2");
    CHECK(task.best[2].form == "winograd4");
    CHECK(task.best[2].seconds == 1e-3);
    REQUIRE(history->runs.size() == 1);
    CHECK(history->runs[0].records == 4);
    CHECK(history->runs[0].tasks == 1);
    REQUIRE(history->runs[0].phases.contains("measure"));
    CHECK(history->runs[0].phases.at("measure") == 7);
  }
}

TEST_CASE("a report has the trials of all forms, and says which form is built") {
  Model model;
  const auto x = model.graph.add_input("x", graph::DType::kF32, {1, 32, 34, 34});
  const auto w =
      model.graph.add_constant("w", graph::DType::kF32, {32, 32, 3, 3}, graph::make_splat(graph::DType::kF32, 0.25));
  auto y = model.graph.add_node(graph::Op::kConv, graph::ConvAttrs{{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, {x, w},
                                "conv");
  REQUIRE(y.has_value());
  model.graph.add_output(*y, "y");
  model.source.winograd = kAutoForm;
  const target::Target host = target::host_target();
  auto untuned = make_program(model);
  REQUIRE(untuned.has_value());
  REQUIRE(untuned->forms.at(0).size() == 3);
  const std::vector<TaskForm>& forms = untuned->forms[0];

  auto store = memory_store();
  add_time(*store, forms[0].task, 4e-3, 1, 100);
  add_time(*store, forms[2].task, 1e-3, 1, 101);
  add_time(*store, forms[1].task, 2e-3, 1, 102);
  add_time(*store, forms[0].task, 3e-3, 1, 103);
  add_time(*store, forms[0].task, 1e-4, 2, 104);  // on another number of threads
  auto direct = store->all(search::task_hash(forms[0].task));
  REQUIRE(direct.has_value());
  record::Record failed = direct->front();
  failed.task = search::task_hash(forms[1].task), failed.workload = forms[1].task.workload;
  failed.nest_hash = 1, failed.unix_time = 105;
  failed.status = record::Status::kWrong, failed.failure = "off by 1";
  REQUIRE(store->add(failed).has_value());
  record::Record untimed = direct->front();  // the direct form's program is the one without tuning
  untimed.kind = record::Kind::kPredicted;
  REQUIRE(store->add(untimed).has_value());

  auto tuned = make_program(model, host, {store.get(), 1});
  REQUIRE(tuned.has_value());
  REQUIRE(tuned->tasks.tasks[0].key == forms[2].task.key);
  for (const size_t built : {size_t{2}, size_t{0}}) {
    auto report = report_program(built == 0 ? *untuned : *tuned, store.get(), host, 1, &model.source, nullptr, nullptr);
    if (!report) FAIL(report.error().message);
    REQUIRE(report->size() == 1);
    const ReportedTask& task = report->front();
    CHECK(task.explanation.key == forms[built].task.key);
    CHECK(task.explanation.seconds == (built == 0 ? 3e-3 : 1e-3));
    CHECK(task.default_seconds == (built == 0 ? 3e-3 : 0));
    REQUIRE(task.forms.size() == 3);
    const std::string names[] = {"direct", "winograd2", "winograd4"};
    const int64_t trials[] = {2, 2, 1};
    const double best[] = {3e-3, 2e-3, 1e-3};
    for (size_t f = 0; f < 3; ++f) {
      CHECK(task.forms[f].form == names[f]);
      CHECK(task.forms[f].key == forms[f].task.key);
      CHECK(task.forms[f].built == (f == built));
      CHECK(task.forms[f].trials == trials[f]);
      CHECK(task.forms[f].best_seconds == best[f]);
    }
    REQUIRE(task.trials.size() == 5);
    const int64_t form_of_trial[] = {0, 2, 1, 0, 1};
    const double seconds[] = {4e-3, 1e-3, 2e-3, 3e-3, 0};
    for (size_t i = 0; i < 5; ++i) {
      CHECK(task.trials[i].form == form_of_trial[i]);
      CHECK(task.trials[i].seconds == seconds[i]);
      CHECK((task.trials[i].predicted > 0) == (seconds[i] > 0));  // by the nest of its own form
    }
    CHECK(task.trials[0].predicted == task.trials[3].predicted);  // one program
    CHECK(task.trials[0].predicted != task.trials[1].predicted);
    const auto wrong = std::find_if(task.failures.begin(), task.failures.end(),
                                    [](const RecordedFailure& f) { return f.status == "wrong"; });
    REQUIRE(wrong != task.failures.end());
    CHECK(wrong->count == 1);
    CHECK(wrong->example == "off by 1");
    const std::vector<std::string>& advice = task.explanation.bounds.advice;
    CHECK(std::any_of(advice.begin(), advice.end(), [](const std::string& a) {
      return a.find("the records hold 7 programs of this task") != std::string::npos;
    }));
  }
}

TEST_CASE("without measurements an estimate decides forms where it is asked for") {
  const Model model = resnet(kAutoForm);
  const target::Target host = target::host_target();
  auto direct = make_program(model), estimated = make_program(model, host, {nullptr, 1, true});
  REQUIRE(direct.has_value());
  REQUIRE(estimated.has_value());
  const int64_t tiles = winograd_tasks(*estimated);
  CHECK(winograd_tasks(*direct) == 0);
  CHECK(tiles > 0);
  size_t at = 0;
  for (size_t i = 0; i < estimated->forms.size(); ++i) {
    const std::string form = form_of(estimated->tasks.tasks[i].workload);
    CHECK(form != "winograd2");
    double most = 0;
    for (const TaskForm& f : estimated->forms[i])
      if (f.winograd == 4) most = f.estimate;
    CHECK((form == "winograd4") == (most > 2));
    if (form == "winograd4") at = i;
  }
  // A measurement counts more.
  auto store = memory_store();
  add_time(*store, estimated->forms[at][0].task, 1e-3, 1);
  auto measured = make_program(model, host, {store.get(), 1, true});
  REQUIRE(measured.has_value());
  CHECK(form_of(measured->tasks.tasks[at].workload) == "direct");
  CHECK(winograd_tasks(*measured) == tiles - 1);
}

TEST_CASE("a library takes the forms that records say are the fastest, and verifies") {
  const Model model = resnet(kAutoForm);
  auto untuned = make_program(model);
  REQUIRE(untuned.has_value());
  auto store = memory_store();
  int64_t with_forms = 0;
  for (const std::vector<TaskForm>& forms : untuned->forms)
    for (size_t f = 0; f < forms.size(); ++f) {
      add_time(*store, forms[f].task, f + 1 == forms.size() ? 1e-3 : 2e-3, 1);
      with_forms += f == 0 ? 1 : 0;
    }
  REQUIRE(with_forms > 0);
  auto folder = TemporaryDirectory::create("tcc-forms-test-");
  REQUIRE(folder.has_value());
  BuildOptions options;
  options.folder = (*folder)->path();
  options.targets = {target::host_target()};
  options.store = store.get();
  auto report = build_model(model, options);
  if (!report) FAIL(report.error().message);
  CHECK(std::count_if(report->kernels.begin(), report->kernels.end(), [](const KernelChoice& k) {
          return k.tuned && form_of(k.workload).starts_with("winograd");
        }) == with_forms);
  auto verified = verify_library(report->package.library, {});
  REQUIRE(verified.has_value());
  CHECK(verified->passed());
}

TEST_CASE("two builds in one process give one library") {
  const Model model = resnet(4);
  std::string libraries[2];
  for (std::string& library : libraries) {
    auto folder = TemporaryDirectory::create("tcc-forms-test-");
    REQUIRE(folder.has_value());
    BuildOptions options;
    options.folder = (*folder)->path();
    options.targets = {target::host_target()};
    auto report = build_model(model, options);
    if (!report) FAIL(report.error().message);
    auto bytes = read_file(report->package.library);
    REQUIRE(bytes.has_value());
    library = std::move(*bytes);
  }
  CHECK(libraries[0].size() == libraries[1].size());
  const bool equal = libraries[0] == libraries[1];  // the bytes are not printed
  CHECK(equal);
}

TEST_CASE("a form whose error may pass the tolerance is refused by task, with the number") {
  // Filters with one element at the corner, over 512 channels: F(4x4, 3x3) is least accurate for them.
  Model model;
  const auto x = model.graph.add_input("x", graph::DType::kF32, {1, 512, 16, 16});
  std::vector<double> values(size_t{32} * 512 * 9, 0.0);
  for (size_t i = 8; i < values.size(); i += 9) values[i] = 1;
  const auto w = model.graph.add_constant("w", graph::DType::kF32, {32, 512, 3, 3},
                                          graph::make_constant_from_doubles(graph::DType::kF32, values));
  auto y = model.graph.add_node(graph::Op::kConv, graph::ConvAttrs{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {x, w},
                                "conv");
  REQUIRE(y.has_value());
  model.graph.add_output(*y, "y");
  for (int64_t winograd : {int64_t{4}, kAutoForm}) {
    model.source.winograd = winograd;
    auto program = make_program(model);
    REQUIRE(program.has_value());
    CHECK(winograd_tasks(*program) == 0);
    REQUIRE(program->refused_forms.size() == 1);
    const RefusedForm& refused = program->refused_forms[0];
    CHECK(refused.winograd == 4);
    CHECK(refused.error > graph::kWinogradTolerance);
    CHECK_THAT(refusal_text(refused), Catch::Contains("F(4x4, 3x3)") &&
                                          Catch::Contains(fmt::format("{:.1e}", refused.error)) &&
                                          Catch::Contains("1.0e-03") && Catch::Contains("conv2d 1x512x16x16"));
    if (winograd == kAutoForm) CHECK(program->forms.at(0).size() == 2);  // F(2x2, 3x3) stays
  }
  model.source.winograd = 0;
  auto direct = make_program(model);
  REQUIRE(direct.has_value());
  CHECK(direct->refused_forms.empty());
  CHECK(direct->forms.empty());
}

TEST_CASE("only convolutions that a form can compute have forms") {
  for (const char* name : {"zoo:mlp", "zoo:mobilenet_v2"}) {
    ModelSource source;
    source.model = name;
    auto model = load_model(source);
    if (!model) FAIL(model.error().message);
    auto program = make_program(*model);
    REQUIRE(program.has_value());
    for (const std::vector<TaskForm>& forms : program->forms) CHECK(forms.empty());  // 1x1 and depthwise ones
  }
  // Predicted times do not compare forms.
  auto gpu = target::find_target("a100");
  REQUIRE(gpu.has_value());
  auto program = make_program(resnet(kAutoForm), *gpu);
  REQUIRE(program.has_value());
  CHECK(program->forms.empty());
}

TEST_CASE("a model with convolutions by tiles verifies against its direct convolutions") {
  auto folder = TemporaryDirectory::create("tcc-winograd-test-");
  REQUIRE(folder.has_value());
  BuildOptions options;
  options.folder = (*folder)->path();
  options.targets = {target::host_target()};
  auto report = build_model(resnet(4), options);
  if (!report) FAIL(report.error().message);
  auto verified = verify_library(report->package.library, {});
  REQUIRE(verified.has_value());
  CHECK(verified->passed());
  REQUIRE(verified->outputs.size() == 1);
  CHECK(verified->outputs[0].max_error < 1e-3);
}

TEST_CASE("winograd is an option of the model, chosen by records by default") {
  auto direct = make_program(resnet(0)), tiles = make_program(resnet(2));
  REQUIRE(direct.has_value());
  REQUIRE(tiles.has_value());
  CHECK(ModelSource{}.winograd == kAutoForm);
  CHECK(winograd_tasks(*direct) == 0);
  CHECK(winograd_tasks(*tiles) >= 1);
  CHECK(tiles->flops < direct->flops);
  auto other = make_program(resnet(3));
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message.find("winograd") != std::string::npos);
}
