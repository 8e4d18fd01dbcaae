#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "nest.h"
#include "tcc/support/files.h"

namespace tcc::codegen {
namespace {

using ir::LoopKind;
using ir::Type;

Aligned<float> ramp(int64_t n) {
  Aligned<float> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 37) % 101) - 50;
  return x;
}

// n floats in front of a page that nobody may touch.
class Guarded {
 public:
  explicit Guarded(int64_t n) : x_page(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    REQUIRE(n * sizeof(float) <= x_page);
    void* memory = mmap(nullptr, 2 * x_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    x_base = static_cast<char*>(memory);
    REQUIRE(mprotect(x_base + x_page, x_page, PROT_NONE) == 0);
    x_data = reinterpret_cast<float*>(x_base + x_page) - n;
  }
  ~Guarded() { munmap(x_base, 2 * x_page); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  float* data() { return x_data; }
  float& operator[](int64_t i) { return x_data[i]; }

 private:
  size_t x_page;
  char* x_base = nullptr;
  float* x_data = nullptr;
};

}  // namespace

TEST_CASE("elementwise over fused and split indices", "[codegen]") {
  // y[i, j] = x[i, j] + bias[j] with one loop over i * 28 + j, vectorized: rows are crossed inside vectors.
  int64_t rows = 9, columns = 28, n = rows * columns;
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {rows, columns}), *bias = t.input("bias", Type::kF32, {columns}),
                   *y = t.output("y", Type::kF32, {rows, columns});
  ir::Stmt root = t.loop((n + 15) / 16, LoopKind::kParallel, [&](ir::Expr o) {
    return t.loop(16, LoopKind::kVectorized, [&](ir::Expr v) {
      ir::Expr f = t.at(o, 16, v), i = t.b().floor_div(f, t.i(columns)), j = t.b().floor_mod(f, t.i(columns)),
               p = t.b().lt(f, t.i(n));
      std::vector<ir::Expr> at{i, j}, column{j};
      ir::Expr a = t.b().load(*x, at, p, t.b().real(0)), c = t.b().load(*bias, column, p, t.b().real(0));
      return t.store(y, {i, j}, t.b().add(a, c), p);
    });
  });
  ir::Kernel kernel = t.lowered(root);
  for (const target::Target& target : runnable_targets()) {
    HostOptions options;
    options.want_ir = true;
    Compiled code = compile(kernel, target, options);
    // x and y are contiguous again after flattening; only the bias needs a gather.
    CHECK(code.artifact.source.find("call void @llvm.masked.scatter") == std::string::npos);
    Aligned<float> a = ramp(n), b = ramp(columns), out(n + 8, 5);
    code.run({a.data(), b.data(), out.data()}, 4);
    for (int64_t i = 0; i < n; ++i) REQUIRE(out[i] == a[i] + b[i % columns]);
    for (int64_t i = n; i < n + 8; ++i) REQUIRE(out[i] == 5);
  }
}

TEST_CASE("max pooling with stride, padding and its own scratch per lane", "[codegen]") {
  int64_t h = 15, oh = 8;
  for (bool lanes : {false, true}) {
    Nest t;
    const ir::Buffer *x = t.input("x", Type::kF32, {h, h}), *y = t.output("y", Type::kF32, {oh, oh});
    const ir::Buffer* best = t.buffer("best", Type::kF32, {1}, ir::BufferRole::kTemp);
    ir::Stmt root = t.loop(oh, LoopKind::kParallel, [&](ir::Expr i) {
      return t.loop(oh, lanes ? LoopKind::kVectorized : LoopKind::kSerial, [&](ir::Expr j) {
        ir::Stmt update = t.loop(3, LoopKind::kUnrolled, [&](ir::Expr r) {
          return t.loop(3, LoopKind::kSerial, [&](ir::Expr s) {
            ir::Builder& b = t.b();
            ir::Expr row = b.offset(t.at(i, 2, r), -1), column = b.offset(t.at(j, 2, s), -1);
            ir::Expr inside = b.logical_and(b.logical_and(b.le(t.i(0), row), b.lt(row, t.i(h))),
                                            b.logical_and(b.le(t.i(0), column), b.lt(column, t.i(h))));
            std::vector<ir::Expr> index{row, column};
            return t.store(best, {t.i(0)}, b.max(t.load(best, {t.i(0)}), b.load(*x, index, inside, b.real(-1e30))));
          });
        });
        return t.alloc({best}, t.seq({t.store(best, {t.i(0)}, t.b().real(-1e30)), update,
                                      t.store(y, {i, j}, t.load(best, {t.i(0)}))}));
      });
    });
    ir::Kernel kernel = t.lowered(root);
    for (const target::Target& target : runnable_targets()) {
      Aligned<float> a = ramp(h * h), out(oh * oh);
      compile(kernel, target).run({a.data(), out.data()}, 2);
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < oh; ++j) {
          float want = -1e30f;
          for (int64_t r = std::max<int64_t>(0, 2 * i - 1); r <= std::min(h - 1, 2 * i + 1); ++r)
            for (int64_t s = std::max<int64_t>(0, 2 * j - 1); s <= std::min(h - 1, 2 * j + 1); ++s)
              want = std::max(want, a[r * h + s]);
          REQUIRE(out[i * oh + j] == want);
        }
    }
  }
}

