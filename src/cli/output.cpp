#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "tcc/cli/cli.h"
#include "tcc/support/text.h"

namespace tcc::cli {

namespace {
constexpr size_t kMaxPrinted = 20000;  // characters of a line

using Json = nlohmann::ordered_json;

OutputMode mode_of_output;
std::string failure_of_output;
std::mutex stderr_mutex;
bool status_shown = false;
bool document_printed = false;  // of JSON, which tells the failures that it is about itself

// Names and texts of files are part of what is printed: what a terminal would obey is escaped, line breaks stay.
std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += '\n';
    out += sanitize(text.substr(at, end - at), kMaxPrinted);
    at = end + 1;
  }
  return out;
}

constexpr const char* kEraseLine = "\r\x1b[K";

// With `stderr_mutex` held.
void erase_status() {
  if (status_shown) std::fputs(kEraseLine, stderr);
  status_shown = false;
}

// Folded to the terminal; the first `head` characters in the style.
void print_to_stderr(const std::string& text, Style style, size_t head) {
  const std::lock_guard lock(stderr_mutex);
  erase_status();
  const std::string lines = fold_text(printable(text), terminal_width(STDERR_FILENO));
  std::fputs((styled(STDERR_FILENO, style, lines.substr(0, head)) + lines.substr(std::min(head, lines.size()))).c_str(),
             stderr);
  std::fflush(stderr);
}

Json with_schema(const Json& json) {
  if (!json.is_object() || json.contains("schema_version")) return json;
  Json whole = {{"schema_version", kJsonSchema}};
  whole.update(json);
  return whole;
}

const char* class_name(ErrorClass cls) {
  return cls == ErrorClass::kUsage ? "usage" : cls == ErrorClass::kEnvironment ? "environment" : "input";
}
}  // namespace

void set_output_mode(const OutputMode& mode) {
  mode_of_output = mode;
}
size_t output_width() {
  return mode_of_output.wide ? 0 : terminal_width(STDOUT_FILENO);
}

int exit_status(ErrorClass cls) {
  return cls == ErrorClass::kUsage ? kUsage : kFailed;
}
void print_error(const Error& error, int status) {
  const std::string head = "tcc: error:";
  std::string text = fmt::format("{} {}\n", head, error.message);
  for (const std::string& note : error.notes) text += fmt::format("  {}\n", note);
  if (!error.hint.empty()) text += fmt::format("  hint: {}\n", error.hint);
  print_to_stderr(text, Style::kError, head.size());
  if (mode_of_output.json && !document_printed)
    print_json_line({{"event", "error"},
                     {"class", class_name(error.cls)},
                     {"message", error.message},
                     {"notes", error.notes},
                     {"hint", error.hint},
                     {"exit_status", status}});
}

void print_warning(const std::string& text) {
  const std::string head = "tcc: warning:";
  print_to_stderr(fmt::format("{} {}\n", head, text), Style::kWarning, head.size());
}

void remark(bool quiet, const std::string& text) {
  if (!quiet) print_to_stderr(text + "\n", Style::kNote, text.starts_with("note:") ? 5 : 0);
}

void show_status(const std::string& line) {
  const std::lock_guard lock(stderr_mutex);
  const size_t width = terminal_width(STDERR_FILENO);
  // The last column stays free, and the terminal is told not to wrap: it may have become narrower meanwhile.
  std::fputs(
      fmt::format("{}\x1b[?7l{}\x1b[?7h", kEraseLine, cut_text(printable(line), width > 0 ? width - 1 : 0)).c_str(),
      stderr);
  std::fflush(stderr);
  status_shown = true;
}

void clear_status() {
  const std::lock_guard lock(stderr_mutex);
  if (!status_shown) return;
  erase_status();
  std::fflush(stderr);
}

int print_exact(const std::string& text) {
  if (isatty(STDOUT_FILENO) == 1) clear_status();
  errno = 0;
  bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  written = std::fflush(stdout) == 0 && written;
  if (!written && errno != EPIPE && failure_of_output.empty()) failure_of_output = std::strerror(errno);
  return kOk;
}
int print(const std::string& text) {
  return print_exact(fold_text(text, output_width()));
}
int print_json(const nlohmann::ordered_json& json) {
  document_printed = true;
  return print_exact(with_schema(json).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}
int print_json_line(const nlohmann::ordered_json& json) {
  return print_exact(with_schema(json).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}
const std::string& output_failure() {
  return failure_of_output;
}

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}
std::string format_seconds(double seconds) {
  return seconds > 0 ? format_duration(seconds) : "-";
}
std::string format_time(double seconds, bool disturbed) {
  return format_seconds(seconds) + (disturbed ? " ~" : "");
}

std::string disturbed_legend(bool any) {
  return any ? "~ other programs disturbed this time\n" : "";
}

std::string format_gflops(double flops, double seconds) {
  return flops > 0 && seconds > 0 ? fmt::format("{:.1f}", flops / seconds / 1e9) : "-";
}
std::string format_ratio(double slow, double fast) {
  return slow > 0 && fast > 0 ? fmt::format("{:.1f}x", slow / fast) : "-";
}

std::string format_elapsed(double seconds) {
  auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

namespace {

std::string format_utc(int64_t unix_time, const char* format) {
  const std::time_t time = unix_time;
  std::tm parts{};
  char text[32] = {};
  gmtime_r(&time, &parts);
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

}  // namespace

std::string format_day(int64_t unix_time) {
  return format_utc(unix_time, "%Y-%m-%d");
}

std::string format_minute(int64_t unix_time) {
  return format_utc(unix_time, "%Y-%m-%d %H:%M");
}

std::string plural(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tcc::cli
