// The prelude: every asm statement is in it, and every instruction with a PTX text has a function that compiles.
#include "codegen/cuda/prelude.h"

#include <map>

#include "cuda/support.h"
#include "nvrtc.h"
#include "skip.h"
#include "tcc/ir/instr.h"

using namespace tcc;
using namespace tcc::codegen;
using namespace tcc::codegen::testing;
using namespace tcc::ir;

namespace {

// The targets with which features come, in order.
std::vector<target::Target> architectures() {
  return {gpu("t4"), gpu("a100"), gpu("h200")};
}

bool has(const target::CudaFeatures& features, std::string_view name) {
  if (name.empty()) return true;
#define TCC_FEATURE(field) \
  if (name == #field) return features.field;
  TCC_CUDA_FEATURES(TCC_FEATURE)
#undef TCC_FEATURE
  FAIL("no feature is called " << name);
  return false;
}

using Layouts = std::map<Id, const Layout*>;

// What bulk copies, wgmma and wmma take: boxes of kBox, tiles whose rows are those of a swizzle of 128 bytes, rows.
constexpr int64_t kBox[] = {8, 16};
const Buffer* plane(Draft& d, const Instruction& row, const OperandSpec& o, Layouts& layouts) {
  const char* name = std::string_view(o.name) == "D" ? "D" : o.name == "A" ? "A" : o.name == "B" ? "B" : "S";
  if (o.scope == Scope::kGlobal)
    return d.buffer(name, o.type, {64, 64}, o.access == Access::kRead ? BufferRole::kInput : BufferRole::kOutput);
  if (cuda::has_pitch(row, o)) return d.buffer(name, o.type, {64, 48}, BufferRole::kTemp, Scope::kShared);
  if (row.completion != Completion::kWgmmaGroup)
    return d.buffer(name, o.type, {kBox[0], kBox[1]}, BufferRole::kTemp, Scope::kShared);
  const bool transposed = o.tile[0] == 16 && o.tile[1] > 16;
  const Buffer* b = d.buffer(name, o.type, {o.tile[0], transposed ? o.tile[1] : 128 / type_bytes(o.type)},
                             BufferRole::kTemp, Scope::kShared);
  const int64_t shape[] = {o.tile[0], o.tile[1]};
  const int32_t order[] = {1, 0};
  const std::pair<int32_t, int64_t> tiles[] = {{1, 64}};
  if (transposed) layouts[b->id] = make_blocked(d.b.arena(), shape, order, tiles);
  return b;
}

// One call of the row by every thread of a warpgroup: shared, global and local buffers as its operands ask. The
// arguments are the constants `args`; where `run_time`, those that may be are read from a buffer.
Kernel call_of(const Instruction& row, int32_t number, const std::vector<int64_t>& args, bool run_time) {
  Draft d;
  const Buffer* numbers = d.buffer("numbers", Type::kI32, {8}, BufferRole::kInput);
  std::vector<const Buffer*> buffers;
  Layouts layouts;
  for (const OperandSpec& o : row.operands) {
    if (o.rank == 2 && o.layout.empty() && (row.proxy == Proxy::kAsync || cuda::has_pitch(row, o))) {
      buffers.push_back(plane(d, row, o, layouts));
      continue;
    }
    const int64_t elements = o.scope == Scope::kLocal ? cuda::registers_per_lane(o) : 4096;
    const BufferRole role = o.scope != Scope::kGlobal   ? BufferRole::kTemp
                            : o.access == Access::kRead ? BufferRole::kInput
                                                        : BufferRole::kOutput;
    buffers.push_back(d.buffer(std::string(o.name).c_str(), o.type, {elements}, role,
                               o.scope == Scope::kClusterShared ? Scope::kShared : o.scope));
  }
  const Expr zero[] = {d.num(0), d.num(0)};
  std::vector<Operand> operands;
  std::vector<Id> temporaries;
  std::vector<Stmt> body;
  const Id t = d.kb.new_id("t");
  for (const Buffer* b : buffers) {
    operands.push_back({b->id, std::span(zero).first(b->shape.size())});
    if (b->role == BufferRole::kTemp) temporaries.push_back(b->id);
    if (b->scope == Scope::kLocal)
      for (int64_t i = 0; i < int_value(b->shape[0]); ++i)
        body.push_back(d.store(b, {d.num(i)}, d.b.cast(d.b.var(t), b->type)));
  }
  std::vector<Expr> values;
  for (size_t n = 0; n < args.size(); ++n)
    values.push_back(run_time && !cuda::is_immediate(row, n) ? d.load(numbers, {d.num(static_cast<int64_t>(n))})
                                                             : d.num(args[n]));
  body.push_back(d.b.instr(number, operands, values));
  const Buffer* out = d.buffer("out", Type::kF32, {128}, BufferRole::kOutput);
  for (const Buffer* b : buffers)
    if (b->scope == Scope::kLocal)
      for (int64_t i = 0; i < int_value(b->shape[0]); ++i)
        body.push_back(d.store(out, {d.b.var(t)}, d.b.cast(d.load(b, {d.num(i)}), Type::kF32)));
  Stmt inner = d.b.loop(t, d.num(128), d.b.seq(body), LoopKind::kBound, Axis::kThreadX);
  Kernel k = d.finish(d.b.alloc(temporaries, inner), 128);
  std::vector<const Buffer*> laid_out;
  for (const Buffer* old : k.buffers) {
    Buffer copy = *old;
    if (copy.scope == Scope::kShared) copy.alignment = std::max<int32_t>(copy.alignment, 128);
    if (const auto layout = layouts.find(old->id); layout != layouts.end()) copy.layout = layout->second;
    laid_out.push_back(d.b.buffer(copy));
  }
  k.buffers = d.b.arena().copy(laid_out);
  return k;
}

std::vector<int64_t> example_arguments(const Instruction& row) {
  switch (row.behaviour) {
    case Behaviour::kShuffle:
      return {3, 16, 32};
    case Behaviour::kBarSync:
      return {1, 128};
    case Behaviour::kWarpSync:
      return {0xffffffff};
    case Behaviour::kSetMaxRegisters:
      return {row.name.ends_with("inc") ? 240 : 40};
    case Behaviour::kCompute:
      if (row.proxy == Proxy::kAsync && row.num_args >= 2)
        return row.num_args == 2 ? std::vector<int64_t>{kBox[0], kBox[1]} : std::vector<int64_t>{kBox[0], kBox[1], 1};
      return std::vector<int64_t>(static_cast<size_t>(row.num_args), 1);
    case Behaviour::kCopyCommit:
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
    case Behaviour::kMbarrierInit:
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx:
    case Behaviour::kMbarrierWait:
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kWgmmaFence:
    case Behaviour::kWgmmaCommit:
    case Behaviour::kWgmmaWait:
    case Behaviour::kClusterSync:
    case Behaviour::kThreadFence:
    case Behaviour::kAtomicAdd:
    case Behaviour::kTileConfig:
      return std::vector<int64_t>(static_cast<size_t>(row.num_args), 1);
  }
  return {};
}

}  // namespace

TEST_CASE("NVRTC reads those functions of the prelude that are called, and no other") {
  const std::string kernel = "extern \"C\" __global__ void k() { tcc_bar_sync<0, 32>(); tcc_cp_async_wait<1>(); }\n";
  const std::string text = cuda::without_unused(cuda_prelude() + kernel);
  CHECK(text.ends_with(kernel));
  CHECK(cuda_prelude().starts_with(text.substr(0, text.find("template <int I0"))));
  for (const Instruction& row : instruction_table()) {
    const std::string name = cuda::row_function(row);
    const bool called = name == "tcc_bar_sync" || name == "tcc_cp_async_wait";
    INFO(name);
    CHECK((text.find("TCC_DEVICE void " + name + "(") != std::string::npos) == (called && !row.ptx.empty()));
  }
}

TEST_CASE("asm is in the prelude only, a function for every row with a PTX text") {
  const std::string& prelude = cuda_prelude();
  CHECK(count_of(prelude, "asm") > 40);
  size_t last = 0;
  const std::span<const Instruction> table = instruction_table();
  for (size_t i = 0; i < table.size(); ++i) {
    const Instruction& row = table[i];
    INFO(row.name);
    const size_t at = prelude.find("void " + cuda::row_function(row) + "(");
    CHECK((at == std::string::npos) == row.ptx.empty());
    if (row.ptx.empty()) continue;
    CHECK(at > last);
    last = at;
    const bool boxes = std::any_of(row.operands.begin(), row.operands.end(),
                                   [&](const OperandSpec& o) { return cuda::is_tensor_map(row, o); });
    for (const char dimension : {'2', '3', '4', '5'})
      CHECK((prelude.find(fmt::format("tensor.{}d.", dimension), at) != std::string::npos || !boxes));
    for (const bool run_time : {false, true}) {
      const Kernel kernel = call_of(row, static_cast<int32_t>(i), example_arguments(row), run_time);
      auto source = emit_cuda_source(kernel, gpu("h200"));
      if (!source) FAIL(source.error().message);
      REQUIRE(source->text.compare(0, prelude.size(), prelude) == 0);
      CHECK(count_of(source->text.substr(prelude.size()), "asm") == 0);
      CHECK(count_of(source->text.substr(prelude.size()), cuda::row_function(row)) == 1);
    }
  }
}

TEST_CASE("products of single precision round their operands to tf32, each register once, and no other product does") {
  const std::string& prelude = cuda_prelude();
  for (const Instruction& row : instruction_table()) {
    if (row.family != Family::kMma) continue;
    INFO(row.name);
    const size_t from = prelude.find("void " + cuda::row_function(row) + "(");
    const std::string text = prelude.substr(from, prelude.find("\nTCC_DEVICE", from) - from);
    const bool single = row.operands[1].type == Type::kF32;
    CHECK(count_of(text, "cvt.rna.tf32.f32") == (single ? 2 : 0));
    CHECK((text.find("\"r\"(A_tf32[3])") != std::string::npos) == single);
    CHECK((text.find("\"r\"(B_tf32[1])") != std::string::npos) == single);
  }
}

TEST_CASE("every function of the prelude compiles where its feature first is") {
  if (!nvrtc_available()) SKIP(nvrtc_version().error().message);
  const std::vector<target::Target> targets = architectures();
  const std::span<const Instruction> table = instruction_table();
  for (size_t i = 0; i < table.size(); ++i) {
    const Instruction& row = table[i];
    if (row.ptx.empty()) continue;
    INFO(row.name);
    auto first = std::find_if(targets.begin(), targets.end(),
                              [&](const target::Target& t) { return has(t.cuda.features, row.feature); });
    REQUIRE(first != targets.end());
    for (const bool run_time : {false, true}) {
      const Kernel kernel = call_of(row, static_cast<int32_t>(i), example_arguments(row), run_time);
      auto artifact = compile_cuda(kernel, *first);
      if (!artifact) FAIL_CHECK(first->name << ": " << artifact.error().message);
    }
  }
}
