// Lowered kernels: real threads, their orders, and the findings where no order is given.
#include <catch2/catch.hpp>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"

using namespace tcc;
using interp::Finding;
using interp::TensorData;
using ir::Type;
using Kind = interp::Finding::Kind;

namespace {

// Runs a kernel on tensors of the shapes it declares: inputs random, outputs zero.
struct Case {
  ir::Kernel kernel;
  std::vector<TensorData> tensors;

  explicit Case(const std::string& text, uint64_t seed = 7) {
    auto parsed = ir::parse(text);
    if (!parsed) FAIL(parsed.error().message);
    kernel = *parsed;
    for (const ir::Buffer* b : kernel.buffers) {
      if (b->role == ir::BufferRole::kTemp) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      tensors.push_back(b->role == ir::BufferRole::kOutput ? TensorData::zeros(b->type, shape)
                                                           : TensorData::make_random_integers(b->type, shape, seed++));
    }
  }
  interp::Report run(uint64_t seed = 1) {
    std::vector<TensorData*> params;
    for (TensorData& t : tensors) params.push_back(&t);
    interp::Options options;
    options.seed = seed;
    options.check_races = true;
    options.max_steps = 1 << 24;
    return interp::run(kernel, params, options);
  }
};

interp::Report run(const std::string& text) {
  return Case(text).run();
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
void expect_clean(const std::string& text) {
  for (uint64_t seed : {1, 2, 3}) {
    const auto report = Case(text).run(seed);
    INFO(report.text());
    CHECK(report.ok());
  }
}
void expect(const std::string& text, Kind kind) {
  for (uint64_t seed : {1, 2, 3}) {
    const auto report = Case(text).run(seed);
    INFO("wanted: " << interp::finding_name(kind) << ", got: " << report.text());
    CHECK(report.has(kind));
  }
}

const std::string kReverse = R"(kernel lowered {
  input x: f32[128]
  output z: f32[128]
  temp s: f32[64] shared
  for b in 2 bound(grid.x) { alloc s {
    for t in 64 bound(thread.x) {
      s[t] = x[b*64 + t]
      instr bar.sync(; 0, 64)
      z[b*64 + t] = s[63 - t]
    }
  } }
})";

const std::string kCopyAsync = R"(kernel lowered {
  input x: f32[8, 128]
  output z: f32[8, 128]
  temp s: f32[2, 128] shared
  alloc s {
    for t in 32 bound(lane) {
      instr cp.async.16.f32(s[0, t*4], x[0, t*4]; 16)
      instr cp.async.commit()
      for k in 8 {
        if k < 7 { instr cp.async.16.f32(s[(k + 1) % 2, t*4], x[k + 1, t*4]; 16) }
        instr cp.async.commit()
        instr cp.async.wait(; 1)
        instr bar.sync(; 0, 32)
        for i in 4 { z[k, i*32 + t] = s[k % 2, i*32 + t] }
        instr bar.sync(; 1, 32)
      }
    }
  }
})";

// A producer warp fills a ring of two tiles by tensor copies, a consumer warp empties it.
const std::string kRing = R"(kernel lowered {
  input x: f32[32, 32]
  output z: f32[32, 32]
  temp s: f32[2, 8, 32] shared
  temp full: barrier[2] shared
  temp empty: barrier[2] shared
  alloc s, full, empty {
    for w in 2 bound(warp) { for l in 32 bound(lane) {
      if w == 0 && l == 0 {
        for i in 2 { instr mbarrier.init(full[i]; 1)  instr mbarrier.init(empty[i]; 32) }
        instr fence.mbarrier_init()
      }
      instr bar.sync(; 0, 64)
    } }
    roles {
      role warps 1 from 0 { for l in 32 bound(lane) { if l == 0 {
        for k in 4 {
          instr mbarrier.wait(empty[k % 2]; (k // 2 + 1) % 2)
          instr mbarrier.expect_tx(full[k % 2]; 1024)
          instr tma.load.f32(s[k % 2, 0, 0], full[k % 2], x[k*8, 0]; 8, 32)
        }
      } } }
      role warps 1 from 1 { for l in 32 bound(lane) {
        for k in 4 {
          instr mbarrier.wait(full[k % 2]; k // 2 % 2)
          for i in 8 { z[k*8 + i, l] = s[k % 2, i, l] }
          instr mbarrier.arrive(empty[k % 2])
        }
      } }
    }
  }
})";

}  // namespace

