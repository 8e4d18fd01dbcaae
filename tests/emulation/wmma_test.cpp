// WMMA: products through fragments whose lanes nobody knows. Programs that tensorize makes with them equal the
// reference under the interpreter, on the host as printed and as NVRTC's PTX; mistakes in them are found.
#include <map>

#include "emulation/host_program.h"
#include "emulation/programs.h"
#include "sample_tasks.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;

namespace {

// A device that has no other instruction for products of halves, as those of compute capability 7.0.
target::Target only_wmma(const char* name) {
  target::Target t = gpu(name);
  t.cuda.features.mma_m16n8 = t.cuda.features.mma_m16n8k16 = false;
  t.cuda.features.wgmma = t.cuda.features.tma = false;
  return t;
}

struct Program {
  ir::Kernel lowered;
  std::string what;
};

// The first programs of the traces with WMMA in a task's space, drawn until there are `wanted`.
std::vector<Program> programs(const task::Task& task, const target::Target& target, size_t wanted, uint64_t seed) {
  std::vector<Program> out;
  Rng rng(seed);
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    if (schedule::print_trace(trace).find("wmma.m16n16k16") == std::string::npos) continue;
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0; draw < 40 && out.size() < wanted; ++draw) {
      auto arena = std::make_shared<Arena>();
      auto scheduled = schedule::sample(trace, decisions, task.kernel, arena, rng);
      if (!scheduled) continue;
      auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
      if (lowered) out.push_back({*lowered, task.workload + "\n" + ir::print(*lowered)});
    }
  }
  return out;
}

task::GemmParams gemm(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b) {
  return {.m = m,
          .n = n,
          .k = k,
          .bias = true,
          .relu = true,
          .trans_a = trans_a,
          .trans_b = trans_b,
          .dtype = graph::DType::kF16};
}

// All four orders of the operands in memory, whole tiles and odd sizes, with an epilogue.
std::vector<task::Task> products() {
  std::vector<task::Task> out;
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true}) out.push_back(task::make_gemm(gemm(37, 53, 35, trans_a, trans_b)));
  out.push_back(task::make_gemm(gemm(64, 32, 64, false, false)));
  return out;
}

codegen::Artifact damaged(codegen::Artifact artifact, const std::string& from, const std::string& to) {
  const size_t at = artifact.code.find(from);
  REQUIRE(at != std::string::npos);
  artifact.code.replace(at, from.size(), to);
  return artifact;
}

}  // namespace

TEST_CASE("products by WMMA equal the reference under the interpreter and on the host", "[emulation]") {
  const target::Target targets[] = {only_wmma("a100"), gpu("v100")};  // with asynchronous copies and without
  struct Case {
    size_t number;
    Program program;
    Reference reference;
  };
  tcc::testing::HostProgram host;
  std::vector<Case> cases;
  std::map<std::string, int> used;
  for (const task::Task& task : products())
    for (const target::Target& target : targets)
      for (const Program& p : programs(task, target, 1, 5)) {
        auto number = host.add(p.lowered, target);
        if (!number) FAIL(p.what << number.error().message);
        cases.push_back({*number, p, Reference(task.kernel, 2e-3)});
        ir::visit(p.lowered.root, [&](ir::Stmt s) {
          if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s))
            ++used[std::string(ir::instruction(call->instr).name)];
          return true;
        });
      }
  CHECK(cases.size() == std::size(targets) * products().size());
  for (const char* row :
       {"wmma.load.a.f16", "wmma.load.a.col.f16", "wmma.load.b.f16", "wmma.load.b.col.f16", "wmma.m16n16k16.f32.f16",
        "wmma.m16n16k16.f32.f16.bt", "wmma.m16n16k16.f32.f16.at", "wmma.m16n16k16.f32.f16.at.bt", "wmma.store.d.f32"}) {
    INFO(row);
    CHECK(used[row] > 0);
  }
  auto compiled = host.compile();
  if (!compiled) FAIL(compiled.error().message);
  for (const Case& c : cases) {
    c.reference.check(c.program.lowered, c.program.what);
    std::vector<interp::TensorData> data = c.reference.inputs;
    const tcc::testing::HostReport report = host.run(c.number, data, 3);
    const std::string wrong = report.ok() ? c.reference.difference(data) : report.text();
    if (!wrong.empty()) FAIL(c.program.what << wrong);
  }
}

