// Each instruction on chosen operands, by all lanes of a warp and by three of them. Expected bits are worked out by
// hand or by the host's own arithmetic.
#include <cmath>

#include "emulation/support.h"
#include "tcc/interp/numbers.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;

namespace {

uint64_t F(float x) {
  return std::bit_cast<uint32_t>(x);
}
uint64_t D(double x) {
  return std::bit_cast<uint64_t>(x);
}
uint64_t H(double x) {
  return interp::f16_bits(x);
}
uint64_t B(double x) {
  return interp::bf16_bits(x);
}
uint64_t I(int64_t x) {
  return static_cast<uint64_t>(x);
}
constexpr float kInf = HUGE_VALF;
const float kNaN = std::nanf("");
constexpr uint64_t kSubnormal = 0x00000100;  // as f32

// Operands a, b, c are in %h (16), %r (32), %f (f32), %l (64), %d (f64) registers with that letter behind: %ra; results
// in %ho, %ro, %fo, %lo, %do or the predicate %po, which counts as 0 or 1.
struct Row {
  const char* code;
  char result;
  uint64_t a, b, c, expected;
};

std::string row_text(const Row& row) {
  std::string body;
  for (int n = 0; n < 3; ++n) {
    const char x = static_cast<char>('a' + n);
    for (const auto& [letter, type] : {std::pair("h", "u16"), {"r", "u32"}, {"f", "f32"}, {"l", "u64"}, {"d", "f64"}})
      body += fmt::format("ld.global.{} %{}{}, [%p0+{}];\n", type, letter, x, 8 * n);
  }
  body += "setp.ne.u32 %pa, %ra, 0;\nsetp.ne.u32 %pb, %rb, 0;\n";
  body += std::string(row.code) + "\n";
  body += "mad.wide.u32 %p2, %tid, 8, %p1;\n";
  if (row.result == 'p') body += "selp.u64 %lo, 1, 0, %po;\n";
  if (row.result == 'h') body += "cvt.u64.u16 %lo, %ho;\n";
  if (row.result == 'r') body += "cvt.u64.u32 %lo, %ro;\n";
  if (row.result == 'f') body += "mov.b32 %ro, %fo;\ncvt.u64.u32 %lo, %ro;\n";
  if (row.result == 'd') body += "mov.b64 %lo, %do;\n";
  body += "st.global.u64 [%p2], %lo;\n";
  return ptx_kernel(
      2,
      ".reg .b16 %ha, %hb, %hc, %ho, %hx;\n.reg .b32 %ra, %rb, %rc, %ro, %rx;\n.reg .f32 %fa, %fb, %fc, %fo;\n"
      ".reg .b64 %la, %lb, %lc, %lo;\n.reg .f64 %da, %db, %dc, %do;\n.reg .pred %pa, %pb, %po, %px;\n",
      body);
}

void check(std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    for (int64_t threads : {3, 32}) {
      std::vector<uint64_t> in = {row.a, row.b, row.c}, out(32, 0x7777);
      const PtxReport report = ran(row_text(row), launch_of(threads), {buffer_of(in, false), buffer_of(out)});
      INFO(row.code << " of " << std::hex << row.a << ", " << row.b << ", " << row.c << " by " << threads
                    << " threads: " << report.text());
      REQUIRE(report.ok());
      for (int64_t t = 0; t < 32; ++t) {
        INFO("lane " << t);
        REQUIRE(out[static_cast<size_t>(t)] == (t < threads ? row.expected : 0x7777));
      }
    }
  }
}

}  // namespace

