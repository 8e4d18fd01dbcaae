#include "measure/channel.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>

#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/target/target.h"

extern char** environ;

namespace tcc::measure {
namespace {

constexpr const char* kWorkerName = "tcc-worker";
constexpr double kStartSeconds = 30;
constexpr double kSlackSeconds = 30;  // for fork, link and kill, beyond the job's own limits

std::string folder_of_executable() {
  std::string path(4096, 0);
  ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool wait_readable(int fd, double seconds) {
  Stopwatch watch;
  while (true) {
    pollfd wait{fd, POLLIN, 0};
    double left = std::max(seconds - watch.seconds(), 0.0);
    int ready = poll(&wait, 1, static_cast<int>(std::ceil(left * 1e3)));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

}  // namespace

bool FinishedJob::exited() const {
  return reply.wait_code == CLD_EXITED && reply.wait_status == 0;
}

Result<std::unique_ptr<IsolatedHostMeasurer::Channel>> IsolatedHostMeasurer::Channel::open(
    const HostMeasureOptions& options) {
  std::unique_ptr<Channel> channel(new Channel(options));
  channel->worker_ = options.worker_path.empty() ? folder_of_executable() + "/" + kWorkerName : options.worker_path;
  if (access(channel->worker_.c_str(), X_OK) != 0)
    return make_error(
        ErrorClass::kEnvironment,
        fmt::format("cannot measure: the worker '{}' cannot be run: {}", channel->worker_, std::strerror(errno)),
        "build or install tcc-worker beside tcc, or name it with its path");
  TCC_TRY_VOID(channel->choose_cpus());
  TCC_TRY_VOID(channel->start());
  return channel;
}

IsolatedHostMeasurer::Channel::~Channel() {
  stop();
}

Result<void> IsolatedHostMeasurer::Channel::choose_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return environment_error("cannot read this process's CPUs: {}", std::strerror(errno));
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) all.push_back(cpu);
  for (int cpu : options_.cpus) {
    if (std::find(all.begin(), all.end(), cpu) == all.end()) {
      notes_.push_back(fmt::format("CPU {} may not be used by this process; measuring goes on without it", cpu));
    } else {
      cpus_.push_back(cpu);
    }
  }
  if (!options_.cpus.empty() && cpus_.empty())
    return make_error(ErrorClass::kEnvironment, "none of the CPUs asked for measuring may be used by this process",
                      "name CPUs of the process's affinity mask");
  if (options_.cpus.empty()) cpus_ = all;
  constexpr size_t kMost = std::tuple_size_v<decltype(JobHeader::cpus)>;
  if (cpus_.size() > kMost) {
    notes_.push_back(fmt::format("measuring uses the first {} CPUs only", kMost));
    cpus_.resize(kMost);
  }
  if (options_.threads > static_cast<int>(cpus_.size()))
    notes_.push_back(fmt::format("{} threads are measured on {} CPUs: times will be those of a crowded machine",
                                 options_.threads, cpus_.size()));
  // Asking for the mask that is there already: a system that refuses this refuses every other one.
  bool may_bind = sched_setaffinity(0, sizeof allowed, &allowed) == 0;
  if (!may_bind)
    notes_.push_back(
        fmt::format("threads may not be bound to CPUs here ({}): programs are measured wherever the system puts them, "
                    "never while others compile, and times are less sure",
                    std::strerror(errno)));
  // A quota of CPU time counts as well: of two CPUs at half time one cannot measure while the other compiles.
  const target::Target host = target::host_target();
  const target::Target& device = options_.device ? *options_.device : host;
  device_ = std::make_shared<DeviceFacts>(
      DeviceFacts{target::isa_level_name(target::isa_level(device)), target::target_to_json(device)});
  bool spare = host.cpu.cores > threads();
  share_.divide(cpus_, threads(), may_bind && spare);
  return {};
}

Result<void> IsolatedHostMeasurer::Channel::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return environment_error("cannot start the measuring process: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
  char* const argv[] = {const_cast<char*>(kWorkerName), const_cast<char*>("--serve"), nullptr};
  int code = posix_spawn(&pid_, worker_.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  if (code != 0) {
    pid_ = -1;
    stop();
    return environment_error("cannot start the measuring process '{}': {}", worker_, std::strerror(code));
  }
  Hello hello{0, 0};
  bool spoke = wait_readable(socket_, kStartSeconds) && recv(socket_, &hello, sizeof hello, 0) == sizeof hello;
  if (spoke && hello.magic == kMagic && hello.protocol == kProtocol) return {};
  stop();
  if (spoke)
    return make_error(ErrorClass::kEnvironment, fmt::format("the worker '{}' is of another version of tcc", worker_),
                      "build or install tcc and tcc-worker together");
  return make_error(ErrorClass::kEnvironment, fmt::format("the worker '{}' started but did not answer", worker_),
                    "run it by hand to see why");
}

void IsolatedHostMeasurer::Channel::stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (pid_ < 0) return;
  // It ends by itself when the socket closes; a stopped or stuck one is not waited for.
  for (int i = 0; i < 100; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      return;
    }
    usleep(i < 10 ? 1000 : 10000);
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

double IsolatedHostMeasurer::Channel::best_of(uint64_t task) const {
  auto found = best_times_.find(task);
  return found == best_times_.end() ? 0 : found->second;
}

void IsolatedHostMeasurer::Channel::note_time(uint64_t task, double seconds) {
  auto [at, fresh] = best_times_.emplace(task, seconds);
  if (!fresh) at->second = std::min(at->second, seconds);
}

Result<SharedMemory> IsolatedHostMeasurer::Channel::make_job(const JobSpec& spec) {
  Writer writer;
  for (const codegen::Artifact* artifact : spec.artifacts) put_artifact(writer, *artifact);
  int64_t payload = page_up(static_cast<int64_t>(sizeof(JobHeader)));
  int64_t outputs = page_up(payload + static_cast<int64_t>(writer.bytes().size()));
  TCC_TRY(SharedMemory memory, SharedMemory::create("tcc-job", outputs + spec.output_bytes));
  auto* header = new (memory.data()) JobHeader{};
  header->kind = spec.kind;
  header->threads = spec.threads;
  const std::vector<int>& cpus = spec.kind == JobKind::kReference ? cpus_ : share_.measure_cpus();
  header->num_cpus = static_cast<int32_t>(cpus.size());
  std::copy(cpus.begin(), cpus.end(), header->cpus.begin());
  header->budget_seconds = spec.budget_seconds;
  header->patience_seconds = spec.patience_seconds;
  header->quiet = quiet_;
  header->best_seconds = spec.best_seconds;
  header->memory_limit_bytes = options_.memory_limit_bytes;
  header->cpu_limit_seconds = (2 * spec.timeout_seconds + kSlackSeconds) * spec.threads;
  header->payload_offset = payload;
  header->payload_bytes = static_cast<int64_t>(writer.bytes().size());
  header->num_artifacts = static_cast<int32_t>(spec.artifacts.size());
  header->outputs_offset = outputs;
  std::memcpy(memory.data() + payload, writer.bytes().data(), writer.bytes().size());
  return memory;
}

bool IsolatedHostMeasurer::Channel::exchange(const JobSpec& spec, const SharedMemory& job, ReplyMessage& reply) {
  JobMessage message;
  message.job = next_job_++;
  message.task = spec.task_id;
  message.job_bytes = job.bytes();
  message.task_bytes = spec.task->bytes();
  message.timeout_seconds = spec.timeout_seconds;
  iovec data{&message, sizeof message};
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
  int fds[2] = {job.fd(), spec.task->fd()};
  std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
  if (sendmsg(socket_, &header, MSG_NOSIGNAL) != sizeof message) return false;
  if (!wait_readable(socket_, 2 * spec.timeout_seconds + kSlackSeconds)) return false;
  return recv(socket_, &reply, sizeof reply, 0) == sizeof reply && reply.magic == kMagic && reply.job == message.job;
}

Result<FinishedJob> IsolatedHostMeasurer::Channel::run(const JobSpec& spec) {
  std::lock_guard lock(mutex_);
  FinishedJob finished;
  for (int attempt = 0; attempt < 2; ++attempt) {
    TCC_TRY(finished.memory, make_job(spec));
    if (socket_ >= 0 && exchange(spec, finished.memory, finished.reply)) {
      if (!finished.reply.started)
        return make_error(ErrorClass::kEnvironment,
                          fmt::format("cannot fork a measuring process: {}", std::strerror(finished.reply.error)),
                          "free memory, or raise the limit on processes");
      if (finished.exited()) quiet_.learn(finished.result().quiet);
      return finished;
    }
    stop();
    TCC_TRY_VOID(start());
    ++restarts_;
  }
  finished.worker_died = true;
  return finished;
}

}  // namespace tcc::measure
