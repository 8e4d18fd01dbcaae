#include "peer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tcc/support/files.h"

namespace tcc::benchmarks {

Result<std::unique_ptr<PeerProcess>> PeerProcess::start(const std::vector<std::string>& command,
                                                        const std::vector<int>& cpus) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return environment_error("no socket for a peer: {}", std::strerror(errno));
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!cpus.empty()) sched_setaffinity(0, sizeof set, &set);
    dup2(ends[1], 0);
    dup2(ends[1], 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return environment_error("no process for a peer: {}", std::strerror(errno));
  }
  return std::unique_ptr<PeerProcess>(new PeerProcess(pid, ends[0]));
}

PeerProcess::~PeerProcess() {
  if (pid_ > 0) finish();
  close(fd_);
}

std::string PeerProcess::finish() {
  if (pid_ < 0) return ended_;
  int status = 0;
  // A child that has just closed its end is about to exit by itself: how it ends is worth a moment.
  kill(pid_, SIGCONT);
  shutdown(fd_, SHUT_RDWR);
  for (int i = 0; i < 200 && waitpid(pid_, &status, WNOHANG) == 0; ++i) {
    usleep(10'000);
    if (i == 199) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
    }
  }
  pid_ = -1;
  ended_ = WIFSIGNALED(status) ? fmt::format("died with signal {}", WTERMSIG(status))
                               : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return ended_;
}

Result<nlohmann::json> PeerProcess::ask(const std::string& line, double timeout) {
  if (pid_ < 0) return environment_error("{}", ended_);
  kill(pid_, SIGCONT);
  std::string text = line + "\n";
  // A peer that has ended already takes no line, but what it said before it ended is still there to be read.
  (void)send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  Stopwatch watch;
  size_t end;
  while ((end = received_.find('\n')) == std::string::npos) {
    pollfd p{fd_, POLLIN, 0};
    double left = timeout - watch.seconds();
    int ready = left > 0 ? poll(&p, 1, static_cast<int>(left * 1000) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      kill(pid_, SIGKILL);
      finish();
      return environment_error("{}", ended_ = fmt::format("gave no answer for {:g} s", timeout));
    }
    char buffer[4096];
    ssize_t got = read(fd_, buffer, sizeof buffer);
    if (got <= 0) return environment_error("{}", finish());
    received_.append(buffer, static_cast<size_t>(got));
  }
  // The threads of some libraries spin for up to 100 ms after their work: they would take the cores from the next one.
  kill(pid_, SIGSTOP);
  std::string reply = received_.substr(0, end);
  received_.erase(0, end + 1);
  nlohmann::json json = nlohmann::json::parse(reply, nullptr, false);
  if (!json.is_object()) return environment_error("answered '{}'", reply.substr(0, 200));
  if (json.contains("error")) return environment_error("{}", json.value("error", ""));
  return json;
}

}  // namespace tcc::benchmarks
