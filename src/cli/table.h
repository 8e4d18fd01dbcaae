// The commands and their options. CLI11 shows in the units that include this and nowhere else.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/arguments.h"
#include "tcc/driver/compile.h"

namespace tcc::cli {

using CommandFunction = Result<int> (*)(const Arguments&);
// Parsing fills `arguments` and `command`, which must outlive the table.
std::unique_ptr<CLI::App> make_table(Arguments& arguments, CommandFunction& command);

// The options of a command in the order of help, positional ones first; without --help.
struct OptionText {
  std::string name;     // "--trials", or "MODEL" when positional
  std::string shorter;  // "-o", or ""
  std::string value;    // "N"; "" = a flag
  std::string what;
  bool positional = false;
};
std::vector<OptionText> option_texts(const CLI::App& command);

// The command line with the options of `--config FILE` added where the user gave none of that name.
Result<std::vector<std::string>> with_config(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace tcc::cli
