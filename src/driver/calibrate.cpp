#include "tcc/driver/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tcc/backend/backend.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kVersion = 1;
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr int64_t kRepeats = 5;
constexpr int64_t kOwnElements = 512;  // of 8 bytes, within the first-level cache or shared memory

std::string file_of(const std::string& device, const std::string& folder) {
  return fmt::format("{}/gpu-{:016x}.json", folder, hash_bytes(device));
}

// Sizes of the kernels. An emulated device runs what it takes to see that all is connected.
struct Sizes {
  int64_t copied = int64_t{1} << 26;  // floats
  int64_t far = int64_t{1} << 25;     // of 8 bytes each, beyond every cache
  int64_t near = int64_t{1} << 17;    // within the second-level cache
  int64_t cached = int64_t{1} << 21;  // floats that every block reads, within the second-level cache
  int64_t product = 4096;             // rows, columns and terms of a product
  int64_t steps = int64_t{1} << 14;   // of chains
};

// n x n x n halves.
Result<task::Task> half_product(int64_t n) {
  graph::Graph g;
  const graph::ValueId a = g.add_input("a", graph::DType::kF16, {n, n}),
                       b = g.add_input("b", graph::DType::kF16, {n, n});
  TCC_TRY(const graph::ValueId c,
          g.add_node(graph::Op::kGemm, graph::GemmAttrs{1, 1, false, false}, {a, b}, "product"));
  g.add_output(c, "c");
  return task::make_task(g, graph::fuse(g).at(0));
}

class Calibrator {
 public:
  Calibrator(runtime::CudaDevice& device, const CalibrationOptions& options)
      : device_(device), target_(device.target()), options_(options) {
    if (device.facts().takes_ptx_only)
      sizes_ = {.copied = 1 << 13, .far = 1 << 12, .near = 1 << 10, .cached = 1 << 12, .product = 64, .steps = 64};
    while (sizes_.copied > 1 << 13 && sizes_.copied * 16 > device.facts().free_bytes) sizes_.copied /= 2;
    while (sizes_.far > 1 << 12 && sizes_.far * 16 > device.facts().free_bytes) sizes_.far /= 2;
  }

  Result<Calibration> run() {
    out_.device = device_.facts().name;
    TCC_TRY_VOID(copies());
    TCC_TRY_VOID(cached_reads());
    TCC_TRY_VOID(chains());
    TCC_TRY_VOID(arithmetic());
    TCC_TRY_VOID(launches());
    TCC_TRY_VOID(blocks());
    TCC_TRY_VOID(barriers());
    TCC_TRY_VOID(products());
    return std::move(out_);
  }

 private:
  // What runs before each timed launch, so that the host has enqueued that launch before the device comes to it.
  // kFlush: what the second-level cache holds is written over; kGraph: the launches themselves, all of them as a graph.
  enum class Before { kItself, kFlush, kGraph };

