// The passes between Nest and Lowered, checked by running what comes out.
#include "lower/hoist_accumulators.h"
#include "lower/promote_registers.h"
#include "lower/split_launches.h"
#include "lower/split_tails.h"
#include "nest.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"

namespace tcc::codegen {
namespace {

using ir::LoopKind;
using ir::Type;

ir::Kernel at_nest(ir::Kernel k) {
  k.stage = ir::Stage::kNest;
  return k;
}
int count_ifs(ir::Stmt root) {
  int n = 0;
  ir::visit(root, [&](ir::Stmt s) { return n += s->kind == ir::StmtKind::kIf, true; });
  return n;
}

// C = A B over serial loops, tiles of 4 x 16, predicated stores and loads.
ir::Kernel gemm(int64_t m, int64_t n, int64_t k) {
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *a = t.input("A", Type::kF32, {m, k}), *w = t.input("B", Type::kF32, {k, n}),
                   *c = t.output("C", Type::kF32, {m, n});
  const ir::Buffer* acc = t.buffer("acc", Type::kF32, {4, 16}, ir::BufferRole::kTemp);
  ir::Stmt root = t.loop((m + 3) / 4, LoopKind::kParallel, [&](ir::Expr io) {
    return t.loop((n + 15) / 16, LoopKind::kSerial, [&](ir::Expr jo) {
      auto row = [&](ir::Expr ii) { return b.lt(t.at(io, 4, ii), t.i(m)); };
      auto column = [&](ir::Expr jj) { return b.lt(t.at(jo, 16, jj), t.i(n)); };
      auto tile = [&](const std::function<ir::Stmt(ir::Expr, ir::Expr)>& f) {
        return t.loop(4, LoopKind::kSerial, [&](ir::Expr ii) {
          return t.loop(16, LoopKind::kVectorized, [&](ir::Expr jj) { return f(ii, jj); });
        });
      };
      ir::Stmt init = tile([&](ir::Expr ii, ir::Expr jj) { return t.store(acc, {ii, jj}, b.real(0)); });
      ir::Stmt reduce = t.loop(k, LoopKind::kSerial, [&](ir::Expr r) {
        return tile([&](ir::Expr ii, ir::Expr jj) {
          std::vector<ir::Expr> ai{t.at(io, 4, ii), r}, bi{r, t.at(jo, 16, jj)};
          ir::Expr product = b.mul(b.load(*a, ai, row(ii), b.real(0)), b.load(*w, bi, column(jj), b.real(0)));
          return t.store(acc, {ii, jj}, b.add(t.load(acc, {ii, jj}), product));
        });
      });
      ir::Stmt write = tile([&](ir::Expr ii, ir::Expr jj) {
        return t.store(c, {t.at(io, 4, ii), t.at(jo, 16, jj)}, t.load(acc, {ii, jj}),
                       b.logical_and(row(ii), column(jj)));
      });
      return t.alloc({acc}, t.seq({init, reduce, write}));
    });
  });
  return t.lowered(root);
}

// Two reduction levels with a tile of rows and columns between them: C = A B where k = 4 x 5, m = 3 x `rows` and
// n = 2 x `columns`, all of C's sums in one local buffer.
ir::Kernel gemm_around_sums(int64_t rows, int64_t columns, int64_t unroll_max) {
  const int64_t m = 3 * rows, n = 2 * columns;
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *a = t.input("A", Type::kF32, {m, 20}), *w = t.input("B", Type::kF32, {20, n}),
                   *c = t.output("C", Type::kF32, {m, n});
  const ir::Buffer* acc = t.buffer("acc", Type::kF32, {m, n}, ir::BufferRole::kTemp);
  using Body = std::function<ir::Stmt(ir::Expr, ir::Expr)>;
  auto inner = [&](ir::Expr io, ir::Expr jo, const Body& f) {
    return t.loop(rows, LoopKind::kUnrolled, [&](ir::Expr ii) {
      return t.loop(columns, LoopKind::kVectorized,
                    [&](ir::Expr jj) { return f(t.at(io, rows, ii), t.at(jo, columns, jj)); });
    });
  };
  auto outer = [&](const Body& f) {
    return t.loop(3, LoopKind::kSerial,
                  [&](ir::Expr io) { return t.loop(2, LoopKind::kSerial, [&](ir::Expr jo) { return f(io, jo); }); });
  };
  auto all = [&](const Body& f) { return outer([&](ir::Expr io, ir::Expr jo) { return inner(io, jo, f); }); };
  ir::Stmt init = all([&](ir::Expr i, ir::Expr j) { return t.store(acc, {i, j}, b.real(0)); });
  ir::Stmt sums = t.loop(4, LoopKind::kSerial, [&](ir::Expr ko) {
    return outer([&](ir::Expr io, ir::Expr jo) {
      ir::Stmt sum = t.loop(5, LoopKind::kSerial, [&](ir::Expr ki) {
        const ir::Expr k = t.at(ko, 5, ki);
        return inner(io, jo, [&](ir::Expr i, ir::Expr j) {
          return t.store(acc, {i, j}, b.add(t.load(acc, {i, j}), b.mul(t.load(a, {i, k}), t.load(w, {k, j}))));
        });
      });
      const auto* l = ir::as<ir::Loop>(sum);
      const ir::Annotation unroll[1] = {{ir::AnnotationKey::kUnrollMax, b.integer(unroll_max)}};
      return b.loop(l->id, l->extent, l->body, l->loop_kind, l->axis, unroll);
    });
  });
  ir::Stmt write = all([&](ir::Expr i, ir::Expr j) { return t.store(c, {i, j}, t.load(acc, {i, j})); });
  return t.lowered(
      t.loop(1, LoopKind::kParallel, [&](ir::Expr) { return t.alloc({acc}, t.seq({init, sums, write})); }));
}

}  // namespace

TEST_CASE("tails are split off, tiles are promoted, results stay", "[codegen][lower]") {
  struct Case {
    int64_t m, n;
    int ifs;
  };
  for (Case s : {Case{32, 80, 0}, Case{33, 80, 1}, Case{32, 70, 1}, Case{33, 70, 3}, Case{3, 9, 0}}) {
    int64_t k = 11;
    INFO(s.m << " x " << s.n);
    auto arena = std::make_shared<Arena>();
    ir::Kernel kernel = lower::split_tails(at_nest(gemm(s.m, s.n, k)), arena);
    CHECK(count_ifs(kernel.root) == s.ifs);
    kernel = lower::promote_registers(kernel, arena, {.count = 32, .bytes = 64});
    ir::Legal<ir::Kernel> split = lower::split_launches(kernel, arena);
    REQUIRE(split);
    kernel = *split;
    kernel.stage = ir::Stage::kLowered;
    std::vector<std::string> findings = ir::verify(kernel);
    for (const std::string& f : findings) FAIL_CHECK(f);
    int serial_tiles = 0;
    ir::visit(kernel.root, [&](ir::Stmt st) {
      const ir::Loop* l = ir::as<ir::Loop>(st);
      serial_tiles += l != nullptr && l->loop_kind == LoopKind::kSerial && ir::is_int(l->extent, 4);
      return true;
    });
    CHECK(serial_tiles == 0);
    Aligned<float> a(s.m * k), b(k * s.n), c(s.m * s.n + 4, -3);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 11) - 5;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 13) - 6;
    compile(kernel).run({a.data(), b.data(), c.data()}, 3);
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (int64_t r = 0; r < k; ++r) sum += a[i * k + r] * b[r * s.n + j];
        REQUIRE(c[i * s.n + j] == sum);
      }
    CHECK(c[s.m * s.n] == -3);
  }
}