TEST_CASE("threads exchange data over a barrier", "[unit][interp]") {
  Case c(kReverse);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 128; ++i) CHECK(c.tensors[1].at(i) == c.tensors[0].at(i / 64 * 64 + 63 - i % 64));
  expect_clean(kReverse);
}
TEST_CASE("a missing barrier is a race", "[unit][interp]") {
  expect(replaced(kReverse, "instr bar.sync(; 0, 64)", ""), Kind::kRace);
}
TEST_CASE("a barrier that part of a warp skips is divergent", "[unit][interp]") {
  expect(replaced(kReverse, "instr bar.sync(; 0, 64)", "if t < 40 { instr bar.sync(; 0, 64) }"),
         Kind::kDivergentBarrier);
  expect(replaced(kReverse, "instr bar.sync(; 0, 64)",
                  "if t < 40 { instr bar.sync(; 0, 64) } else { instr bar.sync(; 0, 64) }"),
         Kind::kDivergentBarrier);
}
TEST_CASE("a barrier with the wrong number of threads", "[unit][interp]") {
  expect(replaced(kReverse, "0, 64)", "0, 96)"), Kind::kDeadlock);
  expect(replaced(kReverse, "0, 64)", "0, 32)"), Kind::kWrongParticipants);
}
TEST_CASE("blocks of a launch may not write the same element, launches are ordered", "[unit][interp]") {
  expect("kernel lowered { output z: f32[4]\n for b in 2 bound(grid.x) { z[0] = 1.0 } }", Kind::kRace);
  expect_clean(R"(kernel lowered {
    output z: f32[4]
    temp w: f32[4] workspace
    for b in 4 bound(grid.x) { w[b] = 1.0 }
    for b in 4 bound(grid.x) { z[b] = w[3 - b] }
  })");
}
TEST_CASE("a vector access that starts between its multiples is misaligned", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    input x: f32[40]
    output z: f32[40] align 64
    for t in 8 bound(thread.x) { for v in 4 vectorized { z[t*4 + v + 1] = x[t*4 + v] } }
  })";
  expect(text, Kind::kMisaligned);
  expect_clean(replaced(text, "v + 1]", "v]"));
}

TEST_CASE("asynchronous copies arrive when waited for", "[unit][interp]") {
  Case c(kCopyAsync);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  CHECK(c.tensors[1].bytes == c.tensors[0].bytes);
  expect(replaced(kCopyAsync, "instr cp.async.wait(; 1)", ""), Kind::kUninitialised);
  expect(replaced(kCopyAsync, "instr cp.async.wait(; 1)", "instr cp.async.wait(; 2)"), Kind::kUninitialised);
  expect(replaced(kCopyAsync, "instr bar.sync(; 0, 32)", ""), Kind::kRace);
  expect(replaced(kCopyAsync, "instr bar.sync(; 1, 32)", ""), Kind::kRace);
  expect(replaced(kCopyAsync, "s[0, t*4], x[0", "s[0, t*3], x[0"), Kind::kMisaligned);
}

TEST_CASE("tensor copies complete on barriers", "[unit][interp]") {
  Case c(kRing);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  CHECK(c.tensors[1].bytes == c.tensors[0].bytes);
  expect_clean(kRing);
}
TEST_CASE("a lost arrival and wrong byte counts end in a deadlock", "[unit][interp]") {
  expect(replaced(kRing, "instr mbarrier.arrive(empty[k % 2])", ""), Kind::kDeadlock);
  expect(replaced(kRing, "1024)", "1028)"), Kind::kDeadlock);
  expect(replaced(kRing, "instr mbarrier.arrive(empty[k % 2])", "if l < 31 { instr mbarrier.arrive(empty[k % 2]) }"),
         Kind::kDeadlock);
}
TEST_CASE("a missing wait shows", "[unit][interp]") {
  expect(replaced(kRing, "instr mbarrier.wait(full[k % 2]; k // 2 % 2)", ""), Kind::kUninitialised);
  expect(replaced(kRing, "instr mbarrier.wait(empty[k % 2]; (k // 2 + 1) % 2)", ""), Kind::kRace);
  expect(replaced(kRing, "instr mbarrier.init(full[i]; 1)", ""), Kind::kUninitialised);
}
TEST_CASE("generic writes need a proxy fence before asynchronous reads", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    output z: f32[4, 32]
    temp s: f32[4, 32] shared
    alloc s { for t in 32 bound(lane) {
      for i in 4 { s[i, t] = 2.0 }
      instr fence.proxy.async()
      instr bar.sync(; 0, 32)
      if t == 0 {
        instr tma.store.f32(z[0, 0], s[0, 0]; 4, 32)
        instr tma.commit()
        instr tma.wait(; 0)
      }
    } }
  })";
  Case c(text);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  CHECK(c.tensors[0].to_doubles() == std::vector<double>(128, 2.0));
  expect(replaced(text, "instr fence.proxy.async()", ""), Kind::kRace);
  expect(replaced(text, "instr bar.sync(; 0, 32)", ""), Kind::kRace);
}

