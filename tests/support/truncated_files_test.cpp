#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tcc/support/files.h"
#include "tcc/support/truncated_files.h"

using namespace tcc;

namespace {

constexpr int64_t kLarge = int64_t{65} << 20;  // more than is copied

struct Ended {
  int status = 0;
  std::string said;  // on stderr
};

// A process of its own opens `path` and reads all of it after the file has lost its end.
Ended read_truncated(const std::string& path, const std::string& folder) {
  const std::string said = folder + "/said";
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(::open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    report_truncated_files();
    auto file = MappedFile::open(path);
    if (!file || truncate(path.c_str(), 1) != 0) _exit(90);
    unsigned sum = 0;
    for (std::byte b : (*file)->bytes()) sum += static_cast<unsigned>(b);
    _exit(sum == 0 ? 0 : 91);
  }
  Ended ended;
  REQUIRE(waitpid(pid, &ended.status, 0) == pid);
  ended.said = read_file(said).value();
  return ended;
}

}  // namespace

TEST_CASE("a mapped file that loses its end is named, and the process ends with status 1") {
  auto folder = TemporaryDirectory::create("tcc-support-").value();
  const std::string path = folder->path() + "/weights.bin";
  REQUIRE(write_file(path, ""));
  REQUIRE(truncate(path.c_str(), kLarge) == 0);
  const Ended ended = read_truncated(path, folder->path());
  CAPTURE(ended.status, ended.said);
  REQUIRE(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 1);
  CHECK_THAT(ended.said, Catch::Contains("tcc: error: ") && Catch::Contains(path) && Catch::Contains("truncated"));
}

TEST_CASE("a small file is as it was when it was opened, whatever becomes of it") {
  auto folder = TemporaryDirectory::create("tcc-support-").value();
  const std::string path = folder->path() + "/weights.bin";
  REQUIRE(write_file(path, std::string(100000, '\0')));
  const Ended ended = read_truncated(path, folder->path());
  CAPTURE(ended.said);
  REQUIRE(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 0);
  CHECK(ended.said.empty());
}

TEST_CASE("many mapped files at once, and again after they are gone") {
  auto folder = TemporaryDirectory::create("tcc-support-").value();
  const std::string path = folder->path() + "/weights.bin";
  REQUIRE(write_file(path, ""));
  REQUIRE(truncate(path.c_str(), kLarge) == 0);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<MappedFile>> files;
    for (int i = 0; i < 300; ++i) {  // more than the handler of the signal knows
      auto file = MappedFile::open(path);
      REQUIRE(file.has_value());
      CHECK((*file)->bytes().size() == static_cast<size_t>(kLarge));
      files.push_back(*file);
    }
  }
}
