// What a GPU program asks of the machine: storage, blocks and pipelines. gpu_counts_test.cpp has its statements.
#include <cmath>

#include "cost/launch_facts.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/ir/text.h"

using namespace tcc;
using cost::testing::facts_of;

namespace {

// `stride`: distance of neighboring threads in memory.
ir::Kernel copy_kernel(int64_t stride, const std::string& temp = "", int64_t blocks = 128) {
  const std::string text = fmt::format(
      "kernel nest {{\n  input A: f32[8388608]\n  output B: f32[8388608]\n{}  for g in {} bound(grid.x) {{\n"
      "for x in 256 bound(thread.x) {{\n{}B[g*256 + x] = A[g*256 + x*{}] * 2.0\n{}}}\n}}\n}}\n",
      temp.empty() ? "" : "  temp t: " + temp + "\n", blocks, temp.empty() ? "" : "alloc t {\n t[0] = 0.0\n", stride,
      temp.empty() ? "" : "}\n");
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return *k;
}

}  // namespace

TEST_CASE("a launch's threads, arithmetic and sectors are counted") {
  const cost::LaunchFacts f = facts_of(copy_kernel(1));
  CHECK(f.blocks == 128);
  CHECK(f.threads == 256);
  CHECK(f.flops == 128 * 256);
  CHECK(f.global_bytes == 2 * 4 * 128 * 256);
  // Every thread's element in a sector of its own: 32 bytes instead of 4 for the load.
  CHECK(facts_of(copy_kernel(16)).global_bytes == (4 + 32) * 128 * 256);
}

TEST_CASE("rows that wrap around within a warp are as near to each other as they are") {
  // Threads take neighbors in rows of 28, of 28 in one array and of 30 in the other.
  auto k = ir::parse(R"(kernel nest {
  input A: f32[128, 10, 30]
  output B: f32[128, 9, 28]
  for g in 128 bound(grid.x) {
    for x in 252 bound(thread.x) {
      B[g, x // 28, x % 28] = A[g, x // 28 + 1, x % 28 + 1]
    }
  }
}
)");
  REQUIRE(k.has_value());
  // The first warp's stores are 128 bytes in a row; its loads, bytes 124 to 236 and 244 to 260, are in six sectors.
  const double warps = 128 * 252 / 32.0;
  CHECK(facts_of(*k).global_bytes == Approx(warps * 32 * (4 + 6)));
}

TEST_CASE("occupancy falls with storage and is zero for a block that does not fit") {
  const int64_t many = 8192;
  CHECK(facts_of(copy_kernel(1, "", many)).occupancy == 1.0);
  // 40,960 bytes a block: four fit the 164 KiB of an A100's multiprocessor beside what the system takes.
  const cost::LaunchFacts some = facts_of(copy_kernel(1, "f32[10240] shared", many));
  CHECK(some.blocks_per_sm == 4);
  CHECK(some.occupancy == 0.5);
  CHECK(facts_of(copy_kernel(1, "f32[65536] shared", many)).blocks_per_sm == 0);
  // 128 registers beside those of addresses: a block of 256 threads takes more than half of a multiprocessor's.
  CHECK(facts_of(copy_kernel(1, "f32[128] local", many)).blocks_per_sm == 1);
}

TEST_CASE("registers and shared memory by the compiler decide how many blocks are resident", "[gpu_facts]") {
  const target::Target target = *target::find_target("a100");
  const ir::Kernel k = copy_kernel(1, "", 8192);
  auto compiled = [&](double registers, double shared_bytes) {
    const cost::CompiledLaunch launch[] = {{registers, shared_bytes}};
    return cost::gpu_facts(k, target, launch).launches[0];
  };
  const cost::LaunchFacts estimated = facts_of(k);
  CHECK(estimated.occupancy == 1.0);
  // 256 threads of 32, 64 and 128 registers, of 65,536 of a multiprocessor, which holds 2,048 threads.
  CHECK(compiled(32, 0).blocks_per_sm == 8);
  CHECK(compiled(64, 0).blocks_per_sm == 4);
  CHECK(compiled(64, 0).occupancy == 0.5);
  CHECK(compiled(128, 0).blocks_per_sm == 2);
  CHECK(compiled(128, 0).registers == 128);
  CHECK(compiled(32, 40960).blocks_per_sm == 4);
  CHECK(compiled(0, 0).blocks_per_sm == estimated.blocks_per_sm);
  // Everything that follows from the number of resident blocks does: rounds, bytes in flight, and so the time.
  CHECK(compiled(128, 0).rounds > 3 * compiled(32, 0).rounds);
  CHECK(compiled(128, 0).bytes_in_flight == Approx(compiled(32, 0).bytes_in_flight / 4));
  auto seconds = [&](double registers) {
    const cost::CompiledLaunch launch[] = {{registers, 0}};
    return cost::predict_gpu_seconds(cost::gpu_facts(k, target, launch), 0);
  };
  CHECK(seconds(128) > 1.2 * seconds(32));
  CHECK(seconds(estimated.registers) == cost::predict_gpu_seconds(cost::gpu_facts(k, target), 0));
  // Facts of another number of launches are not those of this program.
  const cost::CompiledLaunch two[] = {{128, 0}, {128, 0}};
  CHECK(cost::gpu_facts(k, target, two).launches[0].blocks_per_sm == estimated.blocks_per_sm);
}