  // Seconds of one launch, the fastest of some, of a kernel at Stage::Nest over buffers that hold zeros or `first`.
  Result<double> seconds_of(const std::string& text, int count, const std::vector<int64_t>& first = {},
                            Before before = Before::kItself) {
    auto nest = ir::parse(text);
    if (!nest) return input_error("a kernel of the calibration: {}", nest.error().message);
    ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target_, ir::Stage::kLowered, std::make_shared<Arena>());
    if (!lowered) return input_error("a kernel of the calibration: {}", lowered.error().text);
    return seconds_of(*lowered, count, first, before);
  }
  Result<double> seconds_of(const ir::Kernel& lowered, int count, const std::vector<int64_t>& first = {},
                            Before before = Before::kItself) {
    codegen::CudaOptions options;
    options.want_ptx = device_.facts().takes_ptx_only;
    options.nvrtc_library = options_.nvrtc_library;
    TCC_TRY(codegen::Artifact artifact, codegen::compile_cuda(lowered, target_, options));
    TCC_TRY(auto kernel, device_.load(artifact));
    std::vector<runtime::CudaBuffer> buffers;
    std::vector<uint64_t> addresses;
    for (const codegen::BufferInfo& b : artifact.buffers) {
      if (b.role == ir::BufferRole::kTemp) continue;
      TCC_TRY(runtime::CudaBuffer memory, device_.allocate(b.bytes));
      TCC_TRY_VOID(device_.fill(memory, 0));
      if (addresses.empty() && !first.empty()) TCC_TRY_VOID(device_.upload(memory, std::as_bytes(std::span(first))));
      addresses.push_back(memory.address());
      buffers.push_back(std::move(memory));
    }
    runtime::CudaBuffer flushed;
    if (before == Before::kFlush) {
      TCC_TRY(flushed, device_.allocate(2 * device_.facts().l2_bytes));
    }
    const auto launch = [&] { return kernel->launch(addresses); };
    std::unique_ptr<runtime::CudaGraph> graph;
    if (before == Before::kGraph) {
      TCC_TRY(graph, device_.record([&]() -> Result<void> {
        for (int i = 0; i < count; ++i) TCC_TRY_VOID(launch());
        return {};
      }));
    }
    const std::function<Result<void>()> timed = graph ? [&] { return graph->launch(); } : std::function(launch);
    double best = 0;
    for (int64_t i = 0; i < kRepeats; ++i) {
      TCC_TRY_VOID(before == Before::kFlush ? device_.fill(flushed, 0) : timed());
      TCC_TRY(const double seconds, device_.time(graph ? 1 : count, timed));
      if (i == 1 || (i > 1 && seconds / count < best)) best = seconds / count;  // the first one warms up
    }
    return best;
  }

  void fit(const char* name, double before, double after) { out_.fitted.push_back({name, before, after}); }
  void fit(const char* name, double after) {
    for (const target::SmModelField& field : target::kSmModelFields)
      if (field.name == name) fit(name, target_.cuda.model.*field.value, std::max(after, field.least));
  }

  Result<void> copies() {
    double best = 0;
    for (const int64_t vector : {1, 4})
      for (const int64_t unrolled : {1, 2, 4}) {
        const int64_t threads = 256, blocks = 8 * target_.cuda.sm_count, n = sizes_.copied;
        const int64_t part = threads * vector * unrolled, steps = std::max<int64_t>(n / (blocks * part), 1);
        const int64_t used = std::max<int64_t>(std::min(blocks, n / part), 1);
        const std::string at = fmt::format("i*{} + g*{} + u*{} + x*{}{}", used * part, part, threads * vector, vector,
                                           vector > 1 ? " + v" : "");
        TCC_TRY(const double seconds,
                seconds_of(fmt::format("kernel nest {{\ninput A: f32[{0}]\noutput B: f32[{0}]\nfor g in {1} "
                                       "bound(grid.x) {{ for x in {2} bound(thread.x) {{ for i in {3} {{ for u in {4} "
                                       "unrolled {{ {5} B[{6}] = A[{6}] {7} }} }} }} }}\n}}\n",
                                       used * part * steps, used, threads, steps, unrolled,
                                       vector > 1 ? "for v in 4 vectorized {\n" : "\n", at, vector > 1 ? "\n}" : "\n"),
                           4));
        best = std::max(best, 8.0 * static_cast<double>(used * part * steps) / seconds);
      }
    fit("copy_share", std::min(best / target_.memory_bandwidth, 1.0));
    return {};
  }

  // A thread that loads where its next load is.
  Result<double> chain(int64_t elements, Before before = Before::kItself) {
    std::vector<int64_t> next(static_cast<size_t>(elements));
    // Steps of many lines, to all of them in turn: an odd step visits every element of a power of two.
    const int64_t step = elements / 8 * 3 + 129;
    for (int64_t i = 0; i < elements; ++i) next[static_cast<size_t>(i)] = (i + step) % elements;
    auto text = [&](int64_t steps) {
      return fmt::format(
          "kernel nest {{\ninput A: i64[{}]\noutput B: i64[1]\ntemp s: i64[1] local\nfor g in 1 bound(grid.x) {{ for x "
          "in 1 "
          "bound(thread.x) {{ alloc s {{\ns[0] = i64(0)\nfor i in {} {{\ns[0] = A[s[0]]\n}}\nB[0] = s[0]\n}} }} "
          "}}\n}}\n",
          elements, steps);
    };
    return step_of(text, sizes_.steps, next, before);
  }
  // Seconds of a step of a kernel: what twice the steps take longer.
  template <typename Text>
  Result<double> step_of(const Text& text, int64_t steps, const std::vector<int64_t>& first = {},
                         Before before = Before::kItself) {
    TCC_TRY(const double one, seconds_of(text(steps), 1, first, before));
    TCC_TRY(const double two, seconds_of(text(2 * steps), 1, first, before));
    return std::max(two - one, 0.0) / static_cast<double>(steps);
  }
  Result<void> chains() {
    // The chain visits few enough lines that the second-level cache would hold them from one launch to the next.
    TCC_TRY(const double far, chain(sizes_.far, Before::kFlush));
    TCC_TRY(const double near, chain(sizes_.near));
    TCC_TRY(const double own, chain(kOwnElements));
    fit("memory_latency_ns", far * 1e9);
    fit("l2_latency_ns", near * 1e9);
    fit("l1_latency_cycles", own * target_.clock_hz);
    std::vector<int64_t> next(kOwnElements);
    for (int64_t i = 0; i < kOwnElements; ++i) next[static_cast<size_t>(i)] = (i + kOwnElements / 2 + 1) % kOwnElements;
    auto text = [&](int64_t steps) {
      return fmt::format(
          "kernel nest {{\ninput A: i64[{0}]\noutput B: i64[32]\ntemp t: i64[{0}] shared\ntemp s: i64[1] local\nfor g "
          "in 1 bound(grid.x) {{\nalloc t {{\nfor w in {0} bound(thread.x) {{\nt[w] = A[w]\n}}\nfor x in 32 "
          "bound(thread.x) {{\nalloc s {{\ns[0] = i64(0)\nfor i in {1} {{\ns[0] = t[s[0]]\n}}\nB[x] = "
          "s[0]\n}}\n}}\n}}\n}}\n}}\n",
          kOwnElements, steps);
    };
    TCC_TRY(const double shared, step_of(text, sizes_.steps, next));
    fit("shared_latency_cycles", shared * target_.clock_hz);
    return {};
  }

  // Sums that wait for themselves, of one thread; and reciprocal roots, of threads that keep their units busy.
  Result<void> arithmetic() {
    constexpr int64_t kCopies = 16, kThreads = 256, kSums = 4;
    auto sums = [&](int64_t steps) {
      return fmt::format(
          "kernel nest {{\ninput A: f32[1]\noutput B: f32[1]\ntemp s: f32[1] local\nfor g in 1 bound(grid.x) {{ for x "
          "in 1 bound(thread.x) {{ alloc s {{\ns[0] = A[0]\nfor i in {} {{ for u in {} unrolled {{\ns[0] = s[0] * 0.5 "
          "+ 1.0\n}} }}\nB[0] = s[0]\n}} }} }}\n}}\n",
          steps, kCopies);
    };
    TCC_TRY(const double sum, step_of(sums, sizes_.steps));
    fit("arithmetic_latency_cycles", sum * target_.clock_hz / kCopies);
    auto roots = [&](int64_t steps) {
      return fmt::format(
          "kernel nest {{\ninput A: f32[{0}]\noutput B: f32[{1}]\ntemp s: f32[{0}] local\nfor g in {2} bound(grid.x) "
          "{{ "
          "for x in {3} bound(thread.x) {{ alloc s {{\nfor j in {0} unrolled {{\ns[j] = A[j]\n}}\nfor i in {4} {{ for "
          "u "
          "in 4 unrolled {{ for j in {0} unrolled {{\ns[j] = rsqrt(s[j])\n}} }} }}\nfor j in {0} unrolled {{\nB[g*{5} "
          "+ "
          "x*{0} + j] = s[j]\n}}\n}} }} }}\n}}\n",
          kSums, target_.cuda.sm_count * kThreads * kSums, target_.cuda.sm_count, kThreads, steps, kThreads * kSums);
    };
    TCC_TRY(const double root, step_of(roots, std::max<int64_t>(sizes_.steps / 8, 1)));
    if (root > 0)
      fit("special_per_cycle", 4.0 * kThreads * kSums / (root * target_.clock_hz));
    else
      out_.notes.push_back("reciprocal roots took no time that could be told");
    return {};
  }

  // Blocks that all read the same tensor, each from another place on: more than the first-level cache holds.
  Result<void> cached_reads() {
    constexpr int64_t kThreads = 256, kVector = 4, kPart = kThreads * kVector;
    const int64_t blocks = 4 * target_.cuda.sm_count, parts = sizes_.cached / kPart;
    auto text = [&](int64_t passes) {
      return fmt::format(
          "kernel nest {{\ninput A: f32[{0}]\noutput B: f32[{1}]\ntemp s: f32[4] local\nfor g in {2} bound(grid.x) {{ "
          "for x in {3} bound(thread.x) {{ alloc s {{\nfor v in 4 vectorized {{\ns[v] = 0.0\n}}\nfor p in {4} {{ for i "
          "in {5} {{ for u in 4 unrolled {{ for v in 4 vectorized {{\ns[v] = s[v] + A[{6}*((g*7 + p + i*4 + u) % {7}) "
          "+ "
          "x*4 + v]\n}} }} }} }}\nfor v in 4 vectorized {{\nB[g*{6} + x*4 + v] = s[v]\n}}\n}} }} }}\n}}\n",
          sizes_.cached, blocks * kPart, blocks, kThreads, passes, parts / 4, kPart, parts);
    };
    TCC_TRY(const double seconds, step_of(text, 1));
    if (seconds > 0)
      fit("l2_bytes_per_cycle", 4.0 * static_cast<double>(sizes_.cached) * static_cast<double>(blocks) /
                                    (seconds * target_.clock_hz * static_cast<double>(target_.cuda.sm_count)));
    else
      out_.notes.push_back("reads of the second-level cache took no time that could be told");
    return {};
  }

  // What a launch of a graph costs beside the kernels: libraries launch graphs, and so does measuring.
  Result<void> launches() {
    constexpr int kLaunches = 100;
    TCC_TRY(
        const double seconds,
        seconds_of("kernel nest {\noutput B: f32[32]\nfor g in 1 bound(grid.x) { for x in 32 bound(thread.x) {\nB[x] "
                   "= 1.0\n} }\n}\n",
                   kLaunches, {}, Before::kGraph));
    fit("launch_seconds", target_.cuda.launch_seconds, seconds);
    return {};
  }

  // One block on each multiprocessor that passes words on through shared memory.
  Result<void> blocks() {
    auto text = [&](int64_t steps, int64_t reads) {
      // No two reads of neighboring iterations are of one word, or the compiler would keep it in a register.
      constexpr int64_t kApart = 16;
      std::string sum = "t[(x + i + 1) % 256]";
      for (int64_t r = 1; r < reads; ++r) sum += fmt::format(" + t[(x + i + {}) % 256]", r * kApart + 1);
      return fmt::format(
          "kernel nest {{\noutput B: f32[{0}]\ntemp t: f32[256] shared\ntemp s: f32[1] local\nfor g in {1} "
          "bound(grid.x) {{\nalloc t "
          "{{\nfor w in 256 bound(thread.x) {{\nt[w] = 1.0\n}}\nfor x in 256 bound(thread.x) {{\nalloc s {{\ns[0] = "
          "0.0\nfor i in {2} "
          "{{\ns[0] = s[0] * 0.5 + {3}\n}}\nB[g*256 + x] = s[0]\n}}\n}}\n}}\n}}\n}}\n",
          256 * target_.cuda.sm_count, target_.cuda.sm_count, steps, sum);
    };
    const auto steps = sizes_.steps;
    TCC_TRY(const double few, seconds_of(text(steps, 4), 1));
    TCC_TRY(const double many, seconds_of(text(steps, 12), 1));
    const double cycles = std::max(many - few, 0.0) * target_.clock_hz / static_cast<double>(steps);
    // Eight more reads of eight warps, 128 bytes each.
    if (cycles > 0)
      fit("l1_bytes_per_cycle", std::min(8.0 * 8 * 128 / cycles, 4 * 128.0));
    else
      out_.notes.push_back("reads of shared memory took no time that could be told");
    return {};
  }

  // Words that go round in a block: two barriers an iteration.
  Result<void> barriers() {
    auto text = [&](int64_t steps) {
      return fmt::format(
          "kernel nest {{\noutput B: f32[{0}]\ntemp t: f32[256] shared\ntemp u: f32[256] shared\nfor g in {1} "
          "bound(grid.x) {{\nalloc t, u {{\nfor w in 256 bound(thread.x) {{\nt[w] = 1.0\n}}\nfor i in {2} {{\nfor x in "
          "256 bound(thread.x) {{\nu[x] = t[(x + 1) % 256]\n}}\nfor y in 256 bound(thread.x) {{\nt[y] = u[(y + 1) % "
          "256] "
          "* 0.5\n}}\n}}\nfor z in 256 bound(thread.x) {{\nB[g*256 + z] = t[z]\n}}\n}}\n}}\n}}\n",
          256 * target_.cuda.sm_count, target_.cuda.sm_count, steps);
    };
    TCC_TRY(const double step, step_of(text, sizes_.steps));
    fit("barrier_cycles", step * target_.clock_hz / 2);
    return {};
  }

  // A program for a GPU without products of warpgroups: its rate is one that instructions of a warp reach.
  Result<void> products() {
    const double peak = target_.peak.fp16, assumed = target_.cuda.model.warp_matrix_share;
    if (!target_.cuda.features.mma_m16n8 || peak <= 0) {
      out_.notes.push_back("the device has no products of warps that could be timed");
      return {};
    }
    target::Target by_warps = target_;
    by_warps.cuda.features.wgmma = by_warps.cuda.features.tma = false;
    const int64_t n = sizes_.product;
    TCC_TRY(const task::Task task, half_product(n));
    TCC_TRY(search::Chosen chosen, search::choose_program(task, by_warps, nullptr, 1));
    TCC_TRY(const double seconds, seconds_of(chosen.lowered, 4));
    const double share = std::min(task.flops / seconds / peak, 1.0);
    if (share > assumed)
      fit("warp_matrix_share", share);
    else
      out_.notes.push_back(
          fmt::format("products of warps reached {:.2f} of the peak; the assumed {:.2f} stays", share, assumed));
    return {};
  }

  runtime::CudaDevice& device_;
  const target::Target target_;
  const CalibrationOptions& options_;
  Sizes sizes_;
  Calibration out_;
};

}  // namespace

