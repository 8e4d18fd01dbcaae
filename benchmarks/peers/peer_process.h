// A peer as a child process on given cores, spoken to line by line (see peer.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::benchmarks {

class PeerProcess {
 public:
  // Starts command[0] with the rest as arguments, held to `cpus` (empty: those of this process). The child dies with
  // this process. A program that cannot be started shows at the first ask().
  static Result<std::unique_ptr<PeerProcess>> start(const std::vector<std::string>& command,
                                                    const std::vector<int>& cpus);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // One line there, one line of JSON back; between the calls the peer is stopped. Errors: the peer died or is silent
  // for `timeout` seconds (it is ended then), answers something else, or answers {"error": ...}.
  Result<nlohmann::json> ask(const std::string& line, double timeout);
  pid_t pid() const { return pid_; }

 private:
  PeerProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  // Ends the child and says how it ended.
  std::string finish();
  pid_t pid_ = -1;  // -1: has been waited for
  int fd_ = -1;
  std::string received_, ended_;
};

}  // namespace tcc::benchmarks