TEST_CASE("fragments, matrix loads and products of a warp", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    input A: f16[16, 16]
    input B: f16[16, 8]
    output D: f32[16, 8]
    temp s: f16[16, 16] shared align 128
    temp a: f16[8] local
    temp b: f16[4] local
    temp d: f32[4] local
    alloc s { for l in 32 bound(lane) {
      for i in 8 { s[i*2 + l // 16, l % 16] = A[i*2 + l // 16, l % 16] }
      instr warp.sync(; 4294967295)
      alloc a, b, d {
        instr ldmatrix.x4.f16(a[0], s[l % 16, l // 16 * 8])
        for i in 4 {
          b[i] = B[i // 2 * 8 + l % 4 * 2 + i % 2, l // 4]
          d[i] = 0.0
        }
        instr mma.m16n8k16.f32.f16(d[0], a[0], b[0])
        for i in 4 { D[l // 4 + i // 2 * 8, l % 4 * 2 + i % 2] = d[i] }
      }
    } }
  })";
  Case c(text);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 16; ++k) sum += c.tensors[0].at(i * 16 + k) * c.tensors[1].at(k * 8 + j);
      CHECK(c.tensors[2].at(i * 8 + j) == sum);
    }
  }
  expect(replaced(text, "instr warp.sync(; 4294967295)", ""), Kind::kRace);
  expect(replaced(text, "instr mma.m16n8k16.f32.f16(d[0], a[0], b[0])",
                  "if l < 31 { instr mma.m16n8k16.f32.f16(d[0], a[0], b[0]) }"),
         Kind::kWrongParticipants);
  expect(replaced(text, "d[i] = 0.0", ""), Kind::kUninitialised);
  expect(replaced(text, "l // 16 * 8]", "l // 16 * 9]"), Kind::kMisaligned);
}

TEST_CASE("shuffles move values between lanes", "[unit][interp]") {
  Case c(R"(kernel lowered {
    input x: i32[32]
    output z: i32[32]
    temp a: i32[1] local
    temp b: i32[1] local
    for l in 32 bound(lane) { alloc a, b {
      a[0] = x[l]
      for i in 5 {
        instr shfl.i32(b[0], a[0]; 3, select(i == 0, 1, select(i == 1, 2, select(i == 2, 4, select(i == 3, 8, 16)))), 32)
        a[0] = a[0] + b[0]
      }
      z[l] = a[0]
    } }
  })");
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  double sum = 0;
  for (int64_t i = 0; i < 32; ++i) sum += c.tensors[0].at(i);
  for (int64_t i = 0; i < 32; ++i) CHECK(c.tensors[1].at(i) == sum);
}

TEST_CASE("atomic updates do not conflict with each other, plain ones do", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    output z: i32[1]
    temp one: i32[1] local
    for b in 1 bound(grid.x) { z[0] = 0i32 }
    for b in 4 bound(grid.x) { for t in 32 bound(thread.x) { alloc one {
      one[0] = 1i32
      instr atomic.add.i32(z[0], one[0])
    } } }
  })";
  Case c(text);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  CHECK(c.tensors[0].at(0) == 128);
  expect(replaced(text, "instr atomic.add.i32(z[0], one[0])", "z[0] = z[0] + one[0]"), Kind::kRace);
}

