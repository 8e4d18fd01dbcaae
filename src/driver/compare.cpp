// Two sets of times. The samples of a run are not independent: for seconds the machine, or the place of the data in
// memory, is the same for all of them. So a run is cut into blocks, and the medians of blocks are compared.
#include <algorithm>
#include <cmath>

#include "driver/student.h"
#include "tcc/driver/library.h"

namespace tcc::driver {
namespace {

constexpr size_t kBlocks = 10;
constexpr double kConfidence = 0.99;

// Logarithms of the medians of consecutive blocks.
std::vector<double> block_medians(const std::vector<double>& samples) {
  const size_t blocks = std::min(kBlocks, samples.size());
  std::vector<double> medians;
  for (size_t i = 0; i < blocks; ++i) {
    const auto at = [&](size_t n) {
      return samples.begin() + static_cast<std::ptrdiff_t>(n * samples.size() / blocks);
    };
    medians.push_back(std::log(median_of({at(i), at(i + 1)})));
  }
  return medians;
}

// `test`: of logarithms of ratios.
Comparison judged(const MeanTest& test, const std::vector<double>& a, const std::vector<double>& b, int64_t blocks,
                  double smallest) {
  Comparison c;
  c.median_a = median_of(a);
  c.median_b = median_of(b);
  c.ratio = std::exp(test.mean);
  c.low = std::exp(test.low);
  c.high = std::exp(test.high);
  c.p = test.p;
  c.blocks = blocks;
  c.smallest = smallest;
  c.differs = (c.low > 1 || c.high < 1) && std::fabs(c.ratio - 1) >= smallest;
  return c;
}

}  // namespace

Comparison compare_times(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = block_medians(a), y = block_medians(b);
  return judged(test_difference(x, y, kConfidence), a, b, std::ssize(x), kSmallestEffectOfRuns);
}

Comparison compare_pairs(const std::vector<PairBlock>& blocks) {
  std::vector<double> ratios, a, b;
  for (const PairBlock& block : blocks) {
    ratios.push_back(std::log(block.ratio));
    a.push_back(block.median_a);
    b.push_back(block.median_b);
  }
  return judged(test_mean(ratios, kConfidence), a, b, std::ssize(blocks), kSmallestEffectOfPairs);
}

}  // namespace tcc::driver
