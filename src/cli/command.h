// A command: its name, its help, its options and what it does. Each command is a file of its own with a struct of its
// own arguments; a row in table.cpp adds it to the program.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/arguments.h"
#include "cli/options.h"
#include "tcc/cli/cli.h"
#include "tcc/support/result.h"

namespace tcc::cli {

struct Command {
  std::string name, summary;
  std::string examples;  // lines of help, indented by two blanks
  std::shared_ptr<Common> common;
  std::function<void(Options&)> declare;
  std::function<Result<int>()> run;  // the exit code; after the options were parsed
};

// `Arguments` has a member `Common common`. `declare` names the fields that options fill, `run` gets them filled.
template <typename Arguments>
Command make_command(std::string name, std::string summary, std::string examples,
                     void (*declare)(Options& options, Arguments& arguments),
                     Result<int> (*run)(const Arguments& arguments)) {
  auto arguments = std::make_shared<Arguments>();
  return {std::move(name),
          std::move(summary),
          std::move(examples),
          std::shared_ptr<Common>(arguments, &arguments->common),
          [=](Options& options) { declare(options, *arguments); },
          [=] { return run(*arguments); }};
}

}  // namespace tcc::cli
