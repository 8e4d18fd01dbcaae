#include "cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <new>
#include <string>
#include <thread>

#include "tcc/cli/cli.h"
#include "tcc/support/memory.h"
#include "tcc/support/text.h"
#include "tcc/support/truncated_files.h"

namespace tcc::cli {
namespace {

std::thread::id main_thread;
std::string command, memory_message;

void on_memory_exhausted() {
  if (std::this_thread::get_id() == main_thread && exceptions_may_pass()) throw std::bad_alloc();
  // Nothing above a pool's thread, and nothing in LLVM, could catch it. Records are on disk already.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, memory_message.data(), memory_message.size());
  _exit(kFailed);
}

}  // namespace

void prepare_process(int argc, char** argv) {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    close(fd);
    break;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  report_truncated_files();
  command = "`tcc";
  for (int i = 1; i < argc && i < 3; ++i) command += " " + sanitize(argv[i]);
  command += "`";
  memory_message = "tcc: error: out of memory in " + command + "\n  hint: " + kMemoryHint + "\n";
  main_thread = std::this_thread::get_id();
  std::set_new_handler(on_memory_exhausted);
}

const char* command_text() {
  return command.c_str();
}

}  // namespace tcc::cli
