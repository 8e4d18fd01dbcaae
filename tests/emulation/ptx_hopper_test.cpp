// Bulk tensor copies, barriers in shared memory, clusters, roles and wgmma on the machine for PTX: the kernel of the
// expressibility suite as NVRTC compiles it, in several shapes, and with one mistake each.
#include <algorithm>

#include "emulation/hopper_kernel.h"
#include "emulation/support.h"
#include "nvrtc.h"
#include "skip.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/text.h"
#include "traces/reference.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;
using tcc::testing::Reference;

namespace {

codegen::Artifact compile(const ir::Kernel& lowered, bool ptx = true) {
  codegen::CudaOptions options;
  options.want_ptx = ptx;
  auto artifact = codegen::compile_cuda(lowered, target::find_target("h200").value(), options);
  if (!artifact) FAIL(artifact.error().message << "\n" << ir::print(lowered));
  return *artifact;
}

PtxReport emulate(const codegen::Artifact& artifact, std::vector<interp::TensorData>& data, uint64_t seed = 1) {
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& d : data) pointers.push_back(&d);
  PtxOptions options;
  options.seed = seed;
  auto report = run_artifact(artifact, pointers, options);
  if (!report) FAIL(report.error().message << "\n" << artifact.code);
  return *report;
}

bool skipped() {
  if (codegen::nvrtc_available()) return false;
  tcc::testing::report_skip("no NVRTC");
  return true;
}

void expect(const PtxReport& report, FindingKind kind, const std::string& part) {
  INFO(report.text() << "expected: " << interp::finding_name(kind) << ", " << part);
  CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const interp::Finding& f) {
    return f.kind == kind && f.text.find(part) != std::string::npos;
  }));
}

// What is found of the kernel with these edits, on the inputs of the whole one.
PtxReport damaged(const Edits& edits) {
  const Reference like(product(), 2e-3);
  std::vector<interp::TensorData> data = like.inputs;
  return emulate(compile(product(edits)), data);
}

}  // namespace

TEST_CASE("PTX of a product by bulk copies and wgmma equals the interpreter", "[emulation]") {
  if (skipped()) return;
  for (const Edits* edits : {static_cast<const Edits*>(nullptr), &kBrain, &kOdd, &kLongRows, &kShortRows}) {
    const ir::Kernel kernel = product(edits != nullptr ? *edits : Edits{});
    const Reference reference(kernel, edits == &kBrain ? 2e-2 : 2e-3);
    const codegen::Artifact artifact = compile(kernel);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      std::vector<interp::TensorData> got = reference.inputs;
      const PtxReport report = emulate(artifact, got, seed);
      if (!report.ok()) FAIL(report.text() << artifact.source.substr(codegen::cuda_prelude().size()) << artifact.code);
      const std::string wrong = reference.difference(got);
      if (!wrong.empty()) FAIL(wrong << artifact.source.substr(codegen::cuda_prelude().size()) << artifact.code);
    }
    const codegen::Artifact binary = compile(kernel, false);
    CHECK(binary.facts.at("spill_bytes") == 0);
    CHECK(binary.facts.at("stack_bytes") == 0);
  }
}

