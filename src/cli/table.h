// All commands and their options. CLI11 shows in the units that include this and in options.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"

namespace tcc::cli {

// An option as help, completion and manual pages describe it.
struct OptionText {
  std::string name;     // "--trials", or "MODEL" when positional
  std::string shorter;  // "-o", or ""
  std::string value;    // "N"; "" = a flag
  std::string what;
  std::vector<std::string> words;  // values that shells offer
  bool commas = false;             // several of them, with commas between
  bool positional = false;
};

// The commands, each with its options and the arguments that parsing fills.
class Table {
 public:
  Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  CLI::App& app() { return *app_; }
  const CLI::App& app() const { return *app_; }
  // After parsing; nullptr: none was named.
  const Command* chosen() const { return chosen_; }
  std::vector<const CLI::App*> commands() const { return app().get_subcommands({}); }
  std::vector<std::string> command_names() const;
  // In the order of help, positional ones first; without --help.
  std::vector<OptionText> options_of(const CLI::App& command) const;

 private:
  std::vector<Command> commands_;
  OptionWords words_;
  std::unique_ptr<CLI::App> app_;
  const Command* chosen_ = nullptr;
};

// The command line with the options of `--config FILE` added where the user gave none of that name.
Result<std::vector<std::string>> with_config(const Table& table, const std::vector<std::string>& words);

}  // namespace tcc::cli
