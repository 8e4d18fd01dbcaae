#include "driver/lazy_gate.h"

namespace tcc::driver {

search::Gate LazyGate::gate() {
  if (!target_.is_cpu() || target::isa_level(target_) > target::isa_level(target::host_target())) return {};
  return [this](const task::Task& task, const search::Chosen& chosen) -> Result<void> {
    std::lock_guard lock(mutex_);
    if (measurer_ == nullptr) {
      measure::HostMeasureOptions options;
      options.threads = static_cast<int>(threads_);
      TCC_TRY(measurer_, measure::IsolatedHostMeasurer::create(options));
    }
    return search::make_gate(*measurer_, target_)(task, chosen);
  };
}

}  // namespace tcc::driver