TEST_CASE("strided, piecewise, broadcast and scattered lanes of odd extents", "[codegen]") {
  for (int64_t n : {2, 3, 5, 7, 8, 13, 16, 24, 31, 33, 64, 100})
    for (const target::Target& target : runnable_targets()) {
      INFO(target.name << " " << n);
      Nest t;
      const ir::Buffer *x = t.input("x", Type::kF32, {5, 3 * n + 1}), *y = t.output("y", Type::kF32, {4, 3 * n + 1});
      const ir::Buffer* blocked = t.input("z", Type::kF32, {n, 8, 8});
      ir::Builder& b = t.b();
      ir::Stmt root = t.loop(n, LoopKind::kVectorized, [&](ir::Expr v) {
        ir::Expr two = t.load(x, {t.i(0), b.scale(v, 2)}), three = t.load(x, {t.i(1), b.offset(b.scale(v, 3), 1)});
        ir::Expr reversed = t.load(x, {t.i(2), b.sub(t.i(n - 1), v)}), same = t.load(x, {t.i(3), t.i(1)});
        ir::Expr halves = t.load(x, {t.i(4), b.floor_div(v, t.i(2))});
        ir::Expr pieces = t.load(blocked, {b.floor_div(v, t.i(8)), t.i(3), b.floor_mod(v, t.i(8))});
        return t.seq({t.store(y, {t.i(0), v}, b.add(two, three)),
                      t.store(y, {t.i(1), b.scale(v, 3)}, b.add(reversed, same)),
                      t.store(y, {t.i(2), b.sub(t.i(n), v)}, halves),
                      t.store(y, {t.i(3), v}, b.mul(pieces, b.cast(v, Type::kF32)))});
      });
      Aligned<float> a = ramp(5 * (3 * n + 1)), z = ramp(n * 64), out(4 * (3 * n + 1), -1);
      compile(t.lowered(root), target).run({a.data(), out.data(), z.data()});
      int64_t w = 3 * n + 1;
      for (int64_t v = 0; v < n; ++v) {
        REQUIRE(out[v] == a[2 * v] + a[w + 3 * v + 1]);
        REQUIRE(out[w + 3 * v] == a[2 * w + n - 1 - v] + a[3 * w + 1]);
        REQUIRE(out[2 * w + n - v] == a[4 * w + v / 2]);
        REQUIRE(out[3 * w + v] == z[v / 8 * 64 + 24 + v % 8] * static_cast<float>(v));
      }
      REQUIRE(out[n] == -1);
      REQUIRE(out[w + 3 * n] == -1);
    }
}

