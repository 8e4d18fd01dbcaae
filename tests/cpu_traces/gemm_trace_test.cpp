// A hand-written trace for a GEMM with packed weights: the code it must become, and how fast that is here.
#include <chrono>
#include <iostream>
#include <regex>

#include "codegen/nest.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/files.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

// C tiles of mr x nr in registers, k blocks of kb, B in panels of nr columns.
ir::Kernel scheduled_gemm(const task::Task& t, int64_t mr, int64_t nr, int64_t ku, const ArenaPtr& arena) {
  Rng rng(1);
  schedule::Schedule s(t.kernel, arena, &rng);
  schedule::BlockRv block = s.get_block(t.anchor_block);
  std::vector<int32_t> order{1, 0};
  std::vector<std::pair<int32_t, int64_t>> tiles{{1, nr}};
  s.transform_layout(block, 1, order, tiles);
  schedule::BlockRv write = s.cache_write(block, ir::Scope::kLocal);
  std::vector<schedule::LoopRv> loops = s.get_loops(block);
  auto split = [&](schedule::LoopRv l, std::vector<schedule::ExprRv> factors) { return s.split(l, factors); };
  auto i = split(loops[0], {{}, schedule::lit(mr)}), j = split(loops[1], {{}, schedule::lit(nr)}),
       k = split(loops[2], {{}, schedule::lit(ku)});
  s.reorder(std::vector<schedule::LoopRv>{i[0], j[0], k[0], k[1], i[1], j[1]});
  s.reverse_compute_at(write, j[0]);
  schedule::BlockRv init = s.decompose_reduction(block, k[0]);
  s.parallel(i[0]);
  s.unroll(k[1]);
  s.unroll(i[1]);
  s.vectorize(j[1]);
  for (schedule::BlockRv b : {init, write}) {
    std::vector<schedule::LoopRv> own = s.get_loops(b);
    s.vectorize(own.back());
  }
  if (!s.ok()) FAIL(s.reject().text);
  return s.kernel();
}

}  // namespace

TEST_CASE("a scheduled gemm becomes register tiles", "[traces]") {
  const target::Target& host = codegen::host();
  if (!host.cpu.features.avx512f || host.cpu.vector_bits < 512) SKIP("no vectors of 512 bits on this processor");
  int64_t n = 512;
  auto arena = std::make_shared<Arena>();
  task::Task t = task::make_gemm({.m = n, .n = n, .k = n, .constant_weights = true});
  ir::Kernel kernel = scheduled_gemm(t, 12, 32, 2, arena);
  auto lowered = lower::lower(kernel, host, ir::Stage::kLowered, arena);
  if (!lowered) FAIL(lowered.error().text);
  codegen::HostOptions options;
  options.want_assembly = true;
  codegen::Compiled code = codegen::compile(*lowered, host, options);
  if (const char* path = std::getenv("TCC_TEST_DUMP_ASM")) {
    REQUIRE(write_file(path, code.artifact.source));
    REQUIRE(write_file(std::string(path) + ".tir", ir::print(*lowered)));
  }
  const std::string& text = code.artifact.source;
  auto count = [&](const char* pattern) {
    std::regex re(pattern);
    return std::distance(std::sregex_iterator(text.begin(), text.end(), re), std::sregex_iterator());
  };
  CHECK(count("vfmadd[0-9]*ps[^\n]*zmm") >= 48);
  CHECK(count("\\(%rsp[^\n]*zmm|zmm[^\n]*\\(%rsp") == 0);

  codegen::Aligned<float> a(n * n), c(n * n);
  codegen::Aligned<std::byte> w(static_cast<size_t>(code.artifact.buffers[1].bytes));
  auto* wf = reinterpret_cast<float*>(w.data());
  auto av = [](int64_t i, int64_t k) { return static_cast<float>((i * 3 + k * 5) % 9 - 4); };
  auto wv = [](int64_t k, int64_t j) { return static_cast<float>((k * 7 + j * 2) % 11 - 5); };
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k) a[i * n + k] = av(i, k), wf[i / 32 * 32 * n + k * 32 + i % 32] = wv(k, i);
  code.run({a.data(), w.data(), c.data()});
  for (int64_t i : {0L, 11L, 12L, 300L, 503L, 504L, 511L})
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += av(i, k) * wv(k, j);
      REQUIRE(c[i * n + j] == sum);
    }
  double best = 1e9;
  for (int r = 0; r < 20; ++r) {
    auto t0 = std::chrono::steady_clock::now();
    code.run({a.data(), w.data(), c.data()});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count());
  }
  std::cout << "gemm512.trace " << 2e-9 * static_cast<double>(n * n * n) / best << " GFLOP/s, compiled in "
            << code.artifact.facts.at("compile_seconds") * 1e3 << " ms with assembly\n";
}
