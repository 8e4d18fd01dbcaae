// Kernels with one mistake each: what must be reported, and where.
#include <algorithm>

#include "emulation/support.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;

namespace {

// Runs a kernel on a buffer of 1,024 numbers.
PtxReport defect(const std::string& declarations, const std::string& body, int64_t threads = 64, int64_t blocks = 1,
                 bool writable = true) {
  std::vector<uint32_t> data(1024, 1);
  return ran(ptx_kernel(1, ".reg .b32 %r<16>;\n.reg .pred %q<8>;\n.reg .b64 %l<8>;\n" + declarations, body),
             launch_of(threads, blocks), {buffer_of(data, writable)});
}
// One of the findings is of that kind and says both.
void expect(const PtxReport& report, FindingKind kind, const std::string& part, const std::string& place = "") {
  INFO(report.text() << "expected: " << interp::finding_name(kind) << ", " << part << ", " << place);
  CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const interp::Finding& f) {
    return f.kind == kind && f.text.find(part) != std::string::npos && f.text.find(place) != std::string::npos;
  }));
}
const std::string kShared = ".shared .align 16 .b8 s[256];";
const std::string kStoreOwn = "mov.u32 %r1, s;\nmad.lo.u32 %r2, %tid, 4, %r1;\nst.shared.u32 [%r2], %tid;\n";
const std::string kLoadOther = "xor.b32 %r3, %tid, 33;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\n";
const std::string kUse = "mad.wide.u32 %l1, %tid, 4, %p0;\nst.global.u32 [%l1], %r4;\n";

}  // namespace

TEST_CASE("PTX defects: shared memory without a barrier", "[emulation]") {
  CHECK(defect(kShared, kStoreOwn + "bar.sync 0, 64;\n" + kLoadOther + kUse).ok());
  const PtxReport missing = defect(kShared, kStoreOwn + kLoadOther + kUse);
  INFO(missing.text());
  CHECK((missing.has(FindingKind::kRace) || missing.has(FindingKind::kUninitialised)));
  // The second round overwrites what others may still read.
  expect(defect(kShared, kStoreOwn + "bar.sync 0;\n" + kLoadOther + kUse + kStoreOwn), FindingKind::kRace,
         "is not ordered before this", "st.shared.u32");
  // A barrier of each warp orders no other warp.
  CHECK(defect(kShared, kStoreOwn + "bar.warp.sync -1;\n" + kLoadOther + kUse).has(FindingKind::kRace));
  const std::string neighbour = "xor.b32 %r3, %tid, 1;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\n";
  CHECK(defect(kShared, kStoreOwn + "bar.warp.sync -1;\n" + neighbour + kUse).ok());
  CHECK(defect(kShared, kStoreOwn + neighbour + kUse).has(FindingKind::kRace));
}

TEST_CASE("PTX defects: sub-word stores of two threads race in one half of a word, not in two halves of it",
          "[emulation]") {
  const std::string half = ".reg .b16 %h1;\n" + kShared;
  CHECK(defect(half,
               "mov.u32 %r1, s;\nmad.lo.u32 %r2, %tid, 2, %r1;\ncvt.u16.u32 %h1, %tid;\nst.shared.u16 [%r2], %h1;\n")
            .ok());
  CHECK(defect(half,
               "mov.u32 %r1, s;\nand.b32 %r3, %tid, -2;\nadd.u32 %r2, %r3, %r1;\ncvt.u16.u32 %h1, %tid;\nst.shared.u16 "
               "[%r2], %h1;\n")
            .has(FindingKind::kRace));
}

TEST_CASE("PTX defects: blocks that touch the same element", "[emulation]") {
  const std::string own = "mad.wide.u32 %l1, %tid, 4, %p0;\n";
  expect(defect("", own + "st.global.u32 [%l1], %tid;\n", 32, 2), FindingKind::kRace, "of block 0", "st.global.u32");
  const std::string apart =
      "mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, 32, %tid;\nmad.wide.u32 %l1, %r2, 4, %p0;\nst.global.u32 [%l1], "
      "%tid;\n";
  CHECK(defect("", apart, 32, 2).ok());
  CHECK(defect("", apart + "ld.global.u32 %r3, [%p0];\n", 32, 2).has(FindingKind::kRace));
}