TEST_CASE("a grid that is smaller than the machine leaves multiprocessors with fewer blocks than they could hold") {
  const int64_t sms = target::find_target("a100")->cuda.sm_count;
  auto of = [&](int64_t blocks) { return facts_of(copy_kernel(1, "", blocks)); };
  CHECK(of(sms / 2).blocks_per_sm == 1);
  CHECK(of(sms / 2).wave_share == Approx(0.5));
  CHECK(of(2 * sms).blocks_per_sm == 2);
  CHECK(of(2 * sms).occupancy == 0.25);
  CHECK(of(2 * sms).wave_share == Approx(1));
  // The multiprocessors with two blocks end last.
  CHECK(of(sms + 1).wave_share == Approx((sms + 1.0) / (2 * sms)));
  CHECK(of(8 * sms).rounds == 1);
  CHECK(of(8 * sms + 1).rounds == 2);
}

TEST_CASE("a pipeline holds its stages in shared memory, and its steps are counted") {
  auto k = ir::parse(R"(kernel nest {
  input A: f32[64, 256]
  output B: f32[256]
  temp t: f32[256] shared
  temp s: f32[1] local
  for g in 2 bound(grid.x) {
    for x in 128 bound(thread.x) {
      alloc s {
        s[0] = 0.0
        for k in 64 @pipeline_depth(3) {
          alloc t {
            for c in 256 @cooperative_fetch(4) {
              t[c] = A[k, c]
            }
            s[0] = s[0] + t[g*128 + x]
          }
        }
        B[g*128 + x] = s[0]
      }
    }
  }
})");
  if (!k) FAIL(k.error().message);
  const cost::LaunchFacts f = facts_of(*k);
  CHECK(f.stages == 3);
  CHECK(f.shared_bytes == 3 * 1024);
  CHECK(f.step_cycles > 0);
  // All threads wait for each step: only stages and blocks overlap.
  CHECK(f.overlap == f.stages * f.blocks_per_sm);
  CHECK(f.scheduler_warps >= 1);
  CHECK(f.clock_hz > 0);
}

TEST_CASE("a producer's copies cost its block's threads and registers, and no instructions of the others") {
  auto nest = [](const char* role) {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input A: f16[128, 256]
  input B: f16[256, 64]
  output C: f32[128, 64]
  temp acc: f32[64, 64] local
  temp As: f16[64, 64] shared
  temp Bs: f16[64, 64] shared
  for g in 2 bound(grid.x) {{
    alloc acc {{
      for k in 4 @pipeline_depth(3){} {{
        alloc As, Bs {{
          for x in 64 @cooperative_fetch(8) {{
            for y in 64 {{
              As[x, y] = A[g*64 + x, k*64 + y]
            }}
          }}
          for u in 64 @cooperative_fetch(8) {{
            for v in 64 {{
              Bs[u, v] = B[k*64 + u, v]
            }}
          }}
          for kk in 4 unrolled {{
            instr wgmma.m64n64k16.f32.f16.trans_b(acc[0, 0], As[0, kk*16], Bs[kk*16, 0])
          }}
        }}
      }}
      for p in 64 {{
        for q in 64 {{
          C[g*64 + p, q] = acc[p, q]
        }}
      }}
    }}
  }}
}}
)",
                                   role));
    if (!k) FAIL(k.error().message);
    return *k;
  };
  const cost::LaunchFacts f = facts_of(nest(" @pipeline_role(1)"), "h200"), plain = facts_of(nest(""), "h200");
  CHECK(f.threads == 256);
  CHECK(plain.threads == 128);
  CHECK(f.registers == 128);
  CHECK(f.copy_instructions == 0);
  CHECK(plain.copy_instructions > 0);
  CHECK(f.stages == 3);
  CHECK(f.matrix_flops == 2.0 * 128 * 64 * 256);
  CHECK(f.matrix_seconds == Approx(f.matrix_flops / target::find_target("h200")->peak.fp16));
}