TEST_CASE("an inner sum keeps its tile of a larger local buffer in registers", "[codegen][lower]") {
  struct Case {
    int64_t rows, columns, unroll_max;
    int64_t added, unrolled;  // buffers, and loops that were serial
  };
  // 32 registers of 64 bytes: 12 of them for the sums; 48, tiles of 8; 60, but tiles of 10; tiles of 32.
  for (Case s : {Case{2, 16, 0, 0, 6}, Case{4, 32, 0, 1, 0}, Case{4, 32, 512, 1, 0}, Case{10, 9, 0, 1, 0},
                 Case{16, 32, 0, 0, 0}}) {
    INFO(s.rows << " x " << s.columns << ", " << s.unroll_max);
    const lower::RegisterFile registers{.count = 32, .bytes = 64};
    const int64_t m = 3 * s.rows, n = 2 * s.columns;
    auto arena = std::make_shared<Arena>();
    const ir::Kernel nest = at_nest(gemm_around_sums(s.rows, s.columns, s.unroll_max));
    auto unrolled = [](const ir::Kernel& k, int64_t extent) {
      int64_t loops = 0;
      ir::visit(k.root, [&](ir::Stmt st) {
        const ir::Loop* l = ir::as<ir::Loop>(st);
        loops += l != nullptr && l->loop_kind == LoopKind::kUnrolled && ir::is_int(l->extent, extent);
        return true;
      });
      return loops;
    };
    ir::Kernel kernel = lower::promote_registers(nest, arena, registers);
    CHECK(unrolled(kernel, 3) + unrolled(kernel, 2) - unrolled(nest, 2) == s.unrolled);
    kernel = lower::hoist_local_tiles(kernel, arena, registers);
    CHECK(static_cast<int64_t>(kernel.buffers.size() - nest.buffers.size()) == s.added);
    if (s.added > 0) {
      const ir::Buffer* tile = kernel.buffers[kernel.buffers.size() - 1];
      REQUIRE(tile->shape.size() == 2);
      CHECK(ir::is_int(tile->shape[0], s.rows));
      CHECK(ir::is_int(tile->shape[1], s.columns));
    }
    ir::Legal<ir::Kernel> split = lower::split_launches(kernel, arena);
    REQUIRE(split);
    kernel = *split;
    kernel.stage = ir::Stage::kLowered;
    for (const std::string& f : ir::verify(kernel)) FAIL_CHECK(f);
    Aligned<float> a(m * 20), b(20 * n), c(m * n + 4, -3);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 11) - 5;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 13) - 6;
    compile(kernel).run({a.data(), b.data(), c.data()});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t r = 0; r < 20; ++r) sum += a[i * 20 + r] * b[r * n + j];
        REQUIRE(c[i * n + j] == sum);
      }
    CHECK(c[m * n] == -3);
  }
}

