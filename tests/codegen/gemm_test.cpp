#include <chrono>
#include <cmath>
#include <iostream>
#include <regex>

#include "nest.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

namespace tcc::codegen {
namespace {

using ir::LoopKind;
using ir::Type;

// C[M,N] = A[M,K] * B[K,N] with an MR x NR register tile; B is packed as [N/NR, K, NR]. Any M and N, by predicates.
ir::Kernel tiled_gemm(int64_t m, int64_t n, int64_t k, int64_t mr, int64_t nr, int64_t ku) {
  Nest t;
  ir::Builder& b = t.b();
  int64_t panels = (n + nr - 1) / nr;
  const ir::Buffer* a = t.input("A", Type::kF32, {m, k});
  const ir::Buffer* w = t.buffer("B", Type::kF32, {panels, k, nr}, ir::BufferRole::kWeight);
  const ir::Buffer* c = t.output("C", Type::kF32, {m, n});
  const ir::Buffer* acc = t.buffer("acc", Type::kF32, {mr, nr}, ir::BufferRole::kTemp);
  auto in = [&](ir::Expr io, ir::Expr ii) { return m % mr == 0 ? nullptr : b.lt(t.at(io, mr, ii), t.i(m)); };
  auto out = [&](ir::Expr io, ir::Expr ii, ir::Expr jo, ir::Expr jj) {
    ir::Expr p = in(io, ii);
    return n % nr == 0 ? p : b.logical_and(p, b.lt(t.at(jo, nr, jj), t.i(n)));
  };
  auto body = [&](ir::Expr io, ir::Expr jo) {
    ir::Stmt init = t.loop(mr, LoopKind::kUnrolled, [&](ir::Expr ii) {
      return t.loop(nr, LoopKind::kVectorized, [&](ir::Expr jj) { return t.store(acc, {ii, jj}, b.real(0)); });
    });
    ir::Stmt reduce = t.loop(k / ku, LoopKind::kSerial, [&](ir::Expr ko) {
      return t.loop(ku, LoopKind::kUnrolled, [&](ir::Expr ki) {
        ir::Expr kk = t.at(ko, ku, ki);
        return t.loop(mr, LoopKind::kUnrolled, [&](ir::Expr ii) {
          return t.loop(nr, LoopKind::kVectorized, [&](ir::Expr jj) {
            ir::Expr p = in(io, ii);
            std::vector<ir::Expr> index{t.at(io, mr, ii), kk};
            ir::Expr av = b.load(*a, index, p, p == nullptr ? nullptr : b.real(0));
            return t.store(acc, {ii, jj}, b.add(t.load(acc, {ii, jj}), b.mul(av, t.load(w, {jo, kk, jj}))));
          });
        });
      });
    });
    ir::Stmt write = t.loop(mr, LoopKind::kUnrolled, [&](ir::Expr ii) {
      return t.loop(nr, LoopKind::kVectorized, [&](ir::Expr jj) {
        return t.store(c, {t.at(io, mr, ii), t.at(jo, nr, jj)}, t.load(acc, {ii, jj}), out(io, ii, jo, jj));
      });
    });
    return t.alloc({acc}, t.seq({init, reduce, write}));
  };
  ir::Stmt root = t.loop((m + mr - 1) / mr, LoopKind::kParallel, [&](ir::Expr io) {
    return t.loop(panels, LoopKind::kSerial, [&](ir::Expr jo) { return body(io, jo); });
  });
  return t.lowered(root);
}

void check_gemm(const Compiled& code, int64_t m, int64_t n, int64_t k, int64_t nr) {
  int64_t panels = (n + nr - 1) / nr;
  Rng rng(7);
  Aligned<float> a(static_cast<size_t>(m * k)), w(static_cast<size_t>(panels * nr * k)),
      c(static_cast<size_t>(m * n + 16), -7.f);
  for (float& x : a) x = static_cast<float>(rng.below(17) - 8);
  for (float& x : w) x = static_cast<float>(rng.below(17) - 8);
  code.run({a.data(), w.data(), c.data()}, 3);
  int64_t wrong = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < k; ++r) sum += double{a[i * k + r]} * w[(j / nr * k + r) * nr + j % nr];
      wrong += c[i * n + j] != static_cast<float>(sum);
    }
  CHECK(wrong == 0);
  for (int i = 0; i < 16; ++i) CHECK(c[static_cast<size_t>(m * n + i)] == -7.f);
}

}  // namespace

