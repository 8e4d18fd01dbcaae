// The commands in the order of help; completion and manual pages are made from this table, too.
#include "cli/table.h"

#include <algorithm>

#include "cli/help.h"
#include "tcc/driver/compile.h"

// clang-format off
// A command NAME is NAME_command() in a file of its own.
#define TCC_COMMANDS(ROW) \
  ROW(tune)       \
  ROW(build)      \
  ROW(run)        \
  ROW(verify)     \
  ROW(bench)      \
  ROW(show)       \
  ROW(explain)    \
  ROW(inspect)    \
  ROW(history)    \
  ROW(report)     \
  ROW(targets)    \
  ROW(doctor)     \
  ROW(db)         \
  ROW(dataset)    \
  ROW(model)      \
  ROW(fleet)      \
  ROW(ops)        \
  ROW(zoo)        \
  ROW(completion) \
  ROW(man)
// clang-format on

namespace tcc::cli {

#define TCC_DECLARE(name) Command name##_command();
TCC_COMMANDS(TCC_DECLARE)
#undef TCC_DECLARE

Table::Table() {
#define TCC_ADD(name) commands_.push_back(name##_command());
  TCC_COMMANDS(TCC_ADD)
#undef TCC_ADD
  app_ = std::make_unique<CLI::App>(
      "tcc compiles ONNX models into libraries that a C program links, tuned by measuring on this machine.");
  app_->name("tcc");
  app_->set_version_flag("--version", "tcc " + driver::tool_version());
  app_->require_subcommand(1);
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->footer(
      "Exit status: 0 ok, 1 the input or the environment is at fault, 2 usage, 3 stopped early with valid results,\n"
      "4 verify is inconclusive, 5 some tasks failed, 6 disturbed times under --strict-timing, 70 a bug in tcc.\n\n"
      "Example: tcc tune zoo:resnet18 --trials 200 && tcc build zoo:resnet18 -o out");
  for (const Command& command : commands_) {
    CLI::App* sub = app_->add_subcommand(command.name, command.summary);
    sub->footer("Examples:\n" + command.examples);
    sub->callback([this, &command] { chosen_ = &command; });
    sub->get_help_ptr()->group(kOutputGroup);
    Options options(*sub, words_);
    command.declare(options);
    add_common(options, *command.common);
  }
  if (const CLI::App* man = app_->get_subcommand("man")) words_[man->get_option("COMMAND")] = {command_names(), false};
}

std::vector<std::string> Table::command_names() const {
  std::vector<std::string> names;
  for (const Command& command : commands_) names.push_back(command.name);
  return names;
}

std::vector<OptionText> Table::options_of(const CLI::App& command) const {
  std::vector<OptionText> texts;
  for (const CLI::Option* option : command.get_options()) {
    OptionText text;
    text.what = option->get_description();
    text.positional = !option->nonpositional();
    if (const auto words = words_.find(option); words != words_.end())
      text.words = words->second.words, text.commas = words->second.commas;
    if (text.positional) {
      text.name = option->get_name();
      texts.push_back(std::move(text));
      continue;
    }
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    text.name = "--" + option->get_lnames()[0];
    if (!option->get_snames().empty()) text.shorter = "-" + option->get_snames()[0];
    if (option->get_items_expected_max() > 0) text.value = option->get_type_name();
    if (option->get_items_expected_max() > 0 && text.value.empty()) text.value = "VALUE";
    texts.push_back(std::move(text));
  }
  std::stable_partition(texts.begin(), texts.end(), [](const OptionText& t) { return t.positional; });
  return texts;
}

}  // namespace tcc::cli
