// Memory, exchange between lanes, barriers, asynchronous copies and matrix products.
#include <numeric>

#include "emulation/support.h"
#include "tcc/interp/numbers.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;

namespace {

template <class T>
std::vector<T> numbers(size_t n, T first = 0) {
  std::vector<T> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

// Lane l computes %ro from %lane and %v, its element of buffer 0, and stores it to buffer 1.
std::vector<uint32_t> by_lanes(const std::string& code, const std::vector<uint32_t>& in, int64_t threads = 32) {
  std::vector<uint32_t> data = in, out(data.size(), 0x7777);
  const std::string text = ptx_kernel(
      2, ".reg .b32 %v, %ro, %t<8>;\n.reg .pred %q<8>;",
      "mad.wide.u32 %p2, %tid, 4, %p0;\nmad.wide.u32 %p3, %tid, 4, %p1;\nld.global.u32 %v, [%p2];\nmov.u32 %ro, 0;\n" +
          code + "\nst.global.u32 [%p3], %ro;");
  const PtxReport report = ran(text, launch_of(threads), {buffer_of(data, false), buffer_of(out)});
  INFO(code << "\n" << report.text());
  REQUIRE(report.ok());
  return out;
}

}  // namespace

TEST_CASE("PTX: loads and stores of all widths, and local memory", "[emulation]") {
  std::vector<uint8_t> in(64), out(128, 0xee);
  std::iota(in.begin(), in.end(), uint8_t{0x70});
  const std::string text = ptx_kernel(
      2, ".reg .b32 %r<8>;\n.reg .b16 %h<8>;\n.reg .f32 %f<8>;\n.reg .b64 %l<8>;\n.local .align 16 .b8 depot[32];",
      R"(
ld.global.s8 %r1, [%p0+16];
st.global.u32 [%p1], %r1;
ld.global.nc.u8 %h1, [%p0+1];
st.global.u8 [%p1+4], %h1;
ld.global.v2.u16 {%h2, %h3}, [%p0+4];
st.global.v2.u16 [%p1+8], {%h3, %h2};
ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%p0+16];
st.global.v4.f32 [%p1+16], {%f4, %f3, %f2, %f1};
ld.global.v2.u64 {%l1, %l2}, [%p0+32];
st.global.v2.b64 [%p1+32], {%l2, %l1};
mov.u64 %l3, depot;
cvta.local.u64 %l4, %l3;
st.local.u32 [%l3+8], %tid;
ld.u32 %r2, [%l4+8];
st.global.u32 [%p1+48], %r2;
cvta.to.global.u64 %l5, %p0;
ld.u32 %r3, [%l5+60];
st.global.u32 [%p1+52], %r3;)");
  const PtxReport report = ran(text, launch_of(1), {buffer_of(in, false), buffer_of(out)});
  INFO(report.text());
  REQUIRE(report.ok());
  const auto word = [&](size_t at) {
    uint32_t v;
    std::memcpy(&v, out.data() + at, 4);
    return v;
  };
  CHECK(word(0) == 0xffffff80);
  CHECK(out[4] == 0x71);
  CHECK(out[5] == 0xee);
  CHECK(word(8) == 0x75747776);
  CHECK(word(16) == 0x8f8e8d8c);
  CHECK(word(28) == 0x83828180);
  CHECK(word(32) == 0x9b9a9998);
  CHECK(word(40) == 0x93929190);
  CHECK(word(48) == 0);
  CHECK(word(52) == 0xafaeadac);
}

