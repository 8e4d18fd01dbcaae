// --precision: the tasks of lowered networks, targets that take it, the metadata of libraries.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "skip.h"
#include "tcc/driver/compile.h"
#include "tcc/driver/library.h"
#include "tcc/schedule/trace.h"
#include "tcc/space/matrix_instruction.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;
using target::Precision;

namespace {

target::Target find(const std::string& name) {
  auto target = target::find_target(name);
  REQUIRE(target.has_value());
  return *target;
}

// Small, by the sizes that the model has.
onnx::ZooOptions small(const std::string& name, int64_t sequence = 16) {
  onnx::ZooOptions zoo;
  if (onnx::check_zoo_size(name.substr(4), "image")) zoo.image = 64;
  if (onnx::check_zoo_size(name.substr(4), "sequence")) zoo.sequence = sequence;
  return zoo;
}

Model load(const std::string& name, Precision precision, int64_t sequence = 16) {
  auto model = load_model({name, {}, small(name, sequence), {}});
  if (!model) FAIL(model.error().message);
  model->source.precision = precision;
  return std::move(*model);
}

Program program_of(const std::string& name, Precision precision, int64_t sequence = 16) {
  auto program = make_program(load(name, precision, sequence), find("h200"));
  if (!program) FAIL(program.error().message);
  return std::move(*program);
}

bool only_converts(const graph::Graph& graph, const graph::FusionGroup& group) {
  for (graph::NodeId id : group.nodes)
    if (graph.node(id).op != graph::Op::kCast) return false;
  return true;
}

}  // namespace

TEST_CASE("networks are lowered whole: every product in f16, conversions at the inputs only") {
  for (const char* name : {"zoo:resnet18", "zoo:resnet50", "zoo:mobilenet_v2", "zoo:bert-tiny", "zoo:mlp"}) {
    INFO(name);
    const Program program = program_of(name, Precision::kF16);
    const graph::Graph& graph = program.graph;
    int64_t products = 0, conversions = 0;
    for (graph::NodeId id : graph.order) {
      const graph::Node& node = graph.node(id);
      if (graph::op_class(node.op) != graph::OpClass::kContraction) continue;
      ++products;
      for (graph::ValueId input : node.inputs) CHECK(graph.value(input).dtype == graph::DType::kF16);
    }
    CHECK(products > 1);
    for (const graph::FusionGroup& group : program.groups) {
      if (!only_converts(graph, group)) continue;
      ++conversions;
      for (graph::ValueId input : group.inputs) CHECK(graph.value(input).producer == graph::kNone);
    }
    CHECK(conversions <= static_cast<int64_t>(graph.inputs.size()));
    const Program plain = program_of(name, Precision::kF32);
    CHECK(program.groups.size() <= plain.groups.size() + graph.inputs.size());
    for (graph::ValueId id : graph.outputs) CHECK(graph.value(id).dtype != graph::DType::kF16);
  }
}

TEST_CASE("attention stays one task in f16") {
  const Program program = program_of("zoo:bert-tiny", Precision::kF16);
  int64_t attentions = 0;
  for (const task::Task& task : program.tasks.tasks) attentions += task.anchor == task::AnchorKind::kAttention;
  CHECK(attentions == 1);
}

TEST_CASE("every product of lowered networks has schedules with matrix instructions, attention with its mask too") {
  for (const char* name : {"zoo:bert-tiny", "zoo:mobilenet_v2"}) {
    const Program program = program_of(name, Precision::kF16);
    for (const task::Task& task : program.tasks.tasks) {
      const bool product = task.anchor == task::AnchorKind::kConv || task.anchor == task::AnchorKind::kGemm ||
                           task.anchor == task::AnchorKind::kAttention;
      if (!product) continue;
      INFO(task.workload);
      const std::vector<schedule::Trace> traces = space::generate_space(task.kernel, find("h200"));
      CHECK(std::any_of(traces.begin(), traces.end(), [](const schedule::Trace& trace) {
        return schedule::print_trace(trace).find("tensorize") != std::string::npos;
      }));
    }
  }
}