TEST_CASE("flags in global memory order blocks of a launch", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    output z: f32[2]
    temp w: f32[1] workspace
    temp flag: barrier[1] workspace
    for b in 1 bound(grid.x) { instr flag.init(flag[0]; 1) }
    for b in 2 bound(grid.x) { for t in 32 bound(thread.x) {
      if t == 0 {
        if b == 0 { w[0] = 3.0  instr flag.arrive(flag[0])  z[0] = 1.0 }
        else { instr flag.wait(flag[0]; 0)  z[1] = w[0] }
      }
    } }
  })";
  Case c(text);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  CHECK(c.tensors[0].at(1) == 3.0);
  expect(replaced(text, "instr flag.arrive(flag[0])", ""), Kind::kDeadlock);
  expect(replaced(text, "w[0] = 3.0  instr flag.arrive(flag[0])", "instr flag.arrive(flag[0])  w[0] = 3.0"),
         Kind::kRace);
}

TEST_CASE("findings name block, thread and statement", "[unit][interp]") {
  const auto report = run(replaced(kReverse, "s[63 - t]", "s[64 - t]"));
  REQUIRE(report.has(Kind::kOutOfBounds));
  CHECK(report.findings[0].text.find("thread 0") != std::string::npos);
  CHECK(report.findings[0].text.find("block (") != std::string::npos);
  CHECK(report.findings[0].text.find("z[") != std::string::npos);
}

TEST_CASE("products of a warpgroup read shared memory through the asynchronous proxy", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    input A: f16[64, 32]
    input B: f16[8, 32]
    output D: f32[64, 8]
    temp a: f16[64, 32] shared align 128
    temp b: f16[8, 32] shared align 128
    temp d: f32[4] local
    alloc a, b { for w in 4 bound(warp) { for l in 32 bound(lane) { alloc d {
      for i in 16 { a[w*16 + i, l] = A[w*16 + i, l] }
      for i in 2 { b[w*2 + i, l] = B[w*2 + i, l] }
      for i in 4 { d[i] = 0.0 }
      instr fence.proxy.async()
      instr bar.sync(; 0, 128)
      instr wgmma.fence()
      for k in 2 { instr wgmma.m64n8k16.f32.f16(d[0], a[0, k*16], b[0, k*16]) }
      instr wgmma.commit()
      instr wgmma.wait(; 0)
      for i in 4 { D[w*16 + l // 4 + i // 2 * 8, l % 4 * 2 + i % 2] = d[i] }
    } } } }
  })";
  Case c(text);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 32; ++k) sum += c.tensors[0].at(i * 32 + k) * c.tensors[1].at(j * 32 + k);
      CHECK(c.tensors[2].at(i * 8 + j) == sum);
    }
  }
  expect(replaced(text, "instr fence.proxy.async()", ""), Kind::kRace);
  expect(replaced(text, "instr wgmma.wait(; 0)", ""), Kind::kUninitialised);
  expect(replaced(text, "instr wgmma.wait(; 0)", "instr wgmma.wait(; 1)"), Kind::kUninitialised);
  expect(replaced(text, "instr bar.sync(; 0, 128)", ""), Kind::kRace);
}

TEST_CASE("multicast and remote arrival in a cluster", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    input x: f16[4, 8]
    output z: f16[2, 4, 8]
    temp s: f16[4, 8] cluster_shared align 128
    temp full: barrier[1] cluster_shared
    alloc s, full { for c in 2 bound(cluster.x) { for l in 32 bound(lane) {
      if l == 0 {
        instr mbarrier.init(full[0]; 1)
        instr fence.mbarrier_init()
      }
      instr cluster.sync()
      if l == 0 {
        instr mbarrier.expect_tx(full[0]; 64)
        if c == 0 { instr tma.load.multicast.f16(s[0, 0], full[0], x[0, 0]; 4, 8, 3) }
      }
      instr mbarrier.wait(full[0]; 0)
      z[c, l // 8, l % 8] = s[l // 8, l % 8]
      instr cluster.sync()
    } } }
  })";
  Case c(text);
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 64; ++i) CHECK(c.tensors[1].at(i) == c.tensors[0].at(i % 32));
  expect_clean(text);
  expect(replaced(text, "4, 8, 3)", "4, 8, 1)"), Kind::kDeadlock);
  expect(replaced(text, "instr mbarrier.wait(full[0]; 0)", ""), Kind::kUninitialised);
}

