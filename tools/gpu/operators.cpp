// Operators as a search would begin with them: of each task the analytical model's best few are compiled, checked and
// timed, and the fastest is the row. On a device the sizes are real ones, and programs of one task are checked against
// each other; small tasks of every kind are checked against the naive kernel (correctness).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "gpu/cuda_blas.h"
#include "gpu/cuda_dnn.h"
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
  bool tf32 = false;
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

// "" when all outputs agree within `tolerance` of the largest one.
std::string difference(const ir::Kernel& kernel, const Tensors& got, const Tensors& expected, double tolerance) {
  size_t p = 0;
  for (const ir::Buffer* buffer : kernel.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    const interp::TensorData &x = got[p], &y = expected[p];
    ++p;
    if (buffer->role != ir::BufferRole::kOutput) continue;
    double largest = 0;
    for (int64_t i = 0; i < y.size(); ++i) largest = std::max(largest, std::fabs(y.at(i)));
    for (int64_t i = 0; i < y.size(); ++i)
      if (!(std::fabs(x.at(i) - y.at(i)) <= tolerance * largest))
        return fmt::format("parameter {} [{}] is {}, not {}", p - 1, i, x.at(i), y.at(i));
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

// Median over rounds of about 20 ms each.
Result<double> time_program(Run& run, const std::function<Result<double>(int)>& time) {
  TCC_TRY(double once, time(1));
  if (!run.backend.is_device()) return once;
  TCC_TRY(once, time(3));
  const int count = static_cast<int>(std::clamp(0.02 / std::max(once, 1e-7), 1.0, 2000.0));
  std::vector<double> rounds;
  for (int round = 0; round < 7; ++round) {
    TCC_TRY(const double seconds, time(count));
    rounds.push_back(seconds);
  }
  return median(rounds);
}

struct Best {
  double seconds = 0;
  size_t rank = 0, programs = 0;
};

// Compiles, checks and times the task's programs. The first that works is what the others must agree with, unless there
// is a reference. Wrong ones are failures; seconds is 0 when none works.
Result<Best> try_programs(Run& run, const std::string& name, const task::Task& task, const Tensors& inputs,
                          const Tensors* reference, double tolerance, bool tf32) {
  const bool device = run.backend.is_device();
  const std::vector<RankedProgram> programs =
      rank_programs(task, run.backend.target(), device ? 2000 : 48, device ? 8 : 2, tf32);
  if (programs.empty()) run.fail(fmt::format("{}: no program of its design spaces is legal", name));
  Best best;
  Tensors first;
  for (size_t i = 0; i < programs.size() && (i == 0 || !run.out_of_time()); ++i) {
    auto program = run.backend.load(programs[i].lowered, run.options.nvrtc);
    Tensors params = inputs;
    Result<void> ran = program ? (*program)->run(params) : Result<void>(tl::make_unexpected(program.error()));
    if (!ran) {
      run.fail(fmt::format("{} program {}: {}", name, i, text_of(ran.error())));
      if (device_is_lost(run)) return lost(name);
      continue;
    }
    ++run.tests;
    const Tensors* expected = reference != nullptr ? reference : first.empty() ? nullptr : &first;
    const std::string wrong = expected == nullptr ? "" : difference(programs[i].lowered, params, *expected, tolerance);
    if (!wrong.empty()) {
      run.fail(fmt::format("{} program {}: {}", name, i, wrong));
      continue;
    }
    if (first.empty()) first = params;
    TCC_TRY(const double seconds, time_program(run, [&](int count) { return (*program)->time(count); }));
    ++best.programs;
    if (best.seconds == 0 || seconds < best.seconds) best.seconds = seconds, best.rank = i;
  }
  return best;
}

using Peer = std::function<Result<std::optional<double>>()>;  // seconds, where there is a library

Result<void> table_case(Run& run, const Case& c, const std::string& peer_name = {}, const Peer& peer = {}) {
  const bool device = run.backend.is_device();
  const task::Task& task = device ? c.real : c.dry;
  const Tensors inputs = make_params(task.kernel, false);
  std::optional<Tensors> reference;
  if (!device) {
    TCC_TRY(reference, naive_result(task.kernel, inputs));
  }
  TCC_TRY(const Best best,
          try_programs(run, c.name, task, inputs, reference ? &*reference : nullptr, c.tolerance, c.tf32));
  if (best.seconds == 0) return {};
  // In a dry run the work is that of the small task, in proportion to its arithmetic.
  const double work = device ? c.work : c.work * std::max(c.dry.flops, 1.0) / std::max(c.real.flops, 1.0);
  Row row{c.name, work * 1e-9 / best.seconds, c.unit, "", 0};
  if (peer && device) {
    auto seconds = peer();
    if (!seconds) run.fail(fmt::format("{} by {}: {}", c.name, peer_name, text_of(seconds.error())));
    if (seconds && *seconds) row.peer = peer_name, row.peer_value = work * 1e-9 / **seconds;
  } else if (c.unit == "GB/s" && run.copy_rate > 0) {
    row.peer = "copy", row.peer_value = run.copy_rate * 1e-9;
  }
  TCC_TRY_VOID(run.row(row));
  return run.row(
      {c.name + ".rank", static_cast<double>(best.rank + 1), fmt::format("of {} by model", best.programs), "", 0});
}

// Runs the cases while there is time; one that cannot run is a failure, a lost device the end.
Result<void> all_cases(Run& run, const std::vector<Case>& cases, const std::string& peer_name = {},
                       const std::function<Peer(size_t)>& peer = {}) {
  std::set<std::string> seen;
  for (size_t i = 0; i < cases.size() && !run.out_of_time(); ++i) {
    // Where cases differ in their real sizes only, one of them says all that a dry run can.
    if (!run.backend.is_device() && !seen.insert(cases[i].dry.key).second) continue;
    auto done = table_case(run, cases[i], peer_name, peer ? peer(i) : Peer());
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

// Device memory for a library's matrices or tensors; contents do not matter to its time beyond being finite.
struct PeerMemory {
  std::vector<runtime::CudaBuffer> buffers;
  Result<void> add(runtime::CudaDevice& device, int64_t bytes) {
    TCC_TRY(runtime::CudaBuffer buffer, device.allocate(bytes));
    TCC_TRY_VOID(device.fill(buffer, 0x3c));
    buffers.push_back(std::move(buffer));
    return {};
  }
  uint64_t at(size_t i) const { return buffers[i].address(); }
};

Result<std::optional<double>> time_library(Run& run, const std::function<Result<void>()>& enqueue) {
  runtime::CudaDevice& device = *run.backend.device();
  TCC_TRY(const double seconds, time_program(run, [&](int count) -> Result<double> {
            TCC_TRY(const double all, device.time(count, enqueue));
            return all / count;
          }));
  return std::optional(seconds);
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

Result<void> correctness(Run& run) {
  const auto half = DType::kF16, brain = DType::kBF16;
  std::vector<task::Task> tasks = {
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
  size_t right = 0;
  for (const task::Task& task : tasks) {
    if (run.out_of_time()) return {};
    const Tensors inputs = make_params(task.kernel, true);
    TCC_TRY(const Tensors reference, naive_result(task.kernel, inputs));
    const size_t failures = run.failures.size();
    auto tried = try_programs(run, task.workload, task, inputs, &reference, 2e-3, false);
    if (!tried && device_is_lost(run)) return tl::make_unexpected(tried.error());
    if (!tried) run.fail(fmt::format("{}: {}", task.workload, text_of(tried.error())));
    right += tried && tried->seconds > 0 && run.failures.size() == failures;
  }
  return run.row({"correctness.right", static_cast<double>(right), fmt::format("of {} tasks", tasks.size()), "", 0});
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
  runtime::CudaDevice* device = run.backend.device();
  std::unique_ptr<CudaBlas> blas;
  if (device != nullptr) {
    auto opened = CudaBlas::open(device->stream(), run.options.cublas);
    if (opened) blas = std::move(*opened);
    if (!opened) run.absent("cuBLAS: " + opened.error().message);
  }
  if (!blas) return all_cases(run, cases);
  const std::function<Peer(size_t)> peer = [&](size_t i) -> Peer {
    return [&run, &blas, device, p = products[i]]() -> Result<std::optional<double>> {
      PeerMemory memory;
      const int64_t size = p.type == DType::kF32 ? 4 : 2;
      for (int64_t elements : {p.m * p.k, p.k * p.n, p.m * p.n}) TCC_TRY_VOID(memory.add(*device, elements * size));
      const auto half = p.type == DType::kF16 ? CudaBlas::Half::kF16 : CudaBlas::Half::kBF16;
      return time_library(run, [&] {
        return p.type == DType::kF32 ? blas->gemm(p.m, p.n, p.k, memory.at(0), memory.at(1), memory.at(2))
                                     : blas->gemm_half(half, p.m, p.n, p.k, memory.at(0), memory.at(1), memory.at(2));
      });
    };
  };
  return all_cases(run, cases, fmt::format("cuBLAS {}", blas->version()), peer);
}

Result<void> memory_bound(Run& run) {
  if (run.copy_rate == 0) {
    TCC_TRY(run.copy_rate, run.backend.copy_rate());
  }
  std::vector<Case> cases;
  auto add = [&](const std::string& name, task::Task real, task::Task dry) {
    const double bytes = bytes_of(real);
    cases.push_back({name, std::move(real), std::move(dry), bytes, "GB/s", 1e-3, false});
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
  runtime::CudaDevice* device = run.backend.device();
  std::unique_ptr<CudaDnn> dnn;
  if (device != nullptr) {
    auto opened = CudaDnn::open(device->stream(), run.options.cudnn);
    if (opened) dnn = std::move(*opened);
    if (!opened) run.absent("cuDNN: " + opened.error().message);
  }
  if (!dnn) return all_cases(run, cases);
  const std::function<Peer(size_t)> peer = [&](size_t i) -> Peer {
    return [&run, &dnn, device, c = convs[i]]() -> Result<std::optional<double>> {
      TCC_TRY(const int64_t workspace, dnn->prepare(c));
      const int64_t out_h = (c.height + 2 * c.pad - c.kernel_height) / c.stride + 1;
      const int64_t out_w = (c.width + 2 * c.pad - c.kernel_width) / c.stride + 1;
      PeerMemory memory;
      TCC_TRY_VOID(memory.add(*device, 4 * c.batch * c.channels * c.height * c.width));
      TCC_TRY_VOID(memory.add(*device, 4 * c.filters * (c.channels / c.group) * c.kernel_height * c.kernel_width));
      TCC_TRY_VOID(memory.add(*device, 4 * c.batch * c.filters * out_h * out_w));
      TCC_TRY_VOID(memory.add(*device, workspace));
      return time_library(run, [&] { return dnn->run(memory.at(0), memory.at(1), memory.at(2), memory.at(3)); });
    };
  };
  return all_cases(run, cases, fmt::format("cuDNN {}", dnn->version()), peer);
}

}  // namespace tcc::gpu_check
