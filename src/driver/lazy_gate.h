// Running what is taken over from another task before it is built in.
#pragma once

#include <memory>
#include <mutex>

#include "tcc/backend/backend.h"
#include "tcc/search/search.h"

namespace tcc::driver {

// The machine is opened when it is first needed: most builds do without.
class LazyGate {
 public:
  LazyGate(const target::Target& target, int64_t threads) : target_(target), threads_(threads) {}
  // Empty where programs of the target do not run on this machine. Must not outlive this. Calls on several threads make
  // inputs and references at once, and run programs in turns.
  search::Gate gate();

 private:
  const target::Target target_;
  const int64_t threads_;
  std::mutex mutex_;
  std::unique_ptr<backend::Machine> machine_;
};

}  // namespace tcc::driver
