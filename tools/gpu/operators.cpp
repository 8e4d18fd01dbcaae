// Operators as a search would begin with them: of each task the analytical model's best few are compiled, checked and
// timed, and the fastest is the row. On a device the sizes are real ones, and programs of one task are checked against
// each other; small tasks of every kind are checked against the naive kernel (correctness).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "gpu/cuda_blas.h"
#include "gpu/cuda_dnn.h"
#include "gpu/preparation.h"
#include "gpu/programs.h"
#include "gpu/run.h"
#include "sample_tasks.h"
#include "tcc/interp/interp.h"
#include "tcc/runtime/cuda_device.h"

namespace tcc::gpu_check {
namespace {

using graph::DType;
using Tensors = std::vector<interp::TensorData>;

struct Case {
  std::string name;
  task::Task real, dry;
  double work = 0;  // of the real task: operations, or bytes that have to move
  std::string unit = "GFLOP/s";
  double tolerance = 1e-3;  // of the largest output
};

Tensors make_params(const ir::Kernel& kernel, bool integers) {
  Tensors params;
  uint64_t seed = 3;
  for (const ir::Buffer* buffer : kernel.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : buffer->shape) shape.push_back(ir::int_value(e));
    params.push_back(buffer->role == ir::BufferRole::kOutput ? interp::TensorData::zeros(buffer->type, shape)
                     : integers ? interp::TensorData::make_random_integers(buffer->type, shape, seed)
                                : interp::TensorData::make_random(buffer->type, shape, seed));
    ++seed;
  }
  return params;
}

// The elements as floats. Outputs of tens of millions of elements are compared, so the loops are over whole arrays.
std::vector<float> floats_of(const interp::TensorData& tensor) {
  const auto n = static_cast<size_t>(tensor.size());
  std::vector<float> values(n);
  if (tensor.type == ir::Type::kF32) {
    std::memcpy(values.data(), tensor.bytes.data(), n * sizeof(float));
  } else if (tensor.type == ir::Type::kBF16) {
    const auto* from = reinterpret_cast<const uint16_t*>(tensor.bytes.data());
    for (size_t i = 0; i < n; ++i) values[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
  } else if (tensor.type == ir::Type::kF16) {
    const auto* from = reinterpret_cast<const _Float16*>(tensor.bytes.data());
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(from[i]);
  } else {
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(tensor.at(static_cast<int64_t>(i)));
  }
  return values;
}

// "" when x and y agree within `tolerance` of the largest element of y.
std::string difference(const interp::TensorData& got, const interp::TensorData& expected, double tolerance) {
  const std::vector<float> x = floats_of(got), y = floats_of(expected);
  float largest = 0;
  for (float v : y) largest = std::max(largest, std::fabs(v));
  const float bound = static_cast<float>(tolerance) * largest;
  size_t wrong = 0;
  for (size_t i = 0; i < y.size(); ++i) wrong += !(std::fabs(x[i] - y[i]) <= bound);
  if (wrong == 0) return "";
  size_t first = 0;
  while (std::fabs(x[first] - y[first]) <= bound) ++first;
  return fmt::format("{} of {} elements are wrong, the first is [{}]: {}, not {}", wrong, y.size(), first, x[first],
                     y[first]);
}

// "" when all outputs agree.
std::string difference(const ir::Kernel& kernel, const Tensors& got, const Tensors& expected, double tolerance) {
  size_t p = 0;
  for (const ir::Buffer* buffer : kernel.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    const std::string text =
        buffer->role == ir::BufferRole::kOutput ? difference(got[p], expected[p], tolerance) : std::string();
    if (!text.empty()) return fmt::format("parameter {}: {}", p, text);
    ++p;
  }
  return "";
}

Result<Tensors> naive_result(const ir::Kernel& naive, Tensors params) {
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& t : params) pointers.push_back(&t);
  const interp::Report report = interp::run(naive, pointers);
  if (!report.ok()) return environment_error("the naive kernel: {}", report.text());
  return params;
}

bool device_is_lost(Run& run) {
  return run.backend.device() != nullptr && run.backend.device()->lost();
}
tl::unexpected<Error> lost(const std::string& name) {
  return make_error(ErrorClass::kEnvironment, fmt::format("{} lost the device for this process", name),
                    "look at the program above; go on with --from the next step");
}

// Launches of a round of about 20 ms.
Result<int> launches_of(Run& run, const std::function<Result<double>(int)>& time) {
  TCC_TRY(double once, time(1));
  if (run.backend.is_small()) return 1;
  TCC_TRY(once, time(3));
  return static_cast<int>(std::clamp(0.02 / std::max(once, 1e-7), 1.0, 2000.0));
}

constexpr int kRounds = 7;

Result<double> time_program(Run& run, Program& program) {
  const auto time = [&](int count) { return program.time(count); };
  TCC_TRY(const int count, launches_of(run, time));
  std::vector<double> rounds;
  for (int round = 0; round < (run.backend.is_small() ? 1 : kRounds); ++round) {
    TCC_TRY(const double seconds, time(count));
    rounds.push_back(seconds);
  }
  return median(rounds);
}

// A library's work on a case, over buffers of its own with the same data.
struct Peer {
  std::string name;
  std::function<Result<void>(runtime::CudaDevice&, const Tensors& params)> prepare;
  std::function<Result<void>()> enqueue;
  std::function<Result<void>(runtime::CudaDevice&, Tensors& params)> fetch;  // the output
};

struct InTurns {
  double own = 0, peer = 0;
};
// Medians over rounds in which the program and the library take turns: the device is as hot for the one as for the
// other.
Result<InTurns> time_in_turns(Run& run, Program& program, const Peer& peer) {
  runtime::CudaDevice& device = *run.backend.device();
  const auto own = [&](int count) { return program.time(count); };
  const auto other = [&](int count) -> Result<double> {
    TCC_TRY(const double seconds, device.time(count, peer.enqueue));
    return seconds / count;
  };
  TCC_TRY(const int own_count, launches_of(run, own));
  TCC_TRY(const int other_count, launches_of(run, other));
  std::vector<double> own_rounds, other_rounds;
  for (int round = 0; round < kRounds; ++round) {
    TCC_TRY(const double mine, own(own_count));
    TCC_TRY(const double theirs, other(other_count));
    own_rounds.push_back(mine);
    other_rounds.push_back(theirs);
  }
  return InTurns{median(own_rounds), median(other_rounds)};
}

struct Best {
  double seconds = 0;
  size_t rank = 0, programs = 0;
  std::unique_ptr<Program> program;
  Tensors params;  // with its outputs
};

// Loads, checks and times the item's programs. The first that works is what the others must agree with, unless there is
// a reference. Wrong ones are failures; seconds is 0 when none works.
Result<Best> try_programs(Run& run, const std::string& name, Preparation& ahead, size_t item, const Tensors& inputs,
                          const Tensors* reference, double tolerance) {
  const std::vector<RankedProgram>& programs = ahead.programs(item);
  if (programs.empty()) run.fail(fmt::format("{}: no program of its design spaces is legal", name));
  Best best;
  for (size_t i = 0; i < programs.size() && (i == 0 || !run.out_of_time()); ++i) {
    Result<codegen::Artifact> code = ahead.code(item, i);
    auto program = code ? run.backend.load(std::move(*code)) : tl::make_unexpected(code.error());
    Tensors params = inputs;
    Result<void> ran = program ? (*program)->run(params) : Result<void>(tl::make_unexpected(program.error()));
    if (!ran) {
      run.fail(fmt::format("{} program {}: {}", name, i, text_of(ran.error())));
      if (device_is_lost(run)) return lost(name);
      continue;
    }
    ++run.tests;
    const Tensors* expected = reference != nullptr ? reference : best.params.empty() ? nullptr : &best.params;
    const std::string wrong = expected == nullptr ? "" : difference(programs[i].lowered, params, *expected, tolerance);
    if (!wrong.empty()) {
      run.fail(fmt::format("{} program {}: {}", name, i, wrong));
      continue;
    }
    if (best.params.empty()) best.params = std::move(params);
    TCC_TRY(const double seconds, time_program(run, **program));
    ++best.programs;
    if (best.seconds == 0 || seconds < best.seconds)
      best.seconds = seconds, best.rank = i, best.program = std::move(*program);
  }
  return best;
}

// Times of the best program beside the library's, whose output must be the same.
Result<InTurns> beside_library(Run& run, const Case& c, Best& best, const Peer& peer) {
  runtime::CudaDevice& device = *run.backend.device();
  TCC_TRY_VOID(peer.prepare(device, best.params));
  TCC_TRY(const InTurns times, time_in_turns(run, *best.program, peer));
  Tensors theirs = best.params;
  TCC_TRY_VOID(peer.fetch(device, theirs));
  const std::string wrong = difference(c.real.kernel, best.params, theirs, c.tolerance);
  if (!wrong.empty()) run.fail(fmt::format("{} beside {}: {}", c.name, peer.name, wrong));
  return times;
}

Result<void> table_case(Run& run, const Case& c, Preparation& ahead, size_t item, const Peer* peer) {
  const bool small = run.backend.is_small();
  const task::Task& task = small ? c.dry : c.real;
  const Tensors inputs = make_params(task.kernel, false);
  std::optional<Tensors> reference;
  if (small) {
    TCC_TRY(reference, naive_result(task.kernel, inputs));
  }
  TCC_TRY(Best best, try_programs(run, c.name, ahead, item, inputs, reference ? &*reference : nullptr, c.tolerance));
  if (best.seconds == 0) return {};
  // In a dry run the work is that of the small task, in proportion to its arithmetic.
  const double work = small ? c.work * std::max(c.dry.flops, 1.0) / std::max(c.real.flops, 1.0) : c.work;
  Row row{c.name, work * 1e-9 / best.seconds, c.unit, "", 0};
  if (peer != nullptr) {
    auto times = beside_library(run, c, best, *peer);
    if (!times) run.fail(fmt::format("{} by {}: {}", c.name, peer->name, text_of(times.error())));
    if (times) row = {c.name, work * 1e-9 / times->own, c.unit, peer->name, work * 1e-9 / times->peer};
  } else if (c.unit == "GB/s" && run.copy_rate > 0) {
    row.peer = "copy", row.peer_value = run.copy_rate * 1e-9;
  }
  TCC_TRY_VOID(run.row(row));
  TCC_TRY_VOID(run.row({c.name + ".predicted", ahead.programs(item)[best.rank].seconds * 1e6, "us", "", 0}));
  return run.row(
      {c.name + ".rank", static_cast<double>(best.rank + 1), fmt::format("of {} by model", best.programs), "", 0});
}

// Ranks and compiles the cases' programs, of their small tasks where kernels run in software.
std::unique_ptr<Preparation> prepare(Run& run, const std::vector<const task::Task*>& tasks, size_t count, bool tf32) {
  const bool small = run.backend.is_small();
  return std::make_unique<Preparation>(
      tasks.size(),
      [&run, tasks, small, count, tf32](size_t i) {
        return rank_programs(*tasks[i], run.backend.target(), small ? 48 : 2000, count, tf32);
      },
      [&run](const ir::Kernel& lowered) { return run.backend.loadable(lowered, run.code()); },
      static_cast<int>(target::host_target().cpu.threads) - 1);
}

// Runs the cases while there is time; one that cannot run is a failure, a lost device the end.
Result<void> all_cases(Run& run, std::vector<Case> cases, const std::vector<Peer>& peers = {}) {
  const bool small = run.backend.is_small();
  if (small) {  // where cases differ in their real sizes only, one of them says all that a small task can
    std::set<std::string> seen;
    std::erase_if(cases, [&](const Case& c) { return !seen.insert(c.dry.key).second; });
  }
  std::vector<const task::Task*> tasks;
  for (const Case& c : cases) tasks.push_back(small ? &c.dry : &c.real);
  const auto ahead = prepare(run, tasks, small ? 2 : 8, false);
  for (size_t i = 0; i < cases.size() && !run.out_of_time(); ++i) {
    auto done = table_case(run, cases[i], *ahead, i, small || peers.empty() ? nullptr : &peers[i]);
    if (!done && device_is_lost(run)) return done;
    if (!done) run.fail(fmt::format("{}: {}", cases[i].name, text_of(done.error())));
  }
  return {};
}

double bytes_of(const task::Task& task) {
  double bytes = 0;
  for (const ir::Buffer* buffer : task.kernel.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    double size = static_cast<double>(ir::type_bytes(buffer->type));
    for (ir::Expr e : buffer->shape) size *= static_cast<double>(ir::int_value(e));
    bytes += size;
  }
  return bytes;
}

// Device memory for a library's matrices or tensors, with the case's own data: constant data would draw less power and
// clock higher.
struct PeerMemory {
  std::vector<runtime::CudaBuffer> buffers;
  Result<void> add(runtime::CudaDevice& device, const interp::TensorData& tensor) {
    TCC_TRY(runtime::CudaBuffer buffer, device.allocate(static_cast<int64_t>(tensor.bytes.size())));
    TCC_TRY_VOID(device.upload(buffer, tensor.bytes));
    buffers.push_back(std::move(buffer));
    return {};
  }
  Result<void> add(runtime::CudaDevice& device, int64_t bytes) {
    TCC_TRY(runtime::CudaBuffer buffer, device.allocate(bytes));
    buffers.push_back(std::move(buffer));
    return {};
  }
  uint64_t at(size_t i) const { return buffers[i].address(); }
};

// A peer over the case's parameters, two inputs and the output.
Peer make_peer(const std::string& name, const std::shared_ptr<PeerMemory>& memory,
               std::function<Result<void>()> enqueue) {
  Peer peer;
  peer.name = name;
  peer.prepare = [memory](runtime::CudaDevice& device, const Tensors& params) -> Result<void> {
    memory->buffers.clear();
    for (const interp::TensorData& tensor : params) TCC_TRY_VOID(memory->add(device, tensor));
    return {};
  };
  peer.enqueue = std::move(enqueue);
  peer.fetch = [memory](runtime::CudaDevice& device, Tensors& params) {
    return device.download(params.back().bytes, memory->buffers.at(params.size() - 1));
  };
  return peer;
}

struct Product {
  int64_t m, n, k;
  DType type;
};
const char* type_text(DType type) {
  return type == DType::kF16 ? "f16" : type == DType::kBF16 ? "bf16" : "f32";
}

task::Task norm_task(int64_t rows, int64_t columns) {
  graph::Graph g;
  std::vector<graph::ValueId> inputs;
  for (const graph::Shape& shape : {graph::Shape{rows, columns}, graph::Shape{columns}, graph::Shape{columns}})
    inputs.push_back(g.add_input("x", DType::kF32, shape));
  auto y = g.add_node(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, inputs, "norm");
  if (y) g.add_output(*y, "y");
  auto made = y ? task::make_task(g, graph::fuse(g).at(0)) : Result<task::Task>(tl::make_unexpected(y.error()));
  return made ? *made : task::Task{};
}

}  // namespace