TEST_CASE("PTX: shuffles, votes, matches", "[emulation]") {
  const auto in = numbers<uint32_t>(32, 100);
  const auto bfly = by_lanes("shfl.sync.bfly.b32 %ro, %v, 5, 31, -1;", in);
  const auto up = by_lanes("shfl.sync.up.b32 %ro|%q1, %v, 2, 0, -1;\n@!%q1 mov.u32 %ro, 1;", in);
  const auto down = by_lanes("shfl.sync.down.b32 %ro, %v, 3, 0x181f, -1;", in);
  const auto broadcast = by_lanes("shfl.sync.idx.b32 %ro, %v, 1, 0x181f, -1;", in);
  for (uint32_t l = 0; l < 32; ++l) {
    CHECK(bfly[l] == 100 + (l ^ 5));
    CHECK(up[l] == (l >= 2 ? 98 + l : 1));
    CHECK(down[l] == 100 + (l % 8 + 3 < 8 ? l + 3 : l));
    CHECK(broadcast[l] == 100 + l / 8 * 8 + 1);
  }
  CHECK(by_lanes("setp.lt.u32 %q1, %lane, 3;\nvote.sync.ballot.b32 %ro, %q1, -1;", in)[9] == 7);
  CHECK(by_lanes("setp.lt.u32 %q1, %lane, 3;\nvote.sync.any.pred %q2, %q1, -1;\nselp.b32 %ro, 1, 0, %q2;", in)[9] == 1);
  CHECK(by_lanes("setp.lt.u32 %q1, %lane, 3;\nvote.sync.all.pred %q2, %q1, -1;\nselp.b32 %ro, 1, 0, %q2;", in)[9] == 0);
  CHECK(by_lanes("and.b32 %t1, %lane, 1;\nmatch.any.sync.b32 %ro, %t1, -1;", in)[3] == 0xaaaaaaaa);
  CHECK(by_lanes("redux.sync.add.s32 %ro, %lane, -1;", in)[3] == 496);
  CHECK(by_lanes("activemask.b32 %ro;", in, 8)[3] == 0xff);
  // Half a warp by itself, after the other half went elsewhere.
  const auto half = by_lanes(
      "setp.lt.u32 %q1, %lane, 16;\n@!%q1 bra OTHER;\nshfl.sync.bfly.b32 %ro, %v, 8, 31, 0xffff;\nbra "
      "DONE;\nOTHER:\nmov.u32 %ro, 5;\nDONE:",
      in);
  CHECK(half[2] == 110);
  CHECK(half[20] == 5);
}

TEST_CASE("PTX: lanes part in loops and meet again", "[emulation]") {
  const auto in = numbers<uint32_t>(64);
  std::vector<uint32_t> expected(64, 0x7777);
  for (uint32_t t = 0; t < 64; ++t) expected[t] = t * (t - 1) / 2;
  CHECK(by_lanes("mov.u32 %t1, 0;\nLOOP:\nsetp.ge.u32 %q1, %t1, %v;\n@%q1 bra END;\nadd.u32 %ro, %ro, %t1;\nadd.u32 "
                 "%t1, %t1, 1;\nbra LOOP;\nEND:",
                 in, 64) == expected);
}

TEST_CASE("PTX: shared memory between barriers, and barriers for some warps", "[emulation]") {
  const std::string reverse = ptx_kernel(1, ".reg .b32 %r<8>;\n.shared .align 4 .b8 s[512];", R"(
mov.u32 %r1, s;
shl.b32 %r2, %tid, 2;
add.u32 %r3, %r1, %r2;
st.shared.u32 [%r3], %tid;
bar.sync 0;
sub.u32 %r4, 508, %r2;
add.u32 %r4, %r4, %r1;
ld.shared.u32 %r5, [%r4];
mad.wide.u32 %p1, %tid, 4, %p0;
st.global.u32 [%p1], %r5;)");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<uint32_t> out(128, 0);
    const PtxReport report = ran(reverse, launch_of(128), {buffer_of(out)}, {.seed = seed});
    INFO(report.text());
    REQUIRE(report.ok());
    for (uint32_t t = 0; t < 128; ++t) REQUIRE(out[t] == 127 - t);
  }
  // Warps 0 and 1 exchange by barrier 1 while warps 2 and 3 exchange by barrier 2.
  const std::string pairs = ptx_kernel(1, ".reg .b32 %r<8>;\n.shared .align 4 .b8 s[512];", R"(
mov.u32 %r1, s;
shr.u32 %r6, %tid, 6;
add.u32 %r6, %r6, 1;
mad.lo.u32 %r3, %tid, 4, %r1;
st.shared.u32 [%r3], %tid;
barrier.sync %r6, 64;
xor.b32 %r4, %tid, 32;
mad.lo.u32 %r4, %r4, 4, %r1;
ld.shared.u32 %r5, [%r4];
mad.wide.u32 %p1, %tid, 4, %p0;
st.global.u32 [%p1], %r5;)");
  std::vector<uint32_t> out(128, 0);
  const PtxReport report = ran(pairs, launch_of(128), {buffer_of(out)});
  INFO(report.text());
  REQUIRE(report.ok());
  for (uint32_t t = 0; t < 128; ++t) REQUIRE(out[t] == (t ^ 32));
}

