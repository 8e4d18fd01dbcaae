#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tcc/cli/cli.h"
#include "tcc/support/text.h"

namespace tcc::cli {

namespace {
constexpr size_t kMaxPrinted = 20000;  // characters of a line

std::string failure_of_output;

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
}  // namespace

void print_error(const Error& error) {
  std::string text = fmt::format("tcc: error: {}\n", error.message);
  for (const std::string& note : error.notes) text += fmt::format("  {}\n", note);
  if (!error.hint.empty()) text += fmt::format("  hint: {}\n", error.hint);
  std::fputs(printable(text).c_str(), stderr);
}

void print_warning(const std::string& text) {
  std::fputs(printable(fmt::format("tcc: warning: {}\n", text)).c_str(), stderr);
}

void remark(bool quiet, const std::string& text) {
  if (!quiet) std::fputs(printable(text + "\n").c_str(), stderr);
}

int print(const std::string& text) {
  errno = 0;
  bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  written = std::fflush(stdout) == 0 && written;
  if (!written && errno != EPIPE && failure_of_output.empty()) failure_of_output = std::strerror(errno);
  return kOk;
}
int print_json(const nlohmann::ordered_json& json) {
  return print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}
int print_json_line(const nlohmann::ordered_json& json) {
  return print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}
const std::string& output_failure() {
  return failure_of_output;
}

std::string format_table(std::vector<std::vector<std::string>> rows, size_t left) {
  std::vector<size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = sanitize(cell, kMaxPrinted);
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
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

std::string plural(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tcc::cli
