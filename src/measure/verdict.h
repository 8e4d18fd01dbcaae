// What the coordinator concludes from a worker's result, wherever the program ran.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/wire.h"
#include "tcc/measure/measurement.h"

namespace tcc::measure {

inline constexpr int kPairedProcesses = 6;

// The samples and what follows from them.
void read_samples(const WorkerResult& result, Measurement& m);
// A program that turned out not to count: what the gate on data of a second seed said, and no times.
void disqualify(Measurement& m, const Measurement& second);

// One line for each constant that the program wants in another order.
std::string constant_layouts(const codegen::Artifact& artifact);
// Why the artifact does not take the parameters of the task; "" when it does.
std::string parameter_mismatch(const codegen::Artifact& artifact, const TaskDescription& task);
// "parameter 2", "workspace 0": the artifact's buffer of this number.
std::string buffer_text(int64_t index, const codegen::Artifact& artifact);

// Collects the processes of a paired comparison. The addresses of code and data differ by process and can favor one
// side throughout a process, so one process proves nothing.
class PairTally {
 public:
  explicit PairTally(PairAim aim) : b_wins_(aim == PairAim::kWhoWins) {}
  // Once neither side whose win is of interest can win any more, there is no winner.
  bool open() const { return a_wins_ || b_wins_; }
  // `swapped`: the worker's first program was B.
  void add(const WorkerResult& result, bool swapped);
  PairedComparison close();

 private:
  std::vector<double> all_;
  bool a_wins_ = true, b_wins_;
  PairedComparison comparison_;
};

}  // namespace tcc::measure
