#include "tcc/measure/measurement.h"

#include <cmath>

#include "tcc/record/disturbed.h"
#include "tcc/support/check.h"

namespace tcc::measure {

Result<std::shared_ptr<const MeasureTask>> Measurer::prepare(const ir::Kernel&, const target::Target&) {
  return std::shared_ptr<const MeasureTask>();
}
void Measurer::compile(std::span<Candidate>) {}
Result<PairedComparison> Measurer::compare(const Candidate&, const Candidate&, PairAim) {
  return PairedComparison{};
}

void fill_record(const Measurement& measurement, record::Record& record) {
  static_cast<record::Outcome&>(record) = measurement;
  const bool timed = !measurement.samples.empty();
  record.statistic = !timed ? "" : measurement.disturbed ? std::string(record::kDisturbedStatistic) : "median";
  record.cache = !timed ? "" : measurement.cold ? "cold" : "warm";
  if (measurement.device) {
    record.isa = measurement.device->isa;
    record.device = measurement.device->text;
  }
}

Interval median_interval(std::span<const double> sorted, double confidence) {
  TCC_CHECK(!sorted.empty());
  auto n = static_cast<int64_t>(sorted.size());
  auto at = [&](int64_t i) { return sorted[static_cast<size_t>(i)]; };
  Interval interval;
  interval.median = n % 2 ? at(n / 2) : 0.5 * (at(n / 2 - 1) + at(n / 2));
  // The number of samples below the true median is binomial(n, 1/2): [sorted[r], sorted[n-1-r]] covers the median with
  // probability 1 - 2 P(X <= r). Take the largest r that keeps the confidence.
  double log_half_n = -static_cast<double>(n) * std::log(2.0);
  double tail = 0;
  int64_t rank = 0;
  for (int64_t r = 0; r < n / 2; ++r) {
    double log_choose = std::lgamma(n + 1.0) - std::lgamma(r + 1.0) - std::lgamma(static_cast<double>(n - r) + 1.0);
    tail += std::exp(log_choose + log_half_n);
    if (2 * tail > 1 - confidence) break;
    rank = r;
  }
  interval.low = at(rank);
  interval.high = at(n - 1 - rank);
  return interval;
}

}  // namespace tcc::measure