TEST_CASE("PTX: atomics of several blocks, and a flag between two that run together", "[emulation]") {
  std::vector<float> sum = {0};
  const PtxReport added =
      ran(ptx_kernel(1, "", "red.global.add.f32 [%p0], 0f3F800000;"), launch_of(48, 5), {buffer_of(sum)});
  INFO(added.text());
  CHECK(added.ok());
  CHECK(sum[0] == 240);
  std::vector<uint32_t> old = {7, 0};
  const PtxReport exchanged =
      ran(ptx_kernel(1, ".reg .b32 %r<4>;", "atom.global.cas.b32 %r1, [%p0], 7, 9;\nst.global.u32 [%p0+4], %r1;"),
          launch_of(1), {buffer_of(old)});
  CHECK(exchanged.ok());
  CHECK(old == std::vector<uint32_t>{9, 7});
  // Block 1 waits for block 0's data.
  const std::string wait = ptx_kernel(2, ".reg .b32 %r<4>;\n.reg .pred %q<4>;", R"(
mov.u32 %r1, %ctaid.x;
setp.eq.u32 %q1, %r1, 0;
@!%q1 bra WAIT;
st.global.u32 [%p0], 42;
fence.acq_rel.gpu;
red.relaxed.gpu.global.add.u32 [%p1], 1;
bra END;
WAIT:
ld.relaxed.gpu.global.u32 %r2, [%p1];
setp.eq.u32 %q2, %r2, 0;
@%q2 bra WAIT;
fence.acq_rel.gpu;
ld.global.u32 %r3, [%p0];
st.global.u32 [%p0+4], %r3;
END:)");
  codegen::Launch together = launch_of(1, 2);
  together.cooperative = true;
  for (const bool fenced : {true, false}) {
    std::vector<uint32_t> data = {0, 0}, flag = {0};
    std::string text = wait;
    if (!fenced)
      for (size_t at = text.find("fence.acq_rel.gpu;"); at != std::string::npos; at = text.find("fence.acq_rel.gpu;"))
        text.erase(at, 18);
    const PtxReport report = ran(text, together, {buffer_of(data), buffer_of(flag)});
    INFO(report.text());
    CHECK(data[1] == 42);
    CHECK(report.has(FindingKind::kRace) == !fenced);
  }
}

