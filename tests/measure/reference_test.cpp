// References as machine code and by the interpreter.
#include "tcc/measure/reference.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels.h"
#include "measure/reference_kernels.h"
#include "measure/task_segment.h"
#include "sample_tasks.h"
#include "tasks.h"
#include "tcc/codegen/llvm.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"

using namespace tcc;
using namespace tcc::measure;
using namespace tcc::measure::test;
using interp::TensorData;

namespace {

std::shared_ptr<const MeasureTask> prepare(const ir::Kernel& naive, const MeasureTask::Options& options) {
  auto task = MeasureTask::create(measurer(), naive, target::host_target(), options);
  if (!task) FAIL(task.error().message);
  return *task;
}

std::vector<task::Task> tasks_of_both_ways() {
  std::vector<task::Task> tasks = small_tasks();
  tasks.push_back(task::make_reduction({3, 70'001}, {1}, graph::Op::kReduceSum));
  tasks.push_back(task::make_reduction({9, 11, 13}, {0, 2}, graph::Op::kReduceMax));
  task::ConvParams batch;  // several images: the loop of the batch is the one that is shared out
  batch.batch = 3;
  batch.size = {9, 8};
  batch.channels = 4;
  batch.filters = 6;
  batch.kernel = {3, 3};
  batch.strides = {2, 2};
  batch.pads = {1, 1};
  tasks.push_back(task::make_conv(batch));
  return tasks;
}

// The largest difference, as a share of 1 + |b|.
double distance(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    worst = std::max(worst, std::fabs(a[i] - b[i]) / (1 + std::fabs(b[i])));
  }
  return worst;
}

void check_same(const MeasureTask& x, const MeasureTask& y) {
  CHECK(x.facts().flops == y.facts().flops);
  CHECK(x.facts().exact == y.facts().exact);
  CHECK(x.facts().plain == y.facts().plain);
  CHECK(x.facts().sampled == y.facts().sampled);
  const TaskDescription &a = x.segment().description, &b = y.segment().description;
  REQUIRE(a.params.size() == b.params.size());
  CHECK(a.scaled == b.scaled);
  for (size_t i = 0; i < a.params.size(); ++i) {
    if (!a.params[i].is_output()) continue;
    const int64_t n = a.params[i].references();
    REQUIRE(n == b.params[i].references());
    for (size_t s = 0; s < 2; ++s) {
      const TaskParam::Set &p = a.params[i].sets[s], &q = b.params[i].sets[s];
      const double apart = distance(doubles(x, p.reference, n), doubles(y, q.reference, n));
      // Sums of integers are exact; compilers may keep a product unrounded, and intrinsics have errors of their own.
      CHECK(apart <= (s == 0 && a.exact ? 0 : 1e-7));
      REQUIRE((p.scale >= 0) == (q.scale >= 0));
      if (p.scale >= 0) CHECK(distance(doubles(x, p.scale, n), doubles(y, q.scale, n)) < 1e-12);
      CHECK(std::fabs(p.scale_all - q.scale_all) <= 1e-7 * (1 + q.scale_all));
    }
  }
}

std::vector<TensorData> random_params(const ir::Kernel& kernel) {
  std::vector<TensorData> tensors;
  for (const ir::Buffer* buffer : kernel.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr extent : buffer->shape) shape.push_back(ir::int_value(extent));
    tensors.push_back(TensorData::make_random(buffer->type, shape, tensors.size() + 1));
  }
  return tensors;
}

Result<ReferenceProgram> interpreted(const ir::Kernel& kernel, int threads, int64_t max_iterations) {
  ReferenceOptions options;
  options.engine = ReferenceEngine::kInterpreter;
  options.threads = threads;
  options.max_iterations = max_iterations;
  return ReferenceProgram::compile(kernel, target::host_target(), options);
}

}  // namespace

TEST_CASE("the interpreted reference of a task is its machine code's", "[engines]") {
  for (const task::Task& t : tasks_of_both_ways()) {
    for (double sample_above : {1e30, 0.0}) {
      CAPTURE(t.workload, sample_above);
      auto code = prepare(t.kernel, {.sample_above_flops = sample_above, .engine = ReferenceEngine::kMachineCode});
      auto read = prepare(t.kernel, {.sample_above_flops = sample_above, .engine = ReferenceEngine::kInterpreter});
      check_same(*read, *code);
    }
  }
}

TEST_CASE("a reference in this process is the same either way and on any number of threads", "[engines]") {
  for (const task::Task& t : tasks_of_both_ways()) {
    CAPTURE(t.workload);
    const ir::Kernel f64 = to_double(t.kernel);
    const std::vector<TensorData> data = random_params(f64);
    ReferenceOptions options;
    options.engine = ReferenceEngine::kMachineCode;
    auto code = ReferenceProgram::compile(f64, target::host_target(), options);
    REQUIRE(code.has_value());
    CHECK(code->artifact() != nullptr);
    std::vector<TensorData> expected = data;
    REQUIRE(code->run(expected).has_value());
    std::vector<TensorData> whole = data;
    std::vector<TensorData*> pointers;
    for (TensorData& tensor : whole) pointers.push_back(&tensor);
    REQUIRE(interp::run(f64, pointers).ok());
    for (int threads : {1, 2, 5, 64}) {
      CAPTURE(threads);
      auto program = interpreted(f64, threads, 1 << 30);
      REQUIRE(program.has_value());
      CHECK(program->artifact() == nullptr);
      std::vector<TensorData> got = data;
      REQUIRE(program->run(got).has_value());
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(got[i].bytes == whole[i].bytes);
        CHECK(distance(got[i].to_doubles(), expected[i].to_doubles()) < 1e-7);
      }
    }
  }
}

