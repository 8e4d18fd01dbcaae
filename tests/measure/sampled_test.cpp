// References of large tasks: computed at some elements only.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "kernels.h"
#include "measure/reference_kernels.h"
#include "measure/sampled_kernel.h"
#include "measure/task_segment.h"
#include "sample_tasks.h"
#include "tasks.h"
#include "tcc/interp/interp.h"
#include "tcc/interp/tensor.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"

using namespace tcc;
using namespace tcc::measure;
using namespace tcc::measure::test;

namespace {

std::shared_ptr<const MeasureTask> prepare(const ir::Kernel& naive, double sample_above) {
  MeasureTask::Options options;
  options.sample_above_flops = sample_above;
  auto task = MeasureTask::create(measurer(), naive, target::host_target(), options);
  if (!task) FAIL(task.error().message);
  return *task;
}

std::vector<int64_t> shape_of(const ir::Buffer& buffer) {
  std::vector<int64_t> shape;
  for (ir::Expr extent : buffer.shape) shape.push_back(ir::int_value(extent));
  return shape;
}

}  // namespace

TEST_CASE("samples: corners, edges of tiles, and as many others as asked", "[unit]") {
  const std::array<int64_t, 2> shape = {300, 200};
  std::vector<int64_t> positions = sample_positions(shape, 1000, 7);
  CHECK(positions == sample_positions(shape, 1000, 7));
  CHECK(std::is_sorted(positions.begin(), positions.end()));
  std::set<int64_t> set(positions.begin(), positions.end()), rows;
  CHECK(set.size() == positions.size());
  CHECK(positions.size() > 1000);
  CHECK(positions.size() < 1200);
  for (int64_t corner : {0, 199, 299 * 200, 300 * 200 - 1}) CHECK(set.contains(corner));
  for (int64_t p : positions) rows.insert(p / 200);
  for (int64_t row : {1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 295, 296, 298}) CHECK(rows.contains(row));
  CHECK(positions.back() < 300 * 200);

  const std::array<int64_t, 3> tiny = {3, 1, 5};
  CHECK(sample_positions(tiny, 1000, 7).size() == 15);
  const std::array<int64_t, 4> deep = {9, 31, 57, 40};
  CHECK(sample_positions(deep, 4096, 1).size() > 4096);
}

TEST_CASE("a kernel that is cut down computes the same at its samples", "[unit]") {
  for (const task::Task& t : small_tasks()) {
    CAPTURE(t.workload);
    auto whole = prepare(t.kernel, 1e30), sampled = prepare(t.kernel, 0);
    CHECK_FALSE(whole->facts().sampled);
    CHECK(sampled->facts().exact == whole->facts().exact);
    const TaskDescription &a = whole->segment().description, &b = sampled->segment().description;
    for (size_t i = 0; i < a.params.size(); ++i) {
      if (!a.params[i].is_output()) continue;
      const int64_t n = b.params[i].references();
      std::span<const int64_t> positions;
      if (b.params[i].num_samples > 0)
        positions = {reinterpret_cast<const int64_t*>(sampled->segment().memory.data() + b.params[i].samples),
                     static_cast<size_t>(n)};
      for (size_t s = 0; s < 2; ++s) {
        auto all = doubles(*whole, a.params[i].sets[s].reference, a.params[i].elements());
        auto some = doubles(*sampled, b.params[i].sets[s].reference, n);
        double worst = 0;
        for (size_t e = 0; e < some.size(); ++e) {
          double expected = all[positions.empty() ? e : static_cast<size_t>(positions[e])];
          worst = std::max(worst, std::fabs(some[e] - expected) / (1 + std::fabs(expected)));
        }
        CHECK(worst < 1e-9);
      }
    }
  }
}

TEST_CASE("what can be cut down is, with all that only it reads", "[unit]") {
  task::Task big = task::make_gemm({.m = 256, .n = 256, .k = 16, .bias = true, .relu = true, .constant_weights = true});
  std::vector<int64_t> wanted;
  for (const ir::Buffer* buffer : big.kernel.buffers)
    if (buffer->role != ir::BufferRole::kTemp) wanted.push_back(buffer->role == ir::BufferRole::kOutput ? 100 : 0);
  auto sampled = sample_outputs(big.kernel, wanted);
  REQUIRE(sampled.has_value());
  CHECK(ir::verify(sampled->kernel).empty());
  REQUIRE(sampled->outputs.size() == 1);
  CHECK(sampled->outputs[0].coords.size() == 2);
  for (const ir::Buffer* buffer : sampled->kernel.buffers) {
    if (buffer->role == ir::BufferRole::kOutput || buffer->role == ir::BufferRole::kTemp)
      CHECK(shape_of(*buffer) == std::vector<int64_t>{100});
  }
  CHECK(analyse_naive(sampled->kernel).flops < analyse_naive(big.kernel).flops / 100);
  // The rows' sums of a softmax are wanted whole: they are fewer than the samples.
  task::Task softmax = task::make_softmax({37, 41}, 1);
  std::vector<int64_t> both;
  for (const ir::Buffer* buffer : softmax.kernel.buffers)
    if (buffer->role != ir::BufferRole::kTemp) both.push_back(buffer->role == ir::BufferRole::kOutput ? 100 : 0);
  auto rows = sample_outputs(softmax.kernel, both);
  REQUIRE(rows.has_value());
  CHECK(ir::verify(rows->kernel).empty());
  std::vector<int64_t> nothing(both.size(), 0);
  CHECK_FALSE(sample_outputs(softmax.kernel, nothing).has_value());
}

