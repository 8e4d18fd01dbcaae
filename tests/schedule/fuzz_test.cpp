// Traces from files may hold anything: parsing, replaying and mutated decisions end in an error, a reject, or a kernel
// that verifies and computes the same. TCC_SOAK=1 runs more cases.
#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstdlib>

#include "../traces/random_trace.h"
#include "sample_tasks.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/support/check.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

int64_t cases_wanted() {
  return std::getenv("TCC_SOAK") != nullptr ? 40000 : 2000;
}

std::vector<task::Task> small_tasks() {
  return {
      task::make_gemm({.m = 4, .n = 6, .k = 5, .bias = true, .relu = true, .constant_weights = true}),
      task::make_conv({.channels = 2, .filters = 3, .size = {5, 5}, .kernel = {3, 3}, .pads = {1, 1}, .relu = true}),
      task::make_softmax({3, 7}, 1), task::make_elementwise({2, 3, 5})};
}

// Inputs of a task and the outputs of its naive kernel.
struct Expected {
  std::vector<interp::TensorData> inputs, outputs;
  explicit Expected(const ir::Kernel& k) {
    for (const ir::Buffer* b : k.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      inputs.push_back(interp::TensorData::make_random_integers(b->type, shape, 5 + inputs.size()));
    }
    outputs = inputs;
    REQUIRE(run(k, outputs).ok());
  }
  static interp::Report run(const ir::Kernel& k, std::vector<interp::TensorData>& data) {
    std::vector<interp::TensorData*> params;
    for (interp::TensorData& d : data) params.push_back(&d);
    interp::Options options;
    options.check_races = true;
    options.max_steps = 200000;
    return interp::run(k, params, options);
  }
  void check(const ir::Kernel& k) const {
    std::vector<interp::TensorData> got = inputs;
    interp::Report report = run(k, got);
    if (report.has(interp::Finding::Kind::kStepLimit)) return;  // a huge factor was legal
    CHECK(report.ok());
    if (!report.ok()) UNSCOPED_INFO(report.text());
    for (size_t i = 0; i < got.size(); ++i) {
      std::vector<double> x = got[i].to_doubles(), y = outputs[i].to_doubles();
      for (size_t e = 0; e < x.size(); ++e)
        if (std::abs(x[e] - y[e]) > 1e-4 * (1 + std::abs(y[e]))) {
          FAIL_CHECK("element " << e << " of parameter " << i << " is " << x[e] << ", not " << y[e]);
          return;
        }
    }
  }
};

// One random edit of a text; knows a little of what traces and kernels are made of.
std::string edit_text(std::string text, Rng& rng) {
  static constexpr std::array<const char*, 24> kPieces = {"v0",
                                                          "v1",
                                                          "v9",
                                                          "_",
                                                          "-1",
                                                          "0",
                                                          "3",
                                                          "9223372036854775807",
                                                          "-9223372036854775808",
                                                          "99999999999999999999",
                                                          "(",
                                                          ")",
                                                          "[1]",
                                                          "<2>",
                                                          "\"\"",
                                                          "\"x\"",
                                                          "split(v1, ",
                                                          "get_block(",
                                                          "compute_at(v0, v1)\n",
                                                          "\n",
                                                          ",",
                                                          "=",
                                                          "null",
                                                          "{}"};
  auto at = [&](size_t n) { return static_cast<size_t>(rng.below(static_cast<int64_t>(n) + 1)); };
  switch (rng.below(8)) {
    case 0:
      text.erase(at(text.size()), static_cast<size_t>(rng.below(6)) + 1);
      break;
    case 1:
      text.insert(at(text.size()), kPieces[static_cast<size_t>(rng.below(kPieces.size()))]);
      break;
    case 2:
      if (!text.empty()) text[at(text.size() - 1)] = static_cast<char>(rng.below(256));
      break;
    case 3: {  // another digit
      size_t digit = text.find_first_of("0123456789", at(text.size()));
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + rng.below(10));
      break;
    }
    case 4: {  // a line again, somewhere else
      size_t from = text.rfind('\n', at(text.size())), begin = from == std::string::npos ? 0 : from + 1;
      size_t end = std::min(text.find('\n', begin), text.size());
      std::string line = text.substr(begin, end - begin) + "\n";
      size_t to = text.rfind('\n', at(text.size()));
      text.insert(to == std::string::npos ? 0 : to + 1, line);
      break;
    }
    case 5: {  // a line less
      size_t from = text.rfind('\n', at(text.size())), begin = from == std::string::npos ? 0 : from + 1;
      text.erase(begin, std::min(text.find('\n', begin), text.size()) - begin + 1);
      break;
    }
    case 6:
      if (rng.below(4) == 0) text.resize(at(text.size()));
      break;
    default: {  // another number
      size_t digit = text.find_first_of("0123456789", at(text.size()));
      if (digit == std::string::npos) break;
      size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
      text.replace(digit, end - digit, kPieces[static_cast<size_t>(3 + rng.below(7))]);
      break;
    }
  }
  return text;
}

