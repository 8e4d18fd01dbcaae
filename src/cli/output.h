// Text for people: errors, remarks, a status line, numbers; and JSON.
//
// On a terminal, lines are folded to its width and may have colors. Elsewhere they are as long as they are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::cli {

// What --json and --wide say of all output. Set once, when the command line is known.
struct OutputMode {
  bool json = false;  // errors are also written to stdout, as JSON
  bool wide = false;  // text on stdout is as wide as it is, also on a terminal
};
void set_output_mode(const OutputMode& mode);
// Columns for text on stdout, as its terminal is now; 0: as many as the text has.
size_t output_width();

// "tcc: error: ..." with hint and notes, to stderr; with --json also an event "error" on stdout. What goes to stderr is
// escaped: control characters in names and texts of files do not reach the terminal.
void print_error(const Error& error, int exit_status);
// The status that an error of this class ends with.
int exit_status(ErrorClass cls);
void print_warning(const std::string& text);
// To stderr, unless quiet.
void remark(bool quiet, const std::string& text);

// One line at the end of a terminal that is stderr: it replaces the one before, is cut to the terminal's width, and
// never scrolls. What is printed otherwise erases it first.
void show_status(const std::string& line);
void clear_status();

// To stdout. A reader that has gone away is not an error. Returns kOk, with which most commands end then.
int print(const std::string& text);
// The same for text that is copied or read by programs: no line is folded.
int print_exact(const std::string& text);
// A JSON document. An object gets the member "schema_version" (docs/json.md) in front; bytes that are not UTF-8 are
// replaced.
constexpr int kJsonSchema = 1;
int print_json(const nlohmann::ordered_json& json);
// The same on one line, as an event of a stream.
int print_json_line(const nlohmann::ordered_json& json);
// Why results could not be written to stdout; "" when they could.
const std::string& output_failure();

std::string single_quoted(const std::string& text);  // for a shell
std::string format_seconds(double seconds);          // "-" for 0
// With a mark behind times that other programs disturbed, and the line below a table that says so ("": none is marked).
std::string format_time(double seconds, bool disturbed);
std::string disturbed_legend(bool any);
std::string format_gflops(double flops, double seconds);     // "-" when unknown
std::string format_ratio(double slow, double fast);          // "12.3x"
std::string format_elapsed(double seconds);                  // "1:02", "1:02:03"
std::string format_day(int64_t unix_time);                   // "2026-11-26", UTC
std::string format_minute(int64_t unix_time);                // "2026-11-26 14:05", UTC
std::string plural(int64_t count, const std::string& noun);  // "1 task", "2 tasks"

}  // namespace tcc::cli
