// What the machine code of GPU programs executes, without a GPU: of some 50 operators the program that the analytical
// model chooses, as tcc tune does without a device; of its hottest launch the instructions of the loop that holds the
// work.
// --only NAME restricts the operators and targets.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "bench.h"
#include "cuda_choice.h"
#include "sass.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"
#include "tcc/task/task.h"

namespace tcc::benchmarks {
namespace {

using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::ValueId;

class Maker {
 public:
  explicit Maker(DType dtype) : dtype_(dtype) {}
  ValueId input(Shape shape) { return graph_.add_input("x", dtype_, std::move(shape)); }
  ValueId indices(Shape shape) { return graph_.add_input("i", DType::kI64, std::move(shape)); }
  ValueId weight(Shape shape) {
    return graph_.add_constant("w", dtype_, std::move(shape), graph::make_splat(dtype_, 1));
  }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = graph_.add_node(op, std::move(attrs), std::move(inputs), "node");
    TCC_CHECK(id.has_value(), "{}: {}", graph::op_name(op), id ? "" : id.error().message);
    return *id;
  }
  ValueId gelu(ValueId x) { return node(Op::kUnary, graph::UnaryAttrs{graph::UnaryFn::kGelu}, {x}); }
  task::Task task(ValueId result) {
    graph_.add_output(result, "y");
    const auto groups = graph::fuse(graph_, {.attention = true});
    TCC_CHECK(groups.size() == 1, "the operator makes {} groups", groups.size());
    auto made = task::make_task(graph_, groups[0]);
    TCC_CHECK(made.has_value(), "{}", made ? "" : made.error().message);
    return std::move(*made);
  }

