// The line of what gained most, as `tune` prints it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/gain_report.h"
#include "cli/output.h"
#include "operator_bytes.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/gain.h"

using namespace tcc;
using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

// The record of a program that nobody ran, or one said to take a millisecond.
void add_record(record::Store& store, const task::Task& task, const search::Chosen& program, record::Kind kind) {
  auto trace = program.trace.empty() ? schedule::Trace() : schedule::trace_from_json(program.trace);
  REQUIRE(trace.has_value());
  record::Record r = search::program_record(task, target::host_target(), *trace, program.nest_hash);
  r.kind = kind;
  r.median = r.low = r.high = 1e-3;
  r.threads = 1;
  REQUIRE(store.add(r).has_value());
}

}  // namespace

TEST_CASE("tasks that gained have the numbers that show lists, a convolution that takes a Winograd form too", "[cli]") {
  Sandbox box;
  spill(box.path("net.onnx"), two_convolutions());
  driver::ModelSource source;
  source.model = box.str("net.onnx");
  auto model = driver::load_model(source);
  if (!model) FAIL(model.error().message);
  const target::Target host = target::host_target();
  auto untuned = driver::make_program(*model);
  REQUIRE(untuned.has_value());
  REQUIRE(untuned->tasks.tasks.size() == 2);

  // Without tuning all loops are the plain ones of direct convolutions. With it they are scheduled, and of several
  // forms the last was measured.
  auto store = record::Store::open(box.str("r.db"));
  REQUIRE(store.has_value());
  driver::FirstLibrary first;
  for (size_t i = 0; i < untuned->tasks.tasks.size(); ++i) {
    const task::Task& task = untuned->tasks.tasks[i];
    auto plain = search::unscheduled_program(task, host);
    REQUIRE(plain.has_value());
    add_record(**store, task, *plain, record::Kind::kPredicted);
    first.programs.push_back({.key = task.key, .made = true});
    const task::Task& form = *driver::forms_of(*untuned, i).back();
    auto scheduled = search::choose_program(form, host, nullptr, 1);
    REQUIRE(scheduled.has_value());
    add_record(**store, form, *scheduled, record::Kind::kMeasured);
  }
  driver::GainOptions options{.target = host, .store = store->get(), .threads = 1, .seconds = 0.3};
  options.first = &first;
  const auto gain = driver::measure_gain(*model, options);
  if (!gain) FAIL(gain.error().message);

  const Outcome show = box.tcc({"show", "net.onnx", "--db", "r.db", "--threads", "1", "--json"});
  CAPTURE(show.err);
  const Json tasks = Json::parse(show.out).at("tasks");
  REQUIRE(tasks.size() == 2);
  driver::TuneRequest request;
  request.target = host;
  const std::string text = cli::gain_text(*gain, *untuned, request);
  CAPTURE(text);
  CHECK(gain->tasks.size() == 2);
  bool winograd = false;
  for (const driver::TaskGain& t : gain->tasks) {
    const auto shown = std::find_if(tasks.begin(), tasks.end(), [&](const Json& s) { return s.at("key") == t.key; });
    REQUIRE(shown != tasks.end());
    winograd = winograd || shown->at("form") == "winograd4";
    CHECK_THAT(text, Contains(fmt::format("task {} {} -> {}", shown->at("task").get<int64_t>(),
                                          cli::format_seconds(t.before), cli::format_seconds(t.after))));
  }
  CHECK(winograd);
  CHECK_THAT(text, Contains("most gained: task"));
}
