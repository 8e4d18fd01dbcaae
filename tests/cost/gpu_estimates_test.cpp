// Programs whose time on an H200 was estimated by hand, from their SASS, launch shapes and bytes in flight: bad
// programs as earlier versions chose them, and good ones. The model must come within a factor of two of the estimate,
// so that a ranking sees how bad the bad ones are.
#include <catch2/catch.hpp>
#include <cmath>

#include "tcc/cost/gpu_facts.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/ir/text.h"

using namespace tcc;

namespace {

struct Predicted {
  double seconds;
  cost::LaunchFacts facts;  // of the last launch
};

Predicted predict(const std::string& text, const char* name = "h200") {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  const target::Target target = *target::find_target(name);
  const cost::GpuFacts facts = cost::gpu_facts(*k, target);
  return {cost::predict_gpu_seconds(facts, target.cuda.launch_seconds), facts.launches.back()};
}

struct Estimate {
  const char* what;
  std::string text;
  double least_us, most_us;
};

std::string braces(size_t n) {
  return std::string(n, '}') + "\n";
}

// out = value over n elements by `blocks` of `threads`, each element `vector` neighbors at a time.
// `alone`: an allocation keeps the compiler from expanding the loop.
std::string streaming(int64_t n, const char* type, int64_t blocks, int64_t threads, int64_t vector, const char* value,
                      int inputs, bool alone = true) {
  std::string text = "kernel nest {\n";
  for (int i = 0; i < inputs; ++i) text += fmt::format("  input {}: {}[{}]\n", "AB"[i], type, n);
  const int64_t steps = n / (blocks * threads * vector);
  text += fmt::format("  output C: {}[{}]\n  temp r: f32[1] local\n", type, n);
  if (vector > 1) alone = false;
  text += fmt::format("for g in {} bound(grid.x) {{ for x in {} bound(thread.x) {{ for i in {} {{\n", blocks, threads,
                      steps);
  if (vector > 1) text += fmt::format("for v in {} vectorized {{\n", vector);
  const std::string at = fmt::format("i*{} + g*{} + x*{}{}", blocks * threads * vector, threads * vector, vector,
                                     vector > 1 ? " + v" : "");
  std::string body = value;
  for (size_t p; (p = body.find('@')) != std::string::npos;) body.replace(p, 1, at);
  const std::string store = fmt::format("C[{}] = {}\n", at, body);
  return text + (alone ? "alloc r {\n" + store + "}\n" : store) + braces(vector > 1 ? 5 : 4);
}

constexpr const char* kAdd = "A[@] + B[@]";
constexpr const char* kGelu = "f16(f32(A[@]) * 0.5 * (1.0 + erf(f32(A[@]) * 0.7071)))";
constexpr int64_t kMany = 64 << 20;

// Rows of a softmax in three passes of a block: scalar loads, one in flight.
std::string softmax(int64_t rows, int64_t columns, int64_t threads) {
  const int64_t steps = columns / threads;
  return fmt::format(R"(kernel nest {{
  input A: f16[{r}, {c}]
  output C: f16[{r}, {c}]
  temp m: f32[{t}] shared
  temp s: f32[{t}] shared
  temp mm: f32[1] shared
  temp ss: f32[1] shared
  temp q: f32[1] local
  for g in {r} bound(grid.x) {{
    alloc m, s, mm, ss {{
      for x in {t} bound(thread.x) {{
        m[x] = -1000.0
        for i in {n} {{
          alloc q {{
            m[x] = max(m[x], f32(A[g, i*{t} + x]))
          }}
        }}
      }}
      mm[0] = -1000.0
      for u in {t} @tree_reduce(1) {{
        mm[0] = max(mm[0], m[u])
      }}
      for x2 in {t} bound(thread.x) {{
        s[x2] = 0.0
        for i2 in {n} {{
          alloc q {{
            s[x2] = s[x2] + exp(f32(A[g, i2*{t} + x2]) - mm[0])
          }}
        }}
      }}
      ss[0] = 0.0
      for u2 in {t} @tree_reduce(1) {{
        ss[0] = ss[0] + s[u2]
      }}
      for x3 in {t} bound(thread.x) {{
        for i3 in {n} {{
          alloc q {{
            C[g, i3*{t} + x3] = f16(exp(f32(A[g, i3*{t} + x3]) - mm[0]) / ss[0])
          }}
        }}
      }}
    }}
  }}
}}
)",
                     fmt::arg("r", rows), fmt::arg("c", columns), fmt::arg("t", threads), fmt::arg("n", steps));
}

