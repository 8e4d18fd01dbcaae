// The samples of one program, told apart by whether anything disturbed them, and what follows from them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "measure/wire.h"

namespace tcc::measure {

// A sample between two looks at the machine counts where neither found it more than this much slower than at best.
inline constexpr double kQuietSlack = 1.05;

// A program is clearly slower than the best when `samples` samples all take `times` times the best's time. The further
// behind the program is, the fewer samples suffice.
struct ClearlySlower {
  int64_t samples;
  double times;
};
inline constexpr std::array<ClearlySlower, 4> kClearlySlower = {{{1, 2.0}, {2, 1.5}, {3, 1.1}, {5, 1.03}}};
inline constexpr int64_t kFirstSamples = 3;
inline constexpr int64_t kMinimalSamples = 9;  // fewer give no 95 % interval that is not the whole range

class Samples {
 public:
  // `slowdown`: of the machine around the sample, 1 or above. `interrupted`: a thread was preempted, or the hypervisor
  // took time, so the sample says nothing certain.
  void add(double seconds, double slowdown, bool interrupted);

  int64_t count() const { return static_cast<int64_t>(kept_.size()) + disturbed_count_; }
  int64_t disturbed() const { return disturbed_count_; }
  int64_t kept() const { return static_cast<int64_t>(kept_.size()); }
  // The interval of the undisturbed samples is within 2 % of their median.
  bool converged() const;
  // On a machine that was s times slower than at best no program was more than s times slower: a sample by its slowdown
  // is a bound from below, and that bound counts, not the sample. Where enough samples are undisturbed these alone
  // count: not every program feels the whole slowdown, and its bounds are then far below its time.
  bool clearly_slower(double best) const;
  // May the program be faster than `best` for all that is known? Nothing to be faster than: yes.
  bool may_win(double best) const;

  // The undisturbed samples, where there are enough of them to tell a time by or no others; else all, which is said in
  // the result.
  void give(WorkerResult& result) const;

 private:
  std::vector<double> kept_, disturbed_;
  int64_t disturbed_count_ = 0;  // those that found no room included
  int64_t bounds_ = 0;
  double least_ = 0;       // of the bounds
  double least_kept_ = 0;  // of the undisturbed
};

}  // namespace tcc::measure
