// NVRTC's PTX of real kernels computes what the naive kernel does, without a finding: programs of the GPU spaces over
// small tasks, and the hand-written kernels. And the same kernels damaged are reported.
#include <cstdlib>
#include <cstring>
#include <limits>

#include "emulation/programs.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"
#include "traces/byte_product.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;
using tcc::testing::Reference;

namespace {

// A hand-written kernel at Stage::Lowered.
ir::Kernel hard_kernel(const std::string& name) {
  auto text = read_file(std::string(TCC_SOURCE_DIR) + "/tests/ir/hard/" + name + ".tir");
  REQUIRE(text.has_value());
  auto kernel = ir::parse(*text);
  if (!kernel) FAIL(name << ": " << kernel.error().message);
  REQUIRE(kernel->stage == ir::Stage::kLowered);
  return *kernel;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  size_t count = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()), ++count)
    text.replace(at, from.size(), to);
  REQUIRE(count > 0);
  return text;
}

// One operator on numbers of T by the first programs of its space; elements are compared bit by bit with z.
template <class T>
void check_elements(graph::Op op, graph::Attributes attrs, graph::DType dtype, const std::vector<std::vector<T>>& in,
                    const std::vector<T>& z) {
  const auto n = static_cast<int64_t>(z.size());
  const task::Task task =
      tcc::testing::make_operator(op, std::move(attrs), std::vector<graph::Shape>(in.size(), {n}), dtype);
  auto tensor = [&](const std::vector<T>& values) {
    auto t = interp::TensorData::zeros(task.kernel.buffers[0]->type, graph::Shape{n});
    REQUIRE(t.bytes.size() == values.size() * sizeof(T));
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
  };
  int ran = 0;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, gpu("a100"))) {
    auto arena = std::make_shared<Arena>();
    std::vector<int64_t> decisions = trace.decisions;
    auto scheduled = schedule::replay(trace, decisions, task.kernel, arena);
    if (!scheduled) continue;
    auto lowered = lower::lower(*scheduled, gpu("a100"), ir::Stage::kLowered, arena);
    if (!lowered) continue;
    std::vector<interp::TensorData> data;
    for (const std::vector<T>& x : in) data.push_back(tensor(x));
    data.push_back(tensor(std::vector<T>(z.size(), T{0x55})));
    const codegen::Artifact artifact = compile(*lowered, gpu("a100"), task.workload);
    const PtxReport report = emulate(artifact, data, 1, task.workload);
    INFO(task.workload << "\n" << report.text() << "\n" << artifact.source);
    REQUIRE(report.ok());
    for (size_t i = 0; i < z.size(); ++i) {
      T got{};
      std::memcpy(&got, data.back().bytes.data() + i * sizeof(T), sizeof(T));
      INFO("element " << i);
      REQUIRE(+got == +z[i]);
    }
    ++ran;
  }
  CHECK(ran > 0);
}

// Of C++ integers; by fewer than 0 bits, or more than the number has, all leave it, or as many as the sign are moved
// in.
template <class T>
T shifted(T x, T by, bool left) {
  const T sign = static_cast<T>(x < 0 ? -1 : 0);
  if (by < 0 || static_cast<uint64_t>(by) >= 8 * sizeof(T)) return left ? T{0} : sign;
  return static_cast<T>(left ? static_cast<uint64_t>(x) << by : static_cast<uint64_t>(x >> by));
}

template <class T>
void check_bits(graph::DType dtype) {
  using graph::BinaryFn;
  using Limits = std::numeric_limits<T>;
  INFO(graph::dtype_name(dtype));
  std::vector<T> x{0, 1, static_cast<T>(-1), Limits::min(), Limits::max(), static_cast<T>(Limits::min() + 1)};
  Rng rng(sizeof(T));
  while (x.size() < 70) x.push_back(static_cast<T>(rng.next()));
  std::vector<T> y(x.rbegin(), x.rend()), by, nots;
  for (size_t i = 0; i < x.size(); ++i) {
    by.push_back(static_cast<T>(i % 5 == 4 ? y[i] : static_cast<T>(i % (8 * sizeof(T)))));
    nots.push_back(static_cast<T>(~x[i]));
  }
  check_elements<T>(graph::Op::kUnary, graph::UnaryAttrs{graph::UnaryFn::kBitNot, 0, 0}, dtype, {x}, nots);
  struct Case {
    BinaryFn fn;
    T (*apply)(T, T);
  };
  for (const Case& c : {Case{BinaryFn::kBitAnd, [](T p, T q) { return static_cast<T>(p & q); }},
                        Case{BinaryFn::kBitOr, [](T p, T q) { return static_cast<T>(p | q); }},
                        Case{BinaryFn::kBitXor, [](T p, T q) { return static_cast<T>(p ^ q); }},
                        Case{BinaryFn::kShiftLeft, [](T p, T q) { return shifted(p, q, true); }},
                        Case{BinaryFn::kShiftRight, [](T p, T q) { return shifted(p, q, false); }}}) {
    const bool shifts = c.fn == BinaryFn::kShiftLeft || c.fn == BinaryFn::kShiftRight;
    const std::vector<T>& second = shifts ? by : y;
    std::vector<T> z;
    for (size_t i = 0; i < x.size(); ++i) z.push_back(c.apply(x[i], second[i]));
    check_elements<T>(graph::Op::kBinary, graph::BinaryAttrs{c.fn}, dtype, {x, second}, z);
  }
}

}  // namespace

