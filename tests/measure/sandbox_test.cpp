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
int in_sandbox(const std::function<int()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(measure::enter_sandbox() ? body() : 99);
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