TEST_CASE("nests are shared out by an outer loop with as many spatial iterations as there are parts", "[unit]") {
  const task::Task gemm = task::make_gemm({.m = 10, .n = 7, .k = 5, .bias = true, .relu = true});
  for (int64_t parts : {1, 3, 10, 99}) {
    const auto nests = split_nests(gemm.kernel, parts);
    REQUIRE(!nests.empty());
    for (const auto& shares : nests) CHECK(static_cast<int64_t>(shares.size()) == std::min<int64_t>(parts, 10));
  }
  // One image: the loop of the batch has one iteration, and the next one is shared out.
  task::ConvParams conv;
  conv.size = {6, 6};
  conv.channels = 2;
  conv.filters = 8;
  conv.kernel = {3, 3};
  conv.pads = {1, 1};
  int64_t most = 0;
  for (const auto& shares : split_nests(task::make_conv(conv).kernel, 4))
    most = std::max(most, static_cast<int64_t>(shares.size()));
  CHECK(most == 4);
  // Two images are too few for four parts: the loop of the filters is shared out.
  task::ConvParams two = conv;
  two.batch = 2;
  most = 0;
  for (const auto& shares : split_nests(task::make_conv(two).kernel, 4))
    most = std::max(most, static_cast<int64_t>(shares.size()));
  CHECK(most == 4);
  // The same loop becomes the parallel one of machine code.
  const ir::Kernel parallel = parallelise_outer(task::make_conv(conv).kernel);
  std::vector<int64_t> extents;
  ir::visit(parallel.root, [&](ir::Stmt s) {
    const auto* loop = ir::as<ir::Loop>(s);
    if (loop != nullptr && loop->loop_kind == ir::LoopKind::kParallel) extents.push_back(ir::int_value(loop->extent));
    return true;
  });
  REQUIRE(!extents.empty());
  CHECK(*std::max_element(extents.begin(), extents.end()) == 8);
}

TEST_CASE("the gate knows which temporaries matrix instructions may round", "[unit]") {
  task::AttentionParams attention = {.heads = 2, .queries = 7, .keys = 11, .depth = 16};
  CHECK(analyse_naive(task::make_attention(attention).kernel).rounded_operand == ir::Type::kF64);
  attention.dtype = graph::DType::kF16;
  CHECK(analyse_naive(task::make_attention(attention).kernel).rounded_operand == ir::Type::kF16);
  attention.dtype = graph::DType::kBF16;
  CHECK(analyse_naive(task::make_attention(attention).kernel).rounded_operand == ir::Type::kBF16);
  // Operands of a plain product are parameters, which nothing rounds.
  const task::Task gemm = task::make_gemm({.m = 8, .n = 8, .k = 8, .bias = true, .dtype = graph::DType::kF16});
  CHECK(analyse_naive(gemm.kernel).rounded_operand == ir::Type::kF64);
}

