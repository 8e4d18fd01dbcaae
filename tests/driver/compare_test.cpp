// Comparing times: what blocks of samples can tell, processes that measure here, libraries in turns.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "driver/student.h"
#include "tcc/driver/library.h"
#include "tcc/driver/tuners.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::driver;

TEST_CASE("Student's t distribution") {
  // Tables of the distribution.
  CHECK(student_quantile(0.05, 1) == Approx(12.706).epsilon(1e-3));
  CHECK(student_quantile(0.01, 11) == Approx(3.106).epsilon(1e-3));
  CHECK(student_quantile(0.05, 30) == Approx(2.042).epsilon(1e-3));
  CHECK(student_p(2.0, 1e6) == Approx(std::erfc(std::sqrt(2.0))).epsilon(1e-3));
  CHECK(student_p(0, 5) == Approx(1));
}

namespace {

// A process that times two libraries: places in memory favor one of them, and its pairs are noisy.
PairBlock process_block(Rng& rng, double ratio) {
  const double place = std::exp(0.01 * rng.normal());
  return {ratio * place * std::exp(0.003 * rng.normal()), 1e-3, 1e-3 * ratio * place, 100};
}

double share_that_differs(Rng& rng, double ratio, int64_t comparisons) {
  int64_t differ = 0;
  for (int64_t i = 0; i < comparisons; ++i) {
    std::vector<PairBlock> blocks;
    for (int64_t b = 0; b < kPairedBlocks; ++b) blocks.push_back(process_block(rng, ratio));
    differ += compare_pairs(blocks).differs ? 1 : 0;
  }
  return static_cast<double>(differ) / static_cast<double>(comparisons);
}

}  // namespace

TEST_CASE("U8: the same library twice differs in at most one comparison of twenty, a slower one is found") {
  Rng rng(8);
  CHECK(share_that_differs(rng, 1, 4000) <= 0.02);
  CHECK(share_that_differs(rng, 1.03, 400) >= 0.95);
  CHECK(share_that_differs(rng, 1 / 1.03, 400) >= 0.95);
}

TEST_CASE("U8: the samples of a run depend on each other, and blocks of them are compared") {
  Rng rng(9);
  int64_t differ = 0;
  // Two runs of one library: each has its own place, and a level that wanders for hundreds of samples.
  auto run = [&] {
    std::vector<double> samples;
    double level = std::exp(0.015 * rng.normal());
    for (int i = 0; i < 600; ++i) {
      if (i % 100 == 0) level *= std::exp(0.005 * rng.normal());
      samples.push_back(level * (1 + 0.02 * rng.uniform()));
    }
    return samples;
  };
  for (int i = 0; i < 400; ++i) differ += compare_times(run(), run()).differs ? 1 : 0;
  CHECK(differ <= 20);
}

TEST_CASE("U3: processes that measure on one machine see each other while they live") {
  auto folder = TemporaryDirectory::create("tcc-measuring-");
  REQUIRE(folder.has_value());
  const std::string shared = (*folder)->path() + "/deep/measuring";
  auto here = MeasuringHere::begin(shared);
  REQUIRE(here.has_value());
  CHECK((*here)->others().empty());
  int ready[2], done[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(done) == 0);
  const pid_t child = fork();
  if (child == 0) {
    auto there = MeasuringHere::begin(shared);
    const std::vector<int64_t> seen = there ? (*there)->others() : std::vector<int64_t>();
    char byte = seen == std::vector<int64_t>{getppid()} ? 'y' : 'n';
    (void)!write(ready[1], &byte, 1);
    (void)!read(done[0], &byte, 1);
    _exit(0);  // as if it were killed: its file stays
  }
  char saw_us = 0;
  REQUIRE(read(ready[0], &saw_us, 1) == 1);
  CHECK(saw_us == 'y');
  CHECK((*here)->others() == std::vector<int64_t>{child});
  REQUIRE(write(done[1], "x", 1) == 1);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK((*here)->others().empty());
  CHECK_FALSE(file_exists(shared + "/measuring-" + std::to_string(child)));
  for (int end : {ready[0], ready[1], done[0], done[1]}) close(end);
}