TEST_CASE("an arrival in another block says that reads have ended and passes on no writes", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    output z: f32[32]
    temp d: f32[1] local
    temp done: barrier[1] cluster_shared
    alloc done { for c in 2 bound(cluster.x) { for l in 32 bound(lane) { alloc d {
      if l == 0 {
        if c == 0 { z[0] = 1.0 }
        instr mbarrier.init(done[0]; 1)
        instr fence.mbarrier_init()
      }
      instr cluster.sync()
      if l == 0 {
        if c == 1 {
          d[0] = z[0]
          instr mbarrier.arrive.cluster(done[0]; 0)
        }
        if c == 0 {
          instr mbarrier.wait(done[0]; 0)
          z[0] = 2.0
        }
      }
      instr cluster.sync()
    } } } }
  })";
  expect_clean(text);
  expect(replaced(text, "d[0] = z[0]", "z[0] = 3.0"), Kind::kRace);
  expect(replaced(replaced(text, "d[0] = z[0]", "z[0] = 3.0"), "z[0] = 2.0", "d[0] = z[0]"), Kind::kRace);
  expect(replaced(text, "d[0] = z[0]\n          instr mbarrier.arrive.cluster(done[0]; 0)",
                  "instr mbarrier.arrive.cluster(done[0]; 0)\n          d[0] = z[0]"),
         Kind::kRace);
}

TEST_CASE("boxes that reach outside of the tensor are filled with zeros", "[unit][interp]") {
  Case c(R"(kernel lowered {
    input x: f32[3, 8]
    output z: f32[4, 8]
    temp s: f32[4, 8] shared align 128
    temp full: barrier[1] shared
    alloc s, full { for l in 32 bound(lane) {
      if l == 0 {
        instr mbarrier.init(full[0]; 1)
        instr mbarrier.expect_tx(full[0]; 128)
        instr tma.load.f32(s[0, 0], full[0], x[1, 0]; 4, 8)
      }
      instr bar.sync(; 0, 32)
      instr mbarrier.wait(full[0]; 0)
      z[l // 8, l % 8] = s[l // 8, l % 8]
    } }
  })");
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 32; ++i) CHECK(c.tensors[1].at(i) == (i < 16 ? c.tensors[0].at(i + 8) : 0.0));
}

TEST_CASE("threads named by warp, by coordinates and by role are one numbering", "[unit][interp]") {
  expect_clean(R"(kernel lowered {
    output z: f32[2, 3, 64]
    for b in 2 bound(grid.y) { for y in 3 bound(thread.y) { for x in 64 bound(thread.x) { z[b, y, x] = 1.0 } } }
  })");
  Case c(R"(kernel lowered {
    output z: i64[96]
    for w in 3 bound(warp) { for l in 32 bound(lane) { z[w*32 + l] = w } }
    roles {
      role warps 1 from 0 { for l in 32 bound(lane) { z[l] = 10 } }
      role warps 2 from 1 { for w in 2 bound(warp) { for l in 32 bound(lane) { z[32 + w*32 + l] = 20 + w } } }
    }
  })");
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 96; ++i) CHECK(c.tensors[0].at(i) == (i < 32 ? 10 : 19 + i / 32));
}

TEST_CASE("tiles of the matrix unit of the CPU", "[unit][interp]") {
  Case c(R"(kernel lowered {
    input A: bf16[16, 32]
    input B: bf16[16, 32]
    output C: f32[16, 16]
    temp a: bf16[16, 32] amx_tile
    temp b: bf16[16, 32] amx_tile
    temp d: f32[16, 16] amx_tile
    alloc a, b, d {
      instr amx.zero.f32(d[0, 0])
      instr amx.load.bf16(a[0, 0], A[0, 0])
      instr amx.load.bf16(b[0, 0], B[0, 0])
      instr amx.tdpbf16ps(d[0, 0], a[0, 0], b[0, 0])
      instr amx.store.f32(C[0, 0], d[0, 0])
    }
  })");
  const auto report = c.run();
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 32; ++k) sum += c.tensors[0].at(i * 32 + k) * c.tensors[1].at(k / 2 * 32 + j * 2 + k % 2);
      CHECK(c.tensors[2].at(i * 16 + j) == sum);
    }
  }
}
