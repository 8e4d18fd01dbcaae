// Planted defects, through the whole search and the real worker.
#include <catch2/catch.hpp>
#include <set>

#include "measure/kernels.h"
#include "sample_tasks.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"
#include "tcc/search/search.h"

using namespace tcc;

namespace {

// The fastest program of all, were it right: it stores zeros.
ir::Kernel zeros(const measure::test::GemmOptions& o) {
  ir::KernelBuilder maker;
  ir::Builder& b = maker.b();
  maker.add_buffer("A", o.in, std::array{o.m, o.k}, ir::BufferRole::kInput);
  maker.add_buffer("W", o.in, std::array{o.k, o.n}, ir::BufferRole::kWeight);
  const auto* c = maker.add_buffer("C", o.out, std::array{o.m, o.n}, ir::BufferRole::kOutput);
  const ir::Id row = maker.new_id("i"), column = maker.new_id("j"), r = maker.new_id("r"), s = maker.new_id("s");
  std::array iters = {ir::Iter{r, ir::IterKind::kSpatial, b.integer(o.m), b.var(row)},
                      ir::Iter{s, ir::IterKind::kSpatial, b.integer(o.n), b.var(column)}};
  const std::array at = {b.var(r), b.var(s)};
  ir::Stmt body = b.block(maker.new_id("zero"), iters, b.store(c->id, at, b.real(0)));
  return maker.finish(b.loop(row, b.integer(o.m), b.loop(column, b.integer(o.n), body)));
}

// Puts the wrong program in the place of some candidates before they are measured.
class Saboteur : public measure::Measurer {
 public:
  Saboteur(measure::Measurer& inner, ir::Kernel wrong) : inner_(inner), wrong_(std::move(wrong)) {}
  measure::MeasurerTraits traits() const override { return inner_.traits(); }
  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const ir::Kernel& naive,
                                                              const target::Target& target) override {
    return inner_.prepare(naive, target);
  }
  Result<measure::PairedComparison> compare(const measure::Candidate& a, const measure::Candidate& b,
                                            measure::PairAim aim) override {
    return inner_.compare(a, b, aim);
  }
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override {
    std::vector<measure::Candidate> handed(candidates.begin(), candidates.end());
    for (measure::Candidate& c : handed) {
      if (c.nest_hash % 3 != 0) continue;
      c.kernel = wrong_;
      sabotaged.insert(c.nest_hash);
    }
    return inner_.measure(handed);
  }
  std::set<uint64_t> sabotaged;

 private:
  measure::Measurer& inner_;
  ir::Kernel wrong_;
};

}  // namespace

TEST_CASE("a wrong program is recorded as wrong and never becomes best, however fast it is", "[errors]") {
  const target::Target target = target::host_target();
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_BINARY_DIR "/tools/tcc-worker";
  measure_options.budget_seconds = 0.02;
  auto host = measure::IsolatedHostMeasurer::create(measure_options);
  REQUIRE(host.has_value());
  auto store = record::Store::open(":memory:").value();

  const measure::test::GemmOptions shape{.m = 48, .n = 64, .k = 56};
  auto lowered = lower::lower(zeros(shape), target, ir::Stage::kLowered, std::make_shared<Arena>());
  REQUIRE(lowered.has_value());
  Saboteur saboteur(**host, *lowered);

  const std::vector<task::Task> tasks = {
      task::make_gemm({.m = shape.m, .n = shape.n, .k = shape.k, .constant_weights = true})};
  search::Environment env{.store = store.get(), .measurer = &saboteur};
  search::TuneOptions options;
  options.trials = 36;
  options.round_size = 12;
  options.population = 64;
  options.generations = 2;
  auto result = search::tune(tasks, target, options, env);
  if (!result) FAIL(result.error().message);
  const search::TaskResult& task = result->tasks.at(0);
  CAPTURE(task.failure);
  REQUIRE(saboteur.sabotaged.size() >= 3);
  CHECK(task.counts.wrong == static_cast<int64_t>(saboteur.sabotaged.size()));
  CHECK(task.counts.measured > 0);

  auto records = store->all().value();
  std::set<uint64_t> programs;  // the fastest are recorded again when they have met
  for (const record::Record& r : records) programs.insert(r.nest_hash);
  CHECK(programs.size() == 36);
  for (const record::Record& r : records) {
    CAPTURE(r.failure);
    if (!saboteur.sabotaged.contains(r.nest_hash)) {
      CHECK(r.status == record::Status::kOk);
      continue;
    }
    CHECK(r.status == record::Status::kWrong);
    CHECK(r.samples.empty());
    CHECK_THAT(r.failure, Catch::Contains("wrong"));
  }
  CHECK_FALSE(saboteur.sabotaged.contains(task.best_nest_hash));
  auto chosen = search::choose_program(tasks[0], target, store.get(), 1);
  REQUIRE(chosen.has_value());
  CHECK(chosen->tuned);
  CHECK_FALSE(saboteur.sabotaged.contains(chosen->nest_hash));
}
