// The command line: flags, subcommands, progress, tables, exit codes. Results go to stdout, everything else to stderr.
#pragma once

namespace tcc::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,        // the input or the environment is at fault
  kUsage = 2,         // the command line is
  kStopped = 3,       // interrupted, or not everything could be done; what there is is valid and saved
  kInconclusive = 4,  // `verify`: what was compared is right, but says nothing
  kPartly = 5,        // tasks failed; what there is of the others is valid and saved
  kDisturbed = 6,     // `tune --strict-timing`: other programs disturbed the times
  kBug = 70,          // an invariant of tcc itself does not hold
};

// Runs `tcc argv[1] ...` and returns the exit code.
int run(int argc, char** argv);

}  // namespace tcc::cli
