// From argv to a command: what is wrong is said once, with the nearest name.
#include <algorithm>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/table.h"
#include "tcc/cli/cli.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

// A misspelt command is answered with the nearest ones.
std::optional<std::string> unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return std::nullopt;
  return suggest(argv[1], names);
}

// The first word that looks like an option and is none, with the nearest one that is.
std::string hint_for(const CLI::App& app, const std::vector<std::string>& words) {
  const auto chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen[0]->get_name() + " ";
  const std::string general = fmt::format("`tcc {}--help` lists the options", command);
  if (chosen.empty()) return general;
  std::vector<std::string> known = {"--help"};
  for (const OptionText& option : option_texts(*chosen[0]))
    if (!option.positional) known.push_back(option.name);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (const std::string near = suggest(name, known); !near.empty()) return near;
  }
  return general;
}

ParsedLine failed(Error error) {
  print_error(error);
  ParsedLine line;
  line.exit_code = error.cls == ErrorClass::kUsage ? kUsage : kFailed;
  return line;
}

}  // namespace

ParsedLine parse_command_line(int argc, char** argv) {
  ParsedLine line;
  CommandFunction command = nullptr;
  std::unique_ptr<CLI::App> app = make_table(line.arguments, command);
  if (auto nearest = unknown_command(*app, argc, argv))
    return failed({ErrorClass::kUsage,
                   fmt::format("there is no command '{}'", sanitize(argv[1])),
                   nearest->empty() ? "`tcc --help` lists the commands" : *nearest,
                   {}});
  if (argc < 2) return failed({ErrorClass::kUsage, "no command was given", "`tcc --help` lists the commands", {}});
  auto words = with_config(*app, std::vector<std::string>(argv + 1, argv + argc));
  if (!words) return failed(std::move(words).error());
  try {
    app->parse(std::vector<std::string>(words->rbegin(), words->rend()));  // CLI11 takes them from the back
  } catch (const CLI::Success& asked) {                                    // help or version
    line.exit_code = app->exit(asked) == 0 ? kOk : kUsage;
    return line;
  } catch (const CLI::ParseError& error) {
    return failed({ErrorClass::kUsage, sanitize(error.what(), 500), hint_for(*app, *words), {}});
  }
  line.command = command;
  return line;
}

}  // namespace tcc::cli