TEST_CASE("a second seed has one data set: integers where they are exact, else reals", "[unit]") {
  for (const task::Task& t : {task::make_gemm({.m = 12, .n = 9, .k = 7}), task::make_softmax({5, 8}, 1)}) {
    CAPTURE(t.workload);
    const auto first = prepare(t.kernel, {});
    const auto second = first->second(measurer());
    REQUIRE(second.has_value());
    const TaskDescription &a = first->segment().description, &b = (*second)->segment().description;
    CHECK(a.num_sets == 2);
    CHECK(b.num_sets == 1);
    CHECK(b.exact == a.exact);
    const TaskParam& input = b.params[0];
    REQUIRE(input.type == ir::Type::kF32);
    const auto* values = reinterpret_cast<const float*>((*second)->segment().memory.data() + input.sets[0].data);
    const auto is_integer = [](float v) { return v == std::nearbyint(v); };
    CHECK(std::all_of(values, values + input.elements(), is_integer) == a.exact);
  }
}

TEST_CASE("less is asked of the interpreter, and the task says so", "[unit]") {
  CHECK(affordable_flops(2e9, ReferenceEngine::kMachineCode) == 2e9);
  CHECK(affordable_flops(2e9, ReferenceEngine::kInterpreter) == 1e8);
  CHECK(resolve_engine(ReferenceEngine::kBest) ==
        (codegen::has_llvm() ? ReferenceEngine::kMachineCode : ReferenceEngine::kInterpreter));
  const ir::Kernel large = make_gemm({.m = 512, .n = 512, .k = 200});  // 105 MFLOP
  CHECK_FALSE(prepare(large, {.engine = ReferenceEngine::kMachineCode})->facts().sampled);
  auto sampled = prepare(large, {.engine = ReferenceEngine::kInterpreter});
  CHECK(sampled->facts().sampled);
  CHECK(sampled->facts().exact);
  CHECK_FALSE(prepare(make_gemm(), {.engine = ReferenceEngine::kInterpreter})->facts().sampled);
}

TEST_CASE("the gate of an interpreted reference takes the right kernel and refuses wrong ones", "[engines]") {
  GemmOptions shape{.m = 150, .n = 130, .k = 12};
  for (double sample_above : {1e30, 0.0}) {
    auto task =
        prepare(make_gemm(shape), {.sample_above_flops = sample_above, .engine = ReferenceEngine::kInterpreter});
    auto measure = [&](Defect defect) {
      GemmOptions o = shape;
      o.defect = defect;
      Candidate candidate;
      candidate.task = task.get();
      candidate.kernel =
          *lower::lower(make_gemm(o), target::host_target(), ir::Stage::kLowered, std::make_shared<Arena>());
      return measurer().measure(std::span(&candidate, 1)).value()[0];
    };
    const Measurement right = measure(Defect::kNone);
    CAPTURE(sample_above, right.failure);
    CHECK(right.status == record::Status::kOk);
    CHECK(right.gate == (sample_above > 0 ? "exact" : "exact at samples"));
    CHECK(measure(Defect::kShortSum).status == record::Status::kWrong);
    CHECK(measure(Defect::kUnwritten).status == record::Status::kWrong);
  }
}

TEST_CASE("the interpreter refuses a reference that is at fault or too long", "[unit]") {
  const ir::Kernel outside = to_double(make_gemm(Defect::kWildStore));
  std::vector<TensorData> params = random_params(outside);
  auto program = interpreted(outside, 2, 1 << 30);
  REQUIRE(program.has_value());
  auto ran = program->run(params);
  REQUIRE_FALSE(ran.has_value());
  CHECK_THAT(ran.error().message, Catch::Contains("out of bounds"));
  auto task = MeasureTask::create(measurer(), make_gemm(Defect::kWildStore), target::host_target(),
                                  {.engine = ReferenceEngine::kInterpreter});
  REQUIRE_FALSE(task.has_value());
  CHECK_THAT(task.error().message, Catch::Contains("out of bounds"));

  const ir::Kernel hang = to_double(make_gemm(Defect::kHang));
  params = random_params(hang);
  program = interpreted(hang, 2, 100'000);
  REQUIRE(program.has_value());
  ran = program->run(params);
  REQUIRE_FALSE(ran.has_value());
  CHECK_THAT(ran.error().message, Catch::Contains("too many for the interpreter"));
  CHECK_THAT(ran.error().hint, Catch::Contains("built with LLVM"));
}

TEST_CASE("the bound of a kernel that allows tf32 knows the rounding of operands, and integers stay exact",
          "[engines]") {
  ir::Kernel kernel = make_gemm();
  const auto plain = prepare(kernel, {});
  kernel.tf32 = true;
  const auto rounded = prepare(kernel, {});
  CHECK(rounded->segment().description.scaled == 8192 * plain->segment().description.scaled);
  CHECK(rounded->facts().exact);
}