TEST_CASE("too few warps slow matrix units once, by the smaller of two shares", "[gpu_facts]") {
  const auto facts = [](int64_t warps) {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  output C: f32[2112, 64]
  temp acc: f32[16, 8] local
  temp a: f16[16, 16] local
  temp b: f16[8, 16] local
  for g in 132 bound(grid.x) {{
    for w in {} bound(thread.y) {{
      alloc acc, a, b {{
        for k in 64 {{
          instr mma.m16n8k16.f32.f16.bt(acc[0, 0], a[0, 0], b[0, 0])
        }}
        for p in 16 {{
          for q in 8 {{
            C[g*16 + p, w*8 + q] = acc[p, q]
          }}
        }}
      }}
    }}
  }}
}}
)",
                                   warps));
    if (!k) FAIL(k.error().message);
    return facts_of(*k, "h200");
  };
  // A multiprocessor's 64 warps times 8 sums are twice what arithmetic needs: one warp alone has a quarter of that, and
  // one of two warps that each of four matrix units needs.
  CHECK(facts(1).busy == 0.125);
  CHECK(facts(2).busy == 0.25);
  CHECK(facts(4).busy == 0.5);
  CHECK(facts(8).busy == 1);
}

TEST_CASE("blocks of a cluster are sent once what they share, and walkers fill their rings once") {
  // 4 x cx x cy tiles of 64 x 64, four to a row of tiles.
  auto facts = [](int64_t cx, int64_t cy, int64_t at_a_time, const char* out = "f16") {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input A: f16[{rows}, 256]
  input B: f16[256, {columns}]
  output C: {out}[{rows}, {columns}]
  temp acc: f32[64, 64] local
  temp As: f16[64, 64] shared
  temp Bs: f16[64, 64] shared
  for g in {tiles} bound(grid.x) @persistent_blocks({limit}) {{
    for x in {cx} bound(cluster.x) {{
      for y in {cy} bound(cluster.y) {{
        alloc acc {{
          for k in 4 @pipeline_depth(3) @pipeline_role(1) {{
            alloc As, Bs {{
              for a in 64 @cooperative_fetch(8) {{
                for b in 64 {{
                  As[a, b] = A[g*{step} + x*64 + a, k*64 + b]
                }}
              }}
              for u in 64 @cooperative_fetch(8) {{
                for v in 64 {{
                  Bs[u, v] = B[k*64 + u, y*64 + v]
                }}
              }}
              for kk in 4 unrolled {{
                instr wgmma.m64n64k16.f32.f16.trans_b(acc[0, 0], As[0, kk*16], Bs[kk*16, 0])
              }}
            }}
          }}
          for p in 64 {{
            for q in 64 {{
              C[g*{step} + x*64 + p, y*64 + q] = {out}(acc[p, q])
            }}
          }}
        }}
      }}
    }}
  }}
}}
)",
                                   fmt::arg("rows", 1024 * 64), fmt::arg("columns", 64 * cy), fmt::arg("out", out),
                                   fmt::arg("tiles", 1024 / cx), fmt::arg("limit", at_a_time), fmt::arg("cx", cx),
                                   fmt::arg("cy", cy), fmt::arg("step", 64 * cx)));
    if (!k) FAIL(k.error().message);
    return facts_of(*k, "h200");
  };
  const double tile = 64 * 64 * 2, tiles = 1024;
  const cost::LaunchFacts plain = facts(1, 1, 0), rows = facts(2, 1, 0);
  CHECK(plain.blocks == tiles);
  CHECK(rows.blocks == tiles);
  // Four steps of both operands, and the result once.
  CHECK(plain.global_bytes == tiles * tile * (4 + 4 + 1));
  CHECK(rows.global_bytes == tiles * tile * (4 + 2 + 1));
  CHECK(facts(1, 2, 0).global_bytes == 2 * tiles * tile * (2 + 4 + 1));
  CHECK(facts(2, 2, 0).global_bytes == 2 * tiles * tile * (2 + 2 + 1));
  // Boxes arrive in shared memory from any sender; products read both operands there, and results pass through it.
  CHECK(plain.shared_accesses == tiles * tile / 128 * (4 + 4 + 2 + 2 * 4));
  CHECK(rows.shared_accesses == plain.shared_accesses);
  CHECK(plain.shared_bytes == 3 * 2 * tile + 2 * 64 * 128);
  const auto sms = target::find_target("h200")->cuda.sm_count;
  const cost::LaunchFacts walk = facts(1, 1, 2 * sms), narrow = facts(1, 1, sms);
  CHECK(plain.fill_cycles == Approx(std::ceil(tiles / static_cast<double>(2 * sms)) * walk.fill_cycles));
  CHECK(walk.wave_share == Approx(plain.wave_share));
  // As many walkers as multiprocessors leave each with one block where two fit.
  CHECK(narrow.blocks_per_sm == 1);
  CHECK(walk.blocks_per_sm == 2);
  CHECK(narrow.rounds == 2 * walk.rounds);
  CHECK(cost::predict_gpu_seconds({{narrow}}, 0) > cost::predict_gpu_seconds({{walk}}, 0));
}

