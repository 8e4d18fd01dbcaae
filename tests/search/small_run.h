// Small tuning runs on a fake machine: targets, tasks, options, and what a run left in its store.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "fake_measurer.h"
#include "fixtures.h"
#include "sample_tasks.h"
#include "tcc/search/search.h"

namespace tcc::search::test {

inline target::Target avx512() {
  auto t = target::find_target("x86-64-v4");
  REQUIRE(t.has_value());
  return *t;
}

inline std::vector<task::Task> tasks() {
  std::vector<task::Task> out;
  out.push_back(task::make_gemm({.m = 64, .n = 96, .k = 48, .bias = true, .constant_weights = true}));
  out.push_back(task::make_conv(
      {.channels = 8, .filters = 32, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true, .relu = true}));
  out.push_back(task::make_softmax({16, 64}, 1));
  return out;
}

// Everything a run decided, in order.
inline std::string log_of(const record::Store& store) {
  auto records = store.all();
  REQUIRE(records.has_value());
  std::string log;
  for (const record::Record& r : *records)
    log += fmt::format("{} {} {} {} {} {:.9g} {}\n", record::hash_text(r.task), record::hash_text(r.nest_hash),
                       record::hash_text(r.skeleton), record::status_name(r.status), r.trace, r.median, r.unix_time);
  return log;
}

// A machine that stops the run after a number of measurements.
struct Fake : measure::Measurer {
  measure::FakeMeasurer inner;
  int64_t left;
  explicit Fake(uint64_t seed, double failing, int64_t limit = 1 << 30) : inner(seed, failing), left(limit) {}
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> c) override {
    left -= static_cast<int64_t>(c.size());
    return inner.measure(c);
  }
};

inline search::Environment environment(record::Store& store, measure::Measurer& measurer, ThreadPool* pool = nullptr) {
  search::Environment env;
  env.store = &store;
  env.measurer = &measurer;
  env.pool = pool;
  env.now = [] { return int64_t{1700000000}; };
  env.tool_version = "test";
  return env;
}

inline search::TuneOptions small_options(search::Strategy strategy = search::Strategy::kEvolutionary) {
  search::TuneOptions o;
  o.strategy = strategy;
  o.settings = search::settings_for(avx512());
  o.settings->chains.count = 16, o.settings->chains.steps = 8;
  o.trials = 72;
  o.round_size = 12;
  o.population = 48;
  o.generations = 2;
  o.seed = 11;
  return o;
}

inline std::vector<record::Record> records_of(const record::Store& store, const task::Task& task, int64_t threads) {
  std::vector<record::Record> out;
  auto all = store.all(search::task_hash(task));
  REQUIRE(all.has_value());
  for (record::Record& r : *all)
    if (r.threads == threads) out.push_back(std::move(r));
  return out;
}

}  // namespace tcc::search::test