namespace {

// Small tasks of every kind.
std::vector<task::Task> small_tasks() {
  const auto half = DType::kF16, brain = DType::kBF16;
  return {
      task::make_gemm({.m = 64, .n = 48, .k = 40}),
      task::make_gemm({.m = 33, .n = 67, .k = 41, .bias = true, .relu = true, .trans_b = true}),
      task::make_gemm({.m = 1, .n = 48, .k = 40, .constant_weights = true}),
      task::make_gemm({.m = 64, .n = 64, .k = 64, .dtype = half}),
      task::make_gemm({.m = 33, .n = 40, .k = 16, .trans_b = true, .dtype = brain}),
      task::make_conv(
          {.channels = 4, .filters = 8, .size = {9, 10}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true, .relu = true}),
      task::make_conv({.channels = 4, .filters = 4, .group = 4, .size = {8, 12}, .kernel = {3, 3}, .pads = {1, 1}}),
      task::make_conv({.batch = 2,
                       .channels = 16,
                       .filters = 16,
                       .size = {7, 6},
                       .kernel = {3, 3},
                       .strides = {2, 1},
                       .pads = {1, 1},
                       .dtype = half}),
      task::make_pool(
          {.average = false, .channels = 3, .size = {9, 9}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}}),
      task::make_softmax({6, 17}, 1),
      task::make_softmax({3, 64}, 1),
      task::make_reduction({5, 24}, {1}, graph::Op::kReduceSum),
      task::make_reduction({7, 6}, {0}, graph::Op::kReduceMax),
      norm_task(6, 20),
      task::make_attention({.heads = 2, .queries = 7, .keys = 11, .depth = 5, .mask = true})};
}

