#include <algorithm>
#include <set>
#include <sstream>

#include "cli/table.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

std::string config_file(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--config" && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--config=")) return words[i].substr(9);
  }
  return "";
}

bool is_given(const CLI::Option& option, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    for (const std::string& name : option.get_lnames())
      if (word == "--" + name || word.starts_with("--" + name + "=")) return true;
    for (const std::string& name : option.get_snames())
      if (!word.starts_with("--") && word.starts_with("-" + name)) return true;
    return false;
  });
}

std::vector<std::string> option_names(const Table& table, const CLI::App& command) {
  std::vector<std::string> names;
  for (const OptionText& option : table.options_of(command))
    if (!option.positional) names.push_back(option.name.substr(2));
  return names;
}

// Is the item for this command? A name that no command has is an error, so that misspelt names are noticed.
Result<bool> is_for(const Table& table, const CLI::App& command, const CLI::ConfigItem& item, const std::string& file) {
  const std::vector<std::string> commands = table.command_names();
  std::vector<std::string> options;
  if (!item.parents.empty()) {
    const std::string& section = item.parents[0];
    if (std::find(commands.begin(), commands.end(), section) == commands.end())
      return make_error(ErrorClass::kUsage,
                        fmt::format("'{}': expected a command as section, not '{}'", file, sanitize(section)),
                        suggest(section, commands));
    if (section != command.get_name()) return false;
    options = option_names(table, command);
  } else {
    for (const CLI::App* sub : table.commands())
      for (const std::string& name : option_names(table, *sub)) options.push_back(name);
  }
  if (std::find(options.begin(), options.end(), item.name) == options.end())
    return make_error(ErrorClass::kUsage,
                      fmt::format("'{}': expected the name of an option, not '{}'", file, sanitize(item.name)),
                      suggest(item.name, options));
  const std::vector<std::string> own = option_names(table, command);
  return std::find(own.begin(), own.end(), item.name) != own.end();
}

}  // namespace

Result<std::vector<std::string>> with_config(const Table& table, const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  const std::string path = config_file(words);
  if (path.empty()) return all;
  const CLI::App* command = nullptr;
  for (const CLI::App* sub : table.commands())
    if (sub->get_name() == words[0]) command = sub;
  if (command == nullptr) return all;
  TCC_TRY(std::string text, read_file(path, 1 << 20));
  const std::string file = sanitize(path);
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream stream(text);
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const CLI::Error& error) {
    return make_error(ErrorClass::kInput, fmt::format("'{}': {}", file, sanitize(error.what())),
                      "write one NAME = VALUE a line");
  }
  // A command's own section goes before items outside of sections.
  std::stable_partition(items.begin(), items.end(), [](const CLI::ConfigItem& item) { return !item.parents.empty(); });
  std::set<std::string> taken;
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of a section's begin and end
    TCC_TRY(bool wanted, is_for(table, *command, item, file));
    const CLI::Option* option = wanted ? command->get_option_no_throw("--" + item.name) : nullptr;
    if (option == nullptr || is_given(*option, words) || !taken.insert(item.name).second) continue;
    const bool flag = option->get_items_expected_max() == 0;
    if (flag && item.inputs.size() == 1 && item.inputs[0] == "true") all.push_back("--" + item.name);
    if (flag && (item.inputs.size() != 1 || (item.inputs[0] != "true" && item.inputs[0] != "false")))
      return make_error(ErrorClass::kUsage, fmt::format("'{}': '{}' expects true or false", file, sanitize(item.name)),
                        fmt::format("write {} = true, or leave the line out", sanitize(item.name)));
    if (flag) continue;
    if (option->get_items_expected_max() > 1 && option->get_allow_extra_args()) {
      all.push_back("--" + item.name);
      all.insert(all.end(), item.inputs.begin(), item.inputs.end());
      continue;
    }
    for (const std::string& value : item.inputs) all.push_back(fmt::format("--{}={}", item.name, value));
  }
  return all;
}

}  // namespace tcc::cli