TEST_CASE("PTX: integer arithmetic", "[emulation]") {
  check({{"add.s32 %ro, %ra, %rb;", 'r', 5, I(-7), 0, 0xfffffffe},
         {"add.u16 %ho, %ha, %hb;", 'h', 0xffff, 2, 0, 1},
         {"add.s64 %lo, %la, %lb;", 'l', 1ull << 40, I(-1), 0, (1ull << 40) - 1},
         {"add.sat.s32 %ro, %ra, %rb;", 'r', 0x7fffffff, 9, 0, 0x7fffffff},
         {"sub.s32 %ro, %ra, %rb;", 'r', 5, 7, 0, 0xfffffffe},
         {"mul.lo.s32 %ro, %ra, %rb;", 'r', 0x10001, 0x10001, 0, 0x20001},
         {"mul.lo.s16 %ho, %ha, %hb;", 'h', 0xffff, 3, 0, 0xfffd},
         {"mul.hi.u32 %ro, %ra, %rb;", 'r', 0x80000000, 6, 0, 3},
         {"mul.hi.s32 %ro, %ra, %rb;", 'r', 0x80000000, 6, 0, 0xfffffffd},
         {"mul.hi.u64 %lo, %la, %lb;", 'l', 1ull << 63, 6, 0, 3},
         {"mul.wide.s32 %lo, %ra, %rb;", 'l', I(-2), 3, 0, I(-6)},
         {"mul.wide.u32 %lo, %ra, %rb;", 'l', 0xfffffffe, 3, 0, 0x2fffffffaull},
         {"mul.wide.u16 %ro, %ha, %hb;", 'r', 0xffff, 0xffff, 0, 0xfffe0001},
         {"mad.lo.s32 %ro, %ra, %rb, %rc;", 'r', 3, 4, 5, 17},
         {"mad.wide.s32 %lo, %ra, %rb, %lc;", 'l', I(-3), 4, 100, 88},
         {"mad.hi.u32 %ro, %ra, %rb, %rc;", 'r', 0x80000000, 6, 4, 7},
         {"mul24.lo.s32 %ro, %ra, %rb;", 'r', 0x01000003, 5, 0, 15},
         {"div.s32 %ro, %ra, %rb;", 'r', I(-7), 2, 0, 0xfffffffd},
         {"div.u32 %ro, %ra, %rb;", 'r', 7, 2, 0, 3},
         {"rem.s32 %ro, %ra, %rb;", 'r', I(-7), 2, 0, 0xffffffff},
         {"rem.u64 %lo, %la, %lb;", 'l', 1000000007, 1000, 0, 7},
         {"min.s32 %ro, %ra, %rb;", 'r', I(-1), 1, 0, 0xffffffff},
         {"min.u32 %ro, %ra, %rb;", 'r', I(-1), 1, 0, 1},
         {"max.s64 %lo, %la, %lb;", 'l', I(-5), 4, 0, 4},
         {"abs.s32 %ro, %ra;", 'r', I(-9), 0, 0, 9},
         {"neg.s32 %ro, %ra;", 'r', 9, 0, 0, 0xfffffff7},
         {"sad.u32 %ro, %ra, %rb, %rc;", 'r', 3, 10, 5, 12},
         {"dp4a.s32.s32 %ro, %ra, %rb, %rc;", 'r', 0x01ff0203, 0x04050607, 100, 100 + 4 - 5 + 12 + 21},
         {"dp4a.u32.u32 %ro, %ra, %rb, %rc;", 'r', 0x01ff0203, 0x04050607, 0, 4 + 255 * 5 + 12 + 21},
         {"dp2a.lo.u32.u32 %ro, %ra, %rb, %rc;", 'r', 0x00020003, 0x04050607, 1, 1 + 3 * 7 + 2 * 6},
         {"dp2a.hi.u32.u32 %ro, %ra, %rb, %rc;", 'r', 0x00020003, 0x04050607, 1, 1 + 3 * 5 + 2 * 4}});
}

