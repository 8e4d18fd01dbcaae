// What the processes tell each other. Both ends are built from the same sources and check kProtocol at the start.
//
// A job is a memfd: JobHeader (with the result), then its artifacts, then room for outputs where asked for. A task is
// a memfd: its description, then data and references. Messages over the socket only name them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/host/quiet.h"
#include "tcc/codegen/artifact.h"
#include "tcc/record/record.h"
#include "tcc/support/result.h"

namespace tcc::measure {

enum class JobKind : int32_t {
  kReference,  // run the first program on every data set, a second one on the absolute values; hand the outputs back
  kMeasure,    // check, then time
  kPaired,     // check both, then time them in turns
  kCheck,      // check only
};

// How far a child came; tells a hang from a slow program and where a fault happened.
enum class Phase : int32_t { kStarted, kLoading, kChecking, kTiming, kDone };

enum class ChildStatus : int32_t {
  kOk,
  kWrong,
  kFailed,    // no code, or the device refuses the launch
  kNoMemory,  // of the device, for the task's own tensors
  kCrashed,   // the device gave up on the process: no other program can run in it
};

struct Fault {
  int32_t signal = 0;  // 0: none seen by the handler
  int32_t code = 0;
  uint64_t address = 0;
  int32_t buffer = -1;  // whose data, margin or guard holds the address; -1: of no buffer
  int32_t artifact = 0;
  int64_t offset = 0;  // from the start of that buffer's data
};

inline constexpr int64_t kMaxSamples = 400;

// Written by the child alone.
struct WorkerResult {
  Phase phase;
  ChildStatus status;
  int32_t exact_passed;
  int32_t set;  // data set under work
  Fault fault;
  double last_run_seconds;  // of the last run for checking
  double given_up_seconds;  // of CPU time, where a run for checking was ended after so long; 0: none was
  double max_error;
  int64_t num_samples, dropped, repeats, repeats_b;
  int32_t converged, cut_short;
  int32_t driver_error;  // on a GPU: the driver's number for what lost the device; 0: nothing did
  int32_t disturbed;     // 1: too few samples were undisturbed, and these are the others as well
  double calibration;
  // On a GPU, where CUPTI is: seconds of a run by the device's own stamps, and what its counters say of one.
  double device_seconds;  // 0: not known
  int32_t has_counts;     // 1: `counts` is set
  record::Counts counts;
  QuietTimes quiet;                                    // of the machine, as far as this child has seen it
  std::array<double, kMaxSamples> samples, samples_b;  // samples_b: of the second program of a pair
  std::array<char, 400> text, where;
  std::array<char, 800> note;  // for the user, lines said once: why something that was asked for cannot be had
};

struct JobHeader {
  JobKind kind;
  int32_t threads;
  int32_t num_cpus;
  std::array<int32_t, 256> cpus;
  double budget_seconds, patience_seconds;
  QuietTimes quiet;     // what all children so far have seen
  double best_seconds;  // of the task's programs so far; 0: none
  int64_t max_copies;   // on a GPU: of the parameters, that launches take in turns
  int32_t profile;      // on a GPU: 1: CUPTI's times and counters are wanted as well
  int64_t memory_limit_bytes;
  double cpu_limit_seconds;
  int64_t payload_offset, payload_bytes;  // artifacts, see put_artifact
  int32_t num_artifacts;
  int32_t sandbox;         // 1: see measure/host/sandbox.h
  int32_t cold_weights;    // 1: see HostMeasureOptions
  int64_t outputs_offset;  // kReference: of each program, of each set, the outputs, row-major
  WorkerResult result;
};

inline constexpr uint64_t kMagic = 0x7463632d776f726bull;
// Changes whenever the layout does.
inline constexpr uint64_t kProtocol = 11 + (sizeof(JobHeader) << 8);

struct Hello {
  uint64_t magic = kMagic, protocol = kProtocol;
};
// What a GPU's worker says next, once: put_gpu_hello. Longer than any of them.
inline constexpr size_t kGpuHelloBytes = 60000;
struct GpuHello {
  bool ok = false;
  std::string message, hint;  // why there is no device
  std::string name, uuid, target;
  int64_t driver_version = 0, memory_bytes = 0;
  bool takes_ptx_only = false;
};
// With two descriptors: job, task.
struct JobMessage {
  uint64_t magic = kMagic, job = 0, task = 0;
  int64_t job_bytes = 0, task_bytes = 0;
  double timeout_seconds = 0;  // until the checks are done, and again for the timing
};
struct ReplyMessage {
  uint64_t magic = kMagic, job = 0;
  int32_t started = 0;  // 0: fork failed, `error` is errno
  int32_t error = 0;
  int32_t wait_code = 0;  // CLD_EXITED, CLD_KILLED, CLD_DUMPED
  int32_t wait_status = 0;
  int32_t timed_out = 0;
};

template <size_t N>
void set_text(std::array<char, N>& to, std::string_view text) {
  const size_t n = text.size() < N - 1 ? text.size() : N - 1;
  text.copy(to.data(), n);
  to[n] = 0;
}

// --- descriptions of variable length -------------------------------------------------------------------------------
// Numbers and enumerators take eight bytes each; texts and lists begin with their length.
class Writer {
 public:
  const std::string& bytes() const { return bytes_; }
  void raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }

 private:
  std::string bytes_;
};
// Reading past the end gives zeros and clears ok().
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  // The next `size` bytes; nothing where there are fewer.
  std::string_view raw(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

void put_gpu_hello(Writer& writer, const GpuHello& hello);
GpuHello get_gpu_hello(Reader& reader);

void put_artifact(Writer& writer, const codegen::Artifact& artifact);
codegen::Artifact get_artifact(Reader& reader);

// One parameter of a task and the offsets of its data in the task's memory.
struct TaskParam {
  ir::BufferRole role = ir::BufferRole::kInput;
  ir::Type type = ir::Type::kF32;
  std::vector<int64_t> shape;
  struct Set {
    int64_t data = -1;       // inputs and weights: elements of `type`, row-major
    int64_t reference = -1;  // outputs: doubles
    int64_t scale = -1;      // outputs: doubles, one per element; -1: scale_all
    double scale_all = 0;
  };
  std::array<Set, 2> sets;
  // Outputs of which only some elements have a reference: how many, and the offset of their numbers (int64, ascending).
  // 0: all elements, in their order.
  int64_t num_samples = 0, samples = -1;

  int64_t elements() const;
  int64_t references() const { return num_samples > 0 ? num_samples : elements(); }
  bool is_output() const { return role == ir::BufferRole::kOutput; }
};
struct TaskDescription {
  std::vector<TaskParam> params;
  int64_t num_sets = 0;
  bool exact = false;  // set 0 must be equal
  double scaled = 0;   // factor of the scale, see OutputRule
  bool has_float = true;
};
void put_task(Writer& writer, const TaskDescription& task);
TaskDescription get_task(Reader& reader);

inline int64_t page_up(int64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

}  // namespace tcc::measure
