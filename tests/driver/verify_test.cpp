// `verify` on random models of one operator: right libraries pass, planted faults are found (finding U4).
#include <catch2/catch.hpp>
#include <cstdlib>

#include "driver/single_operators.h"
#include "skip.h"
#include "tcc/driver/library.h"
#include "tcc/driver/run.h"
#include "tcc/graph/error_bound.h"
#include "tcc/graph/input_domains.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;
using namespace tcc::driver_test;

namespace {

constexpr uint64_t kSeed = 1;

std::vector<graph::HostTensor> inputs_of(const graph::Graph& graph) {
  const std::vector<graph::InputDomain> domains = graph::input_domains(graph);
  std::vector<graph::HostTensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(graph::random_tensor(graph.value(graph.inputs[i]), kSeed + i, domains[i]));
  return inputs;
}

std::vector<double> values_of(const graph::Graph& graph, const std::vector<graph::HostTensor>& inputs) {
  auto outputs = graph::run_reference(graph, inputs, 1);
  if (!outputs) FAIL(outputs.error().message);
  return outputs->at(0).data;
}

// Four units in the last place at the size of what is summed, for sums of one term; they grow with the root of the
// number of terms, as rounding errors do. That is the least that the gate's bound can tell from rounding.
double ulp_scale_fault(const SingleOperator& single, const graph::Graph& graph, int64_t at) {
  std::vector<graph::HostTensor> inputs = inputs_of(graph);
  double scale = 0;
  if (single.sums) {
    for (graph::HostTensor& input : inputs)
      for (double& v : input.data) v = std::fabs(v);
    scale = std::fabs(values_of(graph, inputs)[static_cast<size_t>(at)]);
  } else {
    for (double v : values_of(graph, inputs)) scale = std::max(scale, std::isfinite(v) ? std::fabs(v) : 0);
  }
  return 4 * 2 * graph::unit_roundoff(single.dtype) * std::sqrt(static_cast<double>(single.terms)) * scale;
}

// Plants a fault where it shows. Returns what it did; "": the output has no place for it.
std::string spoil(graph::Graph& graph, const SingleOperator& single, Fault fault, Rng& rng) {
  if (!graph::is_float(graph.value(graph.outputs[0]).dtype)) return "";
  const std::vector<double> values = values_of(graph, inputs_of(graph));
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int64_t at = rng.below(std::ssize(values)), other = rng.below(std::ssize(values));
    const double least = ulp_scale_fault(single, graph, at), here = values[static_cast<size_t>(at)];
    const double changed = fault == Fault::kSign    ? 2 * std::fabs(here)
                           : fault == Fault::kIndex ? std::fabs(here - values[static_cast<size_t>(other)])
                                                    : least;
    if (!(changed >= least) || least == 0 || !std::isfinite(here)) continue;
    const double error = rng.below(2) == 0 ? least : -least;
    plant(graph, fault, at, other, error);
    return fmt::format("{} at element {} of {}: {:.9g}, off by {:.3g}",
                       fault == Fault::kSign    ? "sign"
                       : fault == Fault::kIndex ? "index"
                                                : "ulps",
                       at, values.size(), here, changed);
  }
  return "";
}

Result<VerifyReport> build_and_verify(const Model& model, const std::string& folder) {
  BuildOptions options;
  options.folder = folder;
  options.targets = {target::host_target()};
  TCC_TRY(BuildReport report, build_model(model, options));
  VerifyOptions how;
  how.seed = kSeed;
  return verify_library(report.package.library, how);
}

}  // namespace