// Sums over one of the dimensions of 8192 x 8192, a thread or a block a sum.
std::string column_sum(int64_t blocks, int64_t threads) {
  return fmt::format(R"(kernel nest {{
  input A: f32[8192, 8192]
  output C: f32[8192]
  temp s: f32[1] local
  temp q: f32[1] local
  for g in {b} bound(grid.x) {{
    for x in {t} bound(thread.x) {{
      alloc s {{
        s[0] = 0.0
        for i in 8192 {{
          alloc q {{
            s[0] = s[0] + A[i, g*{t} + x]
          }}
        }}
        C[g*{t} + x] = s[0]
      }}
    }}
  }}
}}
)",
                     fmt::arg("b", blocks), fmt::arg("t", threads));
}

std::string row_sum(int64_t threads) {
  return fmt::format(R"(kernel nest {{
  input A: f32[8192, 8192]
  output C: f32[8192]
  temp p: f32[{t}] shared
  temp q: f32[1] local
  for g in 8192 bound(grid.x) {{
    alloc p {{
      for x in {t} bound(thread.x) {{
        p[x] = 0.0
        for i in {n} {{
          alloc q {{
            p[x] = p[x] + A[g, i*{t} + x]
          }}
        }}
      }}
      C[g] = 0.0
      for u in {t} @tree_reduce(1) {{
        C[g] = C[g] + p[u]
      }}
    }}
  }}
}}
)",
                     fmt::arg("t", threads), fmt::arg("n", 8192 / threads));
}

std::vector<Estimate> estimates() {
  return {
      {"add f16, 256 blocks of 32 threads", streaming(kMany, "f16", 256, 32, 1, kAdd, 2), 5000, 7000},
      {"gelu f16, 256 blocks of 32 threads", streaming(kMany, "f16", 256, 32, 1, kGelu, 1), 3000, 4000},
      {"add f16, 256 blocks of 1024 threads", streaming(kMany, "f16", 256, 1024, 1, kAdd, 2), 130, 130},
      {"gelu f16, 256 blocks of 1024 threads", streaming(kMany, "f16", 256, 1024, 1, kGelu, 1), 140, 170},
      {"add f32 3G, 256 blocks of 64 threads", streaming(int64_t{3} << 30, "f32", 256, 64, 1, kAdd, 2), 2e5, 2e5},
      {"softmax 128 x 50257", softmax(128, 50176, 896), 35, 50},
      {"softmax 8192 x 8192", softmax(8192, 8192, 128), 260, 260},
      {"sum over rows", row_sum(256), 100, 130},
      {"sum over columns", column_sum(256, 32), 3000, 4000},
      {"sum of all by one thread", R"(kernel nest {
  input A: f32[67108864]
  output C: f32[1]
  temp s: f32[1] local
  temp q: f32[1] local
  for x in 1 bound(thread.x) {
    alloc s {
      s[0] = 0.0
      for i in 67108864 {
        alloc q {
          s[0] = s[0] + A[i]
        }
      }
      C[0] = s[0]
    }
  }
}
)",
       3e6, 5e6},
  };
}

}  // namespace

