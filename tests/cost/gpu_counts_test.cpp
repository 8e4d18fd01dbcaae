// What the statements of a GPU program count for: values, accesses, and the loops that stay loops.
#include <cmath>

#include "cost/launch_facts.h"
#include "tcc/ir/text.h"

using namespace tcc;
using cost::testing::facts_of;

namespace {

// C = value for 8 elements of each of 128 * 256 threads.
cost::LaunchFacts eight(const std::string& value, const std::string& type = "f32") {
  const std::string text = fmt::format(
      "kernel nest {{\n  input A: {0}[262144]\n  input B: f32[32768]\n  output C: {0}[262144]\n"
      "  for g in 128 bound(grid.x) {{ for x in 256 bound(thread.x) {{ for v in 8 vectorized {{\n"
      "    C[g*2048 + x*8 + v] = {1}\n  }} }} }}\n}}\n",
      type, value);
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return facts_of(*k);
}
constexpr double kThreads = 128 * 256;

}  // namespace

TEST_CASE("a value that loops do not move is computed once, and equal ones of a statement are", "[gpu_facts]") {
  const std::string a = "A[g*2048 + x*8 + v]", b = "B[g*256 + x]";
  CHECK(eight(a + " * exp(" + b + ")").special_functions == kThreads);
  CHECK(eight(a + " * exp(" + a + ")").special_functions == 8 * kThreads);
  CHECK(eight("exp(" + a + ") * (exp(" + a + ") + 1.0)").special_functions == 8 * kThreads);
  // A divisor that stays the same is inverted once, and a constant one ahead.
  CHECK(eight(a + " / " + b).special_functions == kThreads);
  CHECK(eight(a + " / 3.0").special_functions == 0);
  CHECK(eight(a + " / 3.0").instructions == eight(a + " * 3.0").instructions);
}

TEST_CASE("GELU and the error function cost less where their results have 16 bits", "[gpu_facts]") {
  const std::string a = "f32(A[g*2048 + x*8 + v])";
  const auto instructions = [&](const std::string& value) {
    return eight("f16(" + value + ")", "f16").instructions * 32 / (8 * kThreads);
  };
  const double plain = instructions(a + " * 2.0"), erf = instructions("erf(" + a + ")");
  const double gelu = instructions("0.5 * " + a + " * (1.0 + erf(" + a + " * 0.70710677))");
  CHECK(gelu < 14);
  CHECK(gelu > plain + 6);
  CHECK(erf > plain);
  CHECK(eight("erf(A[g*2048 + x*8 + v])").instructions * 32 / (8 * kThreads) > 2 * erf - plain);
}

TEST_CASE("of a table only the rows that are gathered count as the least traffic", "[gpu_facts]") {
  auto k = ir::parse(R"(kernel nest {
  input I: i64[64]
  input T: f16[4096, 256]
  output C: f16[64, 256]
  for g in 64 bound(grid.x) {
    for x in 32 bound(thread.x) {
      for v in 8 vectorized {
        C[g, x*8 + v] = T[I[g], x*8 + v]
      }
    }
  }
}
)");
  REQUIRE(k.has_value());
  CHECK(cost::gpu_facts(*k, *target::find_target("a100")).least_bytes == 64 * 8 + 2 * 2 * 64 * 256);
}

TEST_CASE("a copy to registers that starts within a vector has single loads at its ends", "[gpu_facts]") {
  const auto instructions = [](int64_t first, int64_t extent) {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input A: f16[1024, 64]
  output C: f16[1024]
  temp X: f16[{1}] local
  for g in 32 bound(grid.x) {{
    for x in 32 bound(thread.x) {{
      alloc X {{
        for v in {1} vectorized {{
          X[v] = A[g*32 + x, v + {0}]
        }}
        C[g*32 + x] = X[0]
      }}
    }}
  }}
}}
)",
                                   first, extent));
    REQUIRE(k.has_value());
    return facts_of(*k).instructions / 32;
  };
  const double rest = instructions(8, 16) - 2;
  CHECK(instructions(7, 17) == Approx(rest + 3));
  CHECK(instructions(8, 19) == Approx(rest + 5));
}

