// Two libraries in turns, A B B A, in several processes: each has memory, threads and code in other places, and in
// every other one B is loaded first. Within a process such places favor one of the two for as long as it lives. A turn
// is a group of runs, whose first does not count: it finds the other library's data in the caches.
//
// The system may keep two threads of a context on one processor, which then takes twice as long. So a process has
// several rounds with contexts of their own, and tells the median round: in few of them threads are placed badly.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>

#include "driver/host_tensors.h"
#include "driver/student.h"
#include "tcc/driver/library.h"
#include "tcc/package/loaded_model.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/support/descriptor.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr int64_t kMostRounds = 5;       // of a process; odd, so that a median is of one round
constexpr double kGroupSeconds = 20e-3;  // of a turn
constexpr double kGroupShare = 0.1;      // likewise, of a round's time at most
constexpr double kSampleSeconds = 2e-4;  // of runs back to back: reading the clock and single wake-ups do not count
constexpr int64_t kMinRuns = 3;          // of a turn
constexpr double kLongRun = 4e-3;        // seconds: one run of this length is a turn
constexpr int64_t kMinPairs = 4;         // of a round
constexpr int64_t kMinLongPairs = 2;     // where one run is a turn
constexpr size_t kMaxPairs = 20000;
constexpr double kWarmUp = 0.2;  // share of a round's time
constexpr double kUnknown = 1e9;
constexpr double kProcessSeconds = 0.025;  // to start one and load the libraries

// The sizes are those of the library's dimensions; the other one may have other dimensions, or fixed ones.
Result<std::shared_ptr<package::LoadedModel>> open_at_sizes(const std::string& library, const BenchOptions& options) {
  TCC_TRY(auto loaded, package::LoadedModel::open(library));
  std::map<std::string, int64_t> own;
  for (const graph::DimRange& dim : loaded->dims())
    if (auto size = options.sizes.find(dim.name); size != options.sizes.end()) own.insert(*size);
  if (own.empty()) return loaded;
  return package::LoadedModel::open(library, own);
}

struct Side {
  std::shared_ptr<package::LoadedModel> model;
  std::unique_ptr<package::ModelContext> context;
  std::unique_ptr<HostTensors> tensors;

  Result<void> load(const std::string& library, const BenchOptions& options) {
    TCC_TRY(model, open_at_sizes(library, options));
    tensors = std::make_unique<HostTensors>(*model, options.seed);
    return {};
  }
  Result<void> begin_round(const BenchOptions& options) {
    TCC_TRY(context, model->create_context({.threads = options.threads, .cuda_driver = options.cuda_driver}));
    return {};
  }
  // Seconds of one run, the mean of `repeats`.
  Result<double> time(int64_t repeats) {
    Stopwatch watch;
    for (int64_t i = 0; i < repeats; ++i) TCC_TRY_VOID(context->run(tensors->input_pointers, tensors->output_pointers));
    return watch.seconds() / static_cast<double>(repeats);
  }
  // The median run of a turn.
  Result<double> turn(double each, double seconds) {
    TCC_TRY_VOID(time(1));
    const auto repeats = static_cast<int64_t>(std::ceil(kSampleSeconds / each));
    const auto count =
        std::max(each > kLongRun ? 1 : kMinRuns, static_cast<int64_t>(seconds / (each * static_cast<double>(repeats))));
    std::vector<double> samples;
    for (int64_t i = 0; i < count; ++i) {
      TCC_TRY(const double sample, time(repeats));
      samples.push_back(sample);
    }
    return median_of(samples);
  }
};

