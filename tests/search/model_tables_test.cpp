// A model that reads tables of features: candidates and records bring them, and a session knows the model.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "fake_measurer.h"
#include "fixtures.h"
#include "sample_tasks.h"
#include "tcc/search/search.h"
#include "tcc/support/check.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

// Scores by the sums of its tables. Checks that each program brings them.
class TableModel : public cost::CostModel {
 public:
  struct Seen {
    std::atomic<int64_t> predicted = 0;
    std::vector<int64_t> learned;  // samples with tables, by update
  };
  TableModel(std::unique_ptr<cost::CostModel> prior, uint64_t checkpoint, Seen& seen)
      : prior_(std::move(prior)), checkpoint_(checkpoint), seen_(seen) {}

  const features::Schema& schema() const override { return prior_->schema(); }
  std::span<const features::Table* const> tables() const override { return kTables; }
  uint64_t checkpoint() const override { return checkpoint_; }
  bool trained() const override { return true; }
  void predict(const features::Batch& programs, std::span<float> scores) const override {
    for (size_t i = 0; i < programs.size(); ++i) {
      double sum = 0;
      for (size_t k = 0; k < std::size(kTables); ++k) {
        const std::span<const float> values = programs.table(i, k);
        const size_t width = kTables[k]->columns.size();
        TCC_CHECK(!values.empty() && values.size() % width == 0, "no table {}", k);
        for (float v : values) sum += std::sin(static_cast<double>(v) * static_cast<double>(k + 1));
      }
      scores[i] = static_cast<float>(sum);
    }
    seen_.predicted += static_cast<int64_t>(programs.size());
  }
  void update(const cost::Samples& samples) override {
    CHECK(samples.programs.size() == samples.rows.size());
    int64_t whole = 0;
    for (size_t i = 0; i < samples.programs.size(); ++i) {
      const features::Sample* program = samples.programs[i];
      if (program == nullptr) continue;
      REQUIRE(program->tables.size() == std::size(kTables));
      const std::span<const float> row = samples.rows[i];
      CHECK(std::equal(row.begin(), row.end(), program->row.values.begin(), program->row.values.end()));
      ++whole;
    }
    seen_.learned.push_back(whole);
  }

 private:
  static constexpr const features::Table* kTables[] = {&features::kTraceCpu, &features::kStatements};
  std::unique_ptr<cost::CostModel> prior_;
  uint64_t checkpoint_;
  Seen& seen_;
};

struct Run {
  std::unique_ptr<record::Store> store = memory_store();
  TableModel::Seen seen;

  // Stops after `limit` measurements.
  search::TuneResult tune(search::Strategy strategy, uint64_t checkpoint, ThreadPool* pool = nullptr,
                          int64_t limit = 1 << 20) {
    const std::vector<task::Task> work = {
        task::make_gemm({.m = 64, .n = 96, .k = 48, .bias = true}),
        task::make_conv({.channels = 8, .filters = 32, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}})};
    measure::FakeMeasurer machine(5, 0.1);
    search::Environment env;
    env.store = store.get(), env.measurer = &machine, env.pool = pool;
    env.now = [] { return int64_t{1700000000}; };
    env.stop = [&] { return machine.measured() >= limit; };
    env.make_model = [&](std::unique_ptr<cost::CostModel> prior) -> Result<std::unique_ptr<cost::CostModel>> {
      return std::make_unique<TableModel>(std::move(prior), checkpoint, seen);
    };
    search::TuneOptions o;
    o.strategy = strategy;
    o.trials = 48, o.round_size = 12, o.population = 32, o.generations = 2, o.seed = 11;
    auto result = search::tune(work, avx2(), o, env);
    REQUIRE(result.has_value());
    return *result;
  }
  std::string log() const {
    std::string log;
    const std::vector<record::Record> records = *store->all();
    for (const record::Record& r : records)
      log += fmt::format("{} {} {}\n", record::hash_text(r.nest_hash), r.trace, r.median);
    return log;
  }
};

}  // namespace

TEST_CASE("every candidate and every record brings the tables that the model reads, on any number of threads") {
  const search::Strategy strategy = GENERATE(search::Strategy::kEvolutionary, search::Strategy::kMetropolis);
  Run one, three;
  ThreadPool pool(3);
  one.tune(strategy, 1);
  three.tune(strategy, 1, &pool);
  CHECK(one.log() == three.log());
  CHECK(one.seen.predicted > 200);
  REQUIRE(one.seen.learned.size() > 2);
  CHECK(one.seen.learned.front() == 0);
  CHECK(one.seen.learned.back() > 24);
  CHECK(one.seen.learned == three.seen.learned);
}

TEST_CASE("an interrupted search goes on with the model that it began with, and only with that") {
  Run whole, cut, other;
  whole.tune(search::Strategy::kEvolutionary, 1);
  CHECK(cut.tune(search::Strategy::kEvolutionary, 1, nullptr, 20).stopped);
  CHECK(other.tune(search::Strategy::kEvolutionary, 1, nullptr, 20).stopped);
  CHECK(cut.tune(search::Strategy::kEvolutionary, 1).resumed);
  CHECK(cut.log() == whole.log());
  CHECK_FALSE(other.tune(search::Strategy::kEvolutionary, 2).resumed);
}
