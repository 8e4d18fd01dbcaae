// What the members of a fleet say to each other. A message is "TCC1", the HMAC-SHA-256 of its subject and body under
// the fleet's key, and the body: JSON with the number of the schema. A reader checks the size first, then the HMAC, and
// only then parses.
//
//   tcc.task.<task>            the text of a task: naive kernel, target
//   tcc.work.<class>.<lane>    a job for any worker of the class
//   tcc.final.<worker>         a job for this worker: finals run on one machine
//   tcc.result.<run>           answers to the jobs of a tuner's run
//   tcc.beat.<worker>          what a worker does
//   tcc.class.<class>          time of the calibration kernel on the first worker of the class
//   tcc.control                drain
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/measure/measurement.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::fleet {

inline constexpr int64_t kSchema = 1;
inline constexpr size_t kMaxMessageBytes = size_t{1} << 20;  // of every message; the server's own limit
inline constexpr size_t kMaxJobBytes = size_t{256} << 10;

inline constexpr std::string_view kTasksStream = "TCC_TASKS", kResultsStream = "TCC_RESULTS",
                                  kBeatsStream = "TCC_BEATS", kClassesStream = "TCC_CLASSES",
                                  kPoisonStream = "TCC_POISON", kControlSubject = "tcc.control";
// The queue of a class has lanes. Where a round has several tasks, the jobs of a task are in one lane. A worker stays
// in a lane until it is empty, so that few workers prepare the same task.
inline constexpr int kLanes = 8;
std::string lane_consumer(int lane);
std::string work_stream(const std::string& machine_class);  // "TCC_WORK_<class>"
std::string work_subject(const std::string& machine_class, int lane);
std::string final_subject(const std::string& worker);
std::string task_subject(const std::string& key);
std::string result_subject(const std::string& run);
std::string beat_subject(const std::string& worker);
std::string class_subject(const std::string& machine_class);
std::string poison_subject(const std::string& machine_class);

// Letters, digits, '-' and '_', 1 to 64 of them: what subjects and names of streams are made of.
bool is_name(std::string_view text);

// Why a message was refused, before anything of it was used. Workers count refusals by this.
enum class Refusal : uint8_t { kSize, kForm, kHmac, kSchema, kBody };
std::string_view refusal_name(Refusal refusal);
template <class T>
using Opened = tl::expected<T, std::pair<Refusal, std::string>>;

std::string seal(std::string_view key, std::string_view subject, std::string_view body);
// The body.
Opened<std::string_view> open_sealed(std::string_view key, std::string_view subject, std::string_view message,
                                     size_t most = kMaxMessageBytes);

struct TaskText {
  std::string key;  // 16 hexadecimal digits: hash of the naive kernel and of the target
  ir::Kernel naive;
  target::Target target;
};
std::string task_key(const ir::Kernel& naive, const target::Target& target);
std::string print_task(const TaskText& task);
// The kernel and the target must give the key.
Opened<TaskText> parse_task(std::string_view body);

struct Program {
  uint64_t nest_hash = 0;
  std::string trace;  // JSON
  bool finalist = false;
};
struct Job {
  std::string id;       // of the candidate: answers are counted once for it
  std::string run;      // of the tuner
  std::string task;     // key
  std::string tool;     // version of the tuner's tcc
  uint64_t number = 0;  // measure::Candidate::run
  int64_t threads = 1;
  std::vector<Program> programs;                      // one is measured, two are compared
  measure::PairAim aim = measure::PairAim::kWhoWins;  // of a comparison
};
std::string print_job(const Job& job);
Opened<Job> parse_job(std::string_view body);

struct Answer {
  std::string id, worker;
  std::optional<measure::Measurement> measured;
  std::optional<measure::PairedComparison> compared;
  bool unknown_task = false;  // the worker finds no text of the task
  bool poison = false;        // `measured` says so: the candidate ended workers
  std::string trouble;        // the worker cannot measure at all, or refuses the job, and why; "" = it could
};
std::string print_answer(const Answer& answer);
Opened<Answer> parse_answer(std::string_view body);

struct Beat {
  std::string worker, machine_class, tool, host;
  std::string machine;  // equal for workers of one running system; "": not known
  // Of the machine class: what tuners compare with their target.
  std::string target, platform;
  uint64_t features = 0;
  int64_t threads = 1;
  record::Kind kind = record::Kind::kMeasured;
  bool compares = false;
  double calibration = 0;        // seconds of the calibration kernel; 0 = it has none
  int64_t started = 0, now = 0;  // unix milliseconds, by the worker's clock
  std::string state;             // "ready", "measuring", "draining", "ended"
  int64_t done = 0, failed = 0, refused = 0, poisoned = 0, redelivered = 0;
  double rate = 0;  // candidates a second, of the last ten seconds
};
std::string print_beat(const Beat& beat);
Opened<Beat> parse_beat(std::string_view body);

// The first worker's calibration.
std::string print_calibration(double seconds, const std::string& worker);
Opened<double> parse_calibration(std::string_view body);

// Asks workers to finish what they measure and to end. `worker` "": all. Workers obey within a minute of `now`.
struct Control {
  std::string worker;
  int64_t now = 0;  // unix milliseconds
};
std::string print_control(const Control& control);
Opened<Control> parse_control(std::string_view body);

// The name of a machine class: the target's name and a hash of what makes times comparable and programs equal.
std::string machine_class(const target::Target& target, const std::string& platform, int64_t threads,
                          const std::string& tool, record::Kind kind);

}  // namespace tcc::fleet
