// Examples of primitives in text: the sections of docs/primitives.md and the files of tests/schedule/golden share one
// form.
//
//   ## name of the section
//   ```before    a kernel; it stays in force until the next one
//   ```trace     trace lines
//   ```after     the kernel that results, as the printer writes it
//   ```reject    instead of `after`: the reason's name, then a fragment of the text on the next line
#pragma once

#include <string>
#include <vector>

#include "tcc/schedule/trace.h"
#include "tcc/support/result.h"

namespace tcc::testing {

struct Example {
  std::string section;
  std::string before, trace;
  bool rejected = false;
  std::string expected;              // of `after` or `reject`
  size_t first_line = 0, lines = 0;  // of `expected` in the file, for updates; counted from 0
};

// Errors: a trace without a kernel before it or without an outcome after it, an open fence.
Result<std::vector<Example>> read_examples(const std::string& text, const std::string& file);

// Replays the example and compares. Failures are reported through Catch. A rejected example names the reject's reason
// and text, or kUnreadable and the message of parse_trace. Accepted results are also verified and, where `before`
// has no scalars, run by the interpreter beside `before` with equal outputs. exact: the printed text must agree, not
// the structure alone.
inline const std::string kUnreadable = "unreadable trace";
void check_example(const Example& example, const std::string& file, bool exact);
// The file's text with the outcomes replaced.
std::string with_outcomes(const std::string& text, const std::vector<Example>& examples,
                          const std::vector<std::string>& outcomes);

}  // namespace tcc::testing