TEST_CASE("bad programs are predicted as slow as they are", "[gpu_estimates]") {
  for (const Estimate& e : estimates()) {
    const double us = predict(e.text).seconds * 1e6;
    CAPTURE(e.what, us, e.least_us, e.most_us);
    CHECK(us >= e.least_us / 2);
    CHECK(us <= e.most_us * 2);
  }
}

TEST_CASE("serial loops that read memory have several loads under way", "[gpu_estimates]") {
  const Predicted alone = predict(streaming(kMany, "f16", 256, 32, 1, kAdd, 2));
  const Predicted batch = predict(streaming(kMany, "f16", 256, 32, 1, kAdd, 2, false));
  CHECK(batch.seconds < alone.seconds / 4);
  CHECK(batch.seconds > alone.seconds / 12);
  CHECK(batch.facts.bytes_in_flight == Approx(8 * alone.facts.bytes_in_flight));
}

TEST_CASE("streams of wide accesses reach the rate of a copy", "[gpu_estimates]") {
  for (const char* name : {"a100", "h200"}) {
    const target::Target target = *target::find_target(name);
    const double rate = target.memory_bandwidth * target.cuda.model.copy_share;
    struct Row {
      const char* what;
      std::string text;
      double bytes;
    };
    const Row rows[] = {
        {"add", streaming(kMany, "f16", 8192, 256, 8, kAdd, 2), 3.0 * 2 * kMany},
        {"add, a wave of blocks", streaming(kMany, "f16", 1024, 256, 8, kAdd, 2), 3.0 * 2 * kMany},
        {"gelu", streaming(kMany, "f16", 8192, 256, 8, kGelu, 1), 2.0 * 2 * kMany},
    };
    for (const Row& row : rows) {
      const Predicted p = predict(row.text, name);
      CAPTURE(name, row.what, p.seconds, row.bytes / rate, p.facts.bytes_in_flight);
      CHECK(p.seconds >= row.bytes / rate);
      CHECK(p.seconds <= 1.4 * row.bytes / rate);
      CHECK(p.facts.least_bytes == Approx(row.bytes));
      CHECK(p.facts.memory_bytes == Approx(row.bytes));
    }
  }
}

TEST_CASE("rows that threads keep in registers, and gathered rows, are counted as what they are", "[gpu_estimates]") {
  // A row of 4096 for a block of 256 threads: 16 elements each.
  const Predicted row = predict(R"(kernel nest {
  input A: f16[8192, 4096]
  output C: f16[8192, 4096]
  temp X: f16[4096] local
  temp p: f32[256] local
  temp m: f32[1] local
  for g in 8192 bound(grid.x) {
    alloc X, p, m {
      for x in 256 bound(thread.x) {
        for r in 2 unrolled {
          for v in 8 vectorized {
            X[r*2048 + x*8 + v] = A[g, r*2048 + x*8 + v]
          }
        }
      }
      for x2 in 256 bound(thread.x) {
        p[x2] = 0.0
        for r2 in 2 unrolled {
          for v2 in 8 unrolled {
            p[x2] = p[x2] + f32(X[r2*2048 + x2*8 + v2])
          }
        }
      }
      m[0] = 0.0
      for u in 256 @tree_reduce(1) {
        m[0] = m[0] + p[u]
      }
      for x3 in 256 bound(thread.x) {
        for r3 in 2 unrolled {
          for v3 in 8 vectorized {
            C[g, r3*2048 + x3*8 + v3] = f16(f32(X[r3*2048 + x3*8 + v3]) - m[0])
          }
        }
      }
    }
  }
}
)");
  const target::Target h200 = *target::find_target("h200");
  const double bytes = 2.0 * 2 * 8192 * 4096, ideal = bytes / (h200.memory_bandwidth * h200.cuda.model.copy_share);
  CAPTURE(row.seconds, ideal, row.facts.registers, row.facts.bytes_in_flight);
  CHECK(row.facts.registers < 64);
  CHECK(row.facts.memory_bytes == Approx(bytes));
  CHECK(row.seconds > ideal);
  CHECK(row.seconds < 1.5 * ideal);
  CHECK(row.facts.bytes_in_flight >= 30 << 10);

  // 16,384 rows of 1024 halves, by their numbers: vectors of eight, two rows of the table for a block.
  const Predicted gather = predict(R"(kernel nest {
  input I: i64[16384]
  input T: f16[30522, 1024]
  output C: f16[16384, 1024]
  for g in 8192 bound(grid.x) {
    for x in 256 bound(thread.x) {
      for v in 8 vectorized {
        C[g*2 + x // 128, x % 128 * 8 + v] = T[I[g*2 + x // 128], x % 128 * 8 + v]
      }
    }
  }
}
)");
  const double moved = 2.0 * 2 * 16384 * 1024 + 8 * 16384;
  CHECK(gather.facts.least_bytes == Approx(moved).epsilon(0.02));
  CHECK(gather.facts.memory_bytes < 1.1 * moved);
  CHECK(gather.seconds < 2 * moved / (h200.memory_bandwidth * h200.cuda.model.copy_share));
}