TEST_CASE("PTX of a product by bulk copies and wgmma with one mistake is reported", "[emulation]") {
  if (skipped()) return;
  expect(damaged({{"instr mbarrier.arrive.cluster(empty[(p*3 + kt) % 2]; peer)", ""}}), FindingKind::kDeadlock,
         "8 of 8 arrivals and 0 bytes are missing");
  // One block's consumers free a stage of their own block only.
  expect(damaged({{"for peer in 2 unrolled", "for peer in 1 unrolled"}}), FindingKind::kDeadlock, "arrivals");
  expect(damaged({{"((p*3 + kt) // 2 + 1) % 2", "(p*3 + kt) // 2 % 2"}}), FindingKind::kDeadlock,
         "waits for ever for phase 0");
  const PtxReport early =
      damaged({{"full[(p*3 + kt) % 2]; (p*3 + kt) // 2 % 2)", "full[(p*3 + kt) % 2]; ((p*3 + kt) // 2 + 1) % 2)"}});
  INFO(early.text());
  CHECK(early.has(FindingKind::kUninitialised));
  expect(damaged({{"4608", "4096"}}), FindingKind::kWrongParticipants, "expects 4096 bytes and 4608 are under way");
  expect(damaged({{"4608", "4864"}}), FindingKind::kDeadlock, "0 of 1 arrivals and 256 bytes are missing");
  expect(damaged({{"instr fence.proxy.async()", ""}}), FindingKind::kRace, "no fence.proxy.async between the write");
  expect(damaged({{"instr fence.mbarrier_init()", ""}}), FindingKind::kRace, "no fence.mbarrier_init");
  expect(damaged({{"instr wgmma.fence()", ""}}), FindingKind::kRace, "no wgmma.fence between");
  const PtxReport unfinished = damaged({{"instr wgmma.wait(; 0)", ""}});
  INFO(unfinished.text());
  CHECK(unfinished.has(FindingKind::kRace));
  expect(damaged({{"instr tma.wait(; 0)", ""}}), FindingKind::kRace, "it is read by a product or bulk copy");
  // The copy reads what other warps have not written yet.
  const PtxReport unordered = damaged({{"instr bar.sync(; 1, 128)\n                    if w == 0", "if w == 0"}});
  INFO(unordered.text());
  CHECK((unordered.has(FindingKind::kRace) || unordered.has(FindingKind::kUninitialised)));
}

TEST_CASE("PTX: warpgroups give each other registers", "[emulation]") {
  const auto run = [](const std::string& first, const std::string& second) {
    std::vector<uint32_t> data(8, 0);
    const std::string body = "setp.lt.u32 %q1, %tid, 128;\n@%q1 bra A;\n" + second + "\nbra B;\nA:\n" + first +
                             "\nB:\nst.global.u32 [%p0], 1;";
    std::string text = ptx_kernel(1, ".reg .pred %q<4>;", body);
    text = replace_all(text, ".param .u64 k_param_0)", ".param .u64 k_param_0)\n.maxntid 512, 1, 1\n.minnctapersm 1");
    text = replace_all(text, "st.global.u32 [%p0], 1;", "");
    return ran(text, launch_of(512), {buffer_of(data)});
  };
  // 128 registers at entry: one warpgroup leaves 88 to the three others.
  CHECK(run("setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 152;").ok());
  expect(run("setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 160;"), FindingKind::kDeadlock,
         "waits for ever for 160 registers");
  expect(run("setmaxnreg.inc.sync.aligned.u32 40;", ""), FindingKind::kWrongParticipants, "the warp has 128 registers");
  for (const char* count : {"16", "44", "264"}) {
    const auto module = parse_ptx(ptx_kernel(0, "", std::string("setmaxnreg.dec.sync.aligned.u32 ") + count + ";"));
    REQUIRE_FALSE(module.has_value());
    CHECK_THAT(module.error().message, Catch::Contains("a multiple of 8 from 24 to 256"));
  }
}