 private:
  DType dtype_;
  Graph graph_;
};

struct MachineCodeCase {
  std::string name;
  std::function<task::Task()> make;
};

std::function<task::Task()> gemm(DType type, int64_t m, int64_t n, int64_t k, bool gelu = false) {
  return [=] {
    Maker g(type);
    std::vector<ValueId> inputs = {g.input({m, k}), g.weight({k, n})};
    if (gelu) inputs.push_back(g.weight({n}));
    const ValueId y = g.node(Op::kGemm, graph::GemmAttrs{}, inputs);
    return g.task(gelu ? g.gelu(y) : y);
  };
}
std::function<task::Task()> conv(DType type, int64_t channels, int64_t filters, int64_t size, int64_t kernel,
                                 int64_t group = 1) {
  return [=] {
    Maker g(type);
    const std::vector<int64_t> two = {1, 1}, pads = {kernel / 2, kernel / 2};
    const graph::ConvAttrs attrs{{kernel, kernel}, two, two, pads, pads, group, 1, 1, 0};
    return g.task(g.node(Op::kConv, attrs,
                         {g.input({32, channels, size, size}), g.weight({filters, channels / group, kernel, kernel})}));
  };
}
std::function<task::Task()> unary(DType type, Shape shape, Op op, graph::Attributes attrs) {
  return [=] {
    Maker g(type);
    return g.task(g.node(op, attrs, {g.input(shape)}));
  };
}
std::function<task::Task()> layer_norm(DType type, int64_t rows, int64_t width) {
  return [=] {
    Maker g(type);
    return g.task(g.node(Op::kLayerNorm, graph::LayerNormAttrs{1},
                         {g.input({rows, width}), g.weight({width}), g.weight({width})}));
  };
}
std::function<task::Task()> attention_task(DType type, int64_t tokens, int64_t depth, bool mask) {
  return [=] {
    Maker g(type);
    const Shape stored = {8, 16, tokens, depth};
    ValueId y = g.node(Op::kMatMul, graph::MatMulAttrs{{}, {0, 1, 3, 2}, {}}, {g.input(stored), g.input(stored)});
    y = g.node(Op::kMul, graph::NoAttrs{}, {y, g.weight({})});
    if (mask) y = g.node(Op::kAdd, graph::NoAttrs{}, {y, g.input({tokens, tokens})});
    y = g.node(Op::kSoftmax, graph::AxisAttrs{3}, {y});
    return g.task(g.node(Op::kMatMul, graph::MatMulAttrs{}, {y, g.input(stored)}));
  };
}

// Products and convolutions.
std::vector<MachineCodeCase> product_cases() {
  const DType f16 = DType::kF16, bf16 = DType::kBF16, f32 = DType::kF32;
  return {
      {"gemm_f16_4096", gemm(f16, 4096, 4096, 4096)},
      {"gemm_bf16_4096", gemm(bf16, 4096, 4096, 4096)},
      {"gemm_f32_4096", gemm(f32, 4096, 4096, 4096)},
      {"gemm_f16_1024", gemm(f16, 1024, 1024, 1024)},
      {"gemm_f32_1024", gemm(f32, 1024, 1024, 1024)},
      {"gemm_gelu_f16", gemm(f16, 4096, 4096, 1024, true)},
      {"gemm_gelu_bf16", gemm(bf16, 4096, 4096, 1024, true)},
      {"gemm_f16_m16", gemm(f16, 16, 4096, 4096)},
      {"gemm_f16_m1", gemm(f16, 1, 4096, 4096)},
      {"gemm_f16_333", gemm(f16, 333, 333, 333)},
      {"gemm_f16_batched",
       [=] {
         Maker g(f16);
         return g.task(g.node(Op::kMatMul, graph::MatMulAttrs{}, {g.input({64, 512, 512}), g.input({64, 512, 512})}));
       }},
      {"conv3x3_f16", conv(f16, 64, 64, 56, 3)},
      {"conv3x3_deep_f16", conv(f16, 256, 256, 14, 3)},
      {"conv1x1_f16", conv(f16, 256, 64, 56, 1)},
      {"depthwise_f16", conv(f16, 96, 96, 56, 3, 96)},
      {"conv3x3_f32", conv(f32, 64, 64, 56, 3)},
      {"attention_f16_d64", attention_task(f16, 2048, 64, false)},
      {"attention_bf16_d128", attention_task(bf16, 2048, 128, false)},
      {"attention_f16_mask", attention_task(f16, 2048, 64, true)},
  };
}

// Rows, columns, elementwise operators, transposes, pools: the rate of memory decides.
std::vector<MachineCodeCase> memory_cases() {
  const DType f16 = DType::kF16, bf16 = DType::kBF16, f32 = DType::kF32;
  const Shape plane = {8192, 8192};
  const auto sum = [&](std::vector<int64_t> axes) {
    return unary(f32, plane, Op::kReduceSum, graph::ReduceAttrs{std::move(axes), false});
  };
  const auto add = [&](DType type) {
    return [=] {
      Maker g(type);
      return g.task(g.node(Op::kAdd, graph::NoAttrs{}, {g.input(plane), g.input(plane)}));
    };
  };
  return {
      {"softmax_f16_8192", unary(f16, plane, Op::kSoftmax, graph::AxisAttrs{1})},
      {"softmax_f16_50257", unary(f16, {128, 50257}, Op::kSoftmax, graph::AxisAttrs{1})},
      {"softmax_f16_1001", unary(f16, {32768, 1001}, Op::kSoftmax, graph::AxisAttrs{1})},
      {"softmax_f16_8191", unary(f16, {8191, 8191}, Op::kSoftmax, graph::AxisAttrs{1})},
      {"softmax_f16_131072", unary(f16, {128, 131072}, Op::kSoftmax, graph::AxisAttrs{1})},
      {"layernorm_f16_16384", layer_norm(f16, 4096, 16384)},
      {"layernorm_f16_131072", layer_norm(f16, 512, 131072)},
      {"layernorm_f16", layer_norm(f16, 8192, 1024)},
      {"layernorm_f16_1001", layer_norm(f16, 32768, 1001)},
      {"row_sum_f32", sum({1})},
      {"row_sum_f16_8191", unary(f16, {8191, 8191}, Op::kReduceSum, graph::ReduceAttrs{{1}, false})},
      {"column_sum_f32", sum({0})},
      {"full_sum_f32", sum({0, 1})},
      {"add_f16", add(f16)},
      {"add_f32", add(f32)},
      {"add_f16_odd",
       [=] {
         Maker g(f16);
         return g.task(g.node(Op::kAdd, graph::NoAttrs{}, {g.input({8191, 8191}), g.input({8191, 8191})}));
       }},
      {"bias_bf16",
       [=] {
         Maker g(bf16);
         return g.task(g.node(Op::kAdd, graph::NoAttrs{}, {g.input({65536, 1000}), g.weight({1000})}));
       }},
      {"layernorm_f16_8192", layer_norm(f16, 8192, 8192)},
      {"softmax_f16_batch", unary(f16, {64, 16, 512, 128}, Op::kSoftmax, graph::AxisAttrs{3})},
      {"transpose_f16_heads", unary(f16, {64, 512, 16, 128}, Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}})},
      {"transpose_f16_nchw", unary(f16, {64, 320, 3136}, Op::kTranspose, graph::TransposeAttrs{{0, 2, 1}})},
      {"transpose_f16_odd", unary(f16, {8191, 8191}, Op::kTranspose, graph::TransposeAttrs{{1, 0}})},
      {"row_mean_f16_49", unary(f16, {512, 2048, 7, 7}, Op::kReduceMean, graph::ReduceAttrs{{2, 3}, false})},
      {"column_sum_f16_odd", unary(f16, {8191, 8191}, Op::kReduceSum, graph::ReduceAttrs{{0}, false})},
      {"full_sum_f16", unary(f16, plane, Op::kReduceSum, graph::ReduceAttrs{{0, 1}, false})},
      {"max_pool_f16_64m", unary(f16, {80, 64, 112, 112}, Op::kMaxPool,
                                 graph::PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, false, false, 1})},
      {"max_pool_f16_odd", unary(f16, {64, 256, 63, 63}, Op::kMaxPool,
                                 graph::PoolAttrs{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false, false, 1})},
      {"average_pool_f16_odd", unary(f16, {64, 256, 63, 63}, Op::kAveragePool,
                                     graph::PoolAttrs{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false, false, 1})},
      {"gelu_f16", unary(f16, plane, Op::kUnary, graph::UnaryAttrs{graph::UnaryFn::kGelu})},
      {"transpose_f16", unary(f16, plane, Op::kTranspose, graph::TransposeAttrs{{1, 0}})},
      {"transpose_f32", unary(f32, plane, Op::kTranspose, graph::TransposeAttrs{{1, 0}})},
      {"embedding_f16",
       [=] {
         Maker g(f16);
         return g.task(g.node(Op::kGather, graph::AxisAttrs{0}, {g.weight({30522, 1024}), g.indices({16384})}));
       }},
      {"max_pool_f16", unary(f16, {32, 64, 112, 112}, Op::kMaxPool,
                             graph::PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, false, false, 1})},
  };
}