TEST_CASE("root statements become launches and storage finds its place", "[codegen][lower]") {
  int64_t n = 64;
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *x = t.input("x", Type::kF32, {n}), *y = t.output("y", Type::kF32, {n});
  const ir::Buffer* shared = t.buffer("shared", Type::kF32, {n}, ir::BufferRole::kTemp);
  const ir::Buffer* own = t.buffer("own", Type::kF32, {4}, ir::BufferRole::kTemp);
  const ir::Buffer* big = t.buffer("big", Type::kF32, {100000}, ir::BufferRole::kTemp);
  ir::Stmt first = t.loop(n, LoopKind::kParallel, [&](ir::Expr i) {
    return t.seq(
        {t.store(own, {t.i(1)}, b.add(t.load(x, {i}), b.real(1))), t.store(shared, {i}, t.load(own, {t.i(1)}))});
  });
  ir::Stmt second = t.loop(n, LoopKind::kSerial, [&](ir::Expr i) {
    return t.alloc({big}, t.seq({t.store(big, {b.scale(i, 1000)}, t.load(shared, {i})),
                                 t.store(y, {i}, t.load(big, {b.scale(i, 1000)}))}));
  });
  ir::Kernel kernel = at_nest(t.lowered(t.alloc({shared, own}, t.seq({first, second}))));
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> split = lower::split_launches(kernel, arena);
  REQUIRE(split);
  CHECK(split->buffer(shared->id)->scope == ir::Scope::kWorkspace);
  CHECK(split->buffer(big->id)->scope == ir::Scope::kWorkspace);
  CHECK(split->buffer(own->id)->scope == ir::Scope::kLocal);
  split->stage = ir::Stage::kLowered;
  CHECK(ir::verify(*split).empty());
  Compiled code = compile(*split);
  REQUIRE(code.artifact.launches.size() == 2);
  REQUIRE(code.artifact.buffers.size() == 4);
  Aligned<float> in(n, 2), out(n), w(n), space(100000);
  code.run({in.data(), out.data(), w.data(), space.data()}, 2);
  for (float v : out) CHECK(v == 3);
}

TEST_CASE("launches that a CPU cannot run are rejected", "[codegen][lower]") {
  Nest t;
  const ir::Buffer* y = t.output("y", Type::kF32, {4, 4});
  ir::Stmt inner = t.loop(4, LoopKind::kSerial, [&](ir::Expr i) {
    return t.loop(4, LoopKind::kParallel, [&](ir::Expr j) { return t.store(y, {i, j}, t.b().real(0)); });
  });
  auto nested = lower::split_launches(at_nest(t.lowered(inner)), std::make_shared<Arena>());
  REQUIRE_FALSE(nested);
  CHECK(nested.error().reason == ir::RejectReason::kUnsupported);

  Nest u;
  const ir::Buffer *z = u.output("z", Type::kF32, {4}),
                   *huge = u.buffer("huge", Type::kF32, {100000}, ir::BufferRole::kTemp);
  ir::Stmt large = u.loop(4, LoopKind::kParallel, [&](ir::Expr i) {
    return u.alloc({huge}, u.seq({u.store(huge, {i}, u.b().real(0)), u.store(z, {i}, u.load(huge, {i}))}));
  });
  auto rejected = lower::split_launches(at_nest(u.lowered(large)), std::make_shared<Arena>());
  REQUIRE_FALSE(rejected);
  CHECK(rejected.error().reason == ir::RejectReason::kTooMuchLocal);
}

