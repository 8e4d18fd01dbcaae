// Generated source, compiled by the host's compiler and run by fibers, equals the reference; and what is wrong with a
// kernel is found.
#include "emulation/host_program.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>

#include "emulation/host_prelude.h"
#include "gpu/kernels.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/search/search.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

target::Target gpu(const char* name) {
  return target::find_target(name).value();
}

ir::Kernel read_kernel(const char* name) {
  const std::string path = fmt::format("{}/tests/ir/hard/{}.tir", TCC_SOURCE_DIR, name);
  auto kernel = ir::parse(read_file(path).value(), path);
  REQUIRE(kernel);
  return *kernel;
}

// The kernel without the n-th call of a row, or with what `change` makes of it.
ir::Kernel edit_call(const ir::Kernel& from, const char* row, int n,
                     const std::function<ir::Stmt(ir::Builder&, ir::Stmt)>& change) {
  ir::Kernel kernel = from;
  ir::Builder b(*kernel.arena);
  const int32_t number = ir::find_instruction(row);
  int seen = 0;
  const std::function<ir::Stmt(ir::Stmt)> edit = [&](ir::Stmt s) -> ir::Stmt {
    if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s); call != nullptr && call->instr == number && seen++ == n)
      return change(b, s);
    return ir::rewrite_children(b, s, edit);
  };
  kernel.root = edit(kernel.root);
  REQUIRE(seen > n);
  return kernel;
}

// The findings of a kernel on the inputs of `like`.
std::string findings_of(const ir::Kernel& kernel, const Reference& like) {
  std::vector<interp::TensorData> data = like.inputs;
  HostProgram program;
  auto number = program.add(kernel, gpu("a100"));
  if (!number) FAIL(number.error().message);
  auto compiled = program.compile();
  if (!compiled) FAIL(compiled.error().message);
  return program.run(*number, data).text();
}

// Seven lanes of each warp meet.
constexpr const char* kBarrier = R"(kernel lowered {{
  input X: f32[64]
  output Y: f32[64]
  for w in 2 bound(warp) {{
    for l in 32 bound(lane) {{
      if l < 7 {{
        instr bar.sync(; 0, {})
      }}
      Y[w*32 + l] = X[w*32 + l]
    }}
  }}
}}
)";

}  // namespace

TEST_CASE("default schedules of GPU tasks equal the reference as printed") {
  const target::Target target = gpu("a100");
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char* only = std::getenv("TCC_TRACE_TASK");
  const std::vector<task::Task> tasks = task_shapes();
  HostProgram program;
  struct Case {
    size_t task, kernel;
    ir::Kernel lowered;
  };
  std::vector<Case> cases;
  for (size_t n = 0; n < tasks.size(); ++n) {
    if (only != nullptr ? std::to_string(n) != only : !soak && n % 10 != 0) continue;
    auto chosen = search::choose_program(tasks[n], target, nullptr, 1);
    if (!chosen) FAIL(tasks[n].workload << ": " << chosen.error().message);
    auto number = program.add(chosen->lowered, target);
    if (!number) FAIL(tasks[n].workload << ": " << number.error().message);
    cases.push_back({n, *number, chosen->lowered});
  }
  auto compiled = program.compile();
  if (!compiled) FAIL(compiled.error().message);
  for (const Case& c : cases) {
    const Reference reference(tasks[c.task].kernel, 1e-4);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      std::vector<interp::TensorData> data = reference.inputs;
      const HostReport report = program.run(c.kernel, data, seed);
      INFO("task " << c.task << ", " << tasks[c.task].workload << "\n" << ir::print(c.lowered));
      const std::string wrong = report.ok() ? reference.difference(data) : report.text();
      if (wrong.empty()) continue;
      std::vector<interp::TensorData> again = reference.inputs;
      const interp::Report interpreted = Reference::run(c.lowered, again, seed);
      FAIL_CHECK(wrong << "\nthe interpreter: "
                       << (interpreted.ok() ? reference.difference(again) : interpreted.text()));
      break;
    }
  }
  CHECK((only != nullptr || cases.size() >= 4));
}

