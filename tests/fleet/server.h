// A NATS server for tests, in a folder of its own, on a free port of the loopback.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "tcc/fleet/bus.h"
#include "tcc/fleet/server.h"
#include "tcc/support/files.h"

namespace fleet_test {

using namespace tcc;

// Why fleets cannot be tested here; "": they can.
inline std::string why_no_fleet() {
  if (!fleet::fleet_available()) return "this build has no client of NATS (libnats-dev)";
  for (const char* program : {"/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/usr/bin/nats-server"})
    if (access(program, X_OK) == 0) return "";
  return "nats-server is not installed";
}

inline int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return ntohs(address.sin_port);
}

class Server {
 public:
  explicit Server(fleet::ServerOptions options = {}) {
    auto made = TemporaryDirectory::create("tcc-fleet-test-");
    REQUIRE(made.has_value());
    folder_ = std::move(*made);
    options_ = std::move(options);
    options_.folder = folder_->path() + "/fleet", options_.port = free_port();
    write();
    start();
  }
  ~Server() { stop(SIGKILL); }

  void write() {
    const Result<void> written = fleet::write_server_files(options_);
    if (!written) FAIL(written.error().message);
  }
  // With another configuration than the one of write_server_files(): all but the address.
  void start_with(const std::string& configuration) {
    const std::string path = folder_->path() + "/other.conf";
    const std::string address = fmt::format("listen: \"127.0.0.1:{}\"\n", options_.port);
    REQUIRE(write_file(path, address + configuration));
    start({"nats-server", "-c", path});
  }
  std::string store_folder() const { return options_.folder + "/store"; }
  void start(std::vector<std::string> words = {}) {
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      const int null = open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
      if (words.empty()) {
        fleet::run_server(options_.folder);
      } else {
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        execvp("/usr/sbin/nats-server", argv.data());
      }
      _exit(127);
    }
    for (int i = 0; i < 200; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(options_.port));
      const bool there = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      close(fd);
      if (there) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL("the server did not start");
  }
  void stop(int signal = SIGTERM) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  std::string url(const char* scheme = "nats", const char* host = "127.0.0.1") const {
    return fmt::format("{}://{}:{}", scheme, host, options_.port);
  }
  std::string secrets(const std::string& role) const { return options_.folder + "/" + role + ".secrets"; }
  fleet::Access access(const std::string& role) const {
    fleet::Access access;
    access.url = url();
    const Result<void> read = fleet::read_secrets(secrets(role), access);
    if (!read) FAIL(read.error().message);
    return access;
  }
  std::shared_ptr<fleet::Bus> connect_as(const std::string& role, double patience = 5) const {
    fleet::Access as = access(role);
    as.patience = patience;
    auto bus = fleet::Bus::connect(as, "test");
    if (!bus) FAIL(bus.error().message + "; " + bus.error().hint);
    return *bus;
  }
  const std::string& folder() const { return options_.folder; }
  int64_t port() const { return options_.port; }

 private:
  std::unique_ptr<TemporaryDirectory> folder_;
  fleet::ServerOptions options_;
  pid_t pid_ = -1;
};

}  // namespace fleet_test
