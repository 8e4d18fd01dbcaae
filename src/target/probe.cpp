// The host probe. Rounds run through all quantities in turn (interleaved), so that a disturbance hits one sample of
// each rather than all samples of one, and each result is the median of its rounds, of arithmetic the best.
#include "tcc/target/probe.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "target/host.h"
#include "target/probe_kernels.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::target {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUndisturbed = 0.95;              // share of a sample that its thread ran
constexpr int64_t kChunkBytes = int64_t{1} << 20;  // the clock is read once per piece of at most this size

// Pages of this process, touched before use: an untouched page reads from the one zero page.
class Pages {
 public:
  static std::unique_ptr<Pages> map(int64_t bytes) {
    void* memory =
        mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    // Advice only: without huge pages the rates include the cost of small ones, as they do for programs.
    (void)madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    return std::unique_ptr<Pages>(new Pages(static_cast<std::byte*>(memory), bytes));
  }
  ~Pages() { munmap(data_, static_cast<size_t>(bytes_)); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void touch() {
    for (int64_t i = 0; i < bytes_; i += 4096) data_[i] = static_cast<std::byte>(i >> 12 | 1);
  }

 private:
  Pages(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  int64_t bytes_;
};

// One core's part of the measurement: its processor, its memory, and the position of its pass through the memory.
struct Worker {
  int cpu = -1;  // -1: not pinned
  std::unique_ptr<Pages> pages;
  int64_t position = 0;
  float sink = 0;
};

void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  const size_t size = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(size, set);
  CPU_SET_S(cpu, size, set);
  // Failure leaves the thread where the scheduler puts it, which the median absorbs.
  (void)pthread_setaffinity_np(pthread_self(), size, set);
  CPU_FREE(set);
}

// Runs body(worker) on one thread for each of the first `count` workers, all starting together.
void run_together(std::vector<Worker>& workers, int64_t count, const std::function<void(Worker&, int64_t)>& body) {
  std::atomic<int64_t> waiting{count};
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      Worker& worker = workers[static_cast<size_t>(i)];
      pin(worker.cpu);
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
      body(worker, i);
    });
  for (std::thread& thread : threads) thread.join();
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct RateSample {
  double rate = 0;  // summed over the workers
  double ran = 1;   // the least share of the time that a worker had its processor
};

// step(worker) does some work and returns its amount; the rate over `seconds`.
RateSample sample_rate(std::vector<Worker>& workers, int64_t count, double seconds,
                       const std::function<double(Worker&)>& step) {
  std::vector<double> rates(static_cast<size_t>(count)), ran(static_cast<size_t>(count));
  run_together(workers, count, [&](Worker& worker, int64_t i) {
    step(worker);  // brings the working set into its cache and the core to its clock
    Clock& clock = Clock::system();
    const double start = clock.seconds(), ran_before = thread_seconds();
    double now = start, work = 0;
    do {
      work += step(worker);
      now = clock.seconds();
    } while (now - start < seconds || now <= start);
    rates[static_cast<size_t>(i)] = work / (now - start);
    ran[static_cast<size_t>(i)] = (thread_seconds() - ran_before) / (now - start);
  });
  RateSample sample{0, *std::min_element(ran.begin(), ran.end())};
  for (double rate : rates) sample.rate += rate;
  return sample;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Quantity {
  ProbeRate* result;
  std::function<double(Worker&)> step;
  // Of arithmetic in registers others only take away, and the best round is what the core can do; what memory gives
  // varies in both directions.
  bool peak = false;
  std::vector<double> one = {}, all = {};

  double typical(const std::vector<double>& rates) const {
    return peak ? *std::max_element(rates.begin(), rates.end()) : median(rates);
  }
};

std::function<double(Worker&)> fma_step(const ProbeKernels& kernels) {
  constexpr int64_t kIterations = 4096;
  return [&kernels](Worker& worker) {
    worker.sink += kernels.fma(kIterations);
    return static_cast<double>(kIterations * kernels.flops_per_iteration);
  };
}

// Repeated passes over a set that stays in one cache level.
std::function<double(Worker&)> cached_read_step(const ProbeKernels& kernels, int64_t bytes) {
  const int64_t passes = std::max<int64_t>(1, kChunkBytes / bytes);
  return [&kernels, bytes, passes](Worker& worker) {
    for (int64_t i = 0; i < passes; ++i) {
      worker.sink += kernels.read(worker.pages->data(), bytes);
      __asm__ volatile("" ::: "memory");
    }
    return static_cast<double>(passes * bytes);
  };
}

// The next piece of the set, round and round: no piece is read again before the whole set went by.
std::function<double(Worker&)> streaming_read_step(const ProbeKernels& kernels, int64_t bytes) {
  return [&kernels, bytes](Worker& worker) {
    const int64_t piece = std::min(kChunkBytes, bytes);
    if (worker.position + piece > bytes) worker.position = 0;
    worker.sink += kernels.read(worker.pages->data() + worker.position, piece);
    worker.position += piece;
    return static_cast<double>(piece);
  };
}

std::function<double(Worker&)> copy_step(const ProbeKernels& kernels, int64_t bytes) {
  const int64_t half = bytes / 2;
  return [&kernels, half](Worker& worker) {
    const int64_t piece = std::min(kChunkBytes, half);
    if (worker.position + piece > half) worker.position = 0;
    kernels.copy(worker.pages->data() + half + worker.position, worker.pages->data() + worker.position, piece);
    worker.position += piece;
    return static_cast<double>(2 * piece);
  };
}

int64_t round_down(int64_t value, int64_t unit) {
  return std::max(unit, value / unit * unit);
}

// Working sets of one core: well inside a level and well beyond the level below.
void choose_sets(const Target& host, ProbeResult& result) {
  const CpuInfo& cpu = host.cpu;
  const int64_t threads = result.threads;
  result.l1_set_bytes = round_down(cpu.l1_bytes * 2 / 3, 1024);
  result.l2_set_bytes = round_down(std::max(cpu.l2_bytes / 2, 2 * cpu.l1_bytes), 1024);
  const int64_t l3_share = cpu.l3_bytes / 2 / threads;
  result.l3_set_bytes = round_down(std::clamp(l3_share, 2 * cpu.l2_bytes, 4 * cpu.l2_bytes), 1024);
  if (cpu.l3_bytes == 0)
    result.notes.push_back("no L3 cache: l3_read is the rate of the memory behind L2");
  else if (l3_share < 2 * cpu.l2_bytes)
    result.notes.push_back("each core's share of L3 is below twice its L2: l3_read mixes levels");
  constexpr int64_t kMaxBytes = int64_t{1} << 30, kMinBytes = int64_t{64} << 20;
  const int64_t wanted = std::max(kMinBytes * threads, 2 * cpu.l3_bytes);
  const int64_t affordable = std::max(kMinBytes, std::min(kMaxBytes, host.memory_bytes / 8));
  const int64_t total = std::min(wanted, affordable);
  result.dram_set_bytes = round_down(std::max(total / threads, 2 * result.l3_set_bytes), 2 * kChunkBytes);
  if (result.dram_set_bytes * threads < 2 * cpu.l3_bytes)
    result.notes.push_back(fmt::format("{} of memory were streamed against an L3 of {}: memory rates include L3 hits",
                                       format_bytes(static_cast<double>(result.dram_set_bytes * threads)),
                                       format_bytes(static_cast<double>(cpu.l3_bytes))));
}

}  // namespace