TEST_CASE("PTX of operators on bits gives the bits of C++", "[emulation]") {
  if (skipped()) return;
  using graph::DType;
  check_bits<int8_t>(DType::kI8);
  check_bits<uint8_t>(DType::kU8);
  check_bits<int16_t>(DType::kI16);
  check_bits<uint16_t>(DType::kU16);
  check_bits<int32_t>(DType::kI32);
  check_bits<uint32_t>(DType::kU32);
  check_bits<int64_t>(DType::kI64);
  check_bits<uint64_t>(DType::kU64);
}

TEST_CASE("PTX of programs of the GPU spaces equals the reference", "[emulation]") {
  if (skipped()) return;
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  int64_t ran = 0;
  const std::vector<task::Task> tasks = tcc::testing::task_shapes();
  for (size_t n = 0; n < tasks.size(); ++n) {
    if (only != nullptr && std::to_string(n) != only) continue;
    INFO("task " << n << ", " << tasks[n].workload);
    const int64_t here = check_task(tasks[n], gpu("a100"), soak ? 40 : 1, n + 500);
    CHECK(here > 0);
    ran += here;
    if (soak) ran += check_task(tasks[n], gpu("h100"), 5, n + 900);
  }
  WARN(ran << " ran");
}

TEST_CASE("PTX of products in warps of 4 x 8 lanes, and of convolutions cut along channels, equals the reference",
          "[emulation]") {
  if (skipped()) return;
  const int wanted = std::getenv("TCC_SOAK") != nullptr ? 20 : 2;
  // Only the second form of a product reads its operands through other views of them.
  const task::Task gemm = task::make_gemm({.m = 62, .n = 96, .k = 40, .bias = true});
  CHECK(check_task(gemm, gpu("h100"), wanted, 601, "reindex") >= wanted);
  const task::Task conv = task::make_conv({.batch = 1,
                                           .channels = 32,
                                           .filters = 24,
                                           .size = {7, 7},
                                           .kernel = {3, 3},
                                           .pads = {1, 1},
                                           .bias = true,
                                           .relu = true});
  CHECK(check_task(conv, gpu("a100"), wanted, 602, "rfactor") >= wanted);
}

TEST_CASE("PTX of attention by matrix instructions equals the reference", "[emulation]") {
  if (skipped()) return;
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  int64_t ran = 0;
  for (const task::AttentionParams& p : std::vector<task::AttentionParams>{
           {.heads = 2, .queries = 37, .keys = 130, .depth = 64, .mask = true, .dtype = half},
           {.heads = 1, .queries = 70, .keys = 33, .depth = 32, .width = 80, .dtype = brain}})
    ran +=
        check_task(task::make_attention(p), gpu("a100"), soak ? 20 : 1, 77, "tensorize", p.dtype == half ? 2e-3 : 2e-2);
  WARN(ran << " ran");
  CHECK(ran >= 6);
}

TEST_CASE("PTX of hand-written kernels equals the interpreter", "[emulation]") {
  if (skipped()) return;
  for (const char* name : {"gemm_mma_sync", "gemm_split_k", "gemm_stream_k", "softmax_block", "softmax_warp"}) {
    const ir::Kernel kernel = hard_kernel(name);
    const Reference reference(kernel, 2e-3);  // the kernel itself, under the interpreter
    for (uint64_t seed = 1; seed <= 3; ++seed) check(reference, kernel, gpu("a100"), std::string(name) + ": ", seed);
  }
}

