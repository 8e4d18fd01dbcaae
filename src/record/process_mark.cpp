#include "record/process_mark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tcc::record {
namespace {

// Files of the system state no size, so they are read to their end. Empty when the file does not exist.
std::string read_system_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Field 22 of /proc/<pid>/stat, counted from behind the name, which may hold anything; 0: there is no such process, or
// only what is left of one that has ended.
int64_t start_of(int64_t pid) {
  const std::string stat = read_system_file(fmt::format("/proc/{}/stat", pid));
  const size_t close = stat.rfind(')');
  if (close == std::string::npos) return 0;
  std::istringstream fields(stat.substr(close + 1));
  std::string state, skipped;
  fields >> state;
  if (state == "Z" || state == "X") return 0;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  int64_t start = 0;
  fields >> start;
  return start;
}

std::string boot_id() {
  const std::string text = read_system_file("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

}  // namespace

ProcessMark own_mark() {
  std::error_code none;
  const std::string names = std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
  return {boot_id() + " " + names, getpid(), start_of(getpid())};
}

bool is_running(const ProcessMark& mark) {
  const ProcessMark mine = own_mark();
  if (mark.boot == mine.boot) return start_of(mark.pid) == mark.start && mark.start != 0;
  const std::string boot = mark.boot.substr(0, mark.boot.find(' '));
  return boot == mine.boot.substr(0, mine.boot.find(' '));
}

}  // namespace tcc::record
