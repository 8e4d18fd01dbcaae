// The zygote: single-threaded, holds LLVM and one warm-up link, forks a child for each job and watches it. It reads
// the coordinator's messages. Of the child's memory it reads the phase alone.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "measure/cuda/worker.h"
#include "measure/host/child.h"
#include "measure/shared_memory.h"
#include "measure/wire.h"
#include "measure/worker_link.h"
#include "tcc/codegen/llvm.h"
#include "tcc/measure/host.h"
#include "tcc/support/files.h"

namespace tcc::measure {
namespace {

class Zygote {
 public:
  explicit Zygote(int socket) : socket_(socket) {}

  int serve() {
    Hello hello;
    if (send(socket_, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return 1;
    serve_jobs(socket_, [this](const JobMessage& message, JobHeader& job, const std::byte* task, ReplyMessage& reply) {
      return handle(message, job, task, reply);
    });
    return 0;
  }

 private:
  // False: the coordinator is gone.
  bool handle(const JobMessage& message, JobHeader& job, const std::byte* task, ReplyMessage& reply) {
    warm_up(job);
    pid_t child = fork();
    if (child == 0) {
      close(socket_);
      run_child(&job, task);
      _exit(0);
    }
    if (child < 0) {
      reply.error = errno;
      return true;
    }
    reply.started = 1;
    return watch(child, job, message.timeout_seconds, reply);
  }

  // Linking one object resolves and touches what every child needs; children inherit it. Linking runs no code of it.
  void warm_up(const JobHeader& header) {
    if (warm_) return;
    warm_ = true;
    Reader reader(
        {reinterpret_cast<const char*>(&header) + header.payload_offset, static_cast<size_t>(header.payload_bytes)});
    codegen::Artifact artifact = get_artifact(reader);
    if (reader.ok()) (void)codegen::load_host(artifact);  // the child meets the same error and reports it
  }

  // Waits for the child's end, killing it when its time is up. False: the coordinator is gone (the child is killed).
  bool watch(pid_t child, const JobHeader& header, double timeout, ReplyMessage& reply) {
    int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    if (pidfd < 0) {  // without it nothing would end a hanging child
      reply.started = 0;
      reply.error = errno;
      kill(child, SIGKILL);
    }
    double deadline = Clock::system().seconds() + timeout;
    bool extended = false, go_on = true;
    while (pidfd >= 0) {
      pollfd wait[2] = {{pidfd, POLLIN, 0}, {socket_, POLLRDHUP, 0}};
      double left = deadline - Clock::system().seconds();
      int ready = left > 0 ? poll(wait, 2, static_cast<int>(std::ceil(left * 1e3))) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready > 0 && (wait[0].revents & POLLIN)) break;
      if (ready > 0) go_on = false;
      if (ready == 0 && !extended && header.result.phase == Phase::kTiming) {
        extended = true;
        deadline = Clock::system().seconds() + timeout;
        continue;
      }
      if (ready == 0) reply.timed_out = 1;
      kill(child, SIGKILL);
      break;
    }
    if (pidfd >= 0) close(pidfd);
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED) != 0 && errno == EINTR) {
    }
    reply.wait_code = info.si_code;
    reply.wait_status = info.si_status;
    return go_on;
  }

  int socket_;
  bool warm_ = false;
};

}  // namespace

int worker_main(int argc, char** argv) {
  constexpr int kSocket = 3;
  const std::span<char*> words(argv + 1, argv + argc);
  const std::string_view role = words.empty() ? "" : words[0];
  if (role == "--serve" && words.size() == 1) {
    prctl(PR_SET_NAME, "tcc-worker");
    signal(SIGINT, SIG_IGN);  // Ctrl-C is the coordinator's to handle; when it ends, the socket closes
    return Zygote(kSocket).serve();
  }
  if (role == "--device" && words.size() == 5)
    return serve_gpu(kSocket, {std::atoi(words[1]), words[2], words[3], std::string_view(words[4]) == "sandbox"});
  std::fputs("tcc-worker runs candidate programs for tcc, which starts it; it is of no use by itself\n", stderr);
  return 2;
}

}  // namespace tcc::measure
