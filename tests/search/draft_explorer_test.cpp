// The explorer's drafts are legal, different and reproducible; they are better than as many random draws.
#include "tcc/search/draft_explorer.h"

#include <bit>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sample_tasks.h"
#include "tcc/cost/draft_family.h"
#include "tcc/space/space.h"

using namespace tcc;

namespace {

std::vector<space::Sketch> sketches_of(const task::Task& t, const target::Target& target) {
  space::SpaceOptions options;
  options.metaschedule = target.cuda.sm_count == 0;
  std::vector<space::Sketch> out;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target, options)) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    out.push_back(std::move(*sketch));
  }
  return out;
}

}  // namespace

TEST_CASE("drafts are legal, differ, come best first and depend on the seed alone") {
  const Result<target::Target> target = target::find_target("x86-64-v4");
  REQUIRE(target.has_value());
  for (const task::Task& t :
       {task::make_gemm({.m = 128, .n = 96, .k = 64}),
        task::make_conv({.channels = 16, .filters = 32, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}})}) {
    INFO(t.workload);
    const std::vector<space::Sketch> sketches = sketches_of(t, *target);
    const search::ExplorerOptions options = {.population = 512, .generations = 4, .drafts = 64};
    search::DraftExplorer explorer(sketches, *target, 1, schedule::mutator_weights(false), options);
    search::ExplorerCounts counts;
    const std::vector<search::Drafted> drafts = explorer.explore(3, counts);
    REQUIRE(drafts.size() == 64);
    CHECK(counts.made == 4 * 512);
    CHECK(counts.made == counts.rejected + counts.duplicate + counts.fresh + counts.passed);
    std::set<uint64_t> programs;
    for (size_t i = 0; i < drafts.size(); ++i) {
      auto arena = std::make_shared<Arena>();
      const ir::Legal<ir::Kernel> nest =
          space::instantiate(sketches[static_cast<size_t>(drafts[i].sketch)], drafts[i].decisions, *target, arena);
      REQUIRE(nest.has_value());
      programs.insert(ir::hash_kernel(*nest));
      if (i > 0) CHECK(drafts[i - 1].seconds <= drafts[i].seconds);
    }
    CHECK(programs.size() >= 60);  // sketches may have programs in common
    search::ExplorerCounts again;
    const std::vector<search::Drafted> second = explorer.explore(3, again);
    REQUIRE(second.size() == drafts.size());
    for (size_t i = 0; i < drafts.size(); ++i) {
      CHECK(second[i].sketch == drafts[i].sketch);
      CHECK(second[i].decisions == drafts[i].decisions);
    }
    // Evolution finds drafts as good as those of as many draws, at least.
    search::ExplorerOptions random = options;
    random.population = 2048, random.generations = 1;
    search::DraftExplorer draws(sketches, *target, 1, schedule::mutator_weights(false), random);
    search::ExplorerCounts drawn;
    auto sum = [](const std::vector<search::Drafted>& all) {
      double seconds = 0;
      for (const search::Drafted& d : all) seconds += d.seconds;
      return seconds;
    };
    CHECK(sum(drafts) < 1.01 * sum(draws.explore(3, drawn)));
  }
}

namespace {

// The same draws by columns and by kernels.
void compare_with_kernels(const task::Task& t, const target::Target& machine, const search::ExplorerOptions& options,
                          int64_t least) {
  INFO(t.workload << " on " << machine.name << " by " << cost::draft_name(options.model.kind));
  const target::Target* target = &machine;
  std::vector<space::Sketch> sketches = sketches_of(t, *target);
  std::erase_if(sketches, [](const space::Sketch& s) { return !s.symbolic; });
  const search::DraftExplorer all(sketches, *target, 1, schedule::mutator_weights(false), options);
  std::vector<space::Sketch> known;
  for (size_t i = 0; i < sketches.size(); ++i) {
    const auto is_this = [&](const auto& w) { return w.sketch == static_cast<int32_t>(i); };
    if (std::none_of(all.without_columns().begin(), all.without_columns().end(), is_this)) known.push_back(sketches[i]);
  }
  REQUIRE_FALSE(known.empty());
  sketches = known;
  search::DraftExplorer with(sketches, *target, 1, schedule::mutator_weights(false), options);
  CHECK(with.without_columns().empty());
  search::ExplorerCounts counts;
  const std::vector<search::Drafted> by_columns = with.explore(1, counts);
  CHECK(counts.asked * 20 <= counts.made);
  CHECK(counts.fresh >= least);
  for (space::Sketch& s : sketches) s.symbolic = false, s.concrete = "for this test";
  search::DraftExplorer without(sketches, *target, 1, schedule::mutator_weights(false), options);
  REQUIRE(without.without_columns().size() == sketches.size());
  CHECK(without.without_columns()[0].why == "for this test");
  search::ExplorerCounts slow;
  const std::vector<search::Drafted> by_kernels = without.explore(1, slow);
  CHECK(slow.asked == slow.made);
  CHECK(slow.rejected >= counts.rejected);
  CHECK(slow.rejected <= counts.rejected + counts.passed);
  // The same draws get the same estimates.
  std::map<std::pair<int32_t, std::vector<int64_t>>, double> of_kernels;
  for (const search::Drafted& d : by_kernels) of_kernels[{d.sketch, d.decisions}] = d.seconds;
  int64_t compared = 0;
  for (const search::Drafted& d : by_columns) {
    const auto at = of_kernels.find({d.sketch, d.decisions});
    if (at == of_kernels.end()) continue;
    ++compared;
    INFO(d.sketch << ": " << Catch::Detail::stringify(d.decisions));
    CHECK(at->second == Approx(d.seconds).epsilon(1e-9));
  }
  CHECK(compared >= least / 2);
}

}  // namespace