std::vector<MachineCodeCase> machine_code_cases() {
  std::vector<MachineCodeCase> all = product_cases();
  for (MachineCodeCase& c : memory_cases()) all.push_back(std::move(c));
  return all;
}

// The least traffic of the operator: each parameter once, and of a table no more than its blocks can gather.
double parameter_bytes(const task::Task& task) {
  std::map<ir::Id, double> gathered;
  for (const ir::Block* block : ir::collect_blocks(task.kernel.root)) {
    double times = 1;
    for (const ir::Iter& it : block->iters) times *= static_cast<double>(ir::int_value(it.extent));
    ir::visit_loads(block->body, [&](const ir::Load& l) {
      gathered[l.buffer] += times * static_cast<double>(ir::type_bytes(l.type));
    });
  }
  double bytes = 0;
  for (const ir::Buffer* b : task.kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    double size = static_cast<double>(ir::type_bytes(b->type));
    for (ir::Expr e : b->shape) size *= static_cast<double>(ir::int_value(e));
    bytes += gathered.contains(b->id) ? std::min(size, gathered.at(b->id)) : size;
  }
  return bytes;
}

// Bytes on their way to a multiprocessor at a time: loads of resident threads, or stages of asynchronous copies.
double bytes_in_flight(const SassCounts& loop, const SassKernel& kernel, const search::ChosenArtifact& chosen,
                       const target::Target& device) {
  const codegen::Launch& launch = chosen.artifact.launches.at(0);
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const int64_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
  const int64_t sms = std::max<int64_t>(device.cuda.sm_count, 1);
  const int64_t resident = std::min(resident_blocks(chosen, device), (blocks + sms - 1) / sms);
  if (kernel.all.tensor_copies > 0) return static_cast<double>(resident) * chosen.artifact.facts.at("shared_bytes");
  const int64_t each = loop.bytes_in_flight + loop.copied_bytes * std::max<int64_t>(loop.groups_in_flight, 1);
  return static_cast<double>(resident * threads * each);
}