std::vector<const task::Task*> pointers_to(const std::vector<task::Task>& tasks) {
  std::vector<const task::Task*> pointers;
  for (const task::Task& task : tasks) pointers.push_back(&task);
  return pointers;
}

// Tries up to `count` programs of each task against the naive kernel.
Result<void> check_tasks(Run& run, const std::vector<task::Task>& tasks, size_t count, const std::string& row) {
  const auto ahead = prepare(run, pointers_to(tasks), count, false);
  size_t right = 0;
  for (size_t i = 0; i < tasks.size() && !run.out_of_time(); ++i) {
    const Tensors inputs = make_params(tasks[i].kernel, true);
    TCC_TRY(const Tensors reference, naive_result(tasks[i].kernel, inputs));
    const size_t failures = run.failures.size();
    auto tried = try_programs(run, tasks[i].workload, *ahead, i, inputs, &reference, 2e-3);
    if (!tried && device_is_lost(run)) return tl::make_unexpected(tried.error());
    if (!tried) run.fail(fmt::format("{}: {}", tasks[i].workload, text_of(tried.error())));
    right += tried && tried->seconds > 0 && run.failures.size() == failures;
  }
  return run.row({row, static_cast<double>(right), fmt::format("of {} tasks", tasks.size()), "", 0});
}

}  // namespace

