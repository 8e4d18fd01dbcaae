// What a terminal shows: one line of progress, tables that fit, colors; and what files get instead.
#include "terminal.h"

#include <cstdlib>

#include "cli/terminal.h"
#include "cli/text_table.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

// 33 widths from 40 to 240.
std::vector<int> widths() {
  std::vector<int> all;
  for (int i = 0; i <= 32; ++i) all.push_back(40 + i * 200 / 32);
  return all;
}

// Runs a command at every width. No line may be wrapped by the terminal.
void check_widths(const Sandbox& box, const std::vector<std::string>& words) {
  for (int width : widths()) {
    CAPTURE(words, width);
    const TerminalRun run = run_on_terminal(box, words, width);
    Screen screen(static_cast<size_t>(width));
    screen.feed(run.bytes);
    INFO(screen.text());
    CHECK(run.exit_code == 0);
    CHECK(screen.wraps() == 0);
    CHECK(screen.other_escapes() == 0);
    CHECK(screen.rows().size() > 3);
  }
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("no command's line is wrapped by terminals of 40 to 240 columns", "[cli][terminal][U1][U18]") {
  Sandbox box;
  REQUIRE(box.tcc({"tune", "zoo:mlp", "--trials", "6", "-q"}).exit_code == 0);
  REQUIRE(box.tcc({"build", "zoo:mlp", "-o", "out", "-q"}).exit_code == 0);
  check_widths(box, {"show", "zoo:resnet18"});
  check_widths(box, {"show", "zoo:mlp", "--task", "0"});
  check_widths(box, {"explain", "zoo:mlp", "--task", "0"});
  check_widths(box, {"inspect", "out/libmlp.so"});
  check_widths(box, {"inspect", "zoo:mobilenet_v2"});
  check_widths(box, {"bench", "out/libmlp.so", "--per-kernel", "--seconds", "0.02"});
}

TEST_CASE("tune has one line of progress at every width", "[cli][terminal][U1]") {
  Sandbox box;
  // A run takes seconds: every fourth width, and all of them in the soak.
  const std::vector<int> all = widths();
  for (size_t i = 0; i < all.size(); i += std::getenv("TCC_SOAK") != nullptr ? 1 : 4) {
    const int width = all[i];
    CAPTURE(width);
    const TerminalRun run =
        run_on_terminal(box, {"tune", "zoo:mlp", "--trials", "6", "--tasks", "2", "--fresh"}, width);
    Screen screen(static_cast<size_t>(width));
    screen.feed(run.bytes);
    INFO(screen.text());
    CHECK(run.exit_code == 0);
    CHECK(screen.wraps() == 0);
    // It was drawn, and nothing of it is left.
    CHECK(count_of(run.bytes, "\x1b[?7l") > 0);
    CHECK_THAT(run.bytes, Contains("/6"));
    CHECK_THAT(screen.text(), !Contains("/6,") && Contains("task") && Contains("best"));
  }
}

TEST_CASE("a terminal that changes its width while tcc tunes", "[cli][terminal][U1]") {
  Sandbox box;
  unsigned short width = 200;
  const TerminalRun run = run_on_terminal(box, {"tune", "zoo:mlp", "--trials", "40"}, width, {}, [&](int master) {
    width = width == 200 ? 45 : 200;
    const winsize size{.ws_row = 50, .ws_col = width, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(master, TIOCSWINSZ, &size);
  });
  CHECK(run.exit_code == 0);
  // Every line of progress begins by erasing the one before, and none ends the line.
  size_t draws = 0;
  for (size_t at = run.bytes.find("\x1b[?7l"); at != std::string::npos; at = run.bytes.find("\x1b[?7l", at + 1)) {
    const size_t end = run.bytes.find("\x1b[?7h", at);
    REQUIRE(end != std::string::npos);
    CHECK(at >= 4);
    CHECK(run.bytes.substr(at - 4, 4) == "\r\x1b[K");
    CHECK(run.bytes.find('\n', at) > end);
    ++draws;
  }
  CHECK(draws >= 2);
}

TEST_CASE("colors are for terminals that want them", "[cli][terminal][U18]") {
  Sandbox box;
  const auto colored = [&](const std::vector<std::string>& settings) {
    Screen screen(100);
    screen.feed(run_on_terminal(box, {"show", "zoo:mlp"}, 100, settings).bytes);
    return screen.colored();
  };
  CHECK(colored({}));
  CHECK(colored({"NO_COLOR="}));
  CHECK_FALSE(colored({"NO_COLOR=1"}));
  CHECK_FALSE(colored({"TERM=dumb"}));
  CHECK_THAT(box.tcc({"show", "zoo:mlp"}).out, !Contains("\x1b"));
  // Warnings and errors on standard error.
  Screen screen(100);
  screen.feed(run_on_terminal(box, {"show", "zoo:mpl"}, 100).bytes);
  CHECK(screen.colored());
  CHECK_THAT(screen.text(), Contains("tcc: error: "));
}

TEST_CASE("tables name the columns that they leave out, and --wide leaves out none", "[cli][terminal][U18]") {
  Sandbox box;
  Screen narrow(60), wide(60);
  narrow.feed(run_on_terminal(box, {"show", "zoo:resnet18"}, 60).bytes);
  wide.feed(run_on_terminal(box, {"show", "zoo:resnet18", "--wide"}, 60).bytes);
  CHECK_THAT(narrow.text(), Contains("left out here: key, ") && Contains("--wide"));
  CHECK(wide.wraps() > 0);
  CHECK_THAT(wide.text(), !Contains("left out"));
  // Files get everything.
  const std::string file = box.tcc({"show", "zoo:resnet18"}).out;
  CHECK_THAT(file, Contains("task  key") && Contains("GFLOP/s") && !Contains("left out"));
}

TEST_CASE("columns are cut, then left out in their order", "[U18]") {
  using tcc::cli::text_column;
  tcc::cli::TextTable table({{"task"}, text_column("workload", 12), {"first", 3}, {"second", 2}, {"best"}});
  table.add({"0", "a workload of some length", "1", "22", "3.5 ms"});
  const std::string line = table.text(0);
  CHECK_THAT(line, Contains("a workload of some length"));
  CHECK_THAT(table.text(60), Contains("a workload of some length") && Contains("second"));
  CHECK_THAT(table.text(45), Contains("a workload of .."));
  CHECK_THAT(table.text(36), !Contains("first ") && Contains("second") && Contains("left out here: first;"));
  CHECK_THAT(table.text(28), !Contains(" second ") && Contains("left out here: first, second;"));
  for (size_t width = 22; width < 80; ++width) {
    const std::string text = table.text(width);
    std::istringstream lines(text);
    for (std::string row; std::getline(lines, row);)
      if (!row.starts_with("(left out")) CHECK(tcc::cli::text_width(row) <= width);
  }
}

TEST_CASE("lines are folded at blanks, and widths are those of terminals", "[U18]") {
  using namespace tcc::cli;
  CHECK(text_width("a\u00e9\u4e2d\x1b[1mb\x1b[0m") == 5);
  CHECK(cut_text("abcdefgh", 5) == "abc..");
  CHECK(cut_text("abcde", 5) == "abcde");
  CHECK(cut_text("\u4e2d\u4e2d\u4e2d", 5) == "\u4e2d..");
  CHECK(fold_text("one two three", 10) == "one two\n    three");
  CHECK(fold_text("  one two three", 10) == "  one two\n     three");
  CHECK(fold_text("abcdefghij", 4) == "abcd\n  ef\n  gh\n  ij");
  CHECK(fold_text("one two three", 0) == "one two three");
  CHECK(fold_text("a\n\nb\n", 4) == "a\n\nb\n");
}

TEST_CASE("without a terminal a line is said every ten seconds, and the last one", "[cli][terminal][U18]") {
  Sandbox box;
  const Outcome outcome = box.tcc({"tune", "zoo:mlp", "--trials", "96"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, !Contains("\r") && !Contains("\x1b"));
  CHECK_THAT(outcome.err, Contains("/96 measured"));
  CHECK(count_of(outcome.err, "/96 measured") <= 4);
}