Result<std::vector<Row>> judge_machine_code(const MachineCodeCase& c, const std::string& target) {
  TCC_TRY(const target::Target device, target::find_target(target));
  const task::Task task = c.make();
  TCC_TRY(const search::ChosenArtifact chosen, choose_without_device(task, device));
  TCC_TRY(const std::string text, disassemble(chosen.artifact.code));
  const std::vector<SassKernel> kernels = parse_sass(text);
  const std::string& symbol = chosen.artifact.launches.at(0).symbol;
  const auto kernel =
      std::find_if(kernels.begin(), kernels.end(), [&](const SassKernel& k) { return k.name == symbol; });
  if (kernel == kernels.end()) return environment_error("nvdisasm shows no kernel {}", symbol);
  const SassLoop* loop = kernel->steady();
  const SassCounts& s = loop != nullptr ? loop->counts : kernel->all;
  std::vector<Row> rows;
  const std::string prefix = c.name + "." + target + ".";
  auto row = [&](const char* what, double value, const char* unit) {
    rows.push_back({prefix + what, value, unit, "", 0, 0});
  };
  auto number = [&](const char* what, int64_t value) { row(what, static_cast<double>(value), ""); };
  const double least = parameter_bytes(task) / (device.memory_bandwidth * device.cuda.model.copy_share);
  rows.push_back({prefix + "predicted", chosen.program.seconds * 1e6, "us", "all bytes at the rate of a copy",
                  least * 1e6, chosen.program.seconds > 0 ? least / chosen.program.seconds : 0});
  const codegen::Launch& launch = chosen.artifact.launches.at(0);
  number("launches", std::ssize(chosen.artifact.launches));
  number("threads", launch.block[0] * launch.block[1] * launch.block[2]);
  number("blocks", launch.grid[0] * launch.grid[1] * launch.grid[2]);
  number("resident_blocks", resident_blocks(chosen, device));
  row("registers", chosen.artifact.facts.at("registers"), "a thread");
  row("spills", chosen.artifact.facts.at("spill_bytes"), "B");
  row("notes",
      chosen.artifact.facts.at("serialized_products") + chosen.artifact.facts.at("injected_waits") +
          chosen.artifact.facts.at("ignored_register_budgets"),
      "of ptxas");
  number("kernel_instructions", kernel->all.instructions);
  number("loop_instructions", loop != nullptr ? s.instructions : 0);
  number("hgmma", s.hgmma), number("hmma", s.hmma), number("ffma", s.ffma), number("mufu", s.mufu);
  number("lds", s.lds), number("ldsm", s.ldsm), number("sts", s.sts);
  number("ldg", s.loaded_bytes > 0 ? s.loaded_bytes / SassCounts::widest(s.loads) : 0);
  row("ldg_widest", static_cast<double>(SassCounts::widest(s.loads)), "B");
  row("ldg_narrowest", static_cast<double>(SassCounts::narrowest(s.loads)), "B");
  row("stg_narrowest", static_cast<double>(SassCounts::narrowest(kernel->all.stores)), "B");
  number("async_copies", s.async_copies), number("tensor_copies", kernel->all.tensor_copies);
  number("membar", s.membar), number("bar", s.bar), number("integer", s.integer), number("conversions", s.conversions);
  row("in_flight", bytes_in_flight(s, *kernel, chosen, device), "B an SM");
  // Of a loop with products: what is issued beside them.
  if (s.hgmma > 0) number("beside_products", s.instructions - s.hgmma);
  if (s.hgmma == 0 && s.hmma > 0)
    row("per_product", static_cast<double>(s.instructions) / static_cast<double>(s.hmma), "");
  if (s.ffma >= 16 && s.lds > 0)
    row("lds128_per_16_ffma", 4.0 * static_cast<double>(s.shared_read_words) / static_cast<double>(s.ffma), "");
  // Elements of the operator's output type, or of its input where the loop stores nothing.
  int64_t element = 4;
  for (const ir::Buffer* b : task.kernel.buffers)
    if (b->role == ir::BufferRole::kOutput) element = ir::type_bytes(b->type);
  const int64_t moved = s.stored_bytes > 0 ? s.stored_bytes : s.loaded_bytes;
  if (s.hgmma + s.hmma == 0 && moved > 0)
    row("per_element", static_cast<double>(s.instructions * element) / static_cast<double>(moved), "");
  return rows;
}

}  // namespace

std::vector<Row> run_cuda_sass_suite(double) {
  std::vector<Row> all;
  if (auto tool = disassemble(""); !tool && !tool.error().hint.empty()) {
    std::fprintf(stderr, "cuda-sass: %s; %s\n", tool.error().message.c_str(), tool.error().hint.c_str());
    return {{"cuda-sass", 0, "", "did not run: " + tool.error().message, 0, 0}};
  }
  for (const MachineCodeCase& c : machine_code_cases())
    for (const std::string target : {"a100", "h200", "t4"}) {
      if (!wanted(c.name + "." + target)) continue;
      Result<std::vector<Row>> rows = judge_machine_code(c, target);
      if (!rows) {
        std::fprintf(stderr, "cuda-sass %s %s: %s %s\n", c.name.c_str(), target.c_str(), rows.error().message.c_str(),
                     rows.error().hint.c_str());
        rows = std::vector<Row>{{c.name + "." + target, 0, "", "did not run: " + rows.error().message, 0, 0}};
      }
      all.insert(all.end(), rows->begin(), rows->end());
    }
  return all;
}

}  // namespace tcc::benchmarks