Result<void> correctness(Run& run) {
  return check_tasks(run, small_tasks(), run.backend.is_small() ? 2 : 8, "correctness.right");
}

Result<void> sanitizer(Run& run) {
  constexpr size_t kKernels = 10;
  std::vector<task::Task> tasks = small_tasks();
  tasks.resize(std::min(tasks.size(), kKernels));
  return check_tasks(run, tasks, 1, "sanitizer.right");
}

Result<void> product_table(Run& run) {
  const Product products[] = {{4096, 4096, 4096, DType::kBF16}, {4096, 4096, 4096, DType::kF16},
                              {4096, 4096, 4096, DType::kF32},  {8192, 8192, 8192, DType::kBF16},
                              {1024, 1024, 1024, DType::kBF16}, {1024, 1024, 1024, DType::kF32},
                              {128, 3072, 768, DType::kBF16},   {128, 3072, 768, DType::kF32},
                              {1, 4096, 4096, DType::kBF16},    {4095, 4093, 4091, DType::kF32}};
  std::vector<Case> cases;
  for (const Product& p : products) {
    Case c;
    c.name = fmt::format("gemm.{}x{}x{}.{}", p.m, p.n, p.k, type_text(p.type));
    c.real = task::make_gemm({.m = p.m, .n = p.n, .k = p.k, .dtype = p.type});
    c.dry = task::make_gemm({.m = std::min<int64_t>(p.m, 32), .n = 32, .k = 32, .dtype = p.type});
    c.work = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    c.tolerance = p.type == DType::kF32 ? 1e-3 : 2e-2;
    cases.push_back(std::move(c));
  }
  if (run.backend.is_small()) return all_cases(run, cases);
  auto opened = CudaBlas::open(run.backend.device()->stream(), run.options.cublas);
  if (!opened) {
    run.absent("cuBLAS: " + opened.error().message);
    return all_cases(run, cases);
  }
  const std::unique_ptr<CudaBlas> blas = std::move(*opened);
  std::vector<Peer> peers;
  for (const Product& p : products) {
    auto memory = std::make_shared<PeerMemory>();
    peers.push_back(make_peer(fmt::format("cuBLAS {}", blas->version()), memory, [&blas, memory, p] {
      const auto half = p.type == DType::kF16 ? CudaBlas::Half::kF16 : CudaBlas::Half::kBF16;
      return p.type == DType::kF32 ? blas->gemm(p.m, p.n, p.k, memory->at(0), memory->at(1), memory->at(2))
                                   : blas->gemm_half(half, p.m, p.n, p.k, memory->at(0), memory->at(1), memory->at(2));
    }));
  }
  return all_cases(run, cases, peers);
}

