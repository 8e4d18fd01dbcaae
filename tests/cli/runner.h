// Runs the tcc binary as a user does.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tcc/support/files.h"

namespace cli_test {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;  // -signal when a signal ended it
  std::string out, err;
};

inline std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void spill(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A folder of its own, which is also where the records go.
class Sandbox {
 public:
  Sandbox() {
    auto made = tcc::TemporaryDirectory::create("tcc-cli-test-");
    REQUIRE(made.has_value());
    folder_ = std::move(*made);
  }
  fs::path path(const std::string& name = "") const { return fs::path(folder_->path()) / name; }
  std::string str(const std::string& name) const { return path(name).string(); }

  // Starts a program (by path or name) in the background, its output going to files.
  pid_t start(const std::vector<std::string>& words) const {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, str("stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, str("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addchdir_np(&actions, folder_->path().c_str());
    const pid_t pid = spawn(words, {}, actions, nullptr);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  // The environment of programs, with further settings as NAME=VALUE.
  pid_t spawn(const std::vector<std::string>& words, const std::vector<std::string>& further,
              const posix_spawn_file_actions_t& actions, const posix_spawnattr_t* attributes) const {
    std::vector<std::string> settings = {"XDG_DATA_HOME=" + str("data"), "LC_ALL=C",
                                         "PATH=" + std::string(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin")};
    for (const char* kept : {"TMPDIR", "ASAN_OPTIONS", "TSAN_OPTIONS"})
      if (const char* value = getenv(kept)) settings.push_back(std::string(kept) + "=" + value);
    settings.insert(settings.end(), further.begin(), further.end());
    std::vector<char*> argv, envp;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& setting : settings) envp.push_back(const_cast<char*>(setting.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_t pid = -1;
    REQUIRE(posix_spawnp(&pid, argv[0], &actions, attributes, argv.data(), envp.data()) == 0);
    return pid;
  }
  Outcome wait(pid_t pid) const {
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    Outcome outcome;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    outcome.out = slurp(path("stdout"));
    outcome.err = slurp(path("stderr"));
    return outcome;
  }
  Outcome run(const std::vector<std::string>& words) const { return wait(start(words)); }
  Outcome tcc(std::vector<std::string> words) const {
    words.insert(words.begin(), std::string(TCC_BINARY_DIR) + "/tools/tcc");
    return run(words);
  }

 private:
  std::unique_ptr<tcc::TemporaryDirectory> folder_;
};

}  // namespace cli_test
