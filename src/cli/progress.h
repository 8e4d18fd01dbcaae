// The live view of a tuning run: one line on a terminal, a line every ten seconds elsewhere, JSON events where asked.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "cli/value_curve.h"
#include "tcc/driver/tune.h"
#include "tcc/support/files.h"

namespace tcc::cli {

// One line of text that changes: redrawn in place on a terminal, elsewhere printed every ten seconds and at the end.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  bool redraws() const { return terminal_; }
  // Columns that a redrawn line has, as the terminal is now.
  size_t width() const;
  void show(const std::string& line);

 private:
  bool quiet_, terminal_;
  bool said_ = false;     // a line went to a file or a pipe
  Stopwatch since_said_;  // the last one
  std::string last_;      // what was not said since then
};

class ProgressView {
 public:
  // time_limit in seconds, 0 = none.
  ProgressView(const Common& common, double time_limit, ValueCurve& curve);
  void show(const search::Progress& progress);

 private:
  void show_event(const search::Progress& progress) const;
  std::string describe(const search::Progress& progress) const;
  std::string status(const search::Progress& progress, size_t width) const;
  const Common& common_;
  ValueCurve& curve_;
  double time_limit_;
  ProgressLine line_;
};

}  // namespace tcc::cli