TEST_CASE("PTX: bits and logic", "[emulation]") {
  check({{"and.b32 %ro, %ra, %rb;", 'r', 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00},
         {"or.b64 %lo, %la, %lb;", 'l', 1ull << 60, 1, 0, (1ull << 60) | 1},
         {"xor.b16 %ho, %ha, %hb;", 'h', 0xffff, 0x0f0f, 0, 0xf0f0},
         {"not.b32 %ro, %ra;", 'r', 0x0f, 0, 0, 0xfffffff0},
         {"shl.b32 %ro, %ra, %rb;", 'r', 3, 4, 0, 48},
         {"shl.b32 %ro, %ra, %rb;", 'r', 3, 32, 0, 0},
         {"shl.b64 %lo, %la, %rb;", 'l', 3, 40, 0, 3ull << 40},
         {"shr.u32 %ro, %ra, %rb;", 'r', 0x80000000, 31, 0, 1},
         {"shr.s32 %ro, %ra, %rb;", 'r', 0x80000000, 99, 0, 0xffffffff},
         {"shr.u16 %ho, %ha, %rb;", 'h', 0x8000, 15, 0, 1},
         {"shf.l.wrap.b32 %ro, %ra, %rb, %rc;", 'r', 0x80000001, 0x0000000f, 4, 0xf8},
         {"shf.r.wrap.b32 %ro, %ra, %rb, %rc;", 'r', 0x80000001, 0x0000000f, 4, 0xf8000000},
         {"shf.r.clamp.b32 %ro, %ra, %rb, %rc;", 'r', 0x80000001, 0x0000000f, 40, 0x0000000f},
         {"bfe.u32 %ro, %ra, %rb, %rc;", 'r', 0x00abc000, 12, 12, 0xabc & 0xfff},
         {"bfe.s32 %ro, %ra, %rb, %rc;", 'r', 0x00f00000, 20, 4, 0xffffffff},
         {"bfi.b32 %ro, %ra, %rb, 8, 4;", 'r', 0x35, 0xffffffff, 0, 0xfffff5ff},
         {"bfi.b32 %ro, %ra, %rb, 5, 27;", 'r', 0x3, 0x4, 0, 0x64},
         {"prmt.b32 %ro, %ra, %rb, 4180;", 'r', 0x33221100, 0x77665544, 0, 0x11005544},
         {"prmt.b32 %ro, %ra, %rb, 0x9;", 'r', 0x00008000, 0, 0, 0x000000ff},
         {"lop3.b32 %ro, %ra, %rb, %rc, 0x96;", 'r', 0xf0f0, 0xff00, 0xaaaa, 0xf0f0 ^ 0xff00 ^ 0xaaaa},
         {"lop3.b32 %ro, %ra, %rb, %rc, 0xca;", 'r', 0xf0, 0x3c, 0x55, (0xf0 & 0x3c) | (0x0f & 0x55)},
         {"popc.b32 %ro, %ra;", 'r', 0xf0f, 0, 0, 8},
         {"popc.b64 %ro, %la;", 'r', ~0ull, 0, 0, 64},
         {"clz.b32 %ro, %ra;", 'r', 0x00010000, 0, 0, 15},
         {"brev.b32 %ro, %ra;", 'r', 1, 0, 0, 0x80000000},
         {"bfind.u32 %ro, %ra;", 'r', 0x00010000, 0, 0, 16},
         {"bfind.s32 %ro, %ra;", 'r', 0, 0, 0, 0xffffffff},
         {"mov.b32 {%ho, %hx}, %ra;", 'h', 0x12345678, 0, 0, 0x5678},
         {"mov.b32 %ro, {%ha, %hb};", 'r', 0x5678, 0x1234, 0, 0x12345678},
         {"mov.b64 %lo, {%ra, %rb};", 'l', 0x11111111, 0x22222222, 0, 0x2222222211111111ull},
         {"mov.b64 {%rx, %ro}, %la;", 'r', 0x2222222211111111ull, 0, 0, 0x22222222},
         {"selp.b32 %ro, %ra, %rb, %pa;", 'r', 3, 9, 0, 3},
         {"selp.f32 %fo, %fa, %fb, !%pa;", 'f', 3, F(9), 0, F(9)}});
}