TEST_CASE("values of a tile that each step fetches anew are read again in each step", "[gpu_facts]") {
  // The loops inside of a step are straight code, so that registers keep what a step has read.
  const auto reads = [](int64_t steps) {
    auto nest = ir::parse(fmt::format(R"(kernel nest {{
  input A: f32[32, {0}]
  input B: f32[{0}, 32]
  output C: f32[32, 32]
  temp c: f32[2, 4] local
  temp As: f32[32, 32] shared
  temp Bs: f32[32, 32] shared
  for g in 1 bound(grid.x) @unroll_max(1024) {{
    for y in 16 bound(thread.y) {{
      for x in 8 bound(thread.x) {{
        alloc c {{
          for s in {1} {{
            alloc As, Bs {{
              for e in 1024 @cooperative_fetch(4) {{
                As[e // 32, e % 32] = A[e // 32, s*32 + e % 32]
              }}
              for e_1 in 1024 @cooperative_fetch(4) {{
                Bs[e_1 // 32, e_1 % 32] = B[s*32 + e_1 // 32, e_1 % 32]
              }}
              for i in 2 {{
                for k in 32 {{
                  for j in 4 {{
                    c[i, j] = c[i, j] + As[y*2 + i, k] * Bs[k, x*4 + j]
                  }}
                }}
              }}
            }}
          }}
          for i_1 in 2 {{
            for j_1 in 4 {{
              C[y*2 + i_1, x*4 + j_1] = c[i_1, j_1]
            }}
          }}
        }}
      }}
    }}
  }}
}}
)",
                                      32 * steps, steps));
    if (!nest) FAIL(nest.error().message);
    return facts_of(*nest, "h200").shared_accesses;
  };
  // The block has four warps. For each of 32 terms a warp reads two elements of A, four terms at once, and four
  // neighbors of B. Half a warp wants no more than 32 different words, so that 16 bytes a lane take two cycles.
  const double step = reads(9) - reads(8);
  CHECK(step == Approx(reads(5) - reads(4)));
  CHECK(step >= 4 * 32 * (2 * 2 / 4.0 + 2));
}

TEST_CASE("narrow copies cost the lines that a warp touches", "[gpu_facts]") {
  // Rows of A become columns of the copy, so that elements go one by one, whatever the vector's length.
  const auto accesses = [](int64_t vector, int64_t terms) {
    auto nest = ir::parse(fmt::format(R"(kernel nest {{
  input A: f32[64, 1024]
  output C: f32[64]
  temp c: f32[1] local
  temp As: f32[{1}, 64] shared
  for g in 1 bound(grid.x) {{
    for x in 64 bound(thread.x) {{
      alloc c {{
        for s in {2} {{
          alloc As {{
            for e in {3} @cooperative_fetch({0}) {{
              As[e % {1}, e // {1}] = A[e // {1}, s*{1} + e % {1}]
            }}
            for k in {1} {{
              c[0] = c[0] + As[k, x]
            }}
          }}
        }}
        C[x] = c[0]
      }}
    }}
  }}
}}
)",
                                      vector, terms, 1024 / terms, 64 * terms));
    if (!nest) FAIL(nest.error().message);
    return facts_of(*nest, "h100").shared_accesses;
  };
  // Lanes that are four elements apart touch four times as many lines; longer rows fewer of them.
  const double elements = 64 * 1024;
  CHECK(accesses(4, 8) - accesses(1, 8) == Approx(1.25 * elements / 32 * (16 - 4)));
  CHECK(accesses(1, 8) - accesses(1, 32) == Approx(1.25 * elements / 32 * (4 - 1)).epsilon(0.05));
}