TEST_CASE("masked accesses of several registers touch only lanes that are on", "[codegen]") {
  // Rows under more lanes than they have elements: registers that are off belong to positions behind the data. Lanes
  // are off by a constant, by a constant in rows that the data leave on, or by a number that depends on the row.
  constexpr int64_t kRows = 4;
  enum class Off { kConstant, kRowToo, kByRow };
  for (int64_t width : {1, 4, 7, 8, 9, 12, 16, 17, 24})
    for (int64_t lanes : {16, 32})
      for (Off off : {Off::kConstant, Off::kRowToo, Off::kByRow})
        for (const target::Target& target : runnable_targets()) {
          if (width > lanes) continue;
          INFO(target.name << " " << width << " of " << lanes << ", form " << static_cast<int>(off));
          Nest t;
          const ir::Buffer *x = t.input("x", Type::kF32, {kRows, width}),
                           *y = t.output("y", Type::kF32, {kRows, width});
          const ir::Buffer* flags = t.input("flags", Type::kI32, {kRows});
          // All lanes of a row, so that no load is left out as dead.
          const ir::Buffer* z = t.output("z", Type::kF32, {kRows, lanes});
          ir::Builder& b = t.b();
          ir::Stmt root = t.loop(kRows, LoopKind::kSerial, [&](ir::Expr r) {
            return t.loop(lanes, LoopKind::kVectorized, [&](ir::Expr v) {
              ir::Expr bound = off == Off::kByRow ? b.sub(t.i(width), b.min(r, t.i(1))) : t.i(width),
                       on = b.lt(v, bound);
              if (off == Off::kRowToo) on = b.logical_and(b.lt(b.integer(0, Type::kI32), t.load(flags, {r})), on);
              std::vector<ir::Expr> at{r, v};
              ir::Expr value = b.load(*x, at, on, b.real(0));
              return t.seq({t.store(y, {r, v}, b.add(value, b.real(1)), on), t.store(z, {r, v}, value)});
            });
          });
          Guarded in(kRows * width), out(kRows * width);
          for (int64_t i = 0; i < kRows * width; ++i) in[i] = static_cast<float>(i), out[i] = -7;
          Aligned<float> all(kRows * lanes, 9);
          Aligned<int32_t> on_rows = {0, 1, 0, 1};
          compile(t.lowered(root), target).run({in.data(), out.data(), on_rows.data(), all.data()});
          for (int64_t r = 0; r < kRows; ++r)
            for (int64_t v = 0; v < lanes; ++v) {
              bool on = off == Off::kConstant || (off == Off::kRowToo ? on_rows[r] > 0 : r == 0 || v + 1 < width);
              on = on && v < width;
              REQUIRE(all[r * lanes + v] == (on ? in[r * width + v] : 0));
              if (v < width) REQUIRE(out[r * width + v] == (on ? in[r * width + v] + 1 : -7));
            }
        }
}

TEST_CASE("loops and conditions that differ by lane", "[codegen]") {
  // y[v] = sum of x[v, 0..v], and only where 3 does not divide v; a row loop inside the vector loop.
  int64_t n = 13;
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *x = t.input("x", Type::kF32, {n, n}), *y = t.output("y", Type::kF32, {n});
  const ir::Buffer* sum = t.buffer("sum", Type::kF32, {2}, ir::BufferRole::kTemp);
  ir::Stmt root = t.loop(n, LoopKind::kVectorized, [&](ir::Expr v) {
    ir::Stmt add = t.loop(b.offset(v, 1), LoopKind::kSerial, [&](ir::Expr k) {
      return t.store(sum, {t.i(1)}, b.add(t.load(sum, {t.i(1)}), t.load(x, {v, k})));
    });
    ir::Stmt write = b.if_then(b.ne(b.floor_mod(v, t.i(3)), t.i(0)), t.store(y, {v}, t.load(sum, {t.i(1)})),
                               t.store(y, {v}, b.real(0.5)));
    return t.alloc({sum}, t.seq({t.store(sum, {t.i(1)}, b.real(0)), add, write}));
  });
  ir::Kernel kernel = t.lowered(root);
  for (const target::Target& target : runnable_targets()) {
    Aligned<float> a = ramp(n * n), out(n);
    compile(kernel, target).run({a.data(), out.data()});
    for (int64_t v = 0; v < n; ++v) {
      float want = 0;
      for (int64_t k = 0; k <= v; ++k) want += a[v * n + k];
      CHECK(out[v] == (v % 3 != 0 ? want : 0.5f));
    }
  }
}