TEST_CASE("random models of one operator in f32, f16 and bf16: right ones pass, every fault is found", "[fuzz]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const int64_t wanted = soak ? 200 : 24, faults = wanted / 5;
  const char* given = std::getenv("TCC_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261126;
  INFO("TCC_SEED=" << seed);
  OperatorMaker maker(Rng(seed).fork(1));
  Rng rng = Rng(seed).fork(2);
  int64_t planted = 0;
  for (int64_t i = 0; i < wanted; ++i) {
    auto folder = TemporaryDirectory::create("tcc-verify-test-");
    REQUIRE(folder.has_value());
    const SingleOperator single = maker.make();
    const std::string file = (*folder)->path() + "/single.onnx";
    REQUIRE(write_file(file, single.bytes).has_value());
    auto model = load_model({.model = file});
    INFO("model " << i << ": " << single.op << " in " << graph::dtype_name(single.dtype));
    if (!model) FAIL(model.error().message);
    std::string fault;
    if (planted < faults && i % 4 != 3) {
      fault = spoil(model->graph, single, static_cast<Fault>(planted % 3), rng);
      planted += fault.empty() ? 0 : 1;
    }
    INFO("fault: " << fault);
    auto verified = build_and_verify(*model, (*folder)->path());
    if (!verified) FAIL(verified.error().message);
    const OutputCheck& output = verified->outputs.at(0);
    INFO(output.failure << " error " << output.error_there << " allowed " << output.allowed_there << " at "
                        << output.where << ": " << output.actual_there << " for " << output.expected_there);
    CHECK(verified->verdict == (fault.empty() ? Verdict::kRight : Verdict::kWrong));
  }
  CHECK(planted == faults);
}

namespace {

struct Case {
  Result<VerifyReport> report;
  OutputCheck output() const { return report->outputs.at(0); }
};

// A model of one operator with inputs of `shapes`, built and verified.
Case verify_operator(const std::string& op, DType dtype, const std::vector<Shape>& shapes,
                     const std::vector<onnx::NamedAttribute>& attributes = {}, DType output = DType::kF32,
                     VerifyOptions how = {}) {
  auto folder = TemporaryDirectory::create("tcc-verify-test-");
  REQUIRE(folder.has_value());
  onnx::ModelWriter w("one", 17);
  std::vector<std::string> names;
  for (size_t i = 0; i < shapes.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    w.typed_input(names.back(), dtype, shapes[i]);
  }
  w.node(op, names, {"y"}, attributes);
  w.output("y", output);
  const std::string file = (*folder)->path() + "/one.onnx";
  REQUIRE(write_file(file, w.finish()).has_value());
  auto model = load_model({.model = file});
  if (!model) FAIL(model.error().message);
  BuildOptions options;
  options.folder = (*folder)->path();
  options.targets = {target::host_target()};
  auto built = build_model(*model, options);
  if (!built) FAIL(built.error().message);
  auto report = verify_library(built->package.library, how);
  if (!report) FAIL(report.error().message);
  CHECK(report->self_test.empty());
  return {std::move(report)};
}

}  // namespace

TEST_CASE("U4: a plain product in bf16 is right, and its bound is that of its type") {
  const Case c = verify_operator("MatMul", DType::kBF16, {{32, 64}, {64, 16}}, {}, DType::kBF16);
  CHECK(c.report->verdict == Verdict::kRight);
  CHECK(c.output().max_error > 1e-4);  // it was rounded
  CHECK(c.output().terms == 64);
}

TEST_CASE("U4: a constant output is inconclusive, not wrong, and the library's own test passes") {
  const Case c = verify_operator("Softmax", DType::kF32, {{16, 1}}, {{"axis", int64_t{1}}});
  CHECK(c.report->verdict == Verdict::kInconclusive);
  CHECK(c.output().failure.find("is 1 everywhere, in the reference too") != std::string::npos);
}

TEST_CASE("U4: NaN is right where the reference is NaN, and inputs are drawn where the operator is defined") {
  for (const char* op : {"Log", "Sqrt", "Acosh", "Atanh", "Asin", "Reciprocal"}) {
    INFO(op);
    const Case drawn = verify_operator(op, DType::kF32, {{64}});
    CHECK(drawn.report->verdict == Verdict::kRight);
    CHECK(std::isfinite(drawn.output().actual.mean));
  }
  for (const char* op : {"Log", "Sqrt", "Acosh"}) {
    INFO(op);
    VerifyOptions wide;
    wide.ranges["x0"] = {-4, 4};
    const Case c = verify_operator(op, DType::kF32, {{64}}, {}, DType::kF32, wide);
    CHECK(c.report->verdict == Verdict::kRight);
    CHECK(c.report->inputs.at(0).low < -1);
  }
  const Case c = verify_operator("IsNaN", DType::kF32, {{64}}, {}, DType::kBool);
  CHECK(c.report->verdict == Verdict::kRight);
  const Case gathered = verify_operator("Equal", DType::kF32, {{64}, {64}}, {}, DType::kBool);
  CHECK(gathered.report->verdict == Verdict::kRight);
}

TEST_CASE("integers that the reference cannot hold are inconclusive, not wrong") {
  VerifyOptions how;
  for (const char* name : {"x0", "x1"}) how.ranges[name] = {-4e9, 4e9};
  const Case c = verify_operator("Mul", DType::kI64, {{64}, {64}}, {}, DType::kI64, how);
  CHECK(c.report->verdict == Verdict::kInconclusive);
  CHECK(c.output().failure.find("beyond 2^53") != std::string::npos);
}

TEST_CASE("kernels convert to element types of few bits as the reference does") {
  for (int64_t to = 17; to <= 26; ++to) {  // from FLOAT8E4M3FN to INT2
    const bool is_signed = to == 22 || to == 26;
    for (double most : {0.01, 8.0, 1e5}) {
      INFO("type " << to << ", up to " << most);
      VerifyOptions how;
      how.ranges["x0"] = {-most, most};
      const Case c =
          verify_operator("Cast", DType::kF32, {{1000}}, {{"to", to}}, is_signed ? DType::kI8 : DType::kU8, how);
      // Integers of small numbers are 0 everywhere, of which verify says that they say nothing.
      CHECK(c.report->verdict != Verdict::kWrong);
      CHECK(c.output().wrong == 0);
      if (most > 1) CHECK(c.report->verdict == Verdict::kRight);
    }
  }
}

TEST_CASE("S3: the reference says what it will cost, and how far it is") {
  VerifyOptions how;
  std::vector<VerifyPlan> plans;
  std::vector<VerifyProgress> progress;
  how.plan = [&](const VerifyPlan& plan) {
    CHECK(progress.empty());
    plans.push_back(plan);
  };
  how.progress = [&](const VerifyProgress& p) { progress.push_back(p); };
  const Case c = verify_operator("MatMul", DType::kF32, {{64, 96}, {96, 32}}, {}, DType::kF32, how);
  CHECK(c.report->verdict == Verdict::kRight);
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].flops == 3 * 2.0 * 64 * 96 * 32);
  CHECK(plans[0].bytes >= 8.0 * (64 * 96 + 96 * 32 + 64 * 32));
  REQUIRE(progress.size() >= 2);
  CHECK(progress.front().share > 0);
  CHECK(progress.back().share == 1);
  for (size_t i = 0; i < progress.size(); ++i) {
    CHECK(progress[i].remaining >= 0);
    if (i > 0) CHECK(progress[i].share >= progress[i - 1].share);
  }
}
