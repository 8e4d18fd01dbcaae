// The live view of a tuning run: a bar on a terminal, plain lines elsewhere, JSON events where asked.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "cli/value_curve.h"
#include "tcc/driver/tune.h"

namespace tcc::cli {

class ProgressView {
 public:
  // time_limit in seconds, 0 = none.
  ProgressView(const Common& common, double time_limit, ValueCurve& curve);
  ~ProgressView();
  void show(const search::Progress& progress);

 private:
  void show_event(const search::Progress& progress) const;
  std::string describe(const search::Progress& progress) const;
  const Common& common_;
  ValueCurve& curve_;
  double time_limit_;
  bool terminal_;
  bool bar_shown_ = false;
};

}  // namespace tcc::cli