TEST_CASE("PTX defects: out of bounds, misaligned, read-only", "[emulation]") {
  const std::string one_past =
      "mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, 512, %tid;\nadd.u32 %r2, %r2, 1;\nmad.wide.u32 %l1, %r2, 4, "
      "%p0;\nst.global.u32 [%l1], 0;\n";
  expect(defect("", one_past, 512, 2), FindingKind::kOutOfBounds, "byte 4096 of data has 4096 bytes",
         "block (1, 0, 0) thread (511, 0, 0)");
  expect(defect("", "ld.global.u32 %r1, [%p0+-4];\n", 1), FindingKind::kOutOfBounds, "byte -4 of data");
  expect(defect("", "mov.u64 %l1, 64;\nld.global.u32 %r1, [%l1];\n", 1), FindingKind::kOutOfBounds,
         "belongs to no buffer");
  expect(defect("", "ld.global.v2.u32 {%r1, %r2}, [%p0+4];\nst.global.u32 [%p0], %r1;\nst.global.u32 [%p0], %r2;", 1),
         FindingKind::kMisaligned, "must be a multiple of 8");
  expect(defect("", "st.global.u32 [%p0], 1;\n", 1, 1, false), FindingKind::kOutOfBounds, "is read-only");
  expect(defect(kShared, "mov.u32 %r1, s;\nst.shared.u32 [%r1+256], 1;\n", 1), FindingKind::kOutOfBounds,
         "byte 256 of shared s is between arrays");
  expect(defect(kShared, "mov.u32 %r1, s;\nst.shared.u32 [%r1+65536], 1;\n", 1), FindingKind::kOutOfBounds,
         "of shared memory has");
  expect(defect(".local .align 4 .b8 d[16];", "mov.u64 %l1, d;\nst.local.u32 [%l1+16], 1;\n", 1),
         FindingKind::kOutOfBounds, "local byte 16 of 16");
  expect(defect(kShared, "mov.u32 %r1, s;\nld.shared.u32 %r2, [%r1];\nst.global.u32 [%p0], %r2;", 1),
         FindingKind::kUninitialised, "byte 0 of shared s: nothing has written it");
}

