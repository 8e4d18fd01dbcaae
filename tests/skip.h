// Test cases that cannot run here. Catch2 2.13 has no SKIP(): a case that returns counts as passed.
#pragma once

#include <string>

namespace tcc::testing {

// Reports that the test case under way, or a part of it, does not run here, and why. The main program prints one line
// "SKIPPED: <case>: <reason>" each, and exits with kAllSkipped when every case of the run was skipped: ctest shows such
// a run as skipped. tools/test bounds the number of lines (tests/most_skips).
void report_skip(const std::string& reason);

inline constexpr int kAllSkipped = 77;

}  // namespace tcc::testing

// Ends the test case here.
#define SKIP(reason)                     \
  do {                                   \
    ::tcc::testing::report_skip(reason); \
    return;                              \
  } while (false)
