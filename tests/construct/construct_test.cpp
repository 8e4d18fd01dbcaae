// Roller and Gensor on the design spaces of real tasks: their programs replay, are within the target's limits and
// have the results of the naive kernel.
#include "tcc/construct/construct.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "construct/methods.h"
#include "sample_tasks.h"
#include "space/run_kernel.h"
#include "tcc/construct/tile_nest.h"

using namespace tcc;

namespace {

std::vector<schedule::Trace> rule_traces(const task::Task& task, const target::Target& target) {
  space::SpaceOptions options;
  const space::ModuleList& modules = space::modules_for(target);
  options.modules.assign(modules.metaschedule.begin(), modules.metaschedule.end());
  return space::generate_space(task.kernel, target, options);
}

std::vector<construct::Options> all_options() {
  std::vector<construct::Options> out;
  for (auto variant : {construct::RollerVariant::kPaper, construct::RollerVariant::kArtifact})
    out.push_back({.method = construct::Method::kRoller, .variant = variant});
  for (auto reading : {construct::Reading::kRecommended, construct::Reading::kLiteral})
    out.push_back({.method = construct::Method::kGensor, .reading = reading});
  out.push_back({.method = construct::Method::kGensor, .vthreads = false});
  return out;
}

// How many of the programs are within the limits. Every one replays, and takes the decisions as they are.
int64_t check_replays(const construct::Construction& made, const std::vector<schedule::Trace>& traces,
                      const task::Task& task, const target::Target& target) {
  int64_t legal = 0;
  for (const construct::Program& program : made.programs) {
    auto arena = std::make_shared<Arena>();
    std::vector<int64_t> used;
    const schedule::Trace& trace = traces.at(program.trace);
    ir::Legal<ir::Kernel> kernel = schedule::replay(trace, program.decisions, task.kernel, arena, &used);
    INFO(task.workload << ", " << made.rule << "\n" << schedule::print_trace(trace));
    INFO((kernel ? std::string() : kernel.error().text));
    REQUIRE(kernel.has_value());
    CHECK(used == program.decisions);
    legal += lower::lower(*kernel, target, ir::Stage::kNest, arena).has_value() ? 1 : 0;
  }
  return legal;
}

// The first `count` legal programs against the naive nest.
int64_t check_results(const construct::Construction& made, const std::vector<schedule::Trace>& traces,
                      const task::Task& task, const target::Target& target, int64_t count) {
  const std::vector<double> want = run_kernel(task.kernel);
  int64_t ran = 0;
  for (const construct::Program& program : made.programs) {
    if (ran == count) break;
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> kernel = schedule::replay(traces.at(program.trace), program.decisions, task.kernel, arena);
    REQUIRE(kernel.has_value());
    kernel = lower::lower(*kernel, target, ir::Stage::kLowered, arena);
    if (!kernel) continue;
    INFO(ir::print(*kernel));
    check_close(run_kernel(*kernel), want);
    ++ran;
  }
  return ran;
}

std::vector<task::Task> odd_tasks() {
  return {
      task::make_gemm({.m = 37, .n = 45, .k = 29, .constant_weights = true}),
      task::make_gemm({.m = 24, .n = 64, .k = 31, .bias = true, .relu = true}),
      task::make_conv({.channels = 3, .filters = 21, .size = {9, 13}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true}),
      task::make_conv({.channels = 6, .filters = 6, .group = 6, .size = {11, 9}, .kernel = {3, 3}, .pads = {1, 1}}),
      task::make_pool({.average = true, .channels = 5, .size = {9, 14}, .kernel = {3, 3}, .strides = {2, 2}})};
}

construct::Axis split_axis(int64_t extent, int64_t limit) {
  construct::Axis axis;
  axis.extent = axis.sampled = extent;
  axis.limit = limit;
  return axis;
}

// C[i, j] += A[i, k] B[k, j] with the tiles of SSRSRS.
construct::TileNest product_nest(int64_t m, int64_t n, int64_t k) {
  construct::TileNest nest;
  nest.levels = 3;
  nest.operations = 2.0 * static_cast<double>(m * n * k);
  int slot = 0;
  for (int64_t extent : {m, n}) {
    construct::Axis axis = split_axis(extent, 64);
    for (int level : {construct::kOutside, 2, 1, 0})
      axis.factors.push_back(
          {level == construct::kOutside ? construct::Part::kGrid : construct::Part::kSerial, level, slot++, 0, slot});
    nest.axes.push_back(axis);
  }
  nest.axes[1].factors.back().part = construct::Part::kVector;
  nest.axes[1].is_vector = true;
  construct::Axis sum = split_axis(k, 64);
  sum.reduce = true;
  sum.factors = {{construct::Part::kSerial, 2, slot, 0, 5}, {construct::Part::kSerial, 1, slot + 1, 0, 6}};
  sum.whole = 2;
  nest.axes.push_back(sum);
  auto access = [](size_t x, size_t y, std::vector<int64_t> stride, int64_t rows, int64_t columns) {
    construct::Access out;
    out.dims = {{{{x, 1, 1, 0}}, rows, false}, {{{y, 1, 1, 0}}, columns, false}};
    out.stride = std::move(stride);
    return out;
  };
  nest.accesses = {access(0, 2, {k, 0, 1}, m, k), access(2, 1, {0, 1, n}, k, n), access(0, 1, {n, 1, 0}, m, n)};
  nest.accesses.back().output = true;
  return nest;
}

}  // namespace