Result<ProbeResult> probe_host(const ProbeOptions& options) {
  return probe_host(host_target(), options);
}

Result<ProbeResult> probe_host(const Target& host, const ProbeOptions& options) {
  if (isa_level(host) == 0)
    return make_error(ErrorClass::kUsage, fmt::format("'{}' is not the host", host.name), "probe the target 'host'");
  if (!(options.seconds > 0) || options.repeats < 1 || options.threads < 0)
    return make_error(ErrorClass::kUsage, "a probe needs positive seconds and repeats, and threads of at least 0",
                      "leave them out for the defaults");
  ProbeResult result;
  const CpuFeatures& features = host.cpu.features;
  const int64_t narrow = features.avx2 && features.fma ? 256 : 128;
  result.vector_bits = features.avx512f ? 512 : narrow;
  result.repeats = options.repeats;
  result.threads = options.threads > 0 ? options.threads : host.cpu.cores;

  const std::vector<int> cpus = usable_core_cpus();
  std::vector<Worker> workers(static_cast<size_t>(result.threads));
  const bool pinned = cpus.size() >= workers.size();
  if (!pinned) result.notes.push_back("more threads than usable cores: threads are not pinned");
  choose_sets(host, result);
  for (size_t i = 0; i < workers.size(); ++i) {
    workers[i].cpu = pinned ? cpus[i] : -1;
    workers[i].pages = Pages::map(result.dram_set_bytes);
    if (!workers[i].pages)
      return make_error(ErrorClass::kEnvironment,
                        fmt::format("{} of memory for the host probe could not be had",
                                    format_bytes(static_cast<double>(result.dram_set_bytes * result.threads))),
                        "free memory or raise the limit on it (ulimit -v)");
  }
  run_together(workers, result.threads, [](Worker& worker, int64_t) { worker.pages->touch(); });

  const ProbeKernels& wide = probe_kernels(result.vector_bits);
  std::vector<Quantity> quantities;
  quantities.push_back({&result.fp32, fma_step(wide), true});
  quantities.push_back({&result.fp32_256, fma_step(probe_kernels(narrow)), true});
  quantities.push_back({&result.l1_read, cached_read_step(wide, result.l1_set_bytes)});
  quantities.push_back({&result.l2_read, cached_read_step(wide, result.l2_set_bytes)});
  quantities.push_back({&result.l3_read, cached_read_step(wide, result.l3_set_bytes)});
  quantities.push_back({&result.dram_read, streaming_read_step(wide, result.dram_set_bytes)});
  quantities.push_back({&result.dram_copy, copy_step(wide, result.dram_set_bytes)});

  const double share =
      options.seconds / static_cast<double>(2 * options.repeats * static_cast<int64_t>(quantities.size()));
  int64_t disturbed = 0;
  auto sample = [&](int64_t count, const Quantity& quantity) {
    const RateSample s = sample_rate(workers, count, share, quantity.step);
    disturbed += s.ran < kUndisturbed ? 1 : 0;
    return s.rate;
  };
  for (int64_t round = 0; round < options.repeats; ++round)
    for (Quantity& quantity : quantities) {
      quantity.one.push_back(sample(1, quantity));
      quantity.all.push_back(sample(result.threads, quantity));
    }
  result.disturbed = static_cast<double>(disturbed) / static_cast<double>(2 * options.repeats * std::ssize(quantities));
  for (Quantity& quantity : quantities)
    *quantity.result = {quantity.typical(quantity.one), quantity.typical(quantity.all)};

  // Reading the sinks keeps every measured loop alive.
  volatile float sink = 0;
  for (const Worker& worker : workers) sink = sink + worker.sink;
  return result;
}