TEST_CASE("a sampled gate takes the right kernel and finds wrong and unwritten elements", "[unit]") {
  GemmOptions shape{.m = 150, .n = 130, .k = 12};
  auto task = prepare(make_gemm(shape), 0);
  CHECK(task->facts().sampled);
  auto measure = [&](Defect defect) {
    GemmOptions o = shape;
    o.defect = defect;
    Candidate candidate;
    candidate.task = task.get();
    candidate.kernel =
        *lower::lower(make_gemm(o), target::host_target(), ir::Stage::kLowered, std::make_shared<Arena>());
    return measurer().measure(std::span(&candidate, 1)).value()[0];
  };
  Measurement right = measure(Defect::kNone);
  CAPTURE(right.failure);
  CHECK(right.status == record::Status::kOk);
  CHECK(right.gate == "exact at samples");
  CHECK(measure(Defect::kShortSum).status == record::Status::kWrong);
  CHECK(measure(Defect::kNaN).status == record::Status::kWrong);
  CHECK(measure(Defect::kUnwritten).status == record::Status::kWrong);
}

TEST_CASE("the naive path as machine code agrees with the interpreter on small shapes", "[engines]") {
  for (const task::Task& t : small_tasks()) {
    CAPTURE(t.workload);
    auto prepared = prepare(t.kernel, 1e30);
    const TaskDescription& task = prepared->segment().description;
    const std::byte* memory = prepared->segment().memory.data();
    ir::Kernel f64 = to_double(t.kernel);
    for (size_t s = 0; s < 2; ++s) {
      std::vector<interp::TensorData> tensors;
      for (const TaskParam& param : task.params) {
        const ir::Type type = ir::is_float(param.type) ? ir::Type::kF64 : param.type;
        if (param.is_output()) {
          tensors.push_back(interp::TensorData::zeros(type, param.shape));
          continue;
        }
        std::vector<double> values(static_cast<size_t>(param.elements()));
        for (size_t e = 0; e < values.size(); ++e)
          values[e] = interp::load_number(param.type, memory + param.sets[s].data, static_cast<int64_t>(e));
        tensors.push_back(interp::TensorData::from_doubles(type, param.shape, values));
      }
      std::vector<interp::TensorData*> pointers;
      for (auto& tensor : tensors) pointers.push_back(&tensor);
      interp::Report report = interp::run(f64, pointers);
      REQUIRE(report.ok());
      for (size_t i = 0; i < task.params.size(); ++i) {
        if (!task.params[i].is_output()) continue;
        const std::vector<double> expected = tensors[i].to_doubles();
        auto reference = doubles(*prepared, task.params[i].sets[s].reference, task.params[i].elements());
        double worst = 0;
        for (size_t e = 0; e < expected.size(); ++e)
          worst = std::max(worst, std::fabs(reference[e] - expected[e]) / (1 + std::fabs(expected[e])));
        CHECK(worst < 1e-7);
      }
    }
  }
}

TEST_CASE("data are the same ones where a reference is sampled, and pieces of an array differ", "[unit]") {
  task::Task task = task::make_gemm({.m = 640, .n = 512, .k = 512});
  const auto some = prepare(task.kernel, 2e8), all = prepare(task.kernel, 2e9);
  CHECK(some->facts().sampled);
  CHECK(!all->facts().sampled);
  const MeasureTask::Segment &a = some->segment(), &b = all->segment();
  // 640x512 elements are more than one piece of an array.
  const TaskParam &x = a.description.params[0], &y = b.description.params[0];
  REQUIRE(x.elements() == 640 * 512);
  REQUIRE(y.elements() == x.elements());
  auto at = [](const MeasureTask::Segment& s, const TaskParam& param, int set, int64_t i) {
    return interp::load_number(param.type, s.memory.data() + param.sets[static_cast<size_t>(set)].data, i);
  };
  std::set<double> seen;
  bool equal = true;
  for (int64_t i = 0; i < x.elements(); ++i) {
    equal = equal && at(a, x, 1, i) == at(b, y, 1, i);
    if (i >= (1 << 18)) seen.insert(at(a, x, 1, i));
  }
  CHECK(equal);
  CHECK(seen.size() > 10000);
  // The second piece has numbers of its own.
  bool differs = false;
  for (int64_t i = 0; i < 1000; ++i) differs = differs || at(a, x, 1, i) != at(a, x, 1, (1 << 18) + i);
  CHECK(differs);
}