TEST_CASE("PTX: asynchronous copies arrive when they are waited for", "[emulation]") {
  auto in = numbers<uint32_t>(64, 1000);
  std::vector<uint32_t> out(64, 0);
  // Two groups; the second copies 12 of 16 bytes and fills the rest with zeros.
  const std::string text = ptx_kernel(2, ".reg .b32 %r<8>;\n.reg .b64 %l<4>;\n.shared .align 16 .b8 s[256];", R"(
mov.u32 %r1, s;
mad.lo.u32 %r2, %tid, 16, %r1;
mad.wide.u32 %l1, %tid, 16, %p0;
cp.async.cg.shared.global [%r2], [%l1], 16;
cp.async.commit_group;
mov.u32 %r3, 12;
cp.async.cg.shared.global [%r2+128], [%l1+128], 16, %r3;
cp.async.commit_group;
cp.async.wait_group 1;
ld.shared.u32 %r4, [%r2+12];
mad.wide.u32 %l2, %tid, 16, %p1;
st.global.u32 [%l2], %r4;
cp.async.wait_group 0;
ld.shared.v2.u32 {%r5, %r6}, [%r2+136];
st.global.u32 [%l2+4], %r5;
st.global.u32 [%l2+8], %r6;)");
  const PtxReport report = ran(text, launch_of(8), {buffer_of(in, false), buffer_of(out)});
  INFO(report.text());
  REQUIRE(report.ok());
  for (uint32_t t = 0; t < 8; ++t) {
    CHECK(out[4 * t] == 1003 + 4 * t);
    CHECK(out[4 * t + 1] == 1034 + 4 * t);
    CHECK(out[4 * t + 2] == 0);
  }
}

TEST_CASE("PTX: ldmatrix, plain and transposed", "[emulation]") {
  for (const bool transposed : {false, true}) {
    auto in = numbers<uint16_t>(256);
    std::vector<uint32_t> out(128, 0);
    const std::string text = ptx_kernel(2, ".reg .b32 %r<12>;\n.reg .b64 %l<4>;\n.shared .align 16 .b8 s[512];",
                                        fmt::format(R"(
mov.u32 %r1, s;
mad.lo.u32 %r2, %tid, 16, %r1;
mad.wide.u32 %l1, %tid, 16, %p0;
ld.global.v4.u32 {{%r3, %r4, %r5, %r6}}, [%l1];
st.shared.v4.u32 [%r2], {{%r3, %r4, %r5, %r6}};
bar.warp.sync -1;
ldmatrix.sync.aligned.m8n8.x4{}.shared.b16 {{%r7, %r8, %r9, %r10}}, [%r2];
mad.wide.u32 %l2, %tid, 16, %p1;
st.global.v4.u32 [%l2], {{%r7, %r8, %r9, %r10}};)",
                                                    transposed ? ".trans" : ""));
    const PtxReport report = ran(text, launch_of(32), {buffer_of(in, false), buffer_of(out)});
    INFO(report.text());
    REQUIRE(report.ok());
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t m = 0; m < 4; ++m) {
        const uint32_t row = l / 4, column = l % 4 * 2;
        const uint32_t first = transposed ? 64 * m + 8 * column + row : 64 * m + 8 * row + column;
        const uint32_t second = transposed ? first + 8 : first + 1;
        REQUIRE(out[4 * l + m] == (first | second << 16));
      }
  }
}