TEST_CASE("PTX: comparisons and predicates, NaN included", "[emulation]") {
  check({{"setp.lt.s32 %po, %ra, %rb;", 'p', I(-1), 1, 0, 1},
         {"setp.lt.u32 %po, %ra, %rb;", 'p', I(-1), 1, 0, 0},
         {"setp.hi.u32 %po, %ra, %rb;", 'p', 2, 1, 0, 1},
         {"setp.eq.b64 %po, %la, %lb;", 'p', 1ull << 40, 1ull << 40, 0, 1},
         {"setp.ne.s16 %po, %ha, %hb;", 'p', 3, 0x10003, 0, 0},
         {"setp.lt.f32 %po, %fa, %fb;", 'p', F(kNaN), F(1), 0, 0},
         {"setp.ltu.f32 %po, %fa, %fb;", 'p', F(kNaN), F(1), 0, 1},
         {"setp.ne.f32 %po, %fa, %fb;", 'p', F(kNaN), F(1), 0, 0},
         {"setp.neu.f32 %po, %fa, %fb;", 'p', F(kNaN), F(1), 0, 1},
         {"setp.equ.f32 %po, %fa, %fb;", 'p', F(2), F(1), 0, 0},
         {"setp.geu.ftz.f32 %po, %fa, %fb;", 'p', kSubnormal, F(0), 0, 1},
         {"setp.gt.ftz.f32 %po, %fa, %fb;", 'p', kSubnormal, F(0), 0, 0},
         {"setp.gt.f32 %po, %fa, %fb;", 'p', kSubnormal, F(0), 0, 1},
         {"setp.nan.f32 %po, %fa, %fb;", 'p', F(1), F(kNaN), 0, 1},
         {"setp.num.f64 %po, %da, %db;", 'p', D(1), D(2), 0, 1},
         {"setp.le.f16 %po, %ha, %hb;", 'p', H(-2), H(1), 0, 1},
         {"setp.lt.and.s32 %po, %ra, %rb, %pb;", 'p', 1, 2, 0, 1},
         {"setp.lt.and.s32 %po, %ra, %rb, !%pb;", 'p', 1, 2, 0, 0},
         {"setp.lt.or.s32 %px|%po, %ra, %rb, !%pb;", 'p', 1, 2, 0, 0},
         {"setp.gt.s32 %px|%po, %ra, %rb;", 'p', 1, 2, 0, 1},
         {"and.pred %po, %pa, %pb;", 'p', 1, 0, 0, 0},
         {"or.pred %po, %pa, %pb;", 'p', 1, 0, 0, 1},
         {"xor.pred %po, %pa, %pb;", 'p', 1, 1, 0, 0},
         {"not.pred %po, %pa;", 'p', 1, 0, 0, 0},
         {"mov.pred %po, %pa;", 'p', 1, 0, 0, 1},
         {"mov.u32 %ro, 1; @%pa mov.u32 %ro, 2; @!%pa mov.u32 %ro, 3;", 'r', 0, 0, 0, 3}});
}

TEST_CASE("PTX: 32-bit reals, roundings, saturation and flushing", "[emulation]") {
  const float third = 1.0f / 3.0f;
  check({{"add.rn.f32 %fo, %fa, %fb;", 'f', F(1), F(0x1p-25f), 0, F(1)},
         {"add.rp.f32 %fo, %fa, %fb;", 'f', F(1), F(0x1p-60f), 0, F(std::nextafter(1.0f, 2.0f))},
         {"add.rm.f32 %fo, %fa, %fb;", 'f', F(1), F(-0x1p-60f), 0, F(std::nextafter(1.0f, 0.0f))},
         {"add.ftz.f32 %fo, %fa, %fb;", 'f', kSubnormal, F(0), 0, F(0)},
         {"add.f32 %fo, %fa, %fb;", 'f', kSubnormal, F(0), 0, kSubnormal},
         {"add.sat.f32 %fo, %fa, %fb;", 'f', F(1), F(0.5f), 0, F(1)},
         {"sub.f32 %fo, %fa, %fb;", 'f', F(1), F(0.25f), 0, F(0.75f)},
         {"mul.ftz.f32 %fo, %fa, %fb;", 'f', F(0x1p-100f), F(0x1p-40f), 0, F(0)},
         {"mul.rz.f32 %fo, %fa, %fb;", 'f', F(1 + 0x1p-23f), F(1 + 0x1p-23f), 0, F(1 + 0x1p-22f)},
         {"mul.rp.f32 %fo, %fa, %fb;", 'f', F(1 + 0x1p-23f), F(1 + 0x1p-23f), 0, F(1 + 0x1p-22f + 0x1p-23f)},
         {"fma.rn.f32 %fo, %fa, %fb, %fc;", 'f', F(1 + 0x1p-12f), F(1 + 0x1p-12f), F(-1 - 0x1p-11f), F(0x1p-24f)},
         {"fma.rn.ftz.f32 %fo, %fa, %fb, %fc;", 'f', F(0x1p-70f), F(0x1p-70f), F(0), F(0)},
         {"fma.rm.f32 %fo, %fa, %fb, %fc;", 'f', F(1), F(1), F(-0x1p-40f), F(std::nextafter(1.0f, 0.0f))},
         {"fma.rp.f32 %fo, %fa, %fb, %fc;", 'f', F(1), F(1), F(0x1p-40f), F(std::nextafter(1.0f, 2.0f))},
         {"div.rn.f32 %fo, %fa, %fb;", 'f', F(1), F(3), 0, F(third)},
         {"div.full.ftz.f32 %fo, %fa, %fb;", 'f', F(-1), F(0), 0, F(-kInf)},
         {"rcp.rn.f32 %fo, %fa;", 'f', F(3), 0, 0, F(third)},
         {"sqrt.rn.f32 %fo, %fa;", 'f', F(2), 0, 0, F(std::sqrt(2.0f))},
         {"rsqrt.approx.ftz.f32 %fo, %fa;", 'f', F(16), 0, 0, F(0.25f)},
         {"ex2.approx.ftz.f32 %fo, %fa;", 'f', F(-3), 0, 0, F(0.125f)},
         {"lg2.approx.ftz.f32 %fo, %fa;", 'f', F(8), 0, 0, F(3)},
         {"sin.approx.ftz.f32 %fo, %fa;", 'f', F(0), 0, 0, F(0)},
         {"cos.approx.ftz.f32 %fo, %fa;", 'f', F(0), 0, 0, F(1)},
         {"tanh.approx.f32 %fo, %fa;", 'f', F(100), 0, 0, F(1)},
         {"max.f32 %fo, %fa, %fb;", 'f', F(kNaN), F(-2), 0, F(-2)},
         {"max.ftz.f32 %fo, %fa, %fb;", 'f', F(-0.0f), F(0.0f), 0, F(0.0f)},
         {"min.f32 %fo, %fa, %fb;", 'f', F(0.0f), F(-0.0f), 0, F(-0.0f)},
         {"abs.ftz.f32 %fo, %fa;", 'f', F(-3), 0, 0, F(3)},
         {"neg.ftz.f32 %fo, %fa;", 'f', F(3), 0, 0, F(-3)},
         {"copysign.f32 %fo, %fa, %fb;", 'f', F(-1), F(5), 0, F(-5)},
         {"mov.f32 %fo, 0f40490FDB;", 'f', 0, 0, 0, 0x40490fdb}});
}

