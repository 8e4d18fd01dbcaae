// Running what is taken over from another task before it is built in.
#pragma once

#include <memory>
#include <mutex>

#include "tcc/measure/host.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// The measurer is made when it is first needed: most builds do without.
class LazyGate {
 public:
  LazyGate(const target::Target& target, int64_t threads) : target_(target), threads_(threads) {}
  // Empty where programs of the target do not run on this machine. Must not outlive this; calls take turns.
  search::Gate gate();

 private:
  const target::Target target_;
  const int64_t threads_;
  std::mutex mutex_;
  std::unique_ptr<measure::IsolatedHostMeasurer> measurer_;
};

}  // namespace tcc::driver