TEST_CASE("the tiles of a trace are read off its steps: SSRSRS of a product") {
  const target::Target target = named_target("x86-64-v3");
  const task::Task task = task::make_gemm({.m = 64, .n = 96, .k = 48});
  const std::vector<schedule::Trace> traces = rule_traces(task, target);
  std::string why;
  const auto nest = construct::find_tile_nest(traces.at(0), task.kernel, target, why);
  REQUIRE(nest.has_value());
  REQUIRE(nest->axes.size() == 3);
  REQUIRE(nest->accesses.size() == 3);
  CHECK(nest->operations == 2.0 * 64 * 96 * 48);
  CHECK(nest->has_reuse());
  std::vector<std::vector<int>> levels;
  for (const construct::Axis& axis : nest->axes) {
    levels.emplace_back();
    for (const construct::Factor& f : axis.factors) levels.back().push_back(f.level);
  }
  const std::vector<int> spatial = {construct::kOutside, 2, 1, 0}, sum = {2, 1};
  CHECK(levels == std::vector<std::vector<int>>{spatial, spatial, sum});
  CHECK(std::count_if(nest->axes.begin(), nest->axes.end(), [](const auto& a) { return a.is_vector; }) == 1);
}

TEST_CASE("footprints and traffic of a product are those of its formulas", "[fidelity]") {
  const construct::Problem problem(product_nest(64, 128, 256), named_target("x86-64-v3"), 1, 0);
  construct::Tiles tiles = problem.smallest();
  for (auto [axis, size] : {std::pair<size_t, int64_t>{0, 4}, {1, 16}}) REQUIRE(problem.set(tiles, 0, axis, size));
  REQUIRE(problem.set(tiles, 1, 2, 32));
  // A is 4 x 32, B is 32 x 16, C is 4 x 16.
  CHECK(problem.footprint(tiles, 1, false) == 4 * (4 * 32 + 32 * 16));
  CHECK(problem.footprint(tiles, 1) == 4 * (4 * 32 + 32 * 16 + 4 * 16));
  // 16 x 8 tiles, each with all 256 terms, and C once.
  using Count = construct::Problem::Count;
  CHECK(problem.traffic(tiles, 1, Count::kWholeReduction) == 16 * 8 * 4.0 * (4 * 256 + 256 * 16 + 4 * 16));
  CHECK(problem.traffic(tiles, 1, Count::kSteps) == 4 * (16 * 8 * 8 * (4 * 32 + 32 * 16) + 64 * 128));
  CHECK(problem.operations(tiles) == 2.0 * 64 * 128 * 256);
}

