// The zygote: single-threaded, holds LLVM and one warm-up link, forks a child for each job and watches it. It reads
// the coordinator's messages. Of the child's memory it reads the phase alone.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "measure/cuda/worker.h"
#include "measure/host/child.h"
#include "measure/shared_memory.h"
#include "measure/wire.h"
#include "measure/worker_link.h"
#include "tcc/codegen/llvm.h"
#include "tcc/measure/host.h"

namespace tcc::measure {
namespace {

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class Zygote {
 public:
  explicit Zygote(int socket) : socket_(socket) {}

  int serve() {
    Hello hello;
    if (send(socket_, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return 1;
    JobMessage message;
    int fds[2];
    while (receive_job(socket_, message, fds)) {
      if (!handle(message, fds[0], fds[1])) return 0;
    }
    return 0;
  }

 private:
  bool handle(const JobMessage& message, int job_fd, int task_fd) {
    ReplyMessage reply;
    reply.job = message.job;
    auto job = SharedMemory::adopt(job_fd, message.job_bytes, true);
    auto task = SharedMemory::adopt(task_fd, message.task_bytes, false);
    if (!job || !task) {
      reply.error = ENOMEM;
      return answer(reply);
    }
    auto* header = reinterpret_cast<JobHeader*>(job->data());
    warm_up(*header);
    pid_t child = fork();
    if (child == 0) {
      close(socket_);
      run_child(header, task->data());
      _exit(0);
    }
    if (child < 0) {
      reply.error = errno;
      return answer(reply);
    }
    reply.started = 1;
    bool go_on = watch(child, *header, message.timeout_seconds, reply);
    return go_on && answer(reply);
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
    double deadline = now() + timeout;
    bool extended = false, go_on = true;
    while (pidfd >= 0) {
      pollfd wait[2] = {{pidfd, POLLIN, 0}, {socket_, POLLRDHUP, 0}};
      double left = deadline - now();
      int ready = left > 0 ? poll(wait, 2, static_cast<int>(std::ceil(left * 1e3))) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready > 0 && (wait[0].revents & POLLIN)) break;
      if (ready > 0) go_on = false;
      if (ready == 0 && !extended && header.result.phase == Phase::kTiming) {
        extended = true;
        deadline = now() + timeout;
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

  bool answer(const ReplyMessage& reply) { return send(socket_, &reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply; }

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
  if (role == "--device" && words.size() == 4) return serve_gpu(kSocket, std::atoi(words[1]), words[2], words[3]);
  std::fputs("tcc-worker runs candidate programs for tcc, which starts it; it is of no use by itself\n", stderr);
  return 2;
}

}  // namespace tcc::measure