TEST_CASE("naive gemm", "[codegen]") {
  Nest t;
  ir::Builder& b = t.b();
  int64_t m = 13, n = 29, k = 17;
  const ir::Buffer *a = t.input("A", Type::kF32, {m, k}), *w = t.input("B", Type::kF32, {k, n}),
                   *c = t.output("C", Type::kF32, {m, n});
  ir::Stmt root = t.loop(m, LoopKind::kParallel, [&](ir::Expr i) {
    return t.loop(n, LoopKind::kSerial, [&](ir::Expr j) {
      ir::Stmt init = t.store(c, {i, j}, b.real(0));
      ir::Stmt update = t.loop(k, LoopKind::kSerial, [&](ir::Expr r) {
        return t.store(c, {i, j}, b.add(t.load(c, {i, j}), b.mul(t.load(a, {i, r}), t.load(w, {r, j}))));
      });
      return t.seq({init, update});
    });
  });
  ir::Kernel kernel = t.lowered(root);
  for (const target::Target& target : runnable_targets()) {
    Compiled code = compile(kernel, target);
    CHECK(code.artifact.launches[0].extent == m);
    Aligned<float> x(m * k), y(k * n), z(m * n, -1);
    Rng rng(3);
    for (float& v : x) v = static_cast<float>(rng.below(11) - 5);
    for (float& v : y) v = static_cast<float>(rng.below(11) - 5);
    code.run({x.data(), y.data(), z.data()}, 4);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t r = 0; r < k; ++r) sum += x[i * k + r] * y[r * n + j];
        REQUIRE(z[i * n + j] == sum);
      }
  }
}

TEST_CASE("tiled gemm with register accumulators and masked tails", "[codegen]") {
  struct Case {
    int64_t m, n, k, mr, nr, ku;
  };
  for (const target::Target& target : runnable_targets())
    for (Case s : {Case{24, 64, 16, 12, 32, 1}, Case{25, 70, 12, 12, 32, 4}, Case{9, 50, 8, 8, 48, 2},
                   Case{5, 7, 6, 2, 7, 1}, Case{10, 33, 5, 14, 32, 1}, Case{7, 24, 4, 3, 24, 2}}) {
      INFO(target.name << " " << s.m << "x" << s.n << "x" << s.k);
      check_gemm(compile(tiled_gemm(s.m, s.n, s.k, s.mr, s.nr, s.ku), target), s.m, s.n, s.k, s.nr);
    }
}

TEST_CASE("a register tile whose rows do not fill vectors is computed whole", "[codegen]") {
  HostOptions options;
  options.want_ir = true;
  for (const target::Target& target : runnable_targets())
    for (int64_t columns : {3, 7, 11, 13, 29}) {
      INFO(target.name << ", " << columns << " columns");
      const Compiled code = compile(tiled_gemm(9, columns, 12, 3, columns, 1), target, options);
      // Masks choose what is loaded and stored; no sum keeps lanes that nobody reads.
      const std::regex kept("select <[0-9]+ x i1> <i1 true");
      CHECK_FALSE(std::regex_search(code.artifact.source, kept));
      check_gemm(code, 9, columns, 12, columns);
    }
}

TEST_CASE("the register tile stays in registers", "[codegen]") {
  if (!host().cpu.features.avx512f) SKIP("no AVX-512 on this processor");
  HostOptions options;
  options.want_assembly = true;
  auto start = std::chrono::steady_clock::now();
  Compiled code = compile(tiled_gemm(1200, 1024, 1024, 12, 32, 2), host(), options);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string& text = code.artifact.source;
  auto count = [&](const char* pattern) {
    std::regex re(pattern);
    return std::distance(std::sregex_iterator(text.begin(), text.end(), re), std::sregex_iterator());
  };
  CHECK(count("vfmadd231ps[^\n]*zmm") == 48);
  CHECK(count("\\(%rsp[^\n]*zmm|zmm[^\n]*\\(%rsp") == 0);
  CHECK(count("vmulps") == 0);

  Aligned<float> a(1200 * 1024, 1.f), w(1024 * 1024, 1.f), c(1200 * 1024);
  code.run({a.data(), w.data(), c.data()});
  auto t0 = std::chrono::steady_clock::now();
  code.run({a.data(), w.data(), c.data()});
  double run = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
  std::cout << "llvm.compile.gemm " << seconds * 1e3 << " ms (emit " << code.artifact.facts.at("emit_seconds") * 1e3
            << ", optimize " << code.artifact.facts.at("optimise_seconds") * 1e3 << ", in all "
            << code.artifact.facts.at("compile_seconds") * 1e3 << " with assembly), "
            << 2.0 * 1200 * 1024 * 1024 / run * 1e-9 << " GFLOP/s\n";
  CHECK(c[77] == 1024.f);
  if (const char* path = std::getenv("TCC_TEST_DUMP_ASM")) REQUIRE(write_file(path, text));

  // The same tile with both operands in the first-level cache.
  Compiled small = compile(tiled_gemm(48, 32, 128, 12, 32, 2));
  small.run({a.data(), w.data(), c.data()});
  t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) small.run({a.data(), w.data(), c.data()});
  run = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() / 2000;
  std::cout << "llvm.gemm.tile " << 2.0 * 48 * 32 * 128 / run * 1e-9 << " GFLOP/s\n";
}

}  // namespace tcc::codegen
