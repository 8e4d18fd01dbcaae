// The tuner's side of a fleet: a measurer whose candidates are measured by workers on other machines. The search
// decides everything; it publishes candidates as traces of tasks and gets their measurements. An answer counts once,
// whatever is delivered twice.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tcc/fleet/bus.h"
#include "tcc/fleet/message.h"
#include "tcc/measure/measurement.h"

namespace tcc::fleet {

struct TunerOptions {
  std::string key;  // of messages
  target::Target target;
  std::string platform;  // of the workers: target::platform_text()
  int64_t threads = 1;
  record::Kind kind = record::Kind::kMeasured;
  std::string tool;  // version of tcc; workers of another one do not count
  // Of this run: answers to what an interrupted run of the same name asked are taken over. See is_name().
  std::string run;
  double patience = 60;        // seconds without any worker, or without the server, before it gives up
  double ack_wait = 10;        // seconds without a sign of the worker, then the candidate goes to another
  int64_t window = 4096;       // candidates that are published and not answered
  std::function<bool()> stop;  // may be empty
  std::function<void(const std::string&)> note;  // sentences for the user, at once; may be empty
};

struct TunerCounts {
  int64_t published = 0, answered = 0, repeated = 0, poisoned = 0, refused = 0;
};

class FleetMeasurer : public measure::Measurer {
 public:
  // Waits until a worker of the target is there. Errors (environment): none comes within the patience, and why those
  // that are there do not fit.
  static Result<std::unique_ptr<FleetMeasurer>> open(std::shared_ptr<Bus> bus, TunerOptions options);
  ~FleetMeasurer() override;

  measure::MeasurerTraits traits() const override;
  // Workers prepare tasks themselves.
  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const ir::Kernel& naive,
                                                              const target::Target& target) override;
  void compile(std::span<measure::Candidate>) override {}
  // Candidates need `naive` and `trace`. Finalists are measured by one worker, the same for all while it lives. Errors
  // (environment): the server or all workers are gone for longer than the patience; a worker cannot rebuild a program.
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override;
  Result<measure::PairedComparison> compare(const measure::Candidate& a, const measure::Candidate& b,
                                            measure::PairAim aim) override;
  std::vector<std::string> notes() const override;

  TunerCounts counts() const;
  const std::string& machine_class() const;
  const target::Target& target() const;
  // Seconds of the calibration kernel on the workers; 0 = they have none.
  double calibration() const;

 private:
  class State;
  explicit FleetMeasurer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The fleet, and this machine from the moment on that the fleet is lost.
class FleetOrLocal : public measure::Measurer {
 public:
  // `open_local` is called at most once. Errors of it: this machine cannot replace the fleet, and why.
  FleetOrLocal(std::unique_ptr<FleetMeasurer> fleet, std::function<Result<measure::Measurer*>()> open_local,
               std::function<void(const std::string&)> note);
  ~FleetOrLocal() override;

  measure::MeasurerTraits traits() const override;
  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const ir::Kernel& naive,
                                                              const target::Target& target) override;
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override;
  Result<measure::PairedComparison> compare(const measure::Candidate& a, const measure::Candidate& b,
                                            measure::PairAim aim) override;
  std::vector<std::string> notes() const override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tcc::fleet