TEST_CASE("buffers that are not there at the same time share the stack", "[codegen][lower]") {
  // Four of 200 KB, of which the launch has one at a time; of two in one another it would need too much.
  const auto kernel_of = [](bool nested) {
    Nest t;
    constexpr int64_t kRow = 50000;
    const ir::Buffer *x = t.input("x", Type::kF32, {4, kRow}), *y = t.output("y", Type::kF32, {4, kRow});
    const auto copied = [&](ir::Expr p, double factor, ir::Stmt more) {
      const ir::Buffer* copy = t.buffer("copy", Type::kF32, {kRow}, ir::BufferRole::kTemp);
      const auto each = [&](const std::function<ir::Stmt(ir::Expr)>& f) { return t.loop(kRow, LoopKind::kSerial, f); };
      std::vector<ir::Stmt> steps = {
          each([&](ir::Expr i) { return t.store(copy, {i}, t.b().mul(t.load(x, {p, i}), t.b().real(factor))); }),
          each([&](ir::Expr i) { return t.store(y, {p, i}, t.load(copy, {t.b().sub(t.i(kRow - 1), i)})); })};
      if (more != nullptr) steps.push_back(more);
      return t.alloc({copy}, t.seq(steps));
    };
    return t.lowered(t.loop(4, LoopKind::kParallel, [&](ir::Expr p) {
      if (nested) return copied(p, 2, copied(p, 3, nullptr));
      const ir::Stmt first = t.seq({copied(p, 5, nullptr), copied(p, 2, nullptr)});
      const ir::Stmt second = t.seq({copied(p, 7, nullptr), copied(p, 3, nullptr)});
      return t.b().if_then(t.b().lt(p, t.i(2)), first, second);
    }));
  };
  const auto refused = lower::split_launches(at_nest(kernel_of(true)), std::make_shared<Arena>());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == ir::RejectReason::kTooMuchLocal);
  auto split = lower::split_launches(at_nest(kernel_of(false)), std::make_shared<Arena>());
  REQUIRE(split.has_value());
  split->stage = ir::Stage::kLowered;
  Compiled code = compile(*split);
  CHECK(code.artifact.facts.at("local_bytes") == 200000);
  Aligned<float> x(200000), y(200000);
  for (size_t i = 0; i < 200000; ++i) x.data()[i] = static_cast<float>(i % 977);
  code.run({x.data(), y.data()}, 2);
  bool right = true;
  for (size_t p = 0; p < 4; ++p)
    for (size_t i = 0; i < 50000; ++i)
      right &= y.data()[p * 50000 + i] == x.data()[p * 50000 + 49999 - i] * (p < 2 ? 2.0f : 3.0f);
  CHECK(right);
}

TEST_CASE("limits know how local rows are padded", "[codegen][lower]") {
  const target::Target target = *target::find_target("x86-64-v3");
  // Six buffers; rows of 33 elements start 64 apart: 158,400 bytes as declared, 307,200 on the stack.
  auto nest_of = [](int64_t row) {
    Nest t;
    const ir::Buffer *x = t.input("x", Type::kF32, {4, 200, row}), *y = t.output("y", Type::kF32, {4, 200, row});
    std::vector<const ir::Buffer*> copies;
    for (int i = 0; i < 6; ++i) copies.push_back(t.buffer("copy", Type::kF32, {200, row}, ir::BufferRole::kTemp));
    auto both = [&](const std::function<ir::Stmt(ir::Expr, ir::Expr)>& f) {
      return t.loop(200, LoopKind::kSerial,
                    [&](ir::Expr i) { return t.loop(row, LoopKind::kSerial, [&](ir::Expr j) { return f(i, j); }); });
    };
    ir::Stmt root = t.loop(4, LoopKind::kParallel, [&](ir::Expr p) {
      std::vector<ir::Stmt> steps = {
          both([&](ir::Expr i, ir::Expr j) { return t.store(copies[0], {i, j}, t.load(x, {p, i, j})); })};
      for (size_t c = 1; c < copies.size(); ++c)
        steps.push_back(both([&](ir::Expr i, ir::Expr j) {
          return t.store(copies[c], {i, j}, t.load(copies[c - 1], {t.b().sub(t.i(199), i), j}));
        }));
      steps.push_back(
          both([&](ir::Expr i, ir::Expr j) { return t.store(y, {p, i, j}, t.load(copies.back(), {i, j})); }));
      return t.alloc(copies, t.seq(steps));
    });
    return at_nest(t.lowered(root));
  };
  CHECK(lower::check_limits(nest_of(32), target).has_value());
  auto arena = std::make_shared<Arena>();
  auto lowered = lower::lower(nest_of(32), target, ir::Stage::kLowered, arena);
  REQUIRE(lowered.has_value());
  CHECK(compile_host(*lowered, target).has_value());

  auto refused = lower::check_limits(nest_of(33), target);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == ir::RejectReason::kTooMuchLocal);
  CHECK_FALSE(lower::lower(nest_of(33), target, ir::Stage::kLowered, arena));
}

}  // namespace tcc::codegen