TEST_CASE("kernels of the expressibility suite equal the interpreter as printed") {
  HostProgram program;
  std::vector<ir::Kernel> kernels;
  for (const char* name : {"gemm_mma_sync", "gemm_split_k", "gemm_stream_k", "softmax_block", "softmax_warp"}) {
    kernels.push_back(read_kernel(name));
    REQUIRE(program.add(kernels.back(), gpu("a100")));
  }
  kernels.push_back(gpu_check::make_add_relu(4099));
  kernels.push_back(gpu_check::make_gemm(129, 131, 19, gpu_check::kLargeTile));
  kernels.push_back(gpu_check::make_gemm(67, 65, 33, gpu_check::kSmallTile));
  for (size_t i = 5; i < kernels.size(); ++i) REQUIRE(program.add(kernels[i], gpu("a100")));
  auto compiled = program.compile();
  if (!compiled) FAIL(compiled.error().message);
  for (size_t i = 0; i < kernels.size(); ++i) {
    INFO("kernel " << i);
    const Reference reference(kernels[i], 1e-5);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      std::vector<interp::TensorData> got = reference.inputs;
      const HostReport report = program.run(i, got, seed);
      if (!report.ok()) FAIL(report.text());
      const std::string wrong = reference.difference(got);
      if (!wrong.empty()) FAIL(wrong);
    }
  }
}

TEST_CASE("every row with a function on the device has one on the host") {
  for (const ir::Instruction& row : ir::instruction_table()) {
    std::string name = "tcc_" + std::string(row.name);
    std::replace(name.begin(), name.end(), '.', '_');
    INFO(row.name);
    CHECK((host_prelude().find(" " + name + "(") != std::string::npos) == !row.ptx.empty());
  }
}

TEST_CASE("a missing barrier, a divergent one, an access outside and a copy not waited for are found") {
  const auto drop = [](ir::Builder&, ir::Stmt) -> ir::Stmt { return nullptr; };
  const ir::Kernel gemm = gpu_check::make_gemm(64, 64, 64, gpu_check::kSmallTile);
  CHECK_THAT(findings_of(edit_call(gemm, "bar.sync", 0, drop), Reference(gemm)),
             Catch::Contains("is read and nothing has written it"));

  const ir::Kernel softmax = read_kernel("softmax_block");
  ir::Id lane = ir::kNoId;
  ir::visit(softmax.root, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s); l != nullptr && l->axis == ir::Axis::kLane) lane = l->id;
    return true;
  });
  const auto guard = [&](ir::Builder& b, ir::Stmt s) { return b.if_then(b.lt(b.var(lane), b.integer(7)), s); };
  CHECK_THAT(findings_of(edit_call(softmax, "bar.sync", 0, guard), Reference(softmax)),
             Catch::Contains("is read and nothing has written it"));
  CHECK_THAT(findings_of(edit_call(softmax, "shfl.f32", 2, guard), Reference(softmax)),
             Catch::Contains("threads wait at shfl.f32 for ever"));

  for (const auto& [count, finding] :
       {std::pair{64, "deadlock: 14 threads wait at bar.sync for ever, 50 of 64 have ended"},
        {14, "divergent barrier 0: lane 7 of the warp is not at it"}}) {
    auto like = ir::parse(fmt::format(kBarrier, count));
    REQUIRE(like);
    ir::Kernel plain = *like;
    plain.root = edit_call(*like, "bar.sync", 0, drop).root;
    CHECK_THAT(findings_of(*like, Reference(plain)), Catch::Contains(finding));
  }

  const ir::Kernel mma = read_kernel("gemm_mma_sync");
  CHECK_THAT(findings_of(edit_call(mma, "cp.async.wait", 0, drop), Reference(mma)),
             Catch::Contains("before the copy to it has been waited for"));

  auto like = ir::parse(R"(kernel lowered {
  input X: f32[40]
  output Y: f32[40]
  for t in 64 bound(thread.x) {
    if t < 40 {
      Y[t] = X[t]
    }
  }
}
)");
  REQUIRE(like);
  ir::Kernel outside = *like;
  ir::Builder b(*outside.arena);
  const std::function<ir::Stmt(ir::Stmt)> unguard = [&](ir::Stmt s) -> ir::Stmt {
    if (const ir::If* branch = ir::as<ir::If>(s)) return branch->then_case;
    return ir::rewrite_children(b, s, unguard);
  };
  outside.root = unguard(outside.root);
  CHECK_THAT(findings_of(outside, Reference(*like)), Catch::Contains("(40 elements) is outside"));
}