struct Outcomes {
  int64_t unread = 0, rejected = 0, replayed = 0;
};

void try_trace(const Result<schedule::Trace>& trace, const task::Task& task, const Expected& expected,
               Outcomes& outcomes) {
  if (!trace) {
    ++outcomes.unread;
    CHECK_FALSE(trace.error().message.empty());
    return;
  }
  auto k = schedule::replay(*trace, trace->decisions, task.kernel, std::make_shared<Arena>());
  if (!k) {
    ++outcomes.rejected;
    CHECK_FALSE(k.error().text.empty());
    return;
  }
  ++outcomes.replayed;
  INFO(schedule::print_trace(*trace) << ir::print(*k));
  for (const std::string& finding : ir::verify(*k)) FAIL_CHECK(finding);
  expected.check(*k);
}

}  // namespace

TEST_CASE("edited trace texts end in an error, a reject or the same result", "[fuzz]") {
  std::vector<task::Task> tasks = small_tasks();
  std::vector<Expected> expected;
  for (const task::Task& t : tasks) expected.emplace_back(t.kernel);
  Outcomes outcomes;
  for (int64_t n = 0; n < cases_wanted(); ++n) {
    Rng rng(static_cast<uint64_t>(n) + 90000);
    size_t which = static_cast<size_t>(n) % tasks.size();
    auto random = testing::TraceWriter(tasks[which].kernel, rng).write(2 + static_cast<int>(rng.below(8)));
    std::string text = schedule::print_trace(random.schedule.trace());
    for (int64_t edits = 1 + rng.below(3); edits > 0; --edits) text = edit_text(std::move(text), rng);
    std::string label = fmt::format("seed {}\n{}", n + 90000, text);
    INFO(label);
    CheckContext context([&] { return label; });
    try_trace(schedule::parse_trace(text, "fuzz"), tasks[which], expected[which], outcomes);
  }
  // The edits reach every stage.
  CHECK(outcomes.unread > 100);
  CHECK(outcomes.rejected > 30);
  CHECK(outcomes.replayed > 100);
}

TEST_CASE("edited trace JSON ends in an error, a reject or the same result", "[fuzz]") {
  std::vector<task::Task> tasks = small_tasks();
  std::vector<Expected> expected;
  for (const task::Task& t : tasks) expected.emplace_back(t.kernel);
  Outcomes outcomes;
  for (int64_t n = 0; n < cases_wanted(); ++n) {
    Rng rng(static_cast<uint64_t>(n) + 190000);
    size_t which = static_cast<size_t>(n) % tasks.size();
    auto random = testing::TraceWriter(tasks[which].kernel, rng).write(2 + static_cast<int>(rng.below(8)));
    std::string text = schedule::trace_to_json(random.schedule.trace());
    for (int64_t edits = 1 + rng.below(3); edits > 0; --edits) text = edit_text(std::move(text), rng);
    std::string label = fmt::format("seed {}\n{}", n + 190000, text);
    INFO(label);
    CheckContext context([&] { return label; });
    try_trace(schedule::trace_from_json(text, "fuzz"), tasks[which], expected[which], outcomes);
  }
  CHECK(outcomes.unread > 100);
  CHECK(outcomes.rejected > 10);
  CHECK(outcomes.replayed > 100);
}