Result<Calibration> calibrate_gpu(const std::string& name, const CalibrationOptions& options) {
  const std::optional<int> number = backend::installed_gpu_number(name);
  if (!number)
    return make_error(ErrorClass::kUsage,
                      fmt::format("calibration runs kernels on a GPU of this machine, not {}", name),
                      "tcc targets cuda --calibrate");
  TCC_TRY_VOID(codegen::nvrtc_version(options.nvrtc_library));
  TCC_TRY(auto device, runtime::CudaDevice::open(*number, options.cuda_driver));
  TCC_TRY(Calibration out, Calibrator(*device, options).run());
  if (options.folder.empty()) return out;
  out.file = file_of(out.device, options.folder);
  TCC_TRY_VOID(make_directories(options.folder));
  TCC_TRY_VOID(write_file(out.file, calibration_to_json(out) + "\n"));
  return out;
}

target::Target apply_calibration(target::Target target, const std::string& device, const std::string& folder) {
  const std::string file = folder.empty() ? "" : file_of(device, folder);
  if (file.empty() || !file_exists(file)) return target;
  auto unused = [&](const std::string& why) {
    target.notes.push_back(fmt::format("'{}' is not used: {}; tcc targets {} --calibrate writes it again",
                                       sanitize(file), why, target.name));
    return target;
  };
  Result<std::string> text = read_file(file, kMaxBytes);
  if (!text) return unused(text.error().message);
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) return unused("it is damaged");
  if (!json.contains("version") || json["version"] != kVersion) return unused("another version of tcc wrote it");
  if (!json.contains("device") || json["device"] != device) return unused("it is of another device");
  target::CudaInfo fitted = target.cuda;
  for (const auto& [name, value] : json["model"].items()) {
    double* member = name == "launch_seconds" ? &fitted.launch_seconds : nullptr;
    double least = 0;
    for (const target::SmModelField& field : target::kSmModelFields)
      if (field.name == name) member = &(fitted.model.*field.value), least = field.least;
    if (member == nullptr) return unused(fmt::format("it has an unknown number '{}'", sanitize(name)));
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() < 1e18))
      return unused(fmt::format("'{}' is out of range", sanitize(name)));
    *member = value.get<double>();
  }
  target.cuda = fitted;
  target.cuda.calibrated = true;
  return target;
}

std::string calibration_to_json(const Calibration& calibration) {
  Json json = {{"version", kVersion}, {"device", calibration.device}, {"model", Json::object()}};
  for (const Calibration::Fitted& f : calibration.fitted) json["model"][f.name] = f.after;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tcc::driver
