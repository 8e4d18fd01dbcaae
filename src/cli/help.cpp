#include "cli/help.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace tcc::cli {
namespace {

constexpr size_t kWidthOfFiles = 100;
constexpr size_t kNames = 30;        // columns for the names of options, where the terminal has twice as many
constexpr size_t kNarrowIndent = 6;  // of descriptions below the names

size_t help_width() {
  const size_t width = output_width();
  return width > 0 ? width : kWidthOfFiles;
}

// A name, and beside or below it what it means.
std::string entry(const std::string& name, const std::string& meaning, size_t names) {
  const size_t width = help_width();
  const bool below = width < 2 * names || name.size() + 2 > names;
  const size_t indent = width < 2 * names ? kNarrowIndent : names;
  std::string text = below ? name + "\n" : name;
  std::string line(below ? indent : indent - name.size(), ' ');
  size_t at = indent;
  for (size_t begin = 0; begin < meaning.size();) {
    const size_t end = std::min(meaning.find(' ', begin), meaning.size());
    const std::string word = meaning.substr(begin, end - begin);
    if (at > indent && at + 1 + word.size() > width) {
      text += line + "\n";
      line = std::string(indent, ' ');
      at = indent;
    }
    if (at > indent) line += ' ', ++at;
    line += word;
    at += word.size();
    begin = end + 1;
  }
  return text + line + "\n";
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool positional) const {
  return entry("  " + make_option_name(option, positional) + make_option_opts(option), make_option_desc(option),
               kNames);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry("  " + command->get_name(), command->get_description(), kNames / 2);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::vector<std::string> groups = app->get_groups();
  std::stable_sort(groups.begin(), groups.end(), [](const std::string& a, const std::string& b) {
    const auto rank = [](const std::string& group) { return group == kUsualGroup ? 0 : group == kOutputGroup ? 2 : 1; };
    return rank(a) < rank(b);
  });
  std::string text = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
  for (const std::string& group : groups) {
    const auto options =
        app->get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); });
    if (!group.empty() && !options.empty()) text += make_group(group, false, options);
  }
  return fold_text(text + make_subcommands(app, mode) + "\n" + make_footer(app), help_width());
}

}  // namespace tcc::cli