TEST_CASE("shuffled instructions and wild decisions end in a reject or the same result", "[fuzz]") {
  std::vector<task::Task> tasks = small_tasks();
  std::vector<Expected> expected;
  for (const task::Task& t : tasks) expected.emplace_back(t.kernel);
  Outcomes outcomes;
  for (int64_t n = 0; n < cases_wanted(); ++n) {
    Rng rng(static_cast<uint64_t>(n) + 290000);
    size_t which = static_cast<size_t>(n) % tasks.size();
    auto random = testing::TraceWriter(tasks[which].kernel, rng).write(2 + static_cast<int>(rng.below(8)));
    schedule::Trace trace = random.schedule.trace();
    // Well-formed, but handles, attributes and decisions are any.
    for (schedule::Instruction& in : trace.instructions) {
      for (schedule::Input& i : in.inputs)
        if (i.kind == schedule::Input::Kind::kVariable && in.first_output > 0 && rng.below(12) == 0)
          i.value = rng.below(in.first_output);
      for (int64_t& a : in.attrs)
        if (rng.below(20) == 0) a = rng.below(2) == 0 ? rng.below(20) - 4 : static_cast<int64_t>(rng.next());
    }
    for (int64_t& d : trace.decisions)
      if (rng.below(4) == 0) d = rng.below(2) == 0 ? rng.below(20) - 4 : static_cast<int64_t>(rng.next());
    std::string label = fmt::format("seed {}\n{}", n + 290000, schedule::print_trace(trace));
    INFO(label);
    CheckContext context([&] { return label; });
    try_trace(trace, tasks[which], expected[which], outcomes);
  }
  CHECK(outcomes.rejected > 100);
  CHECK(outcomes.replayed > 100);
}

TEST_CASE("trace texts and JSON say what is wrong and where", "[errors]") {
  auto text_error = [](const std::string& text) {
    auto trace = schedule::parse_trace(text, "t.trace");
    return trace ? std::string("accepted") : trace.error().message;
  };
  CHECK(text_error("v0 = get_block(\"x\")\nv1 = splitt(v0)\n")
            .find("t.trace:2:6: expected an instruction, did you mean 'split'") == 0);
  CHECK(text_error("1v = get_block(\"x\")").find("t.trace:1:1: expected a result's name") == 0);
  CHECK(text_error("v1 = get_block(\"x\")\nv1 = get_block(\"x\")").find("t.trace:2:1: expected a new name") == 0);
  CHECK(text_error("v0 = get_block(\"x)").find("a closing '\"'") != std::string::npos);
  CHECK(text_error("parallel(v3)").find("the name of a result of a line above, not 'v3'") != std::string::npos);
  CHECK(text_error("v0 = get_block(\"x\")\nv1, v2 = sample_perfect_tile(v0) max_innermost=16")
            .find("expected a decision") != std::string::npos);
  CHECK(
      text_error("v0 = get_block(\"x\")\nv1, v2 = sample_perfect_tile(v0) max_innermost=16 <1>").find("2 decisions") !=
      std::string::npos);
  CHECK(text_error("parallel() x").find("the end of the line") != std::string::npos);
  // Attributes: the place, the expectation, the finding, the nearest name.
  const std::string block = "v0 = get_block(\"x\")\n";
  CHECK(text_error(block + "annotate(v0, 16) unrol_max") ==
        "t.trace:2:18: annotate: attribute key: expected an annotation (pipeline_async, pipeline_role, pipeline_depth, "
        "unroll_max, persistent_blocks, cooperative_fetch, min_threads, prefetch, nontemporal, launch_bounds, tail, "
        "tree_reduce, complete_tiles, prefetch_lines, transpose_accesses, access_bytes, prefetch_weights, "
        "prefetch_panel, prefetch_block), found unrol_max, did you mean 'unroll_max'?");
  CHECK(text_error(block + "v1 = cache_read(v0) read=0 scop=local") ==
        "t.trace:2:21: cache_read: expected read, scope, found attribute 'scop', did you mean 'scope'?");
  CHECK(text_error(block + "v1 = cache_read(v0) read=0") ==
        "t.trace:2:21: cache_read: attribute scope is missing: expected a scope (global, workspace, const, shared, "
        "cluster_shared, local, amx_tile)");
  CHECK(text_error(block + "v1 = cache_read(v0) read=first scope=local") ==
        "t.trace:2:21: cache_read: attribute read: expected the number of a read, found first");
  CHECK(text_error(block + "v1 = cache_read(v0) read=0 scope=local read=1").find("expected attribute read once") !=
        std::string::npos);
  CHECK(text_error("v0 = sample_categorical() candidates=[1, 2] weights=[1] <0>")
            .find("attribute weights: expected as many items as candidates has, found 1") != std::string::npos);
  CHECK(text_error("v0 = sample_categorical() candidates=[[[[[1]]]]] weights=[1] <0>").find("nested") !=
        std::string::npos);
  CHECK(text_error(block + "annotate(v0, 16) [0]").find("expected an annotation") != std::string::npos);
  auto json_error = [](const std::string& text) {
    auto trace = schedule::trace_from_json(text, "t.json");
    return trace ? std::string("accepted") : trace.error().message;
  };
  CHECK(json_error("").find("no JSON object") != std::string::npos);
  CHECK(json_error("{}").find("version 1 to 2 is expected") != std::string::npos);
  CHECK(json_error(R"({"version":1,"instructions":[["flip",[],[],"",0]],"decisions":[]})")
            .find("unknown instruction 'flip'") != std::string::npos);
  CHECK(json_error(R"({"version":2,"instructions":[["cache_write",[],{"scope":"shard"},1]],"decisions":[]})") ==
        "t.json: not a trace: instruction 0: cache_write: attribute scope: expected a scope (global, workspace, const, "
        "shared, cluster_shared, local, amx_tile), found shard, did you mean 'shared'?");
  CHECK(json_error(R"({"version":1,"instructions":[],"decisions":[1]})").find("need 0 decisions, 1 are given") !=
        std::string::npos);
}

