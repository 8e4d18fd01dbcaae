#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tcc/cli/cli.h"

namespace tcc::cli {
namespace {

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction previous_int, previous_term;

void on_interrupt(int) {
  // Every record is on disk as soon as it is measured, so leaving at once loses nothing.
  if (interrupts.fetch_add(1) > 0) _exit(kStopped);
  constexpr char kText[] = "\ntcc: stopping after the measurements under way; once more to leave at once\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

bool InterruptGuard::requested() {
  return interrupts.load() > 0;
}

}  // namespace tcc::cli
