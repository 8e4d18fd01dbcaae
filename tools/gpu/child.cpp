#include "gpu/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "tcc/support/files.h"

extern char** environ;

namespace tcc::gpu_check {

Result<ChildOutcome> run_child(const std::vector<std::string>& words, const std::string& input, double seconds) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0) return environment_error("pipe: {}", std::strerror(errno));
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]), close(to[1]);
    return environment_error("pipe: {}", std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]), close(from[1]);
  if (code != 0) {
    close(to[1]), close(from[0]);
    return environment_error("'{}' cannot be started: {}", words[0], std::strerror(code));
  }
  signal(SIGPIPE, SIG_IGN);  // a child need not read its input
  // The input is shorter than a pipe holds.
  if (write(to[1], input.data(), input.size()) < 0 && errno != EPIPE) kill(pid, SIGKILL);
  close(to[1]);
  ChildOutcome outcome;
  Stopwatch watch;
  while (true) {
    pollfd wait{from[0], POLLIN, 0};
    const double left = seconds - watch.seconds();
    const int ready = left > 0 ? poll(&wait, 1, static_cast<int>(std::min(std::ceil(left * 1e3), 1e9))) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      outcome.timed_out = true;
      kill(pid, SIGKILL);
      break;
    }
    char buffer[4096];
    const ssize_t got = read(from[0], buffer, sizeof buffer);
    if (got <= 0) break;
    outcome.out.append(buffer, static_cast<size_t>(got));
  }
  close(from[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

}  // namespace tcc::gpu_check