TEST_CASE("select reads one side only", "[codegen]") {
  int64_t n = 8;
  for (LoopKind kind : {LoopKind::kSerial, LoopKind::kVectorized}) {
    Nest t;
    ir::Builder& b = t.b();
    const ir::Buffer *x = t.input("x", Type::kF32, {n}), *y = t.output("y", Type::kF32, {n});
    ir::Stmt root = t.loop(n, kind, [&](ir::Expr v) {
      ir::Expr far = t.load(x, {b.scale(v, int64_t{1} << 40)});
      return t.store(y, {v}, b.select(b.lt(v, t.i(1)), b.add(far, b.real(1)), b.mul(t.load(x, {v}), b.real(2))));
    });
    Aligned<float> a = ramp(n), out(n);
    compile(t.lowered(root)).run({a.data(), out.data()});
    for (int64_t v = 0; v < n; ++v) CHECK(out[v] == (v < 1 ? a[0] + 1 : a[v] * 2));
  }
}

TEST_CASE("a bias that one side of a select adds costs no branch", "[codegen]") {
  int64_t rows = 4, n = 24;
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *x = t.input("x", Type::kF32, {rows, n}), *bias = t.input("bias", Type::kF32, {rows}),
                   *y = t.output("y", Type::kF32, {rows, n});
  ir::Stmt root = t.loop(rows, LoopKind::kSerial, [&](ir::Expr i) {
    return t.loop(n, LoopKind::kVectorized, [&](ir::Expr j) {
      ir::Expr sum = b.add(t.load(x, {i, j}), t.load(bias, {i}));
      return t.store(y, {i, j}, b.select(b.lt(sum, b.real(0)), b.real(0), sum));
    });
  });
  HostOptions options;
  options.want_ir = true;
  Compiled code = compile(t.lowered(root), host(), options);
  CHECK(code.artifact.source.find("vector.reduce.or") == std::string::npos);
  Aligned<float> a = ramp(rows * n), c = ramp(rows), out(rows * n);
  code.run({a.data(), c.data(), out.data()});
  for (int64_t i = 0; i < rows * n; ++i) CHECK(out[i] == std::max(0.f, a[i] + c[i / n]));
}

TEST_CASE("a side of a select reads without a mask what the condition reads in any case", "[codegen]") {
  // The last of three runs of 16 would end behind x; a condition of the loop, not of its lanes, leaves it out.
  constexpr int64_t n = 36, lanes = 16;
  for (const bool same : {true, false}) {
    Nest t;
    ir::Builder& b = t.b();
    const ir::Buffer *x = t.input("x", Type::kF32, {n}), *z = t.input("z", Type::kF32, {n}),
                     *y = t.output("y", Type::kF32, {n});
    ir::Stmt root = t.loop(3, LoopKind::kSerial, [&](ir::Expr i) {
      const auto at = [&](ir::Expr v) { return b.add(b.scale(i, lanes), v); };
      ir::Stmt run = t.loop(lanes, LoopKind::kVectorized, [&](ir::Expr v) {
        ir::Expr value = t.load(x, {at(v)}), other = same ? value : t.load(z, {at(v)});
        return t.store(y, {at(v)}, b.select(b.lt(value, b.real(4)), b.real(0), b.mul(other, b.real(2))));
      });
      return b.if_then(b.lt(b.scale(i, lanes), t.i(n - lanes)), run);
    });
    HostOptions options;
    options.want_ir = true;
    Compiled code = compile(t.lowered(root), host(), options);
    CHECK((code.artifact.source.find("@llvm.masked.load") == std::string::npos) == same);
    Aligned<float> a = ramp(n), c = ramp(n), out(n);
    code.run({a.data(), c.data(), out.data()});
    for (int64_t i = 0; i < 2 * lanes; ++i) CHECK(out[i] == (a[i] < 4 ? 0.f : 2 * a[i]));
  }
}

TEST_CASE("strided lanes at an edge need no gather", "[codegen]") {
  // y[o, i] = x[o, 2 i - 1], and -1 left of it; only what is inside of x is read.
  int64_t rows = 3, n = 8;
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *x = t.input("x", Type::kF32, {rows, 2 * n}), *y = t.output("y", Type::kF32, {rows, n});
  ir::Stmt root = t.loop(rows, LoopKind::kSerial, [&](ir::Expr o) {
    return t.loop(n, LoopKind::kVectorized, [&](ir::Expr i) {
      ir::Expr at = b.offset(b.scale(i, 2), -1);
      std::vector<ir::Expr> place{o, at};
      return t.store(y, {o, i}, b.load(*x, place, b.lt(b.integer(-1), at), b.real(-1)));
    });
  });
  ir::Kernel kernel = t.lowered(root);
  for (const target::Target& target : runnable_targets()) {
    HostOptions options;
    options.want_ir = true;
    Compiled code = compile(kernel, target, options);
    if (target.cpu.vector_bits == 256) CHECK(code.artifact.source.find("masked.gather") == std::string::npos);
    Aligned<float> a = ramp(rows * 2 * n), out(rows * n);
    code.run({a.data(), out.data()});
    for (int64_t o = 0; o < rows; ++o)
      for (int64_t i = 0; i < n; ++i) CHECK(out[o * n + i] == (i == 0 ? -1 : a[o * 2 * n + 2 * i - 1]));
  }
}

