// Two libraries in turns, A B B A, in several processes: each has memory, threads and code in other places, and in
// every other one B is loaded first. Within a process such places favor one of the two for as long as it lives. A turn
// is a group of runs, whose first does not count: it finds the other library's data in the caches.
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
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr double kGroupSeconds = 20e-3;  // of a turn
constexpr double kGroupShare = 0.1;      // likewise, of a process's time at most
constexpr double kSampleSeconds = 5e-5;  // of runs back to back, so that reading the clock does not count
constexpr int64_t kMinRuns = 3;          // of a turn
constexpr int64_t kMinPairs = 4;
constexpr size_t kMaxPairs = 20000;
constexpr double kWarmUp = 0.2;  // share of a process's time

struct Side {
  std::shared_ptr<package::LoadedModel> model;
  std::unique_ptr<package::ModelContext> context;
  std::unique_ptr<HostTensors> tensors;

  Result<void> open(const std::string& library, const BenchOptions& options) {
    TCC_TRY(model, package::LoadedModel::open(library));
    tensors = std::make_unique<HostTensors>(*model, options.seed);
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
    const auto count = std::max(kMinRuns, static_cast<int64_t>(seconds / (each * static_cast<double>(repeats))));
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

// What one process finds.
Result<PairBlock> time_block(const std::string& a, const std::string& b, int64_t block, double seconds,
                             const BenchOptions& options) {
  const bool b_first = block % 2 == 1;
  move_places(block);
  Side sides[2];
  for (int i = 0; i < 2; ++i) {
    const bool is_b = (i == 1) != b_first;
    TCC_TRY_VOID(sides[is_b ? 1 : 0].open(is_b ? b : a, options));
  }
  Stopwatch watch;
  double each = 0;
  do {
    TCC_TRY(const double first, sides[0].time(1));
    TCC_TRY(const double second, sides[1].time(1));
    each = std::max(std::min(first, second), 1e-7);
  } while (watch.seconds() < kWarmUp * seconds);
  const double group = std::min(kGroupSeconds, kGroupShare * seconds);
  std::vector<double> of_a, of_b, ratios;
  bool a_first = !b_first;
  watch.restart();
  while (ratios.size() < kMaxPairs && (watch.seconds() < seconds || std::ssize(ratios) < kMinPairs)) {
    TCC_TRY(const double first, sides[a_first ? 0 : 1].turn(each, group));
    TCC_TRY(const double second, sides[a_first ? 1 : 0].turn(each, group));
    of_a.push_back(a_first ? first : second);
    of_b.push_back(a_first ? second : first);
    ratios.push_back(of_b.back() / of_a.back());
    a_first = !a_first;
  }
  return PairBlock{median_of(ratios), median_of(of_a), median_of(of_b), std::ssize(ratios)};
}

constexpr size_t kMaxErrorText = 2000;
struct Answer {
  PairBlock block;
  bool ok = false;
  char message[kMaxErrorText + 1] = {}, hint[kMaxErrorText + 1] = {};
};

bool write_all(int to, const Answer& answer) {
  const auto* bytes = reinterpret_cast<const char*>(&answer);
  for (size_t done = 0; done < sizeof answer;) {
    const ssize_t n = write(to, bytes + done, sizeof answer - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int from, Answer& answer) {
  auto* bytes = reinterpret_cast<char*>(&answer);
  for (size_t done = 0; done < sizeof answer;) {
    const ssize_t n = read(from, bytes + done, sizeof answer - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

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
    const bool told = write_all(ends[1], answer);
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  const bool answered = read_all(ends[0], answer);
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

Result<void> check_comparable(const std::string& a, const std::string& b) {
  TCC_TRY(const auto first, package::LoadedModel::open(a));
  TCC_TRY(const auto second, package::LoadedModel::open(b));
  for (const auto& [model, name] : {std::pair(first, a), std::pair(second, b)})
    if (model->on_gpu())
      return make_error(ErrorClass::kUsage,
                        fmt::format("'{}': expected a library for CPUs, found one for GPUs", sanitize(name)),
                        "time each with `tcc bench LIB --json > FILE`, then `tcc bench --compare A.json B.json`");
  const auto describe = [](const std::vector<package::TensorSpec>& specs) {
    std::string text;
    for (const package::TensorSpec& spec : specs)
      text += fmt::format("{} {} ", graph::dtype_name(spec.dtype), graph::shape_text(spec.shape));
    return text;
  };
  const std::string one = describe(first->inputs()) + "to " + describe(first->outputs()),
                    two = describe(second->inputs()) + "to " + describe(second->outputs());
  if (one == two) return {};
  return make_error(
      ErrorClass::kInput,
      fmt::format("'{}' and '{}' take or give other tensors: {}, and {}", sanitize(a), sanitize(b), one, two),
      "compare libraries of one model");
}

}  // namespace

Result<Comparison> compare_libraries(const std::string& a, const std::string& b, const BenchOptions& options) {
  TCC_TRY_VOID(check_comparable(a, b));
  std::vector<PairBlock> blocks;
  const double seconds = options.seconds * kPairedTimes / kPairedBlocks;
  for (int64_t i = 0; i < kPairedBlocks; ++i) {
    TCC_TRY(const PairBlock block, in_process([&] { return time_block(a, b, i, seconds, options); }));
    blocks.push_back(block);
  }
  return compare_pairs(blocks);
}

}  // namespace tcc::driver
