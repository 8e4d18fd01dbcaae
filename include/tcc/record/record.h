// One result of one candidate program: the program, the machine and the result. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::record {

// X(Name, text). The text is what the store holds: never change one.
// clang-format off
#define TCC_RECORD_STATUSES(X) \
  X(Ok, "ok")                        /* ran, was checked, was timed */ \
  X(Wrong, "wrong")                  /* its results differ from the reference, or it wrote what it must not */ \
  X(CompileFailed, "compile_failed") /* no code could be made */ \
  X(Crashed, "crashed")              /* a signal ended it */ \
  X(Hung, "hung")                    /* its first run did not end in time */ \
  X(TimedOut, "timed_out")           /* it runs, but too slowly to be checked and timed within its limit */ \
  X(Rejected, "rejected")            /* lowering or a limit of the target refused it */

#define TCC_RECORD_KINDS(X) \
  X(Measured, "measured") \
  X(Predicted, "predicted") /* by a model that ranks programs: nothing ran */ \
  X(Constructed, "constructed") /* by formulas for tiles, and ranked by a model: nothing ran */ \
  X(Simulated, "simulated") /* on a simulated GPU: to study searches, never to build from */
// clang-format on

enum class Status : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_RECORD_STATUSES(TCC_X)
#undef TCC_X
};
enum class Kind : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_RECORD_KINDS(TCC_X)
#undef TCC_X
};

// The kinds of programs that nobody has run: chosen for what a model or formulas say.
inline bool is_untimed(Kind k) {
  return k == Kind::kPredicted || k == Kind::kConstructed;
}

std::string_view status_name(Status s);
std::string_view kind_name(Kind k);
// False: no status or kind has this name.
bool find_name(std::string_view name, Status& status);
bool find_name(std::string_view name, Kind& kind);

// What a GPU's counters say of one run. Negative: not counted.
struct Counts {
  double dram_bytes = -1;    // read and written by device memory
  double tensor_share = -1;  // of the run's cycles in which the tensor cores worked, 0 to 1
  double occupancy = -1;     // resident warps as a share of what fits, mean over the run

  bool any() const { return dram_bytes >= 0 || tensor_share >= 0 || occupancy >= 0; }
  bool operator==(const Counts&) const = default;
};

// What came of measuring a program. Seconds.
struct Outcome {
  Status status = Status::kOk;
  std::string failure;  // for people, empty when ok
  // Each the mean time of one run within one sample. Where too few samples were undisturbed, these are all.
  std::vector<double> samples;
  double median = 0;         // the statistic that ranks; for predictions, the predicted time
  double low = 0, high = 0;  // its 95 % order-statistic interval; disturbed: from the least to the middle
  bool converged = false;    // the interval is within 2 %
  bool cut_short = false;    // timing ended after a few samples: clearly slower than the best of its task
  int64_t repeats = 0;       // runs back to back that one sample is the mean of
  int64_t dropped = 0;       // samples thrown away: preempted, time stolen by the hypervisor, machine not quiet
  double calibration = 0;    // time of a fixed loop beside the samples: tells throttling and noise apart
  int64_t threads = 1;
  bool overlap = false;  // other cores of the machine compiled meanwhile
  // What the numeric gate established: "exact" or "tolerance", with " at samples" where only some elements of the
  // outputs were compared; "" = not checked.
  std::string gate;
  double max_error = 0;  // largest error as a share of what was allowed; above 1 is wrong
  double compile_seconds = 0;
  // On a GPU, where CUPTI was: seconds of a run by the device's own stamps of its kernels, without the gaps between
  // launches that `samples` hold, 0 = not known; and its counters, of the best few programs of a task.
  double device_seconds = 0;
  Counts counts;
  uint64_t code = 0;  // hash of the object code; 0 when none was made
  // How the trace laid the constants out: one line "<parameter> <layout>" each, those that stay row-major left out.
  std::string layouts;
};

