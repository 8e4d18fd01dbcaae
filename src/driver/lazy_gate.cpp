#include "driver/lazy_gate.h"

namespace tcc::driver {
namespace {

constexpr double kTimingSeconds = 1e-3;  // a gate asks whether results are right, not how fast they come

}  // namespace

search::Gate LazyGate::gate() {
  const backend::Backend& backend = backend::backend_of(target_);
  if (!backend.runs_on_host(target_)) return {};
  return [this, &backend](const task::Task& task, const search::Chosen& chosen) -> Result<void> {
    {
      std::lock_guard lock(mutex_);
      if (machine_ == nullptr) {
        TCC_TRY(machine_, backend.open(target_, {.threads = threads_, .budget_seconds = kTimingSeconds}));
      }
    }
    return search::make_gate(*machine_->measurer, target_, &mutex_)(task, chosen);
  };
}

}  // namespace tcc::driver