Result<void> memory_bound(Run& run) {
  TCC_TRY_VOID(know_copy_rate(run));
  std::vector<Case> cases;
  auto add = [&](const std::string& name, task::Task real, task::Task dry) {
    const double bytes = bytes_of(real);
    cases.push_back({name, std::move(real), std::move(dry), bytes, "GB/s", 1e-3});
  };
  add("softmax.8192x4096", task::make_softmax({8192, 4096}, 1), task::make_softmax({4, 96}, 1));
  add("softmax.65536x128", task::make_softmax({65536, 128}, 1), task::make_softmax({6, 32}, 1));
  add("layernorm.16384x1024", norm_task(16384, 1024), norm_task(4, 64));
  add("reduce_sum.8192x8192", task::make_reduction({8192, 8192}, {1}, graph::Op::kReduceSum),
      task::make_reduction({4, 128}, {1}, graph::Op::kReduceSum));
  add("reduce_max.8192x8192.columns", task::make_reduction({8192, 8192}, {0}, graph::Op::kReduceMax),
      task::make_reduction({32, 8}, {0}, graph::Op::kReduceMax));
  return all_cases(run, cases);
}

Result<void> attention(Run& run) {
  std::vector<Case> cases;
  for (const auto& [batch, heads, tokens, depth] :
       {std::array<int64_t, 4>{8, 12, 128, 64}, {1, 16, 2048, 64}, {1, 32, 4096, 128}})
    for (DType type : {DType::kF16, DType::kF32}) {
      Case c;
      c.name = fmt::format("attention.{}x{}x{}x{}.{}", batch, heads, tokens, depth, type_text(type));
      c.real = task::make_attention(
          {.batch = batch, .heads = heads, .queries = tokens, .keys = tokens, .depth = depth, .dtype = type});
      c.dry = task::make_attention({.heads = 2, .queries = 16, .keys = 16, .depth = 8, .dtype = type});
      c.work = 4.0 * static_cast<double>(batch * heads * tokens) * static_cast<double>(tokens * depth);
      c.tolerance = type == DType::kF32 ? 1e-3 : 2e-2;
      cases.push_back(std::move(c));
    }
  return all_cases(run, cases);
}