TEST_CASE("PTX: 64-bit and 16-bit reals", "[emulation]") {
  const auto pair = [](double low, double high) { return H(low) | H(high) << 16; };
  check({{"add.f64 %do, %da, %db;", 'd', D(1), D(0x1p-52), 0, D(1 + 0x1p-52)},
         {"fma.rn.f64 %do, %da, %db, %dc;", 'd', D(3), D(5), D(-1), D(14)},
         {"div.rn.f64 %do, %da, %db;", 'd', D(1), D(3), 0, D(1.0 / 3.0)},
         {"sqrt.rn.f64 %do, %da;", 'd', D(2), 0, 0, D(std::sqrt(2.0))},
         {"max.f64 %do, %da, %db;", 'd', D(1), D(2), 0, D(2)},
         {"mov.f64 %do, 0d3FF0000000000000;", 'd', 0, 0, 0, D(1)},
         {"add.f16 %ho, %ha, %hb;", 'h', H(2048), H(1), 0, H(2048)},
         {"add.rn.f16 %ho, %ha, %hb;", 'h', H(2048), H(3), 0, H(2052)},
         {"mul.f16 %ho, %ha, %hb;", 'h', H(1.5), H(-2), 0, H(-3)},
         {"fma.rn.f16 %ho, %ha, %hb, %hc;", 'h', H(1 + 0x1p-10), H(1 + 0x1p-10), H(-1), H(0x1p-9)},
         {"fma.rn.f16x2 %ro, %ra, %rb, %rc;", 'r', pair(2, 3), pair(4, 5), pair(1, -1), pair(9, 14)},
         {"add.f16x2 %ro, %ra, %rb;", 'r', pair(2, 3), pair(4, 5), 0, pair(6, 8)},
         {"max.f16x2 %ro, %ra, %rb;", 'r', pair(2, -3), pair(-4, 5), 0, pair(2, 5)},
         {"neg.f16x2 %ro, %ra;", 'r', pair(2, -3), 0, 0, pair(-2, 3)},
         {"fma.rn.bf16 %ho, %ha, %hb, %hc;", 'h', B(3), B(5), B(1), B(16)}});
}

