#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <iterator>

#include "tcc/cli/cli.h"

namespace tcc::cli {
namespace {

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free);
// A lost connection (SIGHUP) is a request to stop, too, except under nohup.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction previous[std::size(kSignals)];

void on_interrupt(int) {
  // Every record is on disk as soon as it is measured, so leaving at once loses nothing.
  if (interrupts.fetch_add(1) > 0) _exit(kStopped);
  constexpr char kText[] = "\ntcc: stopping after the measurements under way; once more to leave at once\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &action, &previous[i]);
    if (kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &previous[i], nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

bool InterruptGuard::requested() {
  return interrupts.load() > 0;
}

}  // namespace tcc::cli