struct Record : Outcome {
  int64_t id = 0;  // given by the store; rises in the order of adding
  Kind kind = Kind::kMeasured;

  // The task and the program.
  uint64_t task = 0;             // structural hash of the task
  uint64_t anchor = 0;           // structural hash of its anchor block alone; 0 = not known (older records)
  uint64_t family = 0;           // the same without extents; 0 = not known (older records)
  std::vector<int64_t> extents;  // of the loops around the anchor block, outermost first
  std::string workload;          // the task for people, "conv2d 1x64x56x56 64x64x3x3 ..."
  std::string target;            // name of the target
  uint64_t target_features = 0;  // target::feature_hash: programs are exchangeable where it is equal
  uint64_t skeleton = 0;         // hash of the trace without its decisions
  std::vector<int64_t> decisions;
  std::string trace;       // the whole trace as JSON text
  uint64_t nest_hash = 0;  // hash of the program at Stage::Nest: equal means the same program

  // What `median` is of the samples: "median"; "fastest tenth", the end of it, where too few were undisturbed; "" =
  // no samples.
  std::string statistic;
  // State of the caches: "warm" = runs back to back on the same data; "cold" = nothing of the inputs was in them, on a
  // CPU nothing of the weights; "" = no samples.
  std::string cache;

  // target::platform_text() of the machine that measured: times are comparable where it is equal. "" = not known (older
  // records).
  std::string platform;
  std::string space;  // the design spaces that it was drawn from: space::space_name(); "" = not known
  // Where. `device` is target_to_json() of the machine that measured: its features, and its rates where it was probed.
  std::string isa;  // "x86-64-v3"
  std::string device;

  std::string tool_version;
  int64_t unix_time = 0;
};

// The one list of what stores and texts hold of a record, in the order of the store's columns: fn(name, field, since).
// `since` is the first version of the store's tables that has the column. Numbers without a sign are hashes.
template <class R, class Fn>
void for_each_field(R& r, Fn&& fn) {
  fn("task", r.task, 1), fn("workload", r.workload, 1), fn("target", r.target, 1);
  fn("target_features", r.target_features, 1), fn("skeleton", r.skeleton, 1), fn("decisions", r.decisions, 1);
  fn("trace", r.trace, 1), fn("nest", r.nest_hash, 1), fn("code", r.code, 1), fn("kind", r.kind, 1);
  fn("status", r.status, 1), fn("failure", r.failure, 1), fn("samples", r.samples, 1), fn("median", r.median, 1);
  fn("low", r.low, 1), fn("high", r.high, 1), fn("calibration", r.calibration, 1), fn("threads", r.threads, 1);
  fn("gate", r.gate, 1), fn("max_error", r.max_error, 1), fn("tool_version", r.tool_version, 1);
  fn("unix_time", r.unix_time, 1);
  fn("layouts", r.layouts, 2), fn("statistic", r.statistic, 2), fn("converged", r.converged, 2);
  fn("cut_short", r.cut_short, 2), fn("repeats", r.repeats, 2), fn("dropped", r.dropped, 2), fn("cache", r.cache, 2);
  fn("overlap", r.overlap, 2), fn("compile_seconds", r.compile_seconds, 2), fn("isa", r.isa, 2);
  fn("device", r.device, 2);
  fn("anchor", r.anchor, 3);
  fn("device_seconds", r.device_seconds, 4), fn("dram_bytes", r.counts.dram_bytes, 4);
  fn("tensor_share", r.counts.tensor_share, 4), fn("occupancy", r.counts.occupancy, 4);
  fn("platform", r.platform, 6), fn("space", r.space, 6);
  fn("family", r.family, 7), fn("extents", r.extents, 7);
}

// 16 lower-case hexadecimal digits: how hashes are written in the store and shown to people.
std::string hash_text(uint64_t hash);

}  // namespace tcc::record
