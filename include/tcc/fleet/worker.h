// A worker of a fleet: takes jobs of its machine class, rebuilds the programs, has them measured and answers. Whatever
// it does not acknowledge in time goes to another worker.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tcc/fleet/bus.h"
#include "tcc/fleet/message.h"
#include "tcc/measure/measurement.h"

namespace tcc::fleet {

// Where the wall time of a worker went. `waiting`: for jobs; `answering`: until the server has an answer; `preparing`:
// inputs and references of tasks; `measuring`: rebuilding, compiling, checking and timing.
struct WorkerSeconds {
  double waiting = 0, answering = 0, preparing = 0, measuring = 0;
};

// What runs the programs of jobs.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual record::Kind kind() const = 0;
  virtual bool compares() const { return false; }
  // Of all jobs so far.
  virtual double preparing_seconds() const { return 0; }
  // The answer without id and worker. Errors: nothing can be measured here any more; the job goes to another worker.
  virtual Result<Answer> run(const Job& job, const TaskText& task) = 0;
};

// Replays the traces and hands the programs to a measurer, which must outlive it. A program with another hash than the
// job says is trouble: nothing of it is measured. So is a task whose measure::task_memory() is above `most_bytes`.
std::unique_ptr<Runner> make_runner(measure::Measurer& measurer, double most_bytes);

// Times are a function of the program's hash, and each takes `seconds`: for tests and figures of the fleet itself.
// Builds and runs nothing.
std::unique_ptr<Runner> make_fake_runner(double seconds);

// A name of the running system, as Beat::machine; "" where it has none.
std::string running_system();

struct WorkerOptions {
  std::string name;  // see is_name(); "" = host and process
  target::Target target;
  std::string platform;
  std::string machine = running_system();
  int64_t threads = 1;
  std::string tool;
  double calibration = 0;  // seconds of the calibration kernel here; 0 = not compared
  // Times the kernel again where it is slower here than in the class: another program may have run. May be empty.
  std::function<double()> calibrate_again;
  double ack_wait = 10;      // as the tuner's, see TunerOptions
  int64_t poison_after = 3;  // deliveries that ended without an answer
  double beat_seconds = 2;
  // A job that takes longer gets no more signals of progress, so that it goes to another worker, and `overdue` is
  // called: from another thread, while the job goes on. It may end the process.
  double job_seconds = 600;
  std::function<void()> overdue;
  std::function<bool()> stop;                    // true: finish what is measured, then end; may be empty
  std::function<void(const std::string&)> note;  // sentences for the user; may be empty
};
// How far apart calibrations may be. Workers of one machine share its clock and its caches: beside a busy one the
// kernel is up to 13 % slower, and later programs of both are. What is further apart is another kind of core.
inline constexpr double kMostCalibrationApart = 0.05, kMostCalibrationApartHere = 0.25;

struct WorkerReport {
  std::string worker, machine_class;
  int64_t done = 0, failed = 0, refused = 0, poisoned = 0, redelivered = 0;
  WorkerSeconds seconds;
};

std::string default_worker_name();
// Until it is asked to stop, by options.stop or by `tcc fleet drain`. `key`: of messages. Errors: the connection is
// lost for good; the calibration kernel runs more than 5 % (25 % on a machine that has a worker of the class) faster or
// slower than on the first worker of the class;
// measuring is impossible.
Result<WorkerReport> work(const std::shared_ptr<Bus>& bus, const std::string& key, const WorkerOptions& options,
                          Runner& runner);

// The streams that workers, tuners and viewers share. Idempotent.
Result<void> ensure_streams(Bus& bus);

}  // namespace tcc::fleet
