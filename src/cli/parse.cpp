// Each error of the command line is printed once, with the nearest name.
#include "cli/parse.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/output.h"
#include "cli/table.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

constexpr const char* kCommandsHint = "`tcc --help` lists the commands";

Error usage(std::string message, std::string hint) {
  return {ErrorClass::kUsage, std::move(message), std::move(hint), {}};
}

// A first word that should be a command, and is not.
std::optional<Error> unknown_command(const Table& table, const std::vector<std::string>& given) {
  if (given.empty()) return usage("no command was given", kCommandsHint);
  const std::string& word = given[0];
  const std::vector<std::string> names = table.command_names();
  const std::vector<const CLI::App*> commands = table.commands();
  if (word == "--help" || word == "-h" || word == "--version") return std::nullopt;
  if (std::find(names.begin(), names.end(), word) != names.end()) return std::nullopt;
  if (word.starts_with("-")) {
    const bool known = std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return command->get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
    });
    const std::string all = fmt::format("commands are {}", fmt::join(names, ", "));
    if (known) return usage(fmt::format("expected a command before the option '{}'", sanitize(word)), all);
    return usage(fmt::format("tcc has no option '{}', and a command comes first", sanitize(word)), all);
  }
  const std::string nearest = suggest(word, names);
  return usage(fmt::format("there is no command '{}'", sanitize(word)), nearest.empty() ? kCommandsHint : nearest);
}

std::string options_hint(const CLI::App& command) {
  return fmt::format("`tcc {} --help` lists the options", command.get_name());
}

std::optional<Error> unknown_option(const Table& table, const CLI::App& command,
                                    const std::vector<std::string>& words) {
  std::vector<std::string> known = {"--help", "-h"};
  for (const OptionText& option : table.options_of(command)) {
    known.push_back(option.name);
    if (!option.shorter.empty()) known.push_back(option.shorter);
  }
  const auto is_known = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  for (const std::string& word : words) {
    const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const bool number = name.size() > 1 && name[1] >= '0' && name[1] <= '9';
    if (!name.starts_with("-") || name.size() < 2 || number || is_known(name)) continue;
    const std::string nearest = suggest(name, known);
    return usage(fmt::format("tcc {} has no option '{}'", command.get_name(), sanitize(name)),
                 nearest.empty() ? options_hint(command) : nearest);
  }
  return std::nullopt;
}

Error too_many_words(const Table& table, const CLI::App& command, const std::string& what) {
  std::string positional;
  for (const OptionText& option : table.options_of(command))
    if (option.positional) positional += " " + option.name;
  const size_t words = what.rfind(": ");
  return usage(fmt::format("tcc {} takes{}{} options, not '{}'", command.get_name(), positional,
                           positional.empty() ? "" : " and", words == what.npos ? what : what.substr(words + 2)),
               options_hint(command));
}

// CLI11's "MODEL is required" and "--compare: At least 2 required ..." as sentences about the command.
Error missing(const Table& table, const CLI::App& command, const std::string& what) {
  for (const OptionText& option : table.options_of(command)) {
    if (!what.starts_with(option.name + " ") && !what.starts_with(option.name + ":")) continue;
    std::string meaning = option.what;
    if (meaning.size() > 1 && meaning[1] >= 'a' && meaning[1] <= 'z') meaning[0] = static_cast<char>(meaning[0] | 32);
    const std::string name = option.positional ? option.name : option.name + " " + option.value;
    return usage(fmt::format("tcc {} needs {}: {}", command.get_name(), name, meaning),
                 fmt::format("`tcc {} --help` shows examples", command.get_name()));
  }
  return usage(fmt::format("tcc {}: {}", command.get_name(), what), options_hint(command));
}

Error parse_error(const Table& table, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const std::string what = sanitize(error.what(), 500);
  const auto chosen = table.app().get_subcommands();
  if (chosen.empty()) return usage(what, kCommandsHint);
  const CLI::App& command = *chosen[0];
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError) {
    if (auto unknown = unknown_option(table, command, {words.begin() + 1, words.end()})) return *unknown;
  }
  if (code == CLI::ExitCodes::ExtrasError) return too_many_words(table, command, what);
  if (code == CLI::ExitCodes::RequiredError || code == CLI::ExitCodes::ArgumentMismatch)
    return missing(table, command, what);
  return usage(fmt::format("tcc {}: {}", command.get_name(), what), options_hint(command));
}

ParsedLine failed(const Error& error) {
  ParsedLine line;
  line.exit_code = exit_status(error.cls);
  print_error(error, line.exit_code);
  return line;
}

}  // namespace

ParsedLine parse_command_line(int argc, char** argv) {
  ParsedLine line;
  line.table = std::make_shared<Table>();
  // What is wrong with the command line is told as its --json says, too.
  set_output_mode({.json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc});
  std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  if (!given.empty() && given[0] == "help") {  // `tcc help tune` is `tcc tune --help`
    given.erase(given.begin());
    given.emplace_back("--help");
  }
  if (auto error = unknown_command(*line.table, given)) return failed(*error);
  auto words = with_config(*line.table, given);
  if (!words) return failed(words.error());
  CLI::App& app = line.table->app();
  try {
    app.parse(std::vector<std::string>(words->rbegin(), words->rend()));  // CLI11 takes them from the back
  } catch (const CLI::Success& asked) {                                   // help or version
    line.exit_code = app.exit(asked) == 0 ? kOk : kUsage;
    return line;
  } catch (const CLI::ParseError& error) {
    return failed(parse_error(*line.table, error, *words));
  }
  line.command = line.table->chosen();
  return line;
}

}  // namespace tcc::cli
