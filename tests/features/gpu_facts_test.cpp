// What a GPU program asks of the machine.
#include "tcc/features/gpu_facts.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"

using namespace tcc;

namespace {

// `stride`: distance of neighbouring threads in memory.
ir::Kernel copy_kernel(int64_t stride, const std::string& temp = "") {
  const std::string text = fmt::format(
      "kernel nest {{\n  input A: f32[1048576]\n  output B: f32[1048576]\n{}  for g in 128 bound(grid.x) {{\n"
      "for x in 256 bound(thread.x) {{\n{}B[g*256 + x] = A[g*256 + x*{}] * 2.0\n{}}}\n}}\n}}\n",
      temp.empty() ? "" : "  temp t: " + temp + "\n", temp.empty() ? "" : "alloc t {\n t[0] = 0.0\n", stride,
      temp.empty() ? "" : "}\n");
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return *k;
}
features::LaunchFacts facts_of(const ir::Kernel& k, const char* target = "a100") {
  const features::GpuFacts facts = features::gpu_facts(k, *target::find_target(target));
  REQUIRE(facts.launches.size() == 1);
  return facts.launches[0];
}

}  // namespace

TEST_CASE("a launch's threads, arithmetic and sectors are counted") {
  const features::LaunchFacts f = facts_of(copy_kernel(1));
  CHECK(f.blocks == 128);
  CHECK(f.threads == 256);
  CHECK(f.flops == 128 * 256);
  CHECK(f.global_bytes == 2 * 4 * 128 * 256);
  // Every thread's element in a sector of its own: 32 bytes instead of 4 for the load.
  CHECK(facts_of(copy_kernel(16)).global_bytes == (4 + 32) * 128 * 256);
}

TEST_CASE("occupancy falls with storage and is zero for a block that does not fit") {
  CHECK(facts_of(copy_kernel(1)).occupancy == 1.0);
  // 40,960 bytes a block: four fit the 164 KiB of an A100's multiprocessor beside what the system takes.
  const features::LaunchFacts some = facts_of(copy_kernel(1, "f32[10240] shared"));
  CHECK(some.blocks_per_sm == 4);
  CHECK(some.occupancy == 0.5);
  CHECK(facts_of(copy_kernel(1, "f32[65536] shared")).blocks_per_sm == 0);
  // 128 registers beside those of addresses: a block of 256 threads takes more than half of a multiprocessor's.
  CHECK(facts_of(copy_kernel(1, "f32[128] local")).blocks_per_sm == 1);
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
  const features::LaunchFacts f = facts_of(*k);
  CHECK(f.stages == 3);
  CHECK(f.shared_bytes == 3 * 1024);
  CHECK(f.step_cycles > 0);
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
  const features::LaunchFacts f = facts_of(nest(" @pipeline_role(1)"), "h200"), plain = facts_of(nest(""), "h200");
  CHECK(f.threads == 256);
  CHECK(plain.threads == 128);
  CHECK(f.registers == 128);
  CHECK(f.copy_instructions == 0);
  CHECK(plain.copy_instructions > 0);
  CHECK(f.stages == 3);
  CHECK(f.matrix_flops == 2.0 * 128 * 64 * 256);
  CHECK(f.matrix_seconds == Approx(f.matrix_flops / target::find_target("h200")->peak.fp16));
}