namespace {

template <class Probe, class Fn>
void visit_rates(Probe& probe, Fn&& fn) {
  fn("fp32", probe.fp32);
  fn("fp32_256", probe.fp32_256);
  fn("l1_read", probe.l1_read);
  fn("l2_read", probe.l2_read);
  fn("l3_read", probe.l3_read);
  fn("dram_read", probe.dram_read);
  fn("dram_copy", probe.dram_copy);
}

template <class Probe, class Fn>
void visit_counts(Probe& probe, Fn&& fn) {
  fn("vector_bits", probe.vector_bits);
  fn("threads", probe.threads);
  fn("repeats", probe.repeats);
  fn("l1_set_bytes", probe.l1_set_bytes);
  fn("l2_set_bytes", probe.l2_set_bytes);
  fn("l3_set_bytes", probe.l3_set_bytes);
  fn("dram_set_bytes", probe.dram_set_bytes);
}

}  // namespace

std::string probe_to_json(const ProbeResult& probe) {
  Json json;
  visit_counts(probe, [&](const char* name, int64_t value) { json[name] = value; });
  visit_rates(probe, [&](const char* name, const ProbeRate& rate) {
    json[name] = Json{{"one_core", rate.one_core}, {"all_cores", rate.all_cores}};
  });
  json["disturbed"] = probe.disturbed;
  json["notes"] = probe.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<ProbeResult> probe_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const char* hint = "delete the cached probe; it is measured again";
  if (!json.is_object()) return make_error(ErrorClass::kInput, "the host probe is not a JSON object", hint);
  ProbeResult probe;
  std::string bad;
  visit_counts(probe, [&](const char* name, int64_t& value) {
    if (json.contains(name) && json[name].is_number_integer() && json[name].get<int64_t>() > 0)
      value = json[name].get<int64_t>();
    else
      bad = name;
  });
  visit_rates(probe, [&](const char* name, ProbeRate& rate) {
    for (auto [key, member] : {std::pair{"one_core", &rate.one_core}, std::pair{"all_cores", &rate.all_cores}}) {
      const Json* value =
          json.contains(name) && json[name].is_object() && json[name].contains(key) ? &json[name][key] : nullptr;
      if (value && value->is_number() && value->get<double>() > 0)
        *member = value->get<double>();
      else
        bad = fmt::format("{}.{}", name, key);
    }
  });
  if (json.contains("disturbed") && json["disturbed"].is_number()) probe.disturbed = json["disturbed"].get<double>();
  if (json.contains("notes") && json["notes"].is_array())
    for (const Json& note : json["notes"])
      if (note.is_string()) probe.notes.push_back(note.get<std::string>());
  if (!bad.empty())
    return make_error(ErrorClass::kInput, fmt::format("the host probe lacks a positive '{}'", bad), hint);
  return probe;
}

Target apply_probe(Target host, const ProbeResult& probe) {
  const double bf16_factor = host.peak.fp32 > 0 ? host.peak.bf16 / host.peak.fp32 : 0;
  const double fp16_factor = host.peak.fp32 > 0 ? host.peak.fp16 / host.peak.fp32 : 0;
  const double int8_factor = host.peak.fp32 > 0 ? host.peak.int8 / host.peak.fp32 : 0;
  double fp32 = probe.fp32.all_cores;
  if (host.cpu.vector_bits == 512 && probe.vector_bits == 512 && probe.fp32.one_core < 0.9 * probe.fp32_256.one_core) {
    host.cpu.vector_bits = 256;
    fp32 = probe.fp32_256.all_cores;
    host.notes.push_back("512-bit arithmetic measured slower than 256-bit: 256-bit vectors are used");
  }
  host.peak = {fp32, 0, fp16_factor * fp32, bf16_factor * fp32, int8_factor * fp32};
  host.memory_bandwidth = probe.dram_read.all_cores;
  host.measured = true;
  std::erase_if(host.notes, [](const std::string& note) { return note.starts_with("rates are nominal"); });
  if (bf16_factor > 0 || int8_factor > 0)
    host.notes.push_back("fp32 and memory rates are measured; other types are scaled from fp32 by the nominal ratio");
  return host;
}

}  // namespace tcc::target
