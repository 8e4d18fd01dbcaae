#include "tcc/cost/gpu_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace tcc;

namespace {

cost::GpuFacts one(const std::function<void(cost::LaunchFacts&)>& change = {}) {
  cost::LaunchFacts f;
  f.blocks_per_sm = 4;
  f.scheduler_warps = 8;
  f.compute_seconds = 1e-3;
  f.memory_seconds = 2e-4;
  f.shared_seconds = 5e-4;
  f.overlap = 1e9;  // nothing waits for anything else
  if (change) change(f);
  cost::GpuFacts facts;
  facts.launches = {f};
  return facts;
}

}  // namespace

TEST_CASE("the busiest part of the machine decides, and every launch costs") {
  const double base = cost::predict_gpu_seconds(one(), 0);
  CHECK(base == Approx(1e-3));
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.shared_seconds = 3e-3; }), 0) == Approx(3e-3));
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.memory_seconds = 8e-3; }), 0) == Approx(8e-3));
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.issue_seconds = 4e-3; }), 0) == Approx(4e-3));
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.cache_seconds = 5e-3; }), 0) == Approx(5e-3));
  CHECK(cost::predict_gpu_seconds(one(), 5e-6) == Approx(base + 5e-6));
  cost::GpuFacts two = one();
  two.launches.push_back(two.launches[0]);
  CHECK(cost::predict_gpu_seconds(two, 5e-6) == Approx(2 * (base + 5e-6)));
}

TEST_CASE("idle multiprocessors lengthen their own work, not that of memory") {
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.wave_share = 0.5; }), 0) == Approx(2e-3));
  auto memory = [](double share) {
    return cost::predict_gpu_seconds(one([&](auto& f) { f.memory_seconds = 1e-2, f.wave_share = share; }), 0);
  };
  CHECK(memory(0.5) == Approx(memory(1)));
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.busy = 0.25; }), 0) == Approx(4e-3));
  // One warp on a multiprocessor uses one of its four schedulers.
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.issue_seconds = 2e-3, f.scheduler_warps = 0.25; }), 0) ==
        Approx(8e-3));
  CHECK(std::isinf(cost::predict_gpu_seconds(one([](auto& f) { f.blocks_per_sm = 0; }), 0)));
}

TEST_CASE("loads that are waited for one after the other bound a launch from below") {
  auto with = [](double cycles) {
    return cost::predict_gpu_seconds(one([&](auto& f) { f.latency_cycles = cycles, f.clock_hz = 1e9; }), 0);
  };
  CHECK(with(0) == Approx(1e-3));
  CHECK(with(1e4) == Approx(1e-3).epsilon(0.01));
  CHECK(with(1e8) == Approx(0.1).epsilon(0.01));
  // Alike, they hide each other in part only.
  CHECK(with(1e6) > 1.2e-3);
  CHECK(with(1e6) < 1.5e-3);
}

TEST_CASE("what nothing hides adds up") {
  auto with = [](double overlap) { return cost::predict_gpu_seconds(one([&](auto& f) { f.overlap = overlap; }), 0); };
  // 1 ms of arithmetic, 0.2 of memory, 0.5 of shared memory.
  CHECK(with(1) == Approx(1.7e-3));
  CHECK(with(2) == Approx(1.35e-3));
  CHECK(with(4) < with(3));
}

TEST_CASE("the first step of a tile is waited for where no other block works meanwhile") {
  auto with = [](double fill, double blocks) {
    return cost::predict_gpu_seconds(one([&](auto& f) {
                                       f.fill_cycles = fill, f.clock_hz = 1e9;
                                       f.blocks_per_sm = blocks;
                                     }),
                                     0);
  };
  CHECK(with(2e4, 1) == Approx(with(0, 1) + 2e-5));
  CHECK(with(2e4, 2) == Approx(with(0, 2) + 1e-5));
}
