// Measuring by programs that run in another process, whatever the processor. The coordinator compiles the candidates,
// hands them to an executor one at a time, and decides what its answers mean:
//   * a candidate whose code was measured before in the same run gets that measurement (Measurement::twin);
//   * the fastest program of its task so far must also pass the numeric gate on data of a second seed;
//   * a finalist gets twice the patience, and no sample of it is saved;
//   * a pair is decided by six processes that agree.
// The executors (src/measure/host, src/measure/cuda) know how to compile, load, check and time on one processor.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/measure/measurement.h"

namespace tcc::measure {

class Executor;
class IsolatedHostMeasurer;

class Coordinator : public Measurer {
 public:
  ~Coordinator() override;

  MeasurerTraits traits() const override;
  // Errors: the reference does not compile or run; the tensors do not fit the device.
  Result<std::shared_ptr<const MeasureTask>> prepare(const ir::Kernel& naive, const target::Target& target) override;
  void compile(std::span<Candidate> candidates) override;
  // Errors: the worker cannot be started, the device is lost or has no memory for the task's own tensors, there is no
  // compiler for the target.
  Result<std::vector<Measurement>> measure(std::span<const Candidate> candidates) override;
  Result<PairedComparison> compare(const Candidate& a, const Candidate& b, PairAim aim) override;
  std::vector<std::string> notes() const override;

  int worker_pid() const;    // for tests and for messages
  int64_t restarts() const;  // how often the worker had to be started again

 protected:
  // `references` computes the references of tasks on the CPU and must outlive this. It may be this object.
  Coordinator(std::unique_ptr<Executor> executor, IsolatedHostMeasurer& references);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tcc::measure