TEST_CASE("what is loaded stays in registers past any number of stores", "[codegen]") {
  // Rows of y are factors times one row of x, all written out.
  constexpr int64_t kRows = 700, kLanes = 8;
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {kLanes}), *y = t.output("y", Type::kF32, {kRows, kLanes});
  const ir::Stmt root = t.loop(kLanes, LoopKind::kVectorized, [&](ir::Expr v) {
    std::vector<ir::Stmt> stores;
    for (int64_t r = 0; r < kRows; ++r)
      stores.push_back(t.store(y, {t.i(r), v}, t.b().mul(t.load(x, {v}), t.b().real(static_cast<double>(r)))));
    return t.seq(stores);
  });
  for (const target::Target& target : runnable_targets()) {
    HostOptions options;
    options.want_ir = true;
    Compiled code = compile(t.lowered(root), target, options);
    int64_t loads = 0;
    for (size_t at = 0; (at = code.artifact.source.find(" = load <", at)) != std::string::npos; ++at) ++loads;
    CHECK(loads <= 20);  // MemorySSA looks past 100 stores
    Aligned<float> a = ramp(kLanes), out(kRows * kLanes);
    code.run({a.data(), out.data()});
    for (int64_t i = 0; i < kRows * kLanes; ++i)
      REQUIRE(out[static_cast<size_t>(i)] == static_cast<float>(i / kLanes) * a[static_cast<size_t>(i % kLanes)]);
  }
}

TEST_CASE("rows that are woven into one another are read in windows, up to the last element", "[codegen]") {
  // y[i, s] = x[s, i] for a few rows s, all in one vector; the input ends in front of a page that nobody may touch.
  for (int64_t rows : {2, 3, 4})
    for (int64_t n : {3, 8, 16, 29})
      for (const target::Target& target : runnable_targets()) {
        INFO(target.name << ": " << rows << " rows of " << n);
        Nest t;
        const ir::Buffer *x = t.input("x", Type::kF32, {rows, n}), *y = t.output("y", Type::kF32, {n, rows});
        ir::Stmt root = t.loop(rows * n, LoopKind::kVectorized, [&](ir::Expr v) {
          ir::Expr i = t.b().floor_div(v, t.i(rows)), s = t.b().floor_mod(v, t.i(rows));
          return t.store(y, {i, s}, t.b().mul(t.load(x, {s, i}), t.b().real(2)));
        });
        HostOptions options;
        options.want_ir = true;
        Compiled code = compile(t.lowered(root), target, options);
        if (target.cpu.vector_bits == 512 && rows < 4)
          CHECK(code.artifact.source.find("masked.gather") == std::string::npos);
        Guarded a(rows * n), out(rows * n);
        for (int64_t i = 0; i < rows * n; ++i) a[i] = static_cast<float>(i % 23) + 1, out[i] = -1;
        code.run({a.data(), out.data()});
        for (int64_t i = 0; i < n; ++i)
          for (int64_t s = 0; s < rows; ++s) REQUIRE(out[i * rows + s] == 2 * a[s * n + i]);
      }
}