TEST_CASE("no sketch and no family has more drafts than its share while there are others") {
  const Result<target::Target> target = target::find_target("x86-64-v4");
  REQUIRE(target.has_value());
  const task::Task t = task::make_gemm({.m = 128, .n = 96, .k = 64});
  const std::vector<space::Sketch> sketches = sketches_of(t, *target);
  search::ExplorerOptions options = {.population = 1024, .generations = 3, .drafts = 64};
  struct Most {
    int64_t of_sketch = 0, of_family = 0;
    size_t sketches = 0;
  };
  auto look = [&] {
    search::DraftExplorer explorer(sketches, *target, 1, schedule::mutator_weights(false), options);
    search::ExplorerCounts counts;
    const std::vector<search::Drafted> drafts = explorer.explore(5, counts);
    REQUIRE(drafts.size() == 64);
    std::map<int32_t, int64_t> by_sketch;
    std::map<std::pair<int32_t, uint64_t>, int64_t> by_family;
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (i > 0) CHECK(drafts[i - 1].seconds <= drafts[i].seconds);
      ++by_sketch[drafts[i].sketch];
      auto arena = std::make_shared<Arena>();
      const ir::Legal<ir::Kernel> nest =
          space::instantiate(sketches[static_cast<size_t>(drafts[i].sketch)], drafts[i].decisions, *target, arena);
      REQUIRE(nest.has_value());
      analysis::ColumnBuilder b;
      analysis::NestColumns columns;
      std::string why;
      REQUIRE(analysis::nest_columns(b, *nest, {}, columns, why));
      std::vector<double> value(analysis::ColumnProgram::kBlock), scratch;
      double* out[] = {value.data()};
      b.finish({cost::draft_family(b, columns)}).run({}, out, 1, scratch);
      ++by_family[{drafts[i].sketch, std::bit_cast<uint64_t>(value[0])}];
    }
    Most most;
    for (const auto& [sketch, n] : by_sketch) most.of_sketch = std::max(most.of_sketch, n);
    for (const auto& [family, n] : by_family) most.of_family = std::max(most.of_family, n);
    most.sketches = by_sketch.size();
    return most;
  };
  const Most free = look();
  REQUIRE(sketches.size() >= 4);
  CHECK(free.of_family > 2);
  options.family_share = 2.0 / 64;
  CHECK(look().of_family <= 2);
  options.sketch_share = 0.25;
  const Most limited = look();
  CHECK(limited.of_sketch <= 16);
  CHECK(limited.of_family <= 2);
  CHECK(limited.sketches >= std::max<size_t>(free.sketches, 4));
}

TEST_CASE("sketches without columns are drafted by their kernels") {
  const Result<target::Target> target = target::find_target("x86-64-v4");
  REQUIRE(target.has_value());
  search::ExplorerOptions options = {.population = 1024, .generations = 2, .drafts = 2048, .fresh_share = 1};
  compare_with_kernels(task::make_gemm({.m = 32, .n = 48, .k = 16}), *target, options, 16);
}

TEST_CASE("drafts for GPUs have the numbers of instantiated kernels") {
  for (const char* name : {"a100", "t4"}) {
    const Result<target::Target> target = target::find_target(name);
    REQUIRE(target.has_value());
    for (const cost::DraftKind kind : {cost::DraftKind::kTcc, cost::DraftKind::kPaper, cost::DraftKind::kReleased}) {
      if (kind != cost::DraftKind::kTcc && target->name != "a100") continue;  // their symbols know no architecture
      search::ExplorerOptions options = {.population = 1000, .generations = 2, .drafts = 4000, .fresh_share = 1};
      options.model.kind = kind;
      compare_with_kernels(task::make_gemm({.m = 256, .n = 192, .k = 128}), *target, options, 50);
      compare_with_kernels(task::make_gemm({.m = 256, .n = 192, .k = 128, .dtype = graph::DType::kF16}), *target,
                           options, 50);
      compare_with_kernels(task::make_conv({.channels = 16, .filters = 32, .size = {14, 14}, .kernel = {3, 3}}),
                           *target, options, 50);
    }
  }
}
