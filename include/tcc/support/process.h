// Other programs, run to their end.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc {

struct ProgramRun {
  bool started = false;  // false: the system found no program of that name
  int status = 0;        // as waitpid gives it
  std::string text;      // what it printed to stdout and stderr, up to 1 MiB
};

// Runs a program found on PATH, its name first. `scratch` is a folder for what it prints.
Result<ProgramRun> run_program(const std::vector<std::string>& command, const std::string& scratch);

}  // namespace tcc