TEST_CASE("PTX of products of bytes by tensor cores equals the reference", "[emulation]") {
  if (skipped()) return;
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  int64_t ran = 0, products = 0, side_by_side = 0;
  const std::vector<task::Task> tasks = {tcc::testing::make_byte_product(37, 24, 100, false),
                                         tcc::testing::make_byte_product(37, 24, 100, true),
                                         tcc::testing::make_byte_scores(2, 37, 24, 100)};
  for (size_t at = 0; at < tasks.size(); ++at) {
    const task::Task& task = tasks[at];
    const Reference reference(task.kernel, 0);  // sums of integers are exact
    Rng rng(32 - at);
    for (const schedule::Trace& trace : space::generate_space(task.kernel, gpu("a100"))) {
      std::vector<int64_t> decisions = trace.decisions;
      for (int draw = 0, done = 0; draw < 12 && done < (soak ? 12 : 2); ++draw) {
        auto arena = std::make_shared<Arena>();
        auto scheduled = schedule::sample(trace, decisions, task.kernel, arena, rng);
        if (!scheduled) continue;
        auto lowered = lower::lower(*scheduled, gpu("a100"), ir::Stage::kLowered, arena);
        if (!lowered) continue;
        check(reference, *lowered, gpu("a100"), schedule::print_trace(trace), static_cast<uint64_t>(draw) + 1);
        const std::string text = ir::print(*lowered);
        const bool multiplies = text.find("mma.m16n8k32.i32.i8") != std::string::npos;
        const bool terms = text.find("mma.m16n8k32.i32.i8.bt") != std::string::npos;
        // Both fragments of terms side by side are loaded as whole tiles.
        if (terms) CHECK(text.find("ldmatrix", text.find("ldmatrix") + 1) != std::string::npos);
        CHECK(terms == (multiplies && at > 0));
        products += multiplies, side_by_side += terms;
        ++done, ++ran;
      }
    }
  }
  WARN(ran << " ran, " << products << " by tensor cores");
  CHECK(products > side_by_side);
  CHECK(side_by_side > 0);
}

TEST_CASE("PTX: a launch whose blocks wait for each other is cooperative, and a flag that nobody raises is found",
          "[emulation]") {
  if (skipped()) return;
  const ir::Kernel kernel = hard_kernel("gemm_stream_k");
  codegen::Artifact artifact = compile(kernel, gpu("a100"), "");
  REQUIRE(artifact.launches.size() == 2);
  CHECK_FALSE(artifact.launches[0].cooperative);
  CHECK(artifact.launches[1].cooperative);
  artifact.code = replace_all(artifact.code, "red.release.gpu", "//");
  std::vector<interp::TensorData> data = Reference(kernel, 2e-3).inputs;
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& d : data) pointers.push_back(&d);
  PtxOptions options;
  options.max_instructions = 200'000;
  auto report = run_artifact(artifact, pointers, options);
  REQUIRE(report);
  INFO(report->text());
  CHECK(report->has(FindingKind::kStepLimit));
}

TEST_CASE("PTX of damaged kernels is reported", "[emulation]") {
  if (skipped()) return;
  const ir::Kernel kernel = hard_kernel("gemm_mma_sync");
  const codegen::Artifact whole = compile(kernel, gpu("a100"), "");
  const Reference reference(kernel, 2e-3);
  const auto damaged = [&](const std::string& from, const std::string& to) {
    codegen::Artifact artifact = whole;
    artifact.code = replace_all(artifact.code, from, to);
    std::vector<interp::TensorData> data = reference.inputs;
    return emulate(artifact, data, 1, from);
  };
  const PtxReport no_barrier = damaged("bar.sync", "//");
  INFO(no_barrier.text());
  CHECK((no_barrier.has(FindingKind::kRace) || no_barrier.has(FindingKind::kUninitialised)));
  CHECK(damaged("cp.async.wait_group", "//").has(FindingKind::kUninitialised));
  CHECK(damaged("cp.async.wait_group 1", "cp.async.wait_group 2").has(FindingKind::kUninitialised));
  // One row more than the matrix of 50 has.
  const bool below = whole.code.find(", 50;") != std::string::npos;
  const PtxReport outside = damaged(below ? ", 50;" : ", 49;", below ? ", 51;" : ", 50;");
  INFO(outside.text());
  CHECK(outside.has(FindingKind::kOutOfBounds));
  // A fragment's registers in another order compute something else.
  codegen::Artifact swapped = whole;
  const size_t at = swapped.code.find("mma.sync"), open = swapped.code.find("}, {", at),
               comma = swapped.code.find(", ", open + 4);
  const std::string first = swapped.code.substr(open + 4, comma - open - 4),
                    second = swapped.code.substr(comma + 2, swapped.code.find_first_of(",}", comma + 2) - comma - 2);
  swapped.code.replace(open + 4, first.size() + 2 + second.size(), second + ", " + first);
  std::vector<interp::TensorData> got = reference.inputs;
  CHECK(emulate(swapped, got, 1, "swapped registers").ok());
  CHECK_FALSE(reference.difference(got).empty());
}