TEST_CASE("PTX: an arrival at another block's barrier at the scope of a block passes on no writes", "[emulation]") {
  // Block 1 writes to global memory and arrives at block 0's barrier; block 0 waits and reads.
  const std::string body = R"(
mov.u32 %r1, bar;
mov.u32 %r2, %cluster_ctarank;
setp.eq.u32 %q1, %r2, 0;
setp.eq.u32 %q2, %tid, 0;
@%q2 mbarrier.init.shared::cta.b64 [%r1], 32;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mad.wide.u32 %p1, %tid, 4, %p0;
@%q1 bra A;
FIRST
mapa.shared::cluster.u32 %r3, %r1, 0;
mbarrier.arriveSCOPE.shared::cluster.b64 _, [%r3];
THIRD
bra B;
A:
mbarrier.try_wait.parityWAIT.shared::cta.b64 %q3, [%r1], 0;
@!%q3 bra A;
SECOND
B:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)";
  const auto run = [&](const std::string& scope, const std::string& wait, const std::string& first,
                       const std::string& second, const std::string& third = "") {
    std::string text = ptx_kernel(1, ".reg .b32 %r<12>;\n.reg .pred %q<4>;\n.shared .align 8 .b8 bar[8];", body);
    text = replace_all(text, ".param .u64 k_param_0)", ".param .u64 k_param_0)\n.reqnctapercluster 2, 1, 1");
    text = replace_all(replace_all(text, "SCOPE", scope), "parityWAIT", "parity" + wait);
    text = replace_all(replace_all(text, "FIRST", first), "SECOND", second);
    text = replace_all(text, "THIRD", third);
    std::vector<uint32_t> data(64, 0);
    return ran(text, launch_of(32, 2), {buffer_of(data)});
  };
  const std::string store = "st.global.u32 [%p1], %r2;", load = "ld.global.u32 %r4, [%p1];";
  const std::string wide = ".release.cluster", acquires = ".acquire.cluster";
  const PtxReport whole = run(wide, acquires, store, load);
  INFO(whole.text());
  CHECK(whole.ok());
  for (const auto& [scope, wait] : std::vector<std::pair<std::string, std::string>>{
           {"", acquires}, {".release.cta", acquires}, {wide, ""}, {wide, ".acquire.cta"}, {"", ""}}) {
    expect(run(scope, wait, store, load), FindingKind::kRace, "is not ordered before this read");
    expect(run(scope, wait, store, store), FindingKind::kRace, "is not ordered before this write");
  }
  // A read that has given its value has ended: the other block may write there.
  CHECK(run("", "", load, store).ok());
  expect(run("", "", "", store, load), FindingKind::kRace, "is not ordered before this");
}

TEST_CASE("PTX: blocks of a cluster read each other's shared memory", "[emulation]") {
  const std::string body = R"(
mov.u32 %r1, s;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, 100, %tid;
mad.lo.u32 %r4, %tid, 4, %r1;
st.shared.u32 [%r4], %r3;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 %r5, %cluster_ctarank;
xor.b32 %r5, %r5, 1;
mapa.shared::cluster.u32 %r6, %r4, %r5;
ld.shared::cluster.u32 %r7, [%r6];
mad.lo.u32 %r8, %r2, 32, %tid;
mad.wide.u32 %p1, %r8, 4, %p0;
st.global.u32 [%p1], %r7;
elect.sync %r9|%q1, -1;
@%q1 st.global.u32 [%p0+1024], %r9;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)";
  std::string text = ptx_kernel(1, ".reg .b32 %r<12>;\n.reg .pred %q<2>;\n.shared .align 4 .b8 s[128];", body);
  text = replace_all(text, ".param .u64 k_param_0)", ".param .u64 k_param_0)\n.reqnctapercluster 2, 1, 1");
  text = replace_all(text, "@%q1 st.global.u32 [%p0+1024], %r9;", "@%q1 red.global.add.u32 [%p0+1024], 1;");
  std::vector<uint32_t> out(512, 0);
  const PtxReport report = ran(text, launch_of(32, 4), {buffer_of(out)});
  INFO(report.text());
  REQUIRE(report.ok());
  for (uint32_t b = 0; b < 4; ++b)
    for (uint32_t t = 0; t < 32; ++t) REQUIRE(out[32 * b + t] == 100 * (b ^ 1) + t);
  CHECK(out[256] == 4);
  // Without the barrier nobody knows that the other has written.
  const size_t first = text.find("barrier.cluster.arrive");
  text.erase(first, text.find('\n', first) - first);
  const PtxReport early = ran(text, launch_of(32, 4), {buffer_of(out)});
  INFO(early.text());
  CHECK((early.has(FindingKind::kRace) || early.has(FindingKind::kUninitialised)));
}