TEST_CASE("a tile of sums in shared memory counts as a thread's registers and independent sums", "[gpu_facts]") {
  auto nest = ir::parse(R"(kernel nest {
  input A: f32[16, 64]
  input B: f32[64, 64]
  output C: f32[64]
  temp c: f32[16, 64] shared
  for g in 4 bound(grid.x) {
    alloc c {
      for x in 64 bound(thread.x) {
        for k in 64 {
          for i in 4 unrolled {
            for j in 4 unrolled {
              c[x // 16 * 4 + i, x % 16 * 4 + j] = c[x // 16 * 4 + i, x % 16 * 4 + j] + A[x // 16 * 4 + i, k] * B[k, x % 16 * 4 + j]
            }
          }
        }
      }
      for y in 64 bound(thread.x) {
        C[y] = c[0, y]
      }
    }
  }
}
)");
  REQUIRE(nest.has_value());
  const cost::GpuFacts facts = cost::gpu_facts(*nest, *target::find_target("a100"));
  REQUIRE(facts.launches.size() == 1);
  CHECK(facts.launches[0].parallelism == 16);
  CHECK(facts.launches[0].registers >= 16 + 16);
}

TEST_CASE("warps that exchange one value each at the end do not wait for each other", "[gpu_facts]") {
  auto k = ir::parse(R"(kernel nest {
  input A: f32[1024, 4096]
  output C: f32[16]
  temp p: f32[256] shared
  temp s: f32[1] local
  for g in 16 bound(grid.x) {
    alloc p {
      for x in 256 bound(thread.x) {
        alloc s {
          s[0] = 0.0
          for i in 1024 {
            s[0] = s[0] + A[i, g*256 + x]
          }
          p[x] = s[0]
        }
      }
      C[g] = 0.0
      for u in 256 {
        C[g] = C[g] + p[u]
      }
    }
  }
}
)");
  if (!k) FAIL(k.error().message);
  CHECK(facts_of(*k).overlap == 8);
}

TEST_CASE("sums of a thread take longer where a block leaves it too few registers", "[gpu_facts]") {
  const auto seconds = [](int64_t threads, int64_t sums) {
    auto nest = ir::parse(fmt::format(R"(kernel nest {{
  input A: f32[4096, {0}]
  output C: f32[{1}, {0}]
  temp c: f32[{1}] local
  for g in 1 bound(grid.x) {{
    for x in {0} bound(thread.x) {{
      alloc c {{
        for k in 4096 {{
          for i in {1} {{
            c[i] = c[i] + A[k, x]
          }}
        }}
        for i_1 in {1} {{
          C[i_1, x] = c[i_1]
        }}
      }}
    }}
  }}
}}
)",
                                      threads, sums));
    if (!nest) FAIL(nest.error().message);
    const cost::LaunchFacts f = cost::gpu_facts(*nest, *target::find_target("h100")).launches.at(0);
    return f.compute_seconds / f.flops;
  };
  CHECK(seconds(1024, 16) == Approx(seconds(256, 16)));
  CHECK(seconds(256, 64) == Approx(seconds(256, 16)));
  CHECK(seconds(1024, 64) > 1.2 * seconds(256, 64));
}