Result<void> convolution(Run& run) {
  const DnnConv convs[] = {{1, 64, 56, 56, 64, 1, 3, 3, 1, 1},  {1, 256, 14, 14, 256, 1, 3, 3, 1, 1},
                           {1, 3, 224, 224, 64, 1, 7, 7, 2, 3}, {1, 256, 56, 56, 64, 1, 1, 1, 1, 0},
                           {1, 512, 7, 7, 512, 1, 3, 3, 1, 1},  {1, 128, 56, 56, 128, 128, 3, 3, 1, 1},
                           {32, 64, 56, 56, 64, 1, 3, 3, 1, 1}, {32, 256, 14, 14, 256, 1, 3, 3, 1, 1}};
  auto make = [](const DnnConv& c) {
    return task::make_conv({.batch = c.batch,
                            .channels = c.channels,
                            .filters = c.filters,
                            .group = c.group,
                            .size = {c.height, c.width},
                            .kernel = {c.kernel_height, c.kernel_width},
                            .strides = {c.stride, c.stride},
                            .pads = {c.pad, c.pad}});
  };
  std::vector<Case> cases;
  for (const DnnConv& c : convs) {
    DnnConv small = c;
    small.batch = 1;
    small.height = small.width = 8;
    small.channels = std::min<int64_t>(c.channels, 4);
    small.filters = c.group > 1 ? small.channels : 8;
    small.group = c.group > 1 ? small.channels : 1;
    Case one;
    one.name = fmt::format("conv.{}x{}x{}x{}.f{}.k{}.s{}{}.f32", c.batch, c.channels, c.height, c.width, c.filters,
                           c.kernel_height, c.stride, c.group > 1 ? ".depthwise" : "");
    one.real = make(c);
    one.dry = make(small);
    one.work = one.real.flops;
    cases.push_back(std::move(one));
  }
  if (run.backend.is_small()) return all_cases(run, cases);
  runtime::CudaDevice& device = *run.backend.device();
  auto opened = CudaDnn::open(device.stream(), run.options.cudnn);
  if (!opened) {
    run.absent("cuDNN: " + opened.error().message);
    return all_cases(run, cases);
  }
  const std::unique_ptr<CudaDnn> dnn = std::move(*opened);
  std::vector<Peer> peers;
  for (const DnnConv& c : convs) {
    auto memory = std::make_shared<PeerMemory>();
    Peer peer = make_peer(fmt::format("cuDNN {}", dnn->version()), memory, [&dnn, memory] {
      return dnn->run(memory->at(0), memory->at(1), memory->at(2), memory->at(3));
    });
    const auto place = peer.prepare;
    peer.prepare = [&dnn, memory, place, c](runtime::CudaDevice& d, const Tensors& params) -> Result<void> {
      TCC_TRY_VOID(place(d, params));
      TCC_TRY(const int64_t workspace, dnn->prepare(c));
      return memory->add(d, workspace);
    };
    peers.push_back(std::move(peer));
  }
  return all_cases(run, cases, peers);
}

}  // namespace tcc::gpu_check
