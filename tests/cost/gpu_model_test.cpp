#include "tcc/cost/gpu_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace tcc;

namespace {

cost::GpuFacts one(const std::function<void(cost::LaunchFacts&)>& change = {}) {
  cost::LaunchFacts f;
  f.blocks_per_sm = 4;
  f.occupancy = 0.5;
  f.compute_seconds = 1e-3;
  f.memory_seconds = 2e-4;
  f.shared_seconds = 5e-4;
  f.stages = 1e9;  // nothing waits for anything else
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
  // Memory beyond the least traffic is mostly served by the cache.
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.memory_seconds = 8e-3; }), 0) == Approx(2e-3));
  CHECK(cost::predict_gpu_seconds(one(), 5e-6) == Approx(base + 5e-6));
  cost::GpuFacts two = one();
  two.launches.push_back(two.launches[0]);
  CHECK(cost::predict_gpu_seconds(two, 5e-6) == Approx(2 * (base + 5e-6)));
}

TEST_CASE("idle multiprocessors and exposed latency lengthen a launch") {
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.wave_share = 0.5; }), 0) == Approx(2e-3));
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.occupancy = 0.125; }), 0) == Approx(4e-3));
  // Independent sums of a thread hide latency as more warps do.
  CHECK(cost::predict_gpu_seconds(one([](auto& f) { f.occupancy = 0.125, f.parallelism = 4; }), 0) == Approx(1e-3));
  CHECK(std::isinf(cost::predict_gpu_seconds(one([](auto& f) { f.blocks_per_sm = 0; }), 0)));
}

TEST_CASE("what neither a pipeline nor other blocks hide adds up") {
  auto with = [](double stages, double blocks) {
    return cost::predict_gpu_seconds(one([&](auto& f) { f.stages = stages, f.blocks_per_sm = blocks; }), 0);
  };
  // 1 ms of arithmetic, 0.05 of memory behind the cache, 0.5 of shared memory.
  CHECK(with(1, 1) == Approx(1.55e-3));
  CHECK(with(2, 1) == Approx(1.275e-3));
  CHECK(with(1, 2) == Approx(with(2, 1)));
  CHECK(with(4, 1) < with(3, 1));
}

TEST_CASE("a matrix unit is busy with two warps a scheduler") {
  auto with = [](double warps) {
    return cost::predict_gpu_seconds(one([&](auto& f) { f.matrix_seconds = 1e-3, f.scheduler_warps = warps; }), 0);
  };
  CHECK(with(2) == Approx(1e-3));
  CHECK(with(1) == Approx(2e-3));
  CHECK(with(4) == with(2));
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
