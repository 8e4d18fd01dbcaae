// From argv to a command that is ready to run.
#pragma once

#include <memory>

#include "tcc/support/result.h"

namespace tcc::cli {

class Table;
struct Command;

struct ParsedLine {
  int exit_code = 0;                 // when there is no command: help was asked for, or the line is wrong
  const Command* command = nullptr;  // of the table
  std::shared_ptr<Table> table;
};
// Prints help and the errors of the command line.
ParsedLine parse_command_line(int argc, char** argv);

}  // namespace tcc::cli