TEST_CASE("sizes nest: a tile divides the slower memory's, and all of them the extent") {
  const construct::Problem problem(product_nest(48, 96, 100), named_target("x86-64-v3"), 1, 0);
  for (const construct::Options& options : all_options()) {
    const construct::Found found = options.method == construct::Method::kRoller
                                       ? construct::roller(problem, options, options.variant)
                                       : construct::gensor(problem, options, 16, Rng(3));
    REQUIRE_FALSE(found.results.empty());
    for (const construct::Tiles& tiles : found.results) {
      CHECK(construct::is_valid(problem, tiles));
      for (size_t a = 0; a < problem.axes(); ++a) {
        int64_t inner = 1;
        for (size_t l = 0; l < problem.levels(); ++l) {
          CHECK(tiles.size[l][a] % inner == 0);
          inner = tiles.size[l][a];
        }
        CHECK(problem.nest().axes[a].sampled % inner == 0);
      }
    }
  }
}

TEST_CASE("constructed programs of odd shapes compute what the naive nest computes, on a CPU") {
  const target::Target target = named_target("x86-64-v3");
  for (const task::Task& task : odd_tasks()) {
    const std::vector<schedule::Trace> traces = rule_traces(task, target);
    for (const construct::Options& options : all_options()) {
      INFO(task.workload);
      const construct::Construction made = construct::construct(traces, task.kernel, target, options);
      CHECK(check_replays(made, traces, task, target) > 0);
      CHECK(check_results(made, traces, task, target, 2) > 0);
    }
  }
}

TEST_CASE("constructed programs are within the limits of a GPU and compute what the naive nest computes") {
  const target::Target target = named_target("a100");
  std::vector<task::Task> tasks = odd_tasks();
  tasks.pop_back();
  tasks.push_back(task::make_gemm({.m = 64, .n = 64, .k = 64, .dtype = graph::DType::kF16}));
  for (const task::Task& task : tasks) {
    const std::vector<schedule::Trace> traces = rule_traces(task, target);
    for (auto method : {construct::Method::kRoller, construct::Method::kGensor}) {
      const construct::Construction made = construct::construct(traces, task.kernel, target, {.method = method});
      INFO(task.workload << ": " << made.rule << ", " << made.reason);
      CHECK(check_replays(made, traces, task, target) > 0);
      if (task.kernel.buffers[0]->type == ir::Type::kF32) CHECK(check_results(made, traces, task, target, 1) > 0);
    }
  }
}

TEST_CASE("a construction is a function of its arguments, and of the seed where it draws") {
  const target::Target target = named_target("x86-64-v3");
  const task::Task task = task::make_gemm({.m = 96, .n = 96, .k = 96});
  const std::vector<schedule::Trace> traces = rule_traces(task, target);
  auto decisions = [&](uint64_t seed) {
    std::vector<std::vector<int64_t>> out;
    for (const construct::Program& p :
         construct::construct(traces, task.kernel, target, {.method = construct::Method::kGensor, .seed = seed})
             .programs)
      out.push_back(p.decisions);
    return out;
  };
  CHECK(decisions(1) == decisions(1));
  CHECK(decisions(1) != decisions(2));
}

TEST_CASE("operators that the rules do not fit get a named simple schedule and a reason") {
  const target::Target target = named_target("x86-64-v3");
  const task::Task softmax = task::make_softmax({8, 33}, 1);
  const std::vector<schedule::Trace> plain = {schedule::Trace{}};
  const construct::Construction made =
      construct::construct(plain, softmax.kernel, target, {.method = construct::Method::kGensor});
  CHECK(made.rule == construct::kSimpleSchedule);
  CHECK(made.reason == "its design space samples no tile");
  REQUIRE(made.programs.size() == 1);
  CHECK(made.programs[0].trace == 0);

  const task::Task sum = task::make_elementwise({4, 64, 33});
  const std::vector<schedule::Trace> traces = rule_traces(sum, target);
  const construct::Construction stream = construct::construct(traces, sum.kernel, target, {});
  CHECK(stream.rule == construct::kPlainPolicy);
  CHECK_FALSE(stream.reason.empty());
  CHECK(check_replays(stream, traces, sum, target) > 0);
}
