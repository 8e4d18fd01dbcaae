// Runs the commands of docs/tutorial.md in order and compares what they print with the page.
//
// A fence "```tir FILE" or "```trace FILE" is a file. A fence "```console" holds commands ("$ ...") and what they
// print; a line "..." matches any lines, "..." inside a line any characters. "```console nvrtc" needs NVRTC.
// TCC_UPDATE_GOLDEN=1 writes what commands print into the page, except where the page has "...".
#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> text_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool line_matches(const std::string& pattern, const std::string& line) {
  size_t at = 0, start = 0;
  for (bool first = true;; first = false) {
    const size_t dots = pattern.find("...", start);
    const bool last = dots == std::string::npos;
    const std::string piece = pattern.substr(start, last ? dots : dots - start);
    if (last && !first) return line.size() >= at + piece.size() && line.ends_with(piece);
    if (last) return line == piece;
    const size_t found = line.find(piece, at);
    if (found == std::string::npos || (first && found != 0)) return false;
    at = found + piece.size();
    start = dots + 3;
  }
}

bool matches(const std::vector<std::string>& pattern, size_t i, const std::vector<std::string>& lines, size_t j) {
  if (i == pattern.size()) return j == lines.size();
  if (pattern[i] == "...") {
    for (size_t next = j; next <= lines.size(); ++next)
      if (matches(pattern, i + 1, lines, next)) return true;
    return false;
  }
  return j < lines.size() && line_matches(pattern[i], lines[j]) && matches(pattern, i + 1, lines, j + 1);
}

}  // namespace

TEST_CASE("the patterns of the tutorial match lines as they should", "[cli]") {
  CHECK(line_matches("a ... b", "a x y b"));
  CHECK(line_matches("a...", "abc"));
  CHECK(line_matches("a...a", "aa"));
  CHECK_FALSE(line_matches("a...a", "a"));
  CHECK_FALSE(line_matches("a ... b", "x a x b"));
  CHECK_FALSE(line_matches("a", "ab"));
  CHECK(matches({"a", "...", "c"}, 0, {"a", "b", "b", "c"}, 0));
  CHECK(matches({"a", "...", "c"}, 0, {"a", "c"}, 0));
  CHECK_FALSE(matches({"a", "c"}, 0, {"a", "b", "c"}, 0));
  CHECK_FALSE(matches({"a"}, 0, {"a", "b"}, 0));
}

TEST_CASE("the tutorial's commands print what its page says", "[cli]") {
  const std::string file = std::string(TCC_SOURCE_DIR) + "/docs/tutorial.md";
  std::vector<std::string> page = text_lines(slurp(file));
  REQUIRE(page.size() > 100);
  Sandbox box;
  const bool nvrtc = box.tcc({"targets"}).out.find("compiler NVRTC") != std::string::npos;
  const bool update = getenv("TCC_UPDATE_GOLDEN") != nullptr;
  std::vector<std::string> written;
  size_t commands = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    written.push_back(page[i]);
    if (!page[i].starts_with("```")) continue;
    const std::vector<std::string> words = text_lines([&] {
      std::string info = page[i].substr(3);
      for (char& c : info) c = c == ' ' ? '\n' : c;
      return info;
    }());
    size_t end = i + 1;
    while (end < page.size() && page[end] != "```") ++end;
    REQUIRE(end < page.size());
    std::vector<std::string> body(page.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                  page.begin() + static_cast<std::ptrdiff_t>(end));
    REQUIRE_FALSE(words.empty());
    if (words[0] != "console") {
      REQUIRE(words.size() == 2);
      std::string text;
      for (const std::string& line : body) text += line + "\n";
      spill(box.path(words[1]), text);
      written.insert(written.end(), body.begin(), body.end());
    } else if (words.size() > 1 && words[1] == "nvrtc" && !nvrtc) {
      written.insert(written.end(), body.begin(), body.end());
    } else {
      for (size_t line = 0; line < body.size();) {
        REQUIRE(body[line].starts_with("$ "));
        const std::string command = body[line].substr(2);
        std::vector<std::string> expected;
        written.push_back(body[line]);
        for (++line; line < body.size() && !body[line].starts_with("$ "); ++line) expected.push_back(body[line]);
        CAPTURE(command);
        const Outcome outcome =
            box.run({"sh", "-c", "PATH='" + std::string(TCC_BINARY_DIR) + "/tools':$PATH; " + command});
        INFO(outcome.out << outcome.err);
        CHECK(outcome.exit_code == 0);
        const std::vector<std::string> printed = text_lines(outcome.out);
        const bool open = [&] {
          for (const std::string& text : expected)
            if (text.find("...") != std::string::npos) return true;
          return false;
        }();
        if (!update || open) CHECK(matches(expected, 0, printed, 0));
        const std::vector<std::string>& kept = update && !open ? printed : expected;
        written.insert(written.end(), kept.begin(), kept.end());
        ++commands;
      }
    }
    written.push_back("```");
    i = end;
  }
  CHECK(commands >= 10);
  if (!update) return;
  std::string text;
  for (const std::string& line : written) text += line + "\n";
  spill(file, text);
}
