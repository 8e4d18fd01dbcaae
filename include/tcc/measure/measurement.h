// Measurers: candidates go in, measurements come out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/ir/kernel.h"
#include "tcc/record/record.h"
#include "tcc/support/result.h"

namespace tcc::target {
struct Target;
}

namespace tcc::measure {

class MeasureTask;

// One program to try. Either `kernel` is at Stage::Lowered and the measurer compiles it, or `artifact` is given.
struct Candidate {
  uint64_t id = 0;                    // the caller's; comes back in the Measurement
  uint64_t nest_hash = 0;             // hash of the program at Stage::Nest
  const MeasureTask* task = nullptr;  // inputs and reference; may be null for the fake measurer only
  ir::Kernel kernel;
  ir::Kernel nest;  // the same program at Stage::Nest, for measurers that run nothing; without a root: not given
  std::shared_ptr<const codegen::Artifact> artifact;
  bool finalist = false;  // a time that decides: a quiet moment is waited for longer, and no sample is saved
  // What was measured of the same code for the same run may stand for it, see Measurement::twin; 0: nothing may. A new
  // run's number makes a measurer forget those of others.
  uint64_t run = 0;
  double expected_seconds = 0;  // by the backend's prior; 0 = it only ranks. For measurers that run nothing.
  // For measurers that rebuild the program elsewhere: the task's kernel at Stage::Built, and the trace that makes the
  // program of it, as JSON. Without a root: not given.
  ir::Kernel naive;
  std::string trace;
};

// The machine as records describe it.
struct DeviceFacts {
  std::string isa;   // "x86-64-v3"
  std::string text;  // target_to_json() of it
};

struct Measurement : record::Outcome {
  uint64_t id = 0;
  // Too few samples were undisturbed: the fastest tenth counts, and `median` is its end.
  bool disturbed = false;
  bool twin = false;       // of the same code as a program measured before: its measurement, nothing was run
  bool cold = false;       // runs found nothing of their inputs in the caches
  std::string where;       // of the largest error: "parameter 2 [0, 17]"
  double run_seconds = 0;  // wall time of checking and timing, from handing it over to the answer; 0: nothing was run
  std::shared_ptr<const DeviceFacts> device;  // that measured; may be null
};

// Writes what the measurement knows into the record (status, samples, gate, code, ...). The caller sets the rest, the
// kind among it.
void fill_record(const Measurement& measurement, record::Record& record);

// What a paired comparison is to find out. We can rule out that A wins long before we can tell whether B is faster:
// kWhetherAWins stops there.
enum class PairAim : uint8_t { kWhoWins, kWhetherAWins };

// Which of two programs is faster, by runs that alternate A B B A in one process, in several processes.
struct PairedComparison {
  enum class Winner : uint8_t { kNone, kA, kB };
  Winner winner = Winner::kNone;
  // Time of A over time of B: median over all pairs, and its interval (the union over the processes).
  double ratio = 1, low = 1, high = 1;
  int64_t pairs = 0;
  std::string failure;  // not empty when one of the two did not run; then there is no winner
};
// Effects below this are called a tie whatever the interval says.
inline constexpr double kMinimalEffect = 0.01;

struct MeasurerTraits {
  record::Kind kind = record::Kind::kMeasured;  // of the records that its measurements become
  int64_t at_once = 8;        // candidates to hand over together: between two looks at the clock and at the user's stop
  int64_t tasks_at_once = 1;  // tasks whose rounds are measured together, so that many machines have work
  bool compares = false;      // compare() times pairs; otherwise medians decide
  bool prepares_beside = false;  // prepare() may run on another thread while programs are timed: it disturbs none
};

// Turns candidates into times. The search knows nothing else of a machine. A bad candidate is a status; an Error means
// that measuring itself is impossible (the worker cannot be started, no memory).
class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual MeasurerTraits traits() const { return {}; }
  // Makes the inputs and references of a task: what Candidate::task points to. nullptr: this measurer needs none. While
  // nothing is measured, several threads may call it at once.
  virtual Result<std::shared_ptr<const MeasureTask>> prepare(const ir::Kernel& naive, const target::Target& target);
  // Compiles the candidates that have no artifact yet, so that measuring them several times compiles nothing. What does
  // not compile stays without an artifact, and measure() says why.
  virtual void compile(std::span<Candidate> candidates);
  // Answers in the order of the candidates.
  virtual Result<std::vector<Measurement>> measure(std::span<const Candidate> candidates) = 0;
  // Times two programs of one task in turns, A B B A, in several processes. A winner is called only when in each of six
  // processes the interval of the ratio excludes 1, on the same side, by an effect of at least kMinimalEffect.
  virtual Result<PairedComparison> compare(const Candidate& a, const Candidate& b, PairAim aim);
  // Sentences for the user about the machine.
  virtual std::vector<std::string> notes() const { return {}; }
};

// The interval of the median from order statistics: distribution free, at least `confidence` where the sample size
// allows it, else the whole range. `sorted` ascending, not empty.
struct Interval {
  double median = 0, low = 0, high = 0;
};
Interval median_interval(std::span<const double> sorted, double confidence = 0.95);

}  // namespace tcc::measure