namespace {

struct Shape {
  const char* opcode;
  int m, n, k, bits;  // bits of an element of A and B
  int a_registers, b_registers;
  uint32_t (*encode)(double);
  bool integer = false;
};

// Rows and columns of fragment elements as the PTX manual gives them for m16n8k8 (tf32), m16n8k16 and m16n8k32.
struct Element {
  int row, column;
};
Element place_a(const Shape& s, int lane, int element) {
  const int group = lane / 4, in_group = lane % 4, per_word = 32 / s.bits;
  const int word = element / per_word, part = element % per_word;
  return {group + 8 * (word % 2), in_group * per_word + part + 4 * per_word * (word / 2)};
}
Element place_b(const Shape& s, int lane, int element) {
  const int group = lane / 4, in_group = lane % 4, per_word = 32 / s.bits;
  return {in_group * per_word + element % per_word + 4 * per_word * (element / per_word), group};
}

void check_product(const Shape& s) {
  Rng rng(7);
  std::vector<int> a(static_cast<size_t>(s.m * s.k)), b(static_cast<size_t>(s.k * s.n)),
      c(static_cast<size_t>(s.m * s.n));
  for (auto* v : {&a, &b, &c})
    for (int& x : *v) x = static_cast<int>(rng.below(9)) - 4;
  const int words = s.a_registers + s.b_registers + 4, per_word = 32 / s.bits;
  std::vector<uint32_t> in(static_cast<size_t>(32 * words), 0), out(128, 0);
  const uint32_t mask = s.bits == 32 ? ~0u : (1u << s.bits) - 1;
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t* mine = in.data() + lane * words;
    for (int e = 0; e < s.a_registers * per_word; ++e) {
      const Element at = place_a(s, lane, e);
      mine[e / per_word] |= (s.encode(a[static_cast<size_t>(at.row * s.k + at.column)]) & mask)
                            << (s.bits * (e % per_word));
    }
    for (int e = 0; e < s.b_registers * per_word; ++e) {
      const Element at = place_b(s, lane, e);
      mine[s.a_registers + e / per_word] |= (s.encode(b[static_cast<size_t>(at.row * s.n + at.column)]) & mask)
                                            << (s.bits * (e % per_word));
    }
    for (int e = 0; e < 4; ++e) {
      const int x = c[static_cast<size_t>((lane / 4 + e / 2 * 8) * s.n + lane % 4 * 2 + e % 2)];
      mine[words - 4 + e] = s.integer ? static_cast<uint32_t>(x) : std::bit_cast<uint32_t>(static_cast<float>(x));
    }
  }
  std::string body = fmt::format("mad.wide.u32 %l1, %tid, {}, %p0;\nmad.wide.u32 %l2, %tid, 16, %p1;\n", 4 * words);
  const auto list = [](const char* name, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += fmt::format("{}{}{}", i == 0 ? "" : ", ", name, i);
    return "{" + text + "}";
  };
  for (int i = 0; i < words; ++i)
    body += fmt::format("ld.global.u32 {}{}, [%l1+{}];\n",
                        i < s.a_registers ? "%a"
                        : i < words - 4   ? "%b"
                                          : "%c",
                        i < s.a_registers ? i
                        : i < words - 4   ? i - s.a_registers
                                          : i - (words - 4),
                        4 * i);
  body += fmt::format("{} {}, {}, {}, {};\nst.global.v4.u32 [%l2], {};", s.opcode, list("%d", 4),
                      list("%a", s.a_registers), list("%b", s.b_registers), list("%c", 4), list("%d", 4));
  const PtxReport report = ran(ptx_kernel(2, ".reg .b32 %a<8>, %b<8>, %c<8>, %d<8>;\n.reg .b64 %l<4>;", body),
                               launch_of(32), {buffer_of(in, false), buffer_of(out)});
  INFO(s.opcode << ": " << report.text());
  REQUIRE(report.ok());
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      int sum = c[static_cast<size_t>(row * s.n + column)];
      for (int q = 0; q < s.k; ++q)
        sum += a[static_cast<size_t>(row * s.k + q)] * b[static_cast<size_t>(q * s.n + column)];
      const uint32_t word = out[static_cast<size_t>(4 * lane + e)];
      REQUIRE((s.integer ? static_cast<double>(static_cast<int32_t>(word))
                         : static_cast<double>(std::bit_cast<float>(word))) == sum);
    }
}

}  // namespace

TEST_CASE("PTX: matrix products with the fragments of the manual", "[emulation]") {
  const auto half = [](double x) -> uint32_t { return interp::f16_bits(x); };
  const auto brain = [](double x) -> uint32_t { return interp::bf16_bits(x); };
  const auto single = [](double x) -> uint32_t { return std::bit_cast<uint32_t>(static_cast<float>(x)); };
  const auto byte = [](double x) -> uint32_t { return static_cast<uint32_t>(static_cast<int32_t>(x)); };
  check_product({"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 16, 4, 2, half});
  check_product({"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 16, 4, 2, brain});
  check_product({"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 32, 4, 2, single});
  check_product({"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, 8, 4, 2, byte, true});
}
