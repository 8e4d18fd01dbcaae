// A worker process and the socket to it: starting, ending, messages with descriptors. Both kinds of workers use it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "measure/wire.h"
#include "tcc/support/result.h"

namespace tcc::measure {

// `path`, or where it is empty `tcc-worker` beside the running executable. Error: it cannot be run.
Result<std::string> find_worker(const std::string& path);

class WorkerLink {
 public:
  WorkerLink() = default;
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;
  ~WorkerLink() { stop(); }

  // Starts the worker with the socket as descriptor 3 and waits for its greeting, `seconds` at most. Errors: it does
  // not start, is silent, or is of another version.
  Result<void> start(const std::string& worker, const std::vector<std::string>& arguments, double seconds);
  // Closes the socket, at which a worker ends by itself; one that does not is killed.
  void stop();
  // Ends it at once, whatever it is doing. A process that the system cannot end yet is left to the system.
  void end();

  bool running() const { return socket_ >= 0; }
  int pid() const { return pid_; }
  // How it ended, known after stop() or end(): "signal 11 (SEGV)", "exit code 3", or "" where nothing is known.
  const std::string& ending() const { return ending_; }

  // False: the worker is gone.
  bool send_job(const JobMessage& message, int job_fd, int task_fd);
  // True: there is something to read, or the worker is gone.
  bool wait(double seconds) const;
  // One message of at most `size` bytes: its length; 0 or less: the worker is gone.
  int64_t receive(void* data, size_t size) const;

 private:
  // True: the process has ended and is waited for.
  bool reap();

  int pid_ = -1;
  int socket_ = -1;
  std::string ending_;
};

// The worker's side. Runs each job that comes over the socket and answers, until the coordinator is gone or `run`
// returns false, which answers nothing. `run` fills the reply.
void serve_jobs(int socket, const std::function<bool(const JobMessage& message, JobHeader& job, const std::byte* task,
                                                     ReplyMessage& reply)>& run);

}  // namespace tcc::measure
