// Runs the tcc binary on a pseudo-terminal, and shows what a terminal of that width does with its output.
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runner.h"

namespace cli_test {

// The part of a VT100 that the output uses: lines, wrapping, erasing, colors. One column a character.
class Screen {
 public:
  explicit Screen(size_t width) : width_(width), rows_(1) {}

  void feed(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size(); ++at) {
      const char c = bytes[at];
      if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        rows_.emplace_back();
      } else if (c == '\x1b' && at + 1 < bytes.size() && bytes[at + 1] == '[') {
        at = escape(bytes, at + 2);
      } else if (c == '\x1b') {
        other_escapes_ += 1;
      } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
        put(c);
      }
    }
  }
  // Characters that did not fit their line and went to the next one.
  size_t wraps() const { return wraps_; }
  size_t other_escapes() const { return other_escapes_; }
  bool colored() const { return colored_; }
  const std::vector<std::string>& rows() const { return rows_; }
  std::string text() const {
    std::string text;
    for (const std::string& row : rows_) text += row + "\n";
    return text;
  }

 private:
  void put(char c) {
    if (column_ == width_ && wrapping_) {
      ++wraps_;
      rows_.emplace_back();
      column_ = 0;
    }
    if (column_ == width_) --column_;
    std::string& row = rows_.back();
    if (row.size() <= column_) row.resize(column_ + 1, ' ');
    row[column_++] = c;
  }
  size_t escape(const std::string& bytes, size_t at) {
    std::string numbers;
    while (at < bytes.size() && (bytes[at] < '@' || bytes[at] > '~')) numbers += bytes[at++];
    const char what = at < bytes.size() ? bytes[at] : '?';
    if (what == 'K' && rows_.back().size() > column_) rows_.back().resize(column_);
    if (what == 'm') colored_ = true;
    if ((what == 'h' || what == 'l') && numbers == "?7") wrapping_ = what == 'h';
    if (std::string("Kmhl").find(what) == std::string::npos) ++other_escapes_;
    return at;
  }

  size_t width_, column_ = 0, wraps_ = 0, other_escapes_ = 0;
  bool wrapping_ = true, colored_ = false;
  std::vector<std::string> rows_;
};

struct TerminalRun {
  int exit_code = -1;
  std::string bytes;
};

// Standard input, output and error are a terminal of this width. `after` is called with the terminal's descriptor after
// each piece of output.
inline TerminalRun run_on_terminal(const Sandbox& box, std::vector<std::string> words, int width,
                                   const std::vector<std::string>& settings = {},
                                   const std::function<void(int)>& after = {}) {
  words.insert(words.begin(), std::string(TCC_BINARY_DIR) + "/tools/tcc");
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(master >= 0);
  REQUIRE(grantpt(master) == 0);
  REQUIRE(unlockpt(master) == 0);
  const winsize size{.ws_row = 50, .ws_col = static_cast<unsigned short>(width), .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(ioctl(master, TIOCSWINSZ, &size) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, ptsname(master), O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, 0, 1);
  posix_spawn_file_actions_adddup2(&actions, 0, 2);
  posix_spawn_file_actions_addchdir_np(&actions, box.path().c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::vector<std::string> further = settings;  // the first of a name counts
  further.insert(further.end(), {"TERM=xterm", "XDG_CACHE_HOME=" + box.str("cache")});
  const pid_t pid = box.spawn(words, further, actions, &attributes);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  TerminalRun run;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(master, buffer, sizeof buffer)) > 0;) {
    run.bytes.append(buffer, static_cast<size_t>(got));
    if (after) after(master);
  }
  close(master);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return run;
}

}  // namespace cli_test
