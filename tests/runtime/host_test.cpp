#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

#include "tcc/runtime/guarded_buffer.h"
#include "tcc/runtime/host_kernel.h"

using namespace tcc;
using namespace tcc::runtime;

namespace {

// The signal that ends a child which runs `body`; 0 when none does.
template <class F>
int signal_of(F&& body) {
  pid_t child = fork();
  if (child == 0) {
    // Catch2's handlers would turn the signal into a report.
    for (int s : {SIGSEGV, SIGBUS}) signal(s, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("guarded buffers end at a page that faults", "[unit]") {
  for (int64_t bytes : {0, 1, 64, 4096, 5000 * 4, 1 << 20}) {
    auto buffer = GuardedBuffer::allocate(bytes).value();
    CAPTURE(bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0);
    buffer.fill(7);
    CHECK(buffer.margins_intact());
    volatile std::byte* data = buffer.data();
    CHECK(signal_of([&] { data[(bytes + 63) / 64 * 64] = std::byte{1}; }) == SIGSEGV);
    CHECK(signal_of([&] { data[-8192] = std::byte{1}; }) == SIGSEGV);
    CHECK(buffer.owns(buffer.data() + bytes + 100));
    CHECK_FALSE(buffer.owns(&bytes));
    if (bytes % 64 != 0) {
      data[bytes] = std::byte{1};
      CHECK_FALSE(buffer.margins_intact());
    }
  }
  auto huge = GuardedBuffer::allocate(int64_t{1} << 60);
  REQUIRE_FALSE(huge.has_value());
  CHECK_THAT(huge.error().message, Catch::Contains("cannot get"));
  CHECK(reinterpret_cast<uintptr_t>(GuardedBuffer::allocate(10, 1 << 16).value().data()) % (1 << 16) == 0);
}

TEST_CASE("protected buffers can be read only", "[unit]") {
  auto buffer = GuardedBuffer::allocate(100).value();
  buffer.fill(3);
  volatile std::byte* data = buffer.data();
  REQUIRE(buffer.protect());
  CHECK(data[99] == std::byte{3});
  CHECK(signal_of([&] { data[0] = std::byte{1}; }) == SIGSEGV);
  REQUIRE(buffer.unprotect());
  data[0] = std::byte{1};
  CHECK(data[0] == std::byte{1});
}

TEST_CASE("objects that do not load are errors", "[errors]") {
  auto pool = HostPool::create(1).value();
  CHECK(pool->threads() == 1);
  codegen::Artifact artifact;
  artifact.code = "not an object";
  artifact.launches.push_back({"tcc_kernel_0"});
  CHECK_FALSE(HostKernel::load(artifact, pool).has_value());
}