TEST_CASE("PTX defects: a value that nothing has written is judged by its use", "[emulation]") {
  const std::string load = "mov.u32 %r1, s;\nld.shared.u32 %r2, [%r1+4];\n", store = "st.global.u32 [%p0], %r3;\n";
  const std::string never = "setp.gt.u32 %q1, %tid, 99;\n", always = "setp.lt.u32 %q1, %tid, 99;\n";
  const auto fine = [&](const std::string& body) {
    const PtxReport report = defect(kShared, load + body, 1);
    INFO(body << report.text());
    CHECK(report.ok());
  };
  const auto wrong = [&](const std::string& body) {
    expect(defect(kShared, load + body, 1), FindingKind::kUninitialised, "byte 4 of shared s: nothing has written it",
           "ld.shared.u32 %r2");
  };
  fine("");
  wrong("add.u32 %r3, %r2, 1;\nmov.u32 %r4, %r3;\nst.global.u32 [%p0], %r4;\n");
  fine("add.u32 %r3, %r2, 1;\nmov.u32 %r3, 1;\n" + store);
  // A selection uses what it picks, and a conjunction its second part only where the first one holds.
  fine(never + "selp.u32 %r3, %r2, 5, %q1;\n" + store);
  wrong(always + "selp.u32 %r3, %r2, 5, %q1;\n" + store);
  fine(always + "selp.u32 %r3, 5, %r2, %q1;\n" + store);
  const std::string chosen = "selp.u32 %r3, 1, 2, %q3;\n" + store;
  fine(never + "setp.eq.u32 %q2, %r2, 0;\nand.pred %q3, %q1, %q2;\n" + chosen);
  wrong(always + "setp.eq.u32 %q2, %r2, 0;\nand.pred %q3, %q1, %q2;\n" + chosen);
  fine(always + "setp.eq.u32 %q2, %r2, 0;\nor.pred %q3, %q2, %q1;\n" + chosen);
  wrong(never + "setp.eq.u32 %q2, %r2, 0;\nor.pred %q3, %q2, %q1;\n" + chosen);
  // The compiler gives the branch that does not use a value the load without its condition.
  const std::string after = "setp.gt.u32 %q2, %tid, 99;\n@!%q2 bra D;\nadd.u32 %r3, %r3, %r2;\nD:\n";
  fine("mov.u32 %r3, 7;\n" + after + store);
  wrong("setp.eq.u32 %q1, %r2, 0;\n@%q1 bra E;\nmov.u32 %r3, 1;\nE:\n");
  wrong("setp.eq.u32 %q1, %r2, 0;\n@%q1 mov.u32 %r3, 1;\n");
  wrong("cvt.u64.u32 %l1, %r2;\nand.b64 %l1, %l1, 0;\nadd.u64 %l1, %l1, %p0;\nst.global.u32 [%l1], 1;\n");
  wrong("shfl.sync.idx.b32 %r3, %r2, 0, 31, 1;\n");
  // Of a vector only the elements that nothing has written, and of a warp only the lanes.
  const std::string half = "mov.u32 %r1, s;\nst.shared.u32 [%r1], 1;\nld.shared.v2.u32 {%r3, %r2}, [%r1];\n";
  CHECK(defect(kShared, half + store + "add.u32 %r5, %r2, 1;\n", 1).ok());
  expect(defect(kShared, half + "st.global.u32 [%p0], %r2;\n", 1), FindingKind::kUninitialised, "byte 4 of shared s");
  const std::string lanes =
      "mov.u32 %r1, s;\nmad.lo.u32 %r1, %tid, 4, %r1;\nsetp.lt.u32 %q1, %tid, 16;\n@%q1 st.shared.u32 [%r1], 1;\n"
      "ld.shared.u32 %r4, [%r1];\n";
  CHECK(defect(kShared, lanes + "@!%q1 mov.u32 %r4, 2;\n" + kUse, 32).ok());
  expect(defect(kShared, lanes + kUse, 32), FindingKind::kUninitialised, "byte 64 of shared s", "thread (16, 0, 0)");
}

TEST_CASE("PTX defects: barriers that not everybody comes to", "[emulation]") {
  expect(defect("", "setp.lt.u32 %q1, %tid, 16;\n@%q1 bar.sync 0;\n", 32), FindingKind::kDivergentBarrier,
         "lane 16 of the warp is not at this barrier", "@%q1 bar.sync 0");
  expect(defect("", "setp.lt.u32 %q1, %tid, 16;\n@%q1 bra A;\nbar.sync 0;\nbra B;\nA:\nbar.sync 0;\nB:\n", 32),
         FindingKind::kDivergentBarrier, "of the warp is not at this barrier");
  expect(defect("", "setp.lt.u32 %q1, %tid, 32;\n@%q1 bar.sync 0;\n", 64), FindingKind::kDeadlock,
         "32 of 64 threads wait");
  expect(defect("", "setp.lt.u32 %q1, %tid, 32;\n@%q1 bar.sync 0, 32;\n@!%q1 bar.sync 0, 64;\n", 64),
         FindingKind::kWrongParticipants, "");
  expect(defect("", "bar.sync 0, 33;\n", 64), FindingKind::kWrongParticipants, "a barrier for 33 threads");
  expect(defect("", "setp.lt.u32 %q1, %lane, 8;\n@%q1 shfl.sync.idx.b32 %r1, %lane, 0, 31, -1;\n", 32),
         FindingKind::kWrongParticipants, "only 0x000000ff come to it", "shfl.sync");
  expect(defect("", "shfl.sync.bfly.b32 %r1, %lane, 1, 31, 0x7fffffff;\n", 32), FindingKind::kWrongParticipants, "");
  expect(defect(kShared, "mov.u32 %r1, s;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];\n", 16),
         FindingKind::kWrongParticipants, "needs 32 threads and 16 exist");
}

