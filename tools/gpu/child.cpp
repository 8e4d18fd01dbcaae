#include "gpu/child.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tcc/support/files.h"

extern char** environ;

namespace tcc::gpu_check {
namespace {

constexpr useconds_t kPollMicroseconds = 5000;
volatile sig_atomic_t group = 0;  // of the child that runs

void end_group(int signal_number) {
  if (group > 0) kill(-static_cast<pid_t>(group), SIGKILL);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

Result<ChildEnd> run_child(const std::vector<std::string>& words, double seconds) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // The child's group does not get the terminal's Ctrl-C: this process passes it on.
  signal(SIGINT, end_group);
  signal(SIGTERM, end_group);
  pid_t pid = -1;
  const int code = posix_spawn(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) return environment_error("'{}' cannot be started: {}", words[0], std::strerror(code));
  group = pid;
  ChildEnd end;
  const Stopwatch watch;
  int status = 0;
  while (true) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid || (got < 0 && errno != EINTR)) break;
    if (!end.timed_out && watch.seconds() > seconds) {
      end.timed_out = true;
      kill(-pid, SIGKILL);
    }
    usleep(kPollMicroseconds);
  }
  group = 0;
  kill(-pid, SIGKILL);  // what it has left behind
  end.seconds = watch.seconds();
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return end;
}

void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace tcc::gpu_check