TEST_CASE("PTX: conversions", "[emulation]") {
  check({{"cvt.s64.s32 %lo, %ra;", 'l', 0x80000000, 0, 0, 0xffffffff80000000ull},
         {"cvt.u64.u32 %lo, %ra;", 'l', 0x80000000, 0, 0, 0x80000000ull},
         {"cvt.u32.u64 %ro, %la;", 'r', 0x1234567890ull, 0, 0, 0x34567890},
         {"cvt.u16.u32 %ho, %ra;", 'h', 0x12345678, 0, 0, 0x5678},
         {"cvt.s32.s8 %ro, %ra;", 'r', 0x180, 0, 0, 0xffffff80},
         {"cvt.u32.u8 %ro, %ra;", 'r', 0x180, 0, 0, 0x80},
         {"cvt.s32.s16 %ro, %ha;", 'r', 0x8000, 0, 0, 0xffff8000},
         {"cvt.sat.s8.s32 %ro, %ra;", 'r', 300, 0, 0, 127},
         {"cvt.sat.u8.s32 %ro, %ra;", 'r', I(-300), 0, 0, 0},
         {"cvt.rni.s32.f32 %ro, %fa;", 'r', F(2.5f), 0, 0, 2},
         {"cvt.rzi.s32.f32 %ro, %fa;", 'r', F(-2.9f), 0, 0, 0xfffffffe},
         {"cvt.rmi.s32.f32 %ro, %fa;", 'r', F(-2.1f), 0, 0, 0xfffffffd},
         {"cvt.rpi.s32.f32 %ro, %fa;", 'r', F(2.1f), 0, 0, 3},
         {"cvt.rzi.s32.f32 %ro, %fa;", 'r', F(1e20f), 0, 0, 0x7fffffff},
         {"cvt.rzi.u32.f32 %ro, %fa;", 'r', F(-5), 0, 0, 0},
         {"cvt.rzi.s32.f32 %ro, %fa;", 'r', F(kNaN), 0, 0, 0},
         {"cvt.rni.f32.f32 %fo, %fa;", 'f', F(3.5f), 0, 0, F(4)},
         {"cvt.ftz.sat.f32.f32 %fo, %fa;", 'f', F(7), 0, 0, F(1)},
         {"cvt.ftz.sat.f32.f32 %fo, %fa;", 'f', F(kNaN), 0, 0, F(0)},
         {"cvt.rn.f32.s32 %fo, %ra;", 'f', I(-16777217), 0, 0, F(-16777216)},
         {"cvt.rn.f32.u32 %fo, %ra;", 'f', 0xffffffff, 0, 0, F(0x1p32f)},
         {"cvt.rz.f32.u32 %fo, %ra;", 'f', 0xffffffff, 0, 0, F(0x1.fffffep31f)},
         {"cvt.rn.f32.u64 %fo, %la;", 'f', ~0ull, 0, 0, F(0x1p64f)},
         {"cvt.rn.f64.s64 %do, %la;", 'd', I(-3), 0, 0, D(-3)},
         {"cvt.f64.f32 %do, %fa;", 'd', F(0.1f), 0, 0, D(static_cast<double>(0.1f))},
         {"cvt.rn.f32.f64 %fo, %da;", 'f', D(0.1), 0, 0, F(0.1f)},
         {"cvt.f32.f16 %fo, %ha;", 'f', H(-0.1875), 0, 0, F(-0.1875f)},
         {"cvt.f32.f16 %fo, %ha;", 'f', 1, 0, 0, F(0x1p-24f)},
         {"cvt.f32.f16 %fo, %ha;", 'f', 0xfc00, 0, 0, F(-kInf)},
         {"cvt.rn.f16.f32 %ho, %fa;", 'h', F(1 + 0x1p-11f), 0, 0, H(1)},
         {"cvt.rn.f16.f32 %ho, %fa;", 'h', F(65520), 0, 0, 0x7c00},
         {"cvt.rz.f16.f32 %ho, %fa;", 'h', F(65535), 0, 0, 0x7bff},
         {"cvt.rn.bf16.f32 %ho, %fa;", 'h', F(1 + 0x1p-8f), 0, 0, B(1)},
         {"cvt.f32.bf16 %fo, %ha;", 'f', B(-5), 0, 0, F(-5)},
         {"cvt.rn.f16x2.f32 %ro, %fa, %fb;", 'r', F(1), F(2), 0, H(1) << 16 | H(2)},
         {"cvt.rn.bf16x2.f32 %ro, %fa, %fb;", 'r', F(1), F(2), 0, B(1) << 16 | B(2)},
         {"cvt.rna.tf32.f32 %ro, %fa;", 'r', 0x3f801000, 0, 0, 0x3f802000}});
}
