#include "measure/worker_link.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "measure/shared_memory.h"
#include "tcc/support/files.h"

extern char** environ;

namespace tcc::measure {
namespace {

constexpr const char* kWorkerName = "tcc-worker";
constexpr int kSocketOfWorker = 3;

std::string folder_of_executable() {
  std::string path(4096, 0);
  ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string ending_text(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "";
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  return fmt::format("signal {} ({})", signal, name ? name : "unknown");
}

}  // namespace

Result<std::string> find_worker(const std::string& path) {
  std::string worker = path.empty() ? folder_of_executable() + "/" + kWorkerName : path;
  if (access(worker.c_str(), X_OK) == 0) return worker;
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("cannot measure: the worker '{}' cannot be run: {}", worker, std::strerror(errno)),
                    "build or install tcc-worker beside tcc");
}

Result<void> WorkerLink::start(const std::string& worker, const std::vector<std::string>& arguments, double seconds) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return environment_error("cannot start the measuring process: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kSocketOfWorker);
  std::vector<char*> argv = {const_cast<char*>(kWorkerName)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int code = posix_spawn(&pid_, worker.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  ending_.clear();
  if (code != 0) {
    pid_ = -1;
    stop();
    return environment_error("cannot start the measuring process '{}': {}", worker, std::strerror(code));
  }
  Hello hello{0, 0};
  bool spoke = wait(seconds) && receive(&hello, sizeof hello) == sizeof hello;
  if (spoke && hello.magic == kMagic && hello.protocol == kProtocol) return {};
  stop();
  if (spoke)
    return make_error(ErrorClass::kEnvironment, fmt::format("the worker '{}' is of another version of tcc", worker),
                      "build or install tcc and tcc-worker together");
  return make_error(ErrorClass::kEnvironment, fmt::format("the worker '{}' started but did not answer", worker),
                    "run it by hand to see why");
}

bool WorkerLink::reap() {
  int status = 0;
  pid_t got = 0;
  do got = waitpid(pid_, &status, WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  if (got == pid_) ending_ = ending_text(status);
  pid_ = -1;
  return true;
}

void WorkerLink::stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (pid_ < 0) return;
  // It ends by itself when the socket closes; a stopped or stuck one is not waited for.
  for (int i = 0; i < 100; ++i) {
    if (reap()) return;
    usleep(i < 10 ? 1000 : 10000);
  }
  end();
}

void WorkerLink::end() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  // A process inside a driver call that does not return is ended by the system when the call does.
  for (int i = 0; i < 500; ++i) {
    if (reap()) return;
    usleep(10000);
  }
  ending_.clear();
  pid_ = -1;
}

bool WorkerLink::send_job(const JobMessage& message, int job_fd, int task_fd) {
  JobMessage copy = message;
  iovec data{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  int fds[2] = {job_fd, task_fd};
  std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
  return socket_ >= 0 && sendmsg(socket_, &header, MSG_NOSIGNAL) == sizeof copy;
}

bool WorkerLink::wait(double seconds) const {
  Stopwatch watch;
  while (true) {
    pollfd wait{socket_, POLLIN, 0};
    double left = std::max(seconds - watch.seconds(), 0.0);
    int ready = poll(&wait, 1, static_cast<int>(std::ceil(left * 1e3)));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

int64_t WorkerLink::receive(void* data, size_t size) const {
  ssize_t got = 0;
  do got = recv(socket_, data, size, 0);
  while (got < 0 && errno == EINTR);
  return got;
}

namespace {

// False: the coordinator is gone.
bool receive_job(int socket, JobMessage& message, int fds[2]) {
  iovec data{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (got != sizeof message || message.magic != kMagic || !rights || rights->cmsg_len != CMSG_LEN(2 * sizeof(int)))
    return false;
  std::memcpy(fds, CMSG_DATA(rights), 2 * sizeof(int));
  return true;
}

}  // namespace

void serve_jobs(int socket, const std::function<bool(const JobMessage& message, JobHeader& job, const std::byte* task,
                                                     ReplyMessage& reply)>& run) {
  JobMessage message;
  int fds[2];
  while (receive_job(socket, message, fds)) {
    ReplyMessage reply;
    reply.job = message.job;
    auto job = SharedMemory::adopt(fds[0], message.job_bytes, true);
    auto task = SharedMemory::adopt(fds[1], message.task_bytes, false);
    if (!job || !task)
      reply.error = ENOMEM;
    else if (!run(message, *reinterpret_cast<JobHeader*>(job->data()), task->data(), reply))
      return;
    if (send(socket, &reply, sizeof reply, MSG_NOSIGNAL) != sizeof reply) return;
  }
}

}  // namespace tcc::measure