TEST_CASE("traces of the first version, with numbers for names, are read") {
  const std::string first =
      "v0 = get_block(\"x\")\nv1 = cache_read(v0) read=1 scope=local\nannotate(v0, 4) [6]\nannotate(v0, 16) [14]\n"
      "v2 = sample_categorical() candidates=[0, 16] weights=[200000, 800000] <1>\ntransform_layout(v0) [-1, 2, 1, 0, "
      "1, 8]\n"
      "transform_block_layout(v0) map=[[[0, 4, 0], [1, 1, 0]], [[0, 1, 4]]]\n";
  const std::string now =
      "v0 = get_block(\"x\")\nv1 = cache_read(v0) read=1 scope=local\nannotate(v0, 4) persistent_blocks\n"
      "annotate(v0, 16) tree_reduce\nv2 = sample_categorical() candidates=[0, 16] weights=[200000, 800000] <1>\n"
      "transform_layout(v0) read=result order=[1, 0] tiles=[[1, 8]]\n"
      "transform_block_layout(v0) map=[[[0, 4, 0], [1, 1, 0]], [[0, 1, 4]]]\n";
  auto old = schedule::parse_trace(first), named = schedule::parse_trace(now);
  if (!old) FAIL(old.error().message);
  if (!named) FAIL(named.error().message);
  CHECK(*old == *named);
  CHECK(schedule::print_trace(*old) == now);
  auto json = schedule::trace_from_json(
      R"({"version":1,"instructions":[["get_block",[],[],"x",1],["cache_read",["v0"],[1,7],"",1],)"
      R"(["bind",["v0"],[12],"",0]],"decisions":[]})");
  if (!json) FAIL(json.error().message);
  CHECK(schedule::print_trace(*json) ==
        "v0 = get_block(\"x\")\nv1 = cache_read(v0) read=1 scope=local\nbind(v0) vthread\n");
  CHECK(schedule::trace_to_json(*json) ==
        R"({"version":2,"instructions":[["get_block",[],{"name":"x"},1],["cache_read",["v0"],)"
        R"({"read":1,"scope":"local"},1],["bind",["v0"],{"axis":"vthread"},0]],"decisions":[]})");
}
