// Text for people: errors, tables, numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::cli {

// "tcc: error: ..." with hint and notes, to stderr. What goes to stderr is escaped: control characters in names and
// texts of files do not reach the terminal.
void print_error(const Error& error);
void print_warning(const std::string& text);
// To stderr, unless quiet.
void remark(bool quiet, const std::string& text);
// To stdout. A reader that has gone away is not an error. Returns kOk, with which most commands end then.
int print(const std::string& text);
// The same for a JSON document; bytes that are not UTF-8 are replaced.
int print_json(const nlohmann::ordered_json& json);
// On one line, as an event of a stream.
int print_json_line(const nlohmann::ordered_json& json);
// Why results could not be written to stdout; "" when they could.
const std::string& output_failure();

// Columns aligned; the first row is the header. `left` counts the leading columns that are flushed left. Cells are
// sanitized.
std::string format_table(std::vector<std::vector<std::string>> rows, size_t left = 1);

std::string format_seconds(double seconds);  // "-" for 0
// With a mark behind times that other programs disturbed, and the line below a table that says so ("": none is marked).
std::string format_time(double seconds, bool disturbed);
std::string disturbed_legend(bool any);
std::string format_gflops(double flops, double seconds);     // "-" when unknown
std::string format_ratio(double slow, double fast);          // "12.3x"
std::string format_elapsed(double seconds);                  // "1:02", "1:02:03"
std::string plural(int64_t count, const std::string& noun);  // "1 task", "2 tasks"

}  // namespace tcc::cli
