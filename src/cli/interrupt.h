// Ctrl-C: the first asks the command to stop with what it has, the second ends the process.
#pragma once

namespace tcc::cli {

// While alive, SIGINT and SIGTERM are counted instead of ending the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool requested();
};

}  // namespace tcc::cli
