// Is the machine quiet? A core that is throttled, or shared with somebody, runs fixed work slower than it can. Two
// loops of fixed work tell: a chain of dependent operations follows the core's clock and nothing else; a loop that
// fills the core's ports cycle after cycle notices another hardware thread of the core as well, even one that belongs
// to a neighbor's virtual machine and that no table of this system shows. (Measured on a rented Zen 3: neighbors make
// programs up to 1.9 times slower, in bursts of milliseconds to seconds, and the chain never sees them.)
#pragma once

#include <cstdint>
#include <functional>

namespace tcc::measure {

// What the loops take at best: the least ever seen, in seconds. 0: not known yet.
struct QuietTimes {
  double chain = 0, ports = 0;
  // Takes over what is smaller.
  void learn(const QuietTimes& seen);
};

// Of the machine's own clock, which nothing corrects while it runs.
double raw_seconds();

class QuietWatch {
 public:
  // `everywhere` runs a function on every thread of the program that is timed and waits for all; empty: this thread.
  // Where nothing is known, it looks for a while first.
  QuietWatch(const QuietTimes& best, std::function<void(void (*)())> everywhere);

  // Runs both loops. How much slower than at best the machine is: 1 or above.
  double slowdown();
  const QuietTimes& best() const { return best_; }
  double last_chain() const { return last_chain_; }

 private:
  double ports();

  QuietTimes best_;
  std::function<void(void (*)())> everywhere_;
  double last_chain_ = 0;
};

}  // namespace tcc::measure