TEST_CASE("vectors that rows do not cut are one access with one condition, also of a bias", "[gpu_facts]") {
  // Rows of `width` elements and a bias, in vectors of `lanes`; `last`: elements in all.
  auto facts = [](int64_t width, int64_t lanes, int64_t last) {
    const std::string at = fmt::format("g*2048 + x*{0} + v", lanes);
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input X: f16[64, {0}]
  input W: f16[{0}]
  output Y: f16[64, {0}]
  for g in 32 bound(grid.x) {{
    for x in {1} bound(thread.x) {{
      for v in {2} vectorized {{
        if {3} < {4} {{
          Y[({3}) // {0}, ({3}) % {0}] = X[({3}) // {0}, ({3}) % {0}] + W[({3}) % {0}]
        }}
      }}
    }}
  }}
}}
)",
                                   width, 2048 / lanes, lanes, at, last));
    if (!k) FAIL(k.error().message);
    return facts_of(*k);
  };
  CHECK(facts(1000, 8, 64 * 1000).instructions < 0.5 * facts(1000, 1, 64 * 1000).instructions);
  // Vectors cross the ends of these rows.
  CHECK(facts(1001, 8, 64 * 1001).instructions > facts(1000, 8, 64 * 1000).instructions);
}

TEST_CASE("a fused loop over whole rows is one index, whatever their length", "[gpu_facts]") {
  // Elements of `shape` in order, by a fused loop that is taken apart into their indices.
  auto facts = [](const std::string& shape, const std::string& at) {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input X: f16[{0}]
  output Y: f16[{0}]
  for g in 77 bound(grid.x) {{
    for x in 117 bound(thread.x) {{
      for v in 8 vectorized {{
        Y[{1}] = X[{1}] + X[{1}]
      }}
    }}
  }}
}}
)",
                                   shape, at));
    if (!k) FAIL(k.error().message);
    return facts_of(*k);
  };
  const std::string f = "(g*936 + x*8 + v)";
  const cost::LaunchFacts flat = facts("72072", "g*936 + x*8 + v");
  for (const cost::LaunchFacts& taken_apart :
       {facts("72, 1001", f + " // 1001, " + f + " % 1001"),
        facts("8, 9, 1001", f + " // 9009, " + f + " // 1001 % 9, " + f + " % 1001")}) {
    CHECK(taken_apart.instructions == flat.instructions);
    CHECK(taken_apart.global_bytes == flat.global_bytes);
    CHECK(taken_apart.bytes_in_flight == flat.bytes_in_flight);
  }
  // Rows with a gap behind them are not one run.
  CHECK(facts("72, 1002", f + " // 1001, " + f + " % 1001").instructions > 2 * flat.instructions);
}

TEST_CASE("a loop is as much straight code as lowering makes of it", "[gpu_facts]") {
  // Instructions of a thread for a copy of elements that a block's threads go over in turns.
  const auto instructions = [](int64_t times, const std::string& from, const std::string& to) {
    auto k = ir::parse(fmt::format(R"(kernel nest {{
  input A: f32[131072]
  output B: f32[131072]
  temp s: f32[131072] shared
  temp t: f32[131072] shared
  for g in 128 bound(grid.x) {{
    alloc s, t {{
      for x in 128 bound(thread.x) {{
        for i in {} unrolled {{
          {}[i*128 + x] = {}[i*128 + x]
        }}
      }}
    }}
  }}
}})",
                                   times, to, from));
    if (!k) FAIL(k.error().message);
    return facts_of(*k).instructions / (128 * 128 / 32);
  };
  const auto of_loops = [&](int64_t times, const std::string& from, const std::string& to) {
    return instructions(times, from, to) - static_cast<double>(times) * instructions(1, from, to);
  };
  CHECK(of_loops(512, "s", "t") == 0);
  CHECK(of_loops(513, "s", "t") > 0);
  CHECK(of_loops(192, "A", "t") == 0);
  CHECK(of_loops(193, "A", "t") > 0);
  CHECK(of_loops(193, "s", "B") == of_loops(193, "A", "t"));
}
