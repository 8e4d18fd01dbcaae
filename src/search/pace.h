// How long a run has taken, may take, and will take. Private to the room.
#pragma once

#include <algorithm>

#include "tcc/search/search.h"
#include "tcc/support/files.h"

namespace tcc::search {

class Pace {
 public:
  // `measures`: the run has finals if its options say so.
  Pace(const TuneOptions& options, bool measures)
      : limit_(options.seconds), finals_(options.finals && measures ? std::min(options.finals_share, 0.5) : 0) {}

  const Stopwatch& watch() const { return watch_; }
  double seconds() const { return watch_.seconds(); }
  // Of the search; finals may take what is left.
  bool out_of_time() const { return limit_ > 0 && watch_.seconds() >= search_limit(); }

  // Seconds until the end of the run; -1: not known. `done` trials of this run have taken all but `load` seconds,
  // `left` will take as long each (below 0: no limit of trials), and finals take what they may.
  double remaining(double load, int64_t done, int64_t left) const {
    const double elapsed = watch_.seconds();
    double search = -1;
    if (done > 0 && left >= 0)
      search = std::max(elapsed - load, 0.0) / static_cast<double>(done) * static_cast<double>(left);
    if (limit_ > 0) {
      const double limit = std::max(search_limit() - elapsed, 0.0);
      search = search < 0 ? limit : std::min(search, limit);
    }
    return search < 0 ? -1 : search + (elapsed + search) * finals_ / (1 - finals_);
  }

  void begin_finals() { finals_began_ = watch_.seconds(); }
  double remaining_finals() const { return std::max(finals_began_ / (1 - finals_) - watch_.seconds(), 0.0); }

 private:
  double search_limit() const { return limit_ * (1 - finals_); }

  const double limit_;   // of the run; 0: none
  const double finals_;  // the share of the run that finals may take, at most
  double finals_began_ = 0;
  Stopwatch watch_;
};

}  // namespace tcc::search
