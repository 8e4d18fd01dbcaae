// Random valid traces equal the reference: the naive kernel under the interpreter. Each is checked at Scheduled and at
// Nest, with conflict checks, and its sketch against replay + lower.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "random_trace.h"
#include "reference.h"
#include "task_shapes.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"

using namespace tcc;

namespace {

int64_t traces_wanted() {
  return std::getenv("TCC_SOAK") != nullptr ? 10000 : 2000;  // enough for the primitives that seldom apply
}

}  // namespace

TEST_CASE("random traces equal the reference", "[traces]") {
  std::vector<task::Task> tasks = testing::task_shapes();
  target::Target host = target::host_target();
  std::map<std::string, int> applied, rejected;
  int64_t total = traces_wanted(), lowered = 0;
  const char* only = std::getenv("TCC_TRACE_SEED");
  std::vector<testing::Reference> references;
  for (const task::Task& t : tasks) references.emplace_back(t.kernel);
  for (int64_t n = only != nullptr ? std::atoll(only) : 0; n < total; ++n) {
    size_t which = static_cast<size_t>(n) % tasks.size();
    const task::Task& t = tasks[which];
    Rng rng(static_cast<uint64_t>(n) + 1000);
    testing::RandomTrace random = testing::TraceWriter(t.kernel, rng).write(2 + static_cast<int>(rng.below(12)));
    for (auto& [name, count] : random.applied) applied[name] += count;
    for (auto& [name, count] : random.rejected) rejected[name] += count;
    const schedule::Trace& trace = random.schedule.trace();
    std::string label = fmt::format("trace {} of {}\n{}", n, t.workload, schedule::print_trace(trace));

    // The recorded kernel, its replay, and its nest.
    references[which].check(random.schedule.kernel(), label);
    auto arena = std::make_shared<Arena>();
    auto again = schedule::replay(trace, trace.decisions, t.kernel, arena);
    if (!again) FAIL(label << again.error().text);
    CHECK(ir::hash_kernel(*again) == ir::hash_kernel(random.schedule.kernel()));
    auto nest = lower::lower(*again, host, ir::Stage::kNest, arena);
    if (nest) {
      references[which].check(*nest, label + "at nest");
      ++lowered;
    } else {
      INFO(label << nest.error().text);
      CHECK((nest.error().reason == ir::RejectReason::kVectorTooWide));
    }
    // Text forms round-trip.
    auto parsed = schedule::parse_trace(schedule::print_trace(trace));
    if (!parsed) FAIL(label << parsed.error().message);
    CHECK(*parsed == trace);
    auto json = schedule::trace_from_json(schedule::trace_to_json(trace));
    if (!json) FAIL(label << json.error().message);
    CHECK(*json == trace);
    auto text = ir::parse(ir::print(*again));
    if (!text) FAIL(label << text.error().message << ir::print(*again));
    CHECK(ir::hash_kernel(*text) == ir::hash_kernel(*again));
    if (only != nullptr) break;
  }
  std::string summary;
  for (auto& [name, count] : applied) summary += fmt::format("{} {}+{}- ", name, count, rejected[name]);
  WARN(lowered << " lowered; " << summary);
  for (const schedule::OpRow& row : schedule::op_table()) {
    // Every instruction of the table that changes the program is tried, or left out by name.
    const bool tried = std::any_of(testing::TraceWriter::steps().begin(), testing::TraceWriter::steps().end(),
                                   [&](const auto& step) { return step.op == row.op; });
    CHECK((tried || row.flag != schedule::Flag::kNone || testing::TraceWriter::is_left_out(row.op)));
    if (!tried) continue;
    const std::string name(row.name);
    if (only == nullptr) CHECK(applied[name] > 0);
  }
}

TEST_CASE("sketches equal replay and lower", "[traces]") {
  std::vector<task::Task> tasks = testing::task_shapes();
  target::Target host = target::host_target();
  for (size_t which = 0; which < tasks.size(); ++which) {
    const task::Task& t = tasks[which];
    int64_t checked = 0, symbolic = 0, sketches = 0;
    for (uint64_t seed = 0; checked < 1000 && seed < 400; ++seed) {
      Rng rng(seed * 77 + which);
      testing::RandomTrace random = testing::TraceWriter(t.kernel, rng).write(3 + static_cast<int>(rng.below(9)));
      const schedule::Trace& trace = random.schedule.trace();
      if (trace.decisions.empty()) continue;
      auto sketch = space::make_sketch(trace, t.kernel, host);
      REQUIRE(sketch);
      ++sketches;
      symbolic += sketch->symbolic ? 1 : 0;
      std::vector<int64_t> decisions = sketch->trace.decisions;
      for (int i = 0; i < 20; ++i, ++checked) {
        if (i % 2 == 0)
          space::draw_decisions(*sketch, decisions, rng);
        else
          schedule::mutate(trace, decisions, rng);
        auto a = std::make_shared<Arena>(), b = std::make_shared<Arena>();
        auto x = space::instantiate(*sketch, decisions, host, a);
        auto k = schedule::replay(trace, decisions, t.kernel, b);
        if (!k) {
          CHECK(!x);
          continue;
        }
        auto y = lower::lower(*k, host, ir::Stage::kNest, b);
        if (x.has_value() != y.has_value() || (x && ir::hash_kernel(*x) != ir::hash_kernel(*y)))
          FAIL(t.workload << " seed " << seed << "\n"
                          << schedule::print_trace(trace) << (x ? ir::print(*x) : x.error().text)
                          << (y ? ir::print(*y) : y.error().text));
      }
    }
    INFO(t.workload);
    CHECK(checked >= 1000);
    WARN(t.workload << ": " << symbolic << " of " << sketches << " sketches are symbolic");
    CHECK(symbolic * 2 > sketches);
  }
}