// Processes that are forked from one have the same addresses: what is mapped from here on is elsewhere in each.
void move_places(int64_t block) {
  Rng rng = Rng(0x706c616365).fork(static_cast<uint64_t>(block));
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  (void)mmap(nullptr, page * static_cast<size_t>(1 + rng.below(4096)), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  (void)sbrk(static_cast<intptr_t>(16 * (1 + rng.below(4096))));
}

// What one round finds.
Result<PairBlock> time_round(Side (&sides)[2], bool b_first, double seconds, const BenchOptions& options) {
  TCC_TRY_VOID(sides[b_first ? 1 : 0].begin_round(options));
  TCC_TRY_VOID(sides[b_first ? 0 : 1].begin_round(options));
  Stopwatch watch;
  double each = 0;
  do {
    TCC_TRY(const double first, sides[0].time(1));
    TCC_TRY(const double second, sides[1].time(1));
    each = std::max(std::min(first, second), 1e-7);
  } while (watch.seconds() < kWarmUp * seconds);
  const double group = std::min(kGroupSeconds, kGroupShare * seconds);
  const int64_t pairs = each > kLongRun ? kMinLongPairs : kMinPairs;
  std::vector<double> of_a, of_b, ratios;
  bool a_first = !b_first;
  watch.restart();
  while (ratios.size() < kMaxPairs && (watch.seconds() < seconds || std::ssize(ratios) < pairs)) {
    TCC_TRY(const double first, sides[a_first ? 0 : 1].turn(each, group));
    TCC_TRY(const double second, sides[a_first ? 1 : 0].turn(each, group));
    of_a.push_back(a_first ? first : second);
    of_b.push_back(a_first ? second : first);
    ratios.push_back(of_b.back() / of_a.back());
    a_first = !a_first;
  }
  return PairBlock{median_of(ratios), median_of(of_a), median_of(of_b), std::ssize(ratios)};
}

// What one process finds: its median round.
Result<PairBlock> time_block(const std::string& a, const std::string& b, int64_t block, double seconds,
                             const BenchOptions& options) {
  const bool b_first = block % 2 == 1;
  move_places(block);
  Side sides[2];
  TCC_TRY_VOID(sides[b_first ? 1 : 0].load(b_first ? b : a, options));
  TCC_TRY_VOID(sides[b_first ? 0 : 1].load(b_first ? a : b, options));
  double each = kUnknown;
  for (Side& side : sides) {
    TCC_TRY_VOID(side.begin_round(options));
    TCC_TRY_VOID(side.time(1));
    TCC_TRY(const double run, side.time(1));
    each = std::min(each, run);
  }
  // A model that is too slow for several rounds has one.
  const double turn = static_cast<double>(kMinRuns) * std::max(each, kSampleSeconds) + each;
  const double least = static_cast<double>(2 * kMinPairs * kMostRounds) * turn;
  const int64_t count = least > seconds ? 1 : kMostRounds;
  std::vector<PairBlock> rounds;
  for (int64_t i = 0; i < count; ++i) {
    TCC_TRY(const PairBlock round,
            time_round(sides, b_first != (i % 2 == 1), seconds / static_cast<double>(count), options));
    rounds.push_back(round);
  }
  std::sort(rounds.begin(), rounds.end(), [](const PairBlock& x, const PairBlock& y) { return x.ratio < y.ratio; });
  return rounds[rounds.size() / 2];
}

constexpr size_t kMaxErrorText = 2000;
struct Answer {
  PairBlock block;
  bool ok = false;
  char message[kMaxErrorText + 1] = {}, hint[kMaxErrorText + 1] = {};
};

Result<PairBlock> in_process(const std::function<Result<PairBlock>()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return environment_error("cannot make a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return environment_error("cannot start a process that times the libraries: {}", std::strerror(errno));
  }
  Answer answer;
  if (child == 0) {
    close(ends[0]);
    const Result<PairBlock> done = work();
    answer.ok = done.has_value();
    if (done) {
      answer.block = *done;
    } else {
      std::strncpy(answer.message, done.error().message.c_str(), kMaxErrorText);
      std::strncpy(answer.hint, done.error().hint.c_str(), kMaxErrorText);
    }
    const bool told = write_all(ends[1], {reinterpret_cast<const char*>(&answer), sizeof answer});
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  const bool answered = read_all(ends[0], &answer, sizeof answer) == sizeof answer;
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (answered && answer.ok) return answer.block;
  if (answered) return make_error(ErrorClass::kEnvironment, answer.message, answer.hint);
  if (WIFSIGNALED(status))
    return environment_error("the process that times the libraries died of signal {}", WTERMSIG(status));
  return environment_error("the process that times the libraries ended with status {}", WEXITSTATUS(status));
}

constexpr int64_t kDeviceTurns = 6;  // pairs; the device's own times vary little

// Turns of two libraries on a device, by its own times. A process has one device context, and none survives a fork, so
// all turns are in this process; each loads its library anew.
Result<std::vector<PairBlock>> time_on_device(const std::string& a, const std::string& b, const BenchOptions& options) {
  // Keeps the context alive: making it anew takes a second.
  TCC_TRY(const auto device, runtime::CudaDevice::open(0, options.cuda_driver));
  BenchOptions turn = options;
  turn.per_kernel = turn.profile = false;
  turn.seconds = options.seconds * kPairedTimes / (2 * kDeviceTurns);
  const auto time = [&](const std::string& library) -> Result<double> {
    TCC_TRY(const BenchReport report, bench_library(library, turn));
    return report.gpu->warm.median;
  };
  std::vector<PairBlock> blocks;
  for (int64_t i = 0; i < kDeviceTurns; ++i) {
    const bool b_first = i % 2 == 1;
    TCC_TRY(const double first, time(b_first ? b : a));
    TCC_TRY(const double second, time(b_first ? a : b));
    const double of_a = b_first ? second : first, of_b = b_first ? first : second;
    blocks.push_back({of_b / of_a, of_a, of_b, 1});
  }
  return blocks;
}

// Are they for GPUs? Errors: only one is, or they are of other tensors.
Result<bool> check_comparable(const std::string& a, const std::string& b, const BenchOptions& options) {
  TCC_TRY(const auto first, open_at_sizes(a, options));
  TCC_TRY(const auto second, open_at_sizes(b, options));
  if (first->on_gpu() != second->on_gpu())
    return make_error(ErrorClass::kUsage,
                      fmt::format("expected two libraries for CPUs or two for GPUs, but only '{}' is for GPUs",
                                  sanitize(first->on_gpu() ? a : b)),
                      "build both for one target: tcc build MODEL --target NAME -o DIR");
  const auto describe = [](const std::vector<package::TensorSpec>& specs) {
    std::string text;
    for (const package::TensorSpec& spec : specs)
      text += fmt::format("{} {} ", graph::dtype_name(spec.dtype), graph::shape_text(spec.shape));
    return text;
  };
  const std::string one = describe(first->inputs()) + "to " + describe(first->outputs()),
                    two = describe(second->inputs()) + "to " + describe(second->outputs());
  if (one == two) return first->on_gpu();
  return make_error(
      ErrorClass::kInput,
      fmt::format("'{}' and '{}' take or give other tensors: {}, and {}", sanitize(a), sanitize(b), one, two),
      "compare libraries of one model");
}

}  // namespace

double compare_seconds(double seconds, double run_seconds) {
  // Of a process: two runs of each library before its round, one of each to warm up, and its pairs of turns.
  const int64_t in_turns = run_seconds > kLongRun ? 4 * kMinLongPairs : 2 * (1 + kMinRuns) * kMinPairs;
  const double least = run_seconds * static_cast<double>(6 + in_turns);
  const double block = std::max(seconds * kPairedTimes / kPairedBlocks * (1 + kWarmUp), least);
  return static_cast<double>(kPairedBlocks) * (block + kProcessSeconds);
}

Result<Comparison> compare_libraries(const std::string& a, const std::string& b, const BenchOptions& options) {
  TCC_TRY(const bool on_gpu, check_comparable(a, b, options));
  if (on_gpu) {
    TCC_TRY(const std::vector<PairBlock> turns, time_on_device(a, b, options));
    return compare_pairs(turns);
  }
  std::vector<PairBlock> blocks;
  const double seconds = options.seconds * kPairedTimes / kPairedBlocks;
  for (int64_t i = 0; i < kPairedBlocks; ++i) {
    TCC_TRY(const PairBlock block, in_process([&] { return time_block(a, b, i, seconds, options); }));
    blocks.push_back(block);
  }
  return compare_pairs(blocks);
}

}  // namespace tcc::driver