TEST_CASE("transposes by tiles and sums of columns by vectors reach the rate of a copy, about", "[gpu_estimates]") {
  struct Row {
    const char* what;
    const char* text;
    double bytes;
  };
  const Row rows[] = {{"transpose", R"(kernel nest {
  input A: f16[8192, 8192]
  output C: f16[8192, 8192]
  temp s: f16[64, 64] shared
  for g in 16384 bound(grid.x) {
    alloc s {
      for f in 4096 @cooperative_fetch(8) {
        s[f // 64, f % 64] = A[g // 128 * 64 + f // 64, g % 128 * 64 + f % 64]
      }
      for y in 32 bound(thread.y) {
        for x in 8 bound(thread.x) {
          for u in 2 unrolled {
            for v in 8 vectorized {
              C[g % 128 * 64 + u*32 + y, g // 128 * 64 + x*8 + v] = s[x*8 + v, u*32 + y]
            }
          }
        }
      }
    }
  }
}
)",
                       2.0 * 2 * 8192 * 8192},
                      {"columns", R"(kernel nest {
  input A: f16[8192, 8192]
  output P: f32[32, 8192]
  temp a: f32[8] local
  temp b: f32[8, 256] shared
  for g in 1024 bound(grid.x) {
    alloc b {
      for y in 8 bound(thread.y) {
        for x in 32 bound(thread.x) {
          alloc a {
            for z in 8 vectorized {
              a[z] = 0.0
            }
            for r in 8 {
              for u in 4 unrolled {
                for v in 8 vectorized {
                  a[v] = a[v] + f32(A[g // 32 * 256 + r*32 + u*8 + y, g % 32 * 256 + x*8 + v])
                }
              }
            }
            for w in 8 vectorized {
              b[y, x*8 + w] = a[w]
            }
          }
        }
      }
      for y2 in 8 bound(thread.y) {
        for x2 in 32 bound(thread.x) {
          P[g // 32, g % 32 * 256 + y2*32 + x2] = b[0, y2*32 + x2] + b[1, y2*32 + x2] + b[2, y2*32 + x2]
        }
      }
    }
  }
}
)",
                       2.0 * 8192 * 8192 + 4.0 * 32 * 8192}};
  for (const char* name : {"a100", "h200"})
    for (const Row& row : rows) {
      const target::Target target = *target::find_target(name);
      const double ideal = row.bytes / (target.memory_bandwidth * target.cuda.model.copy_share);
      const Predicted p = predict(row.text, name);
      CAPTURE(name, row.what, p.seconds / ideal, p.facts.bytes_in_flight, p.facts.memory_bytes / row.bytes);
      CHECK(p.facts.memory_bytes == Approx(row.bytes));
      CHECK(p.facts.bytes_in_flight >= 30 << 10);
      CHECK(p.seconds >= ideal);
      CHECK(p.seconds <= 1.4 * ideal);
    }
}