TEST_CASE("what keeps depthwise convolutions from matrix instructions is their groups, in each precision") {
  for (const Precision precision : {Precision::kF32, Precision::kTf32, Precision::kF16, Precision::kBF16}) {
    int64_t depthwise = 0;
    for (const task::Task& task : program_of("zoo:mobilenet_v2", precision).tasks.tasks) {
      if (task.anchor != task::AnchorKind::kDepthwiseConv) continue;
      ++depthwise;
      const std::vector<std::string> unmet = space::unmet_conditions_of_matrix_instruction(task.kernel, find("h200"));
      INFO(target::precision_name(precision) << " " << task.workload);
      REQUIRE(unmet.size() == 1);
      CHECK_THAT(unmet[0], Catch::Contains("both operands move with") && Catch::Contains("a group or a batch"));
    }
    CHECK(depthwise > 5);
  }
}

TEST_CASE("products by tf32 are tasks of their own, all other tasks are those of f32") {
  const Program plain = program_of("zoo:mobilenet_v2", Precision::kF32);
  const Program tf32 = program_of("zoo:mobilenet_v2", Precision::kTf32);
  REQUIRE(plain.tasks.tasks.size() == tf32.tasks.tasks.size());
  for (size_t i = 0; i < plain.tasks.tasks.size(); ++i) {
    const task::Task &a = plain.tasks.tasks[i], &b = tf32.tasks.tasks[i];
    const bool product = a.anchor == task::AnchorKind::kConv || a.anchor == task::AnchorKind::kGemm;
    INFO(b.workload);
    CHECK(b.kernel.tf32 == product);
    CHECK((a.key != b.key) == product);
    CHECK((b.workload.find("tf32") != std::string::npos) == product);
  }
}

TEST_CASE("weights of products by tf32 are stored with their terms side by side, as warpgroups read them") {
  constexpr int64_t kSequence = 64;
  int64_t products = 0;
  for (const task::Task& task : program_of("zoo:bert-tiny", Precision::kTf32, kSequence).tasks.tasks) {
    if (task.anchor != task::AnchorKind::kGemm || task.workload.find("gemm 64x") != 0) continue;
    INFO(task.workload);
    ++products;
    CHECK(task.workload.find(" tb") != std::string::npos);
    CHECK(space::unmet_conditions_of_warpgroup_instruction(task.kernel, find("h200")).empty());
  }
  CHECK(products >= 3);
}

TEST_CASE("a precision that a target cannot do is refused before work begins") {
  target::Target plain = find("x86-64-v3"), dots = find("x86-64-v4");
  dots.cpu.features.avx512_bf16 = true;
  struct Case {
    target::Target target;
    Precision precision;
    const char* instead;  // nullptr: the target can do it
  };
  for (const Case& c : {Case{plain, Precision::kF32, nullptr}, Case{plain, Precision::kBF16, "f32"},
                        Case{plain, Precision::kF16, "f32"}, Case{dots, Precision::kBF16, nullptr},
                        Case{dots, Precision::kF16, "bf16"}, Case{find("t4"), Precision::kF16, nullptr},
                        Case{find("t4"), Precision::kTf32, "f16"}, Case{plain, Precision::kTf32, "f32"},
                        Case{find("a100"), Precision::kTf32, nullptr}, Case{find("t4"), Precision::kBF16, "f16"},
                        Case{find("v100"), Precision::kBF16, "f16"}, Case{find("k80"), Precision::kF16, "f32"},
                        Case{find("a100"), Precision::kF16, nullptr}, Case{find("h200"), Precision::kBF16, nullptr}}) {
    INFO(c.target.name << " " << target::precision_name(c.precision));
    auto program = make_program(load("zoo:mlp", c.precision), c.target);
    REQUIRE(program.has_value() == (c.instead == nullptr));
    if (program) continue;
    CHECK(program.error().message.find(c.target.name) != std::string::npos);
    CHECK(program.error().hint.find(fmt::format("--precision {},", c.instead)) != std::string::npos);
  }
  // Of several targets, each.
  BuildOptions options;
  options.targets = {find("a100"), find("t4")};
  CHECK_FALSE(build_model(load("zoo:mlp", Precision::kBF16), options).has_value());
}

