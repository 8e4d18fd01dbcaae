#include "measure/samples.h"

#include <algorithm>

#include "measure/host/quiet.h"
#include "tcc/measure/measurement.h"

namespace tcc::measure {
namespace {

constexpr double kInterval = 0.02;

}  // namespace

void Samples::add(double seconds, double slowdown, bool interrupted) {
  if (!interrupted) {
    double bound = slowdown > kQuietSlack ? seconds / slowdown : seconds;
    if (bounds_++ == 0 || bound < least_) least_ = bound;
  }
  if (!interrupted && slowdown <= kQuietSlack) {
    if (kept_.empty() || seconds < least_kept_) least_kept_ = seconds;
    kept_.push_back(seconds);
    return;
  }
  ++disturbed_count_;
  if (std::ssize(disturbed_) < kMaxSamples - kFirstSamples) disturbed_.push_back(seconds);
}

bool Samples::converged() const {
  if (kept() < kMinimalSamples) return false;
  std::vector<double> sorted = kept_;
  std::sort(sorted.begin(), sorted.end());
  Interval interval = median_interval(sorted);
  return interval.high - interval.low <= kInterval * interval.median;
}

bool Samples::clearly_slower(double best) const {
  auto behind = [&](const ClearlySlower& enough) {
    const double bar = enough.times * best;
    return (bounds_ >= enough.samples && least_ > bar) || (kept() >= enough.samples && least_kept_ > bar);
  };
  return best > 0 && std::any_of(kClearlySlower.begin(), kClearlySlower.end(), behind);
}

bool Samples::may_win(double best) const {
  return best <= 0 || bounds_ == 0 || least_ < best;
}

void Samples::give(WorkerResult& result) const {
  bool quiet = kept() >= kFirstSamples || disturbed_count_ == 0;
  std::vector<double> given = kept_;
  if (!quiet) given.insert(given.end(), disturbed_.begin(), disturbed_.end());
  result.disturbed = quiet ? 0 : 1;
  result.dropped = quiet ? disturbed_count_ : disturbed_count_ - std::ssize(disturbed_);
  result.num_samples = std::min(std::ssize(given), kMaxSamples);
  std::copy_n(given.begin(), result.num_samples, result.samples.begin());
}

}  // namespace tcc::measure
