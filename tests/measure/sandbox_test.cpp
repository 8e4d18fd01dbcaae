// What a sandboxed process may and may not do, each tried in a child.
#include "measure/host/sandbox.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <thread>

#include "skip.h"

using namespace tcc;

namespace {

// A child enters the sandbox and runs `body`. Returns its exit status; 99: the system has no filters.
int in_sandbox(const std::function<int()>& body, const std::function<bool()>& enter = measure::enter_sandbox) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(enter() ? body() : 99);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a sandboxed process computes, with threads and memory, and reaches nothing else") {
  const int computes = in_sandbox([] {
    int sum = 0;
    std::thread thread([&] {
      std::vector<int> numbers(1 << 20, 1);
      for (const int n : numbers) sum += n;
    });
    thread.join();
    const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    return sum == 1 << 20 && fd >= 0 ? 0 : 1;
  });
  if (computes == 99) SKIP("the system has no seccomp filters");
  CHECK(computes == 0);
  const auto refused = [](int result) { return result == -1 && errno == EPERM ? 0 : 1; };
  CHECK(in_sandbox([&] { return refused(socket(AF_INET, SOCK_STREAM, 0)); }) == 0);
  CHECK(in_sandbox([&] { return refused(socket(AF_UNIX, SOCK_STREAM, 0)); }) == 0);
  CHECK(in_sandbox([&] { return refused(fork()); }) == 0);
  CHECK(in_sandbox([&] { return refused(execl("/bin/true", "true", nullptr)); }) == 0);
  CHECK(in_sandbox([&] { return refused(open("/tmp/tcc-sandbox", O_WRONLY | O_CREAT, 0600)); }) == 0);
  CHECK(in_sandbox([&] { return refused(unlink("/tmp/tcc-sandbox")); }) == 0);
}

TEST_CASE("a sandboxed process with a device answers on its socket, and reaches nothing else") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  const auto enter = [&] { return measure::enter_device_sandbox(ends[0]); };
  const auto sends = [&](int fd) { return send(fd, "x", 1, MSG_NOSIGNAL) == 1 ? 0 : errno == EPERM ? 1 : 2; };
  const int answers = in_sandbox([&] { return sends(ends[0]); }, enter);
  if (answers == 99) SKIP("the system has no seccomp filters");
  CHECK(answers == 0);
  const auto refused = [](int result) { return result == -1 && errno == EPERM ? 0 : 1; };
  CHECK(in_sandbox([&] { return sends(ends[1]); }, enter) == 1);  // another socket
  const int devices = in_sandbox(
      [] {
        const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        return fd >= 0 && write(fd, "x", 1) == 1 ? 0 : 1;
      },
      enter);
  CHECK(devices == 0);
  CHECK(in_sandbox([&] { return refused(socket(AF_INET, SOCK_STREAM, 0)); }, enter) == 0);
  CHECK(in_sandbox([&] { return refused(fork()); }, enter) == 0);
  CHECK(in_sandbox([&] { return refused(execl("/bin/true", "true", nullptr)); }, enter) == 0);
  CHECK(in_sandbox([&] { return refused(open("/tmp/tcc-sandbox", O_WRONLY | O_CREAT, 0600)); }, enter) == 0);
  CHECK(in_sandbox([&] { return refused(open("/tmp", O_RDWR | O_TMPFILE, 0600)); }, enter) == 0);
  CHECK(in_sandbox([&] { return refused(unlink("/tmp/tcc-sandbox")); }, enter) == 0);
  close(ends[0]), close(ends[1]);
}
