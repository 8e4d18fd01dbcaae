// Roller and Gensor on the design spaces of real tasks: their programs replay, are within the target's limits and
// have the results of the naive kernel.
#include "tcc/construct/construct.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

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
    for (const schedule::Instruction& in : trace.instructions)
      if (in.op == schedule::Op::kSamplePerfectTile && in.decision_length > 1)
        CHECK(used[static_cast<size_t>(in.decision + in.decision_length - 1)] <=
              schedule::integer(in, "max_innermost"));
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
  for (construct::Axis& axis : nest.axes) axis.slots = 4;
  construct::Axis sum = split_axis(k, 64);
  sum.reduce = true;
  sum.factors = {{construct::Part::kSerial, 2, slot, 0, 5}, {construct::Part::kSerial, 1, slot + 1, 0, 6}};
  sum.whole = 2, sum.slots = 2;
  nest.axes.push_back(sum);
  auto access = [](size_t x, size_t y, std::vector<int64_t> stride, int64_t rows, int64_t columns) {
    construct::Access out;
    out.dims = {{{{x, 1, 1, 0}}, rows, false}, {{{y, 1, 1, 0}}, columns, false}};
    out.block.assign(stride.size(), 0);
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

TEST_CASE("an axis without whole vectors gets the largest tile of registers that divides it") {
  // 94 = 2 * 47: no divisor is a multiple of sixteen lanes, and 94 is above the limit of a factor.
  const construct::Problem problem(product_nest(48, 94, 100), named_target("x86-64-v4"), 1, 0);
  for (const construct::Options& options : all_options()) {
    if (options.reading == construct::Reading::kLiteral) continue;  // it leaves the registers at once
    const construct::Found found = options.method == construct::Method::kRoller
                                       ? construct::roller(problem, options, options.variant)
                                       : construct::gensor(problem, options, 16, Rng(3));
    REQUIRE_FALSE(found.results.empty());
    CHECK(std::any_of(found.results.begin(), found.results.end(), [](const auto& t) { return t.size[0][1] == 47; }));
  }
  construct::Tiles tiles = problem.smallest();
  CHECK(problem.next(tiles, 0, 1, {.aligned = true}) == 47);
  CHECK(problem.next(tiles, 0, 1, {}) == 2);
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

TEST_CASE("constructed programs of an attention keep the limits of register tiles") {
  const target::Target target = named_target("x86-64-v4");
  const task::Task task = task::make_attention({.heads = 2, .queries = 35, .keys = 23, .depth = 88});
  const std::vector<schedule::Trace> traces = space::generate_space(task.kernel, target);
  const construct::Construction made = construct::construct(traces, task.kernel, target, {});
  CHECK(check_replays(made, traces, task, target) > 0);
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

  const task::Task sum = task::make_elementwise({4, 64, 96});
  const std::vector<schedule::Trace> traces = rule_traces(sum, target);
  const construct::Construction stream = construct::construct(traces, sum.kernel, target, {});
  CHECK(stream.rule == construct::kPlainPolicy);
  CHECK_FALSE(stream.reason.empty());
  CHECK(check_replays(stream, traces, sum, target) > 0);
}

TEST_CASE("Gensor's formulas have the values of its text", "[fidelity]") {
  CHECK(construct::cache_growth(0) == Approx(0.5));
  CHECK(construct::cache_growth(10) == Approx(1.5));
  CHECK(construct::cache_growth(20) == Approx(2.5));
  CHECK(construct::cache_growth(1000) == Approx(3));
  // Printed: the first states are kept and the last ones dropped. Recommended: the other way round.
  CHECK(construct::keep_probability(0, true) == Approx(0.9933).margin(1e-4));
  CHECK(construct::keep_probability(10, true) == Approx(0.5));
  CHECK(construct::keep_probability(20, true) == Approx(0.0067).margin(1e-4));
  for (double t : {0.0, 3.0, 10.0, 50.0})
    CHECK(construct::keep_probability(t, true) + construct::keep_probability(t, false) == Approx(1));
  // 1 unless the tile is wider than a row of 32 banks.
  CHECK(construct::vthread_benefit(32, 2) == 1);
  CHECK(construct::vthread_benefit(64, 2) == 2);
  CHECK(construct::vthread_benefit(100, 2) == 2);
  CHECK(construct::vthread_benefit(128, 4) == 4);

  // Equation 1 for C[i, j] += A[i, k] B[k, j]: a tile of 8 x 16 results and 32 terms grows to 8 x 32.
  const construct::Problem problem(product_nest(64, 128, 256), named_target("x86-64-v3"), 1, 0);
  construct::Tiles from = problem.smallest(), to;
  REQUIRE(problem.set(from, 0, 0, 8));
  REQUIRE(problem.set(from, 0, 1, 16));
  REQUIRE(problem.set(from, 1, 2, 32));
  to = from;
  REQUIRE(problem.set(to, 1, 1, 32));
  auto footprint = [](double i, double j, double k) { return 4 * (i * k + k * j + i * j); };
  auto traffic = [](double i, double j, double k) {
    return 4 * (64 / i * (128 / j) * (256 / k) * (i * k + k * j) + 64 * 128);
  };
  CHECK(construct::tile_benefit(problem, from, to, 1) ==
        Approx(traffic(8, 16, 32) / traffic(8, 32, 32) * footprint(8, 32, 32) / footprint(8, 16, 32)));
  // The inverse step is worth the reciprocal.
  CHECK(construct::tile_benefit(problem, from, to, 1) * construct::tile_benefit(problem, to, from, 1) == Approx(1));
}

TEST_CASE("Roller's tiles follow its rules of alignment and eligibility on a GPU", "[fidelity]") {
  const target::Target target = named_target("a100");
  const task::Task task = task::make_gemm({.m = 1024, .n = 768, .k = 512});
  const std::vector<schedule::Trace> traces = rule_traces(task, target);
  std::string why;
  int nests = 0;
  for (const schedule::Trace& trace : traces) {
    const auto nest = construct::find_tile_nest(trace, task.kernel, target, why);
    if (!nest || !nest->shared || nest->matrix) continue;
    ++nests;
    const construct::Problem problem(*nest, target, 1, 0);
    for (const auto variant : {construct::RollerVariant::kPaper, construct::RollerVariant::kArtifact}) {
      const construct::Found found = construct::roller(problem, {}, variant);
      REQUIRE_FALSE(found.results.empty());
      CHECK(found.results.size() <= 10);
      for (const construct::Tiles& tiles : found.results) {
        const double threads = problem.threads(tiles);
        CHECK(std::fmod(threads, 128) == 0);  // a warp for each scheduler
        CHECK(threads <= 512);
        CHECK(problem.register_words(tiles) <= 96);
        CHECK(problem.register_words(tiles) * threads <= 32768);
        CHECK(problem.footprint(tiles, 1, false) < static_cast<double>(target.cuda.shared_per_block));
        // The contiguous axis of each input is read in whole transactions of 32 bytes.
        for (const construct::Access& access : nest->accesses)
          for (size_t a = 0; a < problem.axes(); ++a)
            if (!access.output && access.stride[a] == 1)
              CHECK(std::fmod(problem.elements(tiles, 1, a) * static_cast<double>(access.bytes), 32) == 0);
      }
    }
  }
  CHECK(nests > 0);
}

TEST_CASE("tiles that straddle blocks of a packed constant are expected to be slower, on a CPU") {
  construct::TileNest nest = product_nest(4, 1380, 700);
  auto seconds = [&](int64_t columns) {
    const construct::Problem problem(nest, named_target("x86-64-v4"), 1, 1);
    construct::Tiles tiles = problem.smallest();
    REQUIRE(problem.place(tiles, 0, 0, 4));
    REQUIRE(problem.place(tiles, 0, 1, columns));
    return problem.seconds(tiles);
  };
  const double plain = seconds(60), narrow = seconds(4);
  nest.accesses[1].block = {0, 16, 0};
  CHECK(seconds(60) > 2 * plain);
  CHECK(seconds(4) <= narrow);  // four of them are a block
}

TEST_CASE("windows that leave the input are expected to be slower than others, on a CPU") {
  auto nest_of = [](int64_t pads) {
    const task::Task task =
        task::make_pool({.average = true, .channels = 8, .size = {66, 66}, .kernel = {3, 3}, .pads = {pads, pads}});
    std::string why;
    std::optional<construct::TileNest> nest;
    for (const schedule::Trace& trace : rule_traces(task, named_target("x86-64-v4")))
      if (!nest) nest = construct::find_tile_nest(trace, task.kernel, named_target("x86-64-v4"), why);
    INFO(why);
    REQUIRE(nest.has_value());
    return *nest;
  };
  const construct::TileNest inside = nest_of(0), outside = nest_of(1);
  CHECK(inside.has_overlap());
  auto leaves = [](const construct::TileNest& nest) {
    for (const construct::Access& access : nest.accesses)
      for (const construct::AccessDim& dim : access.dims)
        if (!access.output && nest.below(dim) && nest.beyond(dim)) return true;
    return false;
  };
  CHECK_FALSE(leaves(inside));
  CHECK(leaves(outside));
}

TEST_CASE("sizes of a tile are placed so that all levels nest") {
  const construct::Problem problem(product_nest(64, 128, 256), named_target("x86-64-v3"), 1, 0);
  construct::Tiles tiles = problem.smallest();
  REQUIRE(problem.place(tiles, 1, 1, 64));
  REQUIRE(problem.place(tiles, 0, 1, 16));
  CHECK(tiles.size[1][1] == 64);
  REQUIRE(problem.place(tiles, 1, 1, 8));  // the faster tile shrinks
  CHECK(tiles.size[0][1] == 8);
  REQUIRE(problem.place(tiles, 0, 1, 32));  // the slower ones grow
  for (size_t l = 1; l < problem.levels(); ++l) CHECK(tiles.size[l][1] % tiles.size[l - 1][1] == 0);
  CHECK(tiles.size[0][1] == 32);
}

TEST_CASE("free tiles pad an axis by no more than the tolerance", "[fidelity]") {
  for (const double tolerance : {0.0, 0.2, 0.6, 1.0})
    for (const int64_t extent : {97, 100, 131, 1000}) {
      construct::TileNest nest = product_nest(extent, 64, 64);
      nest.axes[0].free = true;
      const construct::Problem problem(nest, named_target("x86-64-v3"), 1, tolerance);
      construct::Tiles tiles = problem.smallest();
      int sizes = 0;
      while (const int64_t size = problem.next(tiles, 0, 0, {})) {
        CHECK(static_cast<double>((extent + size - 1) / size * size) <= static_cast<double>(extent) * (1 + tolerance));
        tiles.size[0][0] = size;
        ++sizes;
      }
      if (tolerance > 0) CHECK(sizes > 2);
      if (tolerance == 0 && extent == 97) CHECK(sizes <= 1);  // a prime
    }
}

TEST_CASE("small operators scale out: their blocks fill the machine, or their tiles cannot shrink", "[fidelity]") {
  const target::Target target = named_target("a100");
  const task::Task task = task::make_gemm({.m = 128, .n = 128, .k = 512});
  std::string why;
  int judged = 0;
  for (const schedule::Trace& trace : rule_traces(task, target)) {
    const auto nest = construct::find_tile_nest(trace, task.kernel, target, why);
    if (!nest || nest->matrix) continue;
    const construct::Problem problem(*nest, target, 1, 0);
    for (const construct::Tiles& tiles : construct::roller(problem, {}, construct::RollerVariant::kPaper).results) {
      ++judged;
      CHECK(construct::is_valid(problem, tiles));
      // 128 x 128 results over 108 multiprocessors: about 150 for each block.
      CHECK(problem.blocks(tiles) >= 64);
    }
  }
  CHECK(judged > 0);
}

TEST_CASE("products in half precision are constructed for matrix instructions too") {
  const target::Target target = named_target("a100");
  const task::Task task = task::make_gemm({.m = 256, .n = 256, .k = 256, .dtype = graph::DType::kF16});
  const std::vector<schedule::Trace> traces = rule_traces(task, target);
  std::string why;
  for (const auto method : {construct::Method::kRoller, construct::Method::kGensor}) {
    const construct::Construction made = construct::construct(traces, task.kernel, target, {.method = method});
    int64_t matrix = 0;
    for (const construct::Program& p : made.programs)
      matrix += construct::find_tile_nest(traces[p.trace], task.kernel, target, why)->matrix ? 1 : 0;
    CHECK(matrix > 0);
    CHECK(check_replays(made, traces, task, target) > 0);
  }
}

TEST_CASE("operators of extreme shapes are constructed, or told why not; nothing crashes", "[robustness]") {
  std::vector<task::Task> tasks = {
      task::make_gemm({.m = 1, .n = 1, .k = 1}),
      task::make_gemm({.m = 1, .n = 1, .k = 65537}),
      task::make_gemm({.m = 65537, .n = 1, .k = 1}),
      task::make_gemm({.m = 1009, .n = 1013, .k = 1019}),
      task::make_gemm({.m = int64_t{1} << 17, .n = int64_t{1} << 18, .k = int64_t{1} << 18}),
      task::make_gemm({.m = 2147483647, .n = 3, .k = 2}),
      task::make_conv({.channels = 1, .filters = 1, .size = {1, 1}, .kernel = {1, 1}}),
      task::make_conv({.channels = 13, .filters = 17, .size = {1021, 3}, .kernel = {3, 3}, .pads = {1, 1}}),
      task::make_pool({.average = true, .channels = 1, .size = {2, 2}, .kernel = {2, 2}, .strides = {2, 2}}),
      task::make_elementwise({1}),
      task::make_elementwise({1000003}),
      task::make_softmax({1, 1}, 1),
      task::make_softmax({7, 65537}, 1),
      task::make_attention({.heads = 12, .queries = 128, .keys = 128, .depth = 64})};
  for (const char* name : {"x86-64-v3", "x86-64-v4", "a100", "h100"}) {
    const target::Target target = named_target(name);
    for (const task::Task& task : tasks) {
      const std::vector<schedule::Trace> traces = rule_traces(task, target);
      for (const construct::Options& options : all_options()) {
        const construct::Construction made = construct::construct(traces, task.kernel, target, options);
        INFO(name << ", " << task.workload << ": " << made.rule << ", " << made.reason);
        REQUIRE_FALSE(made.programs.empty());
        const bool asked = made.rule == construct::method_name(options.method);
        CHECK(asked == made.reason.empty());
        for (const construct::Program& program : made.programs) {
          CHECK(program.seconds >= 0);
          CHECK(std::isfinite(program.seconds));
        }
        std::vector<int64_t> used;
        const construct::Program& first = made.programs[0];
        auto kernel =
            schedule::replay(traces.at(first.trace), first.decisions, task.kernel, std::make_shared<Arena>(), &used);
        REQUIRE(kernel.has_value());
        INFO(schedule::print_trace(traces.at(first.trace)));
        CHECK(used == first.decisions);
      }
    }
  }
}