TEST_CASE("NVRTC's PTX of products by WMMA equals the reference", "[emulation]") {
  if (skipped()) return;
  const char* devices[] = {"t4", "a100", "rtx-3090", "rtx-4090", "h100"};  // 7.5, 8.0, 8.6, 8.9, 9.0a
  size_t n = 0;
  for (const task::Task& task : products()) {
    const target::Target target = only_wmma(devices[n++ % std::size(devices)]);
    const std::vector<Program> some = programs(task, target, 1, 11);
    CHECK(some.size() == 1);
    for (const Program& p : some) check(Reference(task.kernel, 2e-3), p.lowered, target, p.what, 7);
  }
}

TEST_CASE("PTX defects: WMMA with the wrong order, pitch, address or registers", "[emulation]") {
  if (skipped()) return;
  const target::Target target = only_wmma("a100");
  const task::Task task = task::make_gemm(gemm(64, 32, 64, false, false));
  const Reference reference(task.kernel, 2e-3);
  const std::vector<Program> some = programs(task, target, 1, 11);
  REQUIRE(some.size() == 1);
  const codegen::Artifact whole = tcc::emulation::testing::compile(some[0].lowered, target, "");
  // Another order of the matrix in memory, and a fragment of another operand, give other results.
  for (const auto& [from, to] : {std::pair{"wmma.load.a.sync.aligned.row", "wmma.load.a.sync.aligned.col"},
                                 {"wmma.load.b.sync.aligned.row", "wmma.load.b.sync.aligned.col"},
                                 {"wmma.load.b.sync.aligned.row", "wmma.load.a.sync.aligned.row"}}) {
    INFO(from << " as " << to);
    std::vector<interp::TensorData> data = reference.inputs;
    const PtxReport report = emulate(damaged(whole, from, to), data, 1, to);
    CHECK((!report.ok() || !reference.difference(data).empty()));
  }
  // Registers of a fragment in another order.
  const size_t load = whole.code.find("wmma.load.a"), open = whole.code.find('{', load),
               comma = whole.code.find(", ", open), end = whole.code.find(", ", comma + 2);
  const std::string first = whole.code.substr(open + 1, comma - open - 1),
                    second = whole.code.substr(comma + 2, end - comma - 2);
  codegen::Artifact swapped = whole;
  swapped.code.replace(open + 1, end - open - 1, second + ", " + first);
  std::vector<interp::TensorData> data = reference.inputs;
  CHECK(emulate(swapped, data, 1, "swapped").ok());
  CHECK_FALSE(reference.difference(data).empty());
}

TEST_CASE("PTX defects: tiles of WMMA that are misaligned, outside or named differently by lanes", "[emulation]") {
  const std::string declarations =
      ".reg .b32 %r<16>;\n.reg .b32 %x<4>;\n.reg .pred %q<2>;\n.shared .align 32 .b8 s[512];";
  const std::string fill =
      "mov.u32 %x1, s;\nmad.lo.u32 %x2, %tid, 16, %x1;\nst.shared.u32 [%x2], 0;\nst.shared.u32 [%x2+4], "
      "0;\nst.shared.u32 [%x2+8], 0;\nst.shared.u32 [%x2+12], 0;\nbar.warp.sync -1;\n";
  const auto run = [&](const std::string& address, const std::string& pitch, const std::string& before = "") {
    std::vector<uint32_t> memory(16, 0);
    return ran(ptx_kernel(1, declarations,
                          fill + before +
                              fmt::format("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{%r1, %r2, %r3, %r4, "
                                          "%r5, %r6, %r7, %r8}}, [{}], {};\nst.global.u32 [%p0], %r1;",
                                          address, pitch)),
               launch_of(32), {buffer_of(memory)});
  };
  const auto found = [](const PtxReport& report, FindingKind kind) {
    INFO(report.text());
    return report.has(kind);
  };
  CHECK_FALSE(found(run("%x1", "16"), FindingKind::kMisaligned));
  CHECK_FALSE(found(run("%x1", "16"), FindingKind::kOutOfBounds));
  CHECK(found(run("%x1+16", "16"), FindingKind::kMisaligned));
  CHECK(found(run("%x1", "8"), FindingKind::kMisaligned));
  CHECK(found(run("%x1", "32"), FindingKind::kOutOfBounds));
  CHECK(found(run("%x2", "16"), FindingKind::kWrongParticipants));
  auto module =
      parse_ptx(ptx_kernel(1, declarations, "wmma.load.a.sync.aligned.row.m32n8k16.shared.f16 {%r1}, [%x1];"));
  REQUIRE_FALSE(module.has_value());
  CHECK(module.error().message.find("wmma.load.a") != std::string::npos);
}