TEST_CASE("PTX defects: asynchronous copies that were not waited for", "[emulation]") {
  const std::string copy =
      "mov.u32 %r1, s;\nmad.lo.u32 %r2, %tid, 16, %r1;\nmad.wide.u32 %l1, %tid, 16, %p0;\ncp.async.cg.shared.global "
      "[%r2], [%l1], 16;\n";
  const std::string use = "ld.shared.u32 %r4, [%r2];\nbar.sync 0;\n";
  CHECK(defect(kShared, copy + "cp.async.commit_group;\ncp.async.wait_group 0;\n" + use, 16).ok());
  CHECK(defect(kShared, copy + "cp.async.wait_all;\n" + use, 16).ok());
  expect(defect(kShared, copy + "cp.async.commit_group;\n" + use, 16), FindingKind::kUninitialised,
         "has not been waited for", "ld.shared.u32");
  expect(defect(kShared, copy + "cp.async.commit_group;\ncp.async.wait_group 1;\n" + use, 16),
         FindingKind::kUninitialised, "has not been waited for");
  expect(defect(kShared, copy + "cp.async.wait_group 0;\n" + use, 16), FindingKind::kUninitialised,
         "has not been waited for");
  // Own copies are waited for, those of the others are not behind a barrier.
  expect(defect(kShared, copy + "cp.async.wait_all;\nxor.b32 %r3, %r2, 16;\nld.shared.u32 %r4, [%r3];\n", 16),
         FindingKind::kRace, "is not ordered before this read");
  expect(defect(kShared, copy + "st.shared.u32 [%r2], 1;\ncp.async.wait_all;\n", 16), FindingKind::kRace,
         "has not been waited for", "st.shared.u32");
  expect(defect(kShared, "mov.u32 %r1, s;\ncp.async.cg.shared.global [%r1], [%p0+4], 16;\n", 1),
         FindingKind::kMisaligned, "must be multiples of 16");
  expect(defect(kShared, "mov.u32 %r1, s;\ncp.async.cg.shared.global [%r1+256], [%p0], 16;\n", 1),
         FindingKind::kOutOfBounds, "is between arrays");
  expect(defect(kShared, "mov.u32 %r1, s;\ncp.async.cg.shared.global [%r1], [%p0+4096], 16;\n", 1),
         FindingKind::kOutOfBounds, "byte 4096 of data");
  CHECK(defect(kShared,
               "mov.u32 %r1, s;\nmov.u32 %r2, 0;\ncp.async.cg.shared.global [%r1], [%p0+4096], 16, "
               "%r2;\ncp.async.wait_all;\n",
               1)
            .ok());
}

TEST_CASE("PTX: limits of work, and parts of a grid", "[emulation]") {
  std::vector<uint32_t> data(1024, 1);
  const std::string loop = ptx_kernel(1, ".reg .b32 %r<4>;", "L:\nadd.u32 %r1, %r1, 1;\nbra L;");
  const PtxReport endless = ran(loop, launch_of(32), {buffer_of(data)}, {.max_instructions = 100000});
  CHECK(endless.has(FindingKind::kStepLimit));
  const std::string own = ptx_kernel(1, ".reg .b32 %r<4>;\n.reg .b64 %l<4>;",
                                     "mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, 32, %tid;\nmad.wide.u32 %l1, %r2, "
                                     "4, %p0;\nst.global.u32 [%l1], 5;");
  const PtxReport some = ran(own, launch_of(32, 32), {buffer_of(data)}, {.max_blocks = 4});
  INFO(some.text());
  CHECK(some.ok());
  CHECK(some.blocks == 4);
  CHECK(some.all_blocks == 32);
  CHECK(some.expected == 8 * some.instructions);
  REQUIRE(some.written.size() == 1);
  for (size_t i = 0; i < 1024; ++i) REQUIRE(some.written[0][4 * i] == (data[i] == 5));
  CHECK(std::count(data.begin(), data.end(), 5u) == 128);
  CHECK((data[0] == 5 && data[1023] == 5));
  const PtxReport large = ran(own, launch_of(32, 32), {buffer_of(data)}, {.max_instructions = 1000});
  CHECK(large.has(FindingKind::kStepLimit));
  CHECK(large.blocks == 1);
}