TEST_CASE("two launches share a workspace", "[codegen]") {
  int64_t n = 100;
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {n}), *y = t.output("y", Type::kF32, {n}),
                   *w = t.workspace("w", Type::kF32, {n});
  ir::Stmt first = t.loop(n, LoopKind::kParallel,
                          [&](ir::Expr i) { return t.store(w, {i}, t.b().mul(t.load(x, {i}), t.b().real(3))); });
  ir::Stmt second =
      t.loop(n, LoopKind::kSerial, [&](ir::Expr i) { return t.store(y, {i}, t.load(w, {t.b().sub(t.i(n - 1), i)})); });
  HostOptions options;
  options.prefix = "pair";
  Compiled code = compile(t.lowered(t.alloc({w}, t.seq({first, second}))), host(), options);
  REQUIRE(code.artifact.launches.size() == 2);
  CHECK(code.artifact.launches[0].symbol == "tcc_pair_0");
  CHECK(code.artifact.launches[0].extent == n);
  CHECK(code.artifact.launches[1].extent == 1);
  REQUIRE(code.artifact.buffers.size() == 3);
  CHECK(code.artifact.buffers[2].role == ir::BufferRole::kTemp);
  CHECK(code.artifact.buffers[2].bytes == n * 4);
  CHECK(code.artifact.buffers[2].alignment == 64);
  Aligned<float> a = ramp(n), scratch(n), out(n);
  code.run({a.data(), out.data(), scratch.data()}, 3);
  for (int64_t i = 0; i < n; ++i) CHECK(out[i] == a[n - 1 - i] * 3);
}

TEST_CASE("a packed layout is addressed by its digits", "[codegen]") {
  // x is NCHW-like [20, 6] in blocks of 16 rows: element (c, p) at c / 16 * 96 + p * 16 + c % 16. The buffer may have
  // the rows of the last block that hold no data, as packing for whole tiles leaves it.
  const int64_t rows = GENERATE(20, 32);
  Nest t;
  ir::Builder& b = t.b();
  std::vector<int64_t> shape{20, 6};
  std::vector<int32_t> order{0, 1};
  std::vector<std::pair<int32_t, int64_t>> tiles{{0, 16}};
  ir::Buffer fields = *t.buffer("x", Type::kF32, {rows, 6}, ir::BufferRole::kWeight);
  const ir::Buffer* y = t.output("y", Type::kF32, {6, 20});
  fields.layout = ir::make_blocked(b.arena(), shape, order, tiles);
  ir::Kernel kernel = t.lowered(t.loop(6, LoopKind::kSerial, [&](ir::Expr p) {
    return t.loop(20, LoopKind::kVectorized, [&](ir::Expr c) { return t.store(y, {p, c}, t.load(&fields, {c, p})); });
  }));
  std::vector<const ir::Buffer*> buffers(kernel.buffers.begin(), kernel.buffers.end());
  buffers[0] = b.buffer(fields);
  kernel.buffers = b.arena().copy(buffers);
  for (const target::Target& target : runnable_targets()) {
    Compiled code = compile(kernel, target);
    CHECK(code.artifact.buffers[0].bytes == 32 * 6 * 4);
    CHECK(code.artifact.buffers[0].shape == shape);
    Aligned<float> a = ramp(32 * 6), out(120);
    code.run({a.data(), out.data()});
    for (int64_t p = 0; p < 6; ++p)
      for (int64_t c = 0; c < 20; ++c) REQUIRE(out[p * 20 + c] == a[c / 16 * 96 + p * 16 + c % 16]);
  }
}

TEST_CASE("objects link on disk", "[codegen]") {
  if (std::system("ld --version > /dev/null 2>&1") != 0) SKIP("no linker named ld");
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {40}), *y = t.output("y", Type::kF32, {40});
  Compiled code = compile(t.lowered(t.loop(40, LoopKind::kVectorized, [&](ir::Expr i) {
    return t.store(y, {i}, t.call(ir::Intrinsic::kExp, {t.load(x, {i})}));
  })));
  auto folder = TemporaryDirectory::create("tcc-codegen");
  REQUIRE(folder);
  std::string object = (*folder)->path() + "/k.o";
  REQUIRE(write_file(object, code.artifact.code));
  std::string command = "ld -shared --no-undefined -o " + object + ".so " + object + " > " + object + ".log 2>&1";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("what host code cannot do is an error", "[codegen]") {
  Nest t;
  const ir::Buffer* y = t.output("y", Type::kF32, {4});
  ir::Kernel kernel =
      t.lowered(t.loop(t.b().var(0), LoopKind::kSerial, [&](ir::Expr i) { return t.store(y, {i}, t.b().real(0)); }));
  auto artifact = compile_host(kernel, host());
  REQUIRE_FALSE(artifact);
  CHECK(artifact.error().message.find("no value") != std::string::npos);
  Artifact bad;
  bad.code = "not an object";
  CHECK_FALSE(load_host(bad));
}

}  // namespace tcc::codegen