TEST_CASE("a library's metadata holds the precision") {
  for (Precision precision : target::all_precisions()) {
    const Model model = load("zoo:mlp", precision);
    auto recorded = source_from_metadata("{\"source\": " + source_to_json(model, 1) + "}", "lib.so");
    REQUIRE(recorded.has_value());
    CHECK(recorded->source.precision == precision);
  }
  auto unknown = source_from_metadata(R"({"source": {"model": "zoo:mlp", "precision": "f8"}})", "lib.so");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message.find("f8") != std::string::npos);
}

TEST_CASE("convolutions of bytes have their channels side by side on GPUs that multiply them by matrix instructions") {
  for (const char* name : {"a100", "h200", "v100"}) {
    INFO(name);
    auto program = make_program(load("zoo:mobilenet_v2-int8", Precision::kF32), find(name));
    REQUIRE(program.has_value());
    const bool blocks = find(name).cuda.features.mma_m16n8k16;
    int64_t convolutions = 0, blocked = 0, conversions = 0;
    for (const task::Task& t : program->tasks.tasks) {
      const bool conv = t.workload.starts_with("conv2d");
      convolutions += conv;
      blocked += conv && t.workload.find(" blocks of ") != std::string::npos;
      conversions += t.workload.starts_with("transpose");
    }
    CHECK(convolutions > 20);
    CHECK(blocked == (blocks ? convolutions : 0));
    CHECK(conversions == (blocks ? 1 : 0));  // of the image; the results have one position
  }
}

TEST_CASE("a library's metadata holds --fast-math") {
  for (bool fast : {false, true}) {
    Model model = load("zoo:mlp", Precision::kF32);
    model.source.fast_math = fast;
    auto recorded = source_from_metadata("{\"source\": " + source_to_json(model, 1) + "}", "lib.so");
    REQUIRE(recorded.has_value());
    CHECK(recorded->source.fast_math == fast);
  }
}

TEST_CASE("tasks of a model with --fast-math have keys of their own where their kernels differ") {
  Model model = load("zoo:mobilenet_v2", Precision::kF32);
  const target::Target host = target::host_target();
  std::set<std::string> exact;
  auto plain = make_program(model, host);
  REQUIRE(plain.has_value());
  for (const task::Task& t : plain->tasks.tasks) exact.insert(t.key);
  model.source.fast_math = true;
  auto fast = make_program(model, host);
  REQUIRE(fast.has_value());
  REQUIRE(fast->tasks.tasks.size() == plain->tasks.tasks.size());
  int64_t shared = 0, clipped = 0;
  for (const task::Task& t : fast->tasks.tasks) {
    const bool clips = t.workload.find("clip") != std::string::npos;
    INFO(t.workload);
    CHECK((exact.count(t.key) == 0) == clips);
    clipped += clips;
    shared += !clips;
  }
  CHECK(clipped > 0);
  CHECK(shared > 0);
}

TEST_CASE("a library in bf16 is held against the model in double") {
  const target::Target host = target::host_target();
  if (!host.cpu.features.avx512_bf16 && !host.cpu.features.amx_bf16) SKIP("no products of bf16 on this processor");
  for (const char* name : {"zoo:mlp", "zoo:bert-tiny"}) {
    INFO(name);
    auto folder = TemporaryDirectory::create("tcc-precision-test-");
    REQUIRE(folder.has_value());
    BuildOptions options;
    options.folder = (*folder)->path();
    options.targets = {host};
    auto report = build_model(load(name, Precision::kBF16), options);
    if (!report) FAIL(report.error().message);
    auto verified = verify_library(report->package.library, {});
    if (!verified) FAIL(verified.error().message);
    CHECK(verified->passed());
    CHECK(verified->precision == Precision::kBF16);
    CHECK(verified->tolerance > 1e-3);
    CHECK(verified->tolerance < 0.1);
    CHECK(verified->outputs[0].max_error > 1e-5);  // it was rounded
    VerifyOptions strict;
    strict.tolerance = 1e-6;
    auto missed = verify_library(report->package.library, strict);
    REQUIRE(missed.has_value());
    CHECK_FALSE(missed->passed());
  }
}
