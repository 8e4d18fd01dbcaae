#include "tcc/support/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tcc/support/files.h"

namespace tcc {

Result<ProgramRun> run_program(const std::vector<std::string>& command, const std::string& scratch) {
  std::string log = scratch + "/messages.txt";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ProgramRun ran;
  if (error == ENOENT) return ran;
  if (error != 0) return environment_error("cannot run {}: {}", command[0], std::strerror(error));
  ran.started = true;
  while (waitpid(pid, &ran.status, 0) < 0 && errno == EINTR) {
  }
  if (auto text = read_file(log, uint64_t{1} << 20)) ran.text = *text;
  return ran;
}

}  // namespace tcc
