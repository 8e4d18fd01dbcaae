#include <algorithm>

#include "nest.h"
#include "tcc/ir/walk.h"

namespace tcc::codegen {
namespace {

using ir::AnnotationKey;
using ir::LoopKind;
using ir::Type;

ir::Stmt annotated(Nest& t, ir::Stmt loop, AnnotationKey key, int64_t value) {
  const ir::Loop* l = ir::as<ir::Loop>(loop);
  REQUIRE(l != nullptr);
  std::vector<ir::Annotation> annotations{{key, t.b().integer(value)}};
  return t.b().loop(l->id, l->extent, l->body, l->loop_kind, l->axis, annotations);
}

int64_t count(const std::string& text, const std::string& piece) {
  int64_t n = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

// y[i, :] = x[i, :] * 2 over rows of `columns`, 32 lanes at a time; the row loop carries the annotation.
struct Doubling {
  Nest t;
  ir::Kernel kernel;
  int64_t rows, columns;

  Doubling(int64_t rows, int64_t columns, AnnotationKey key, int64_t value, bool adds = false)
      : rows(rows), columns(columns) {
    const ir::Buffer *x = t.input("x", Type::kF32, {rows, columns}), *y = t.output("y", Type::kF32, {rows, columns});
    ir::Stmt root = t.loop(rows, LoopKind::kParallel, [&](ir::Expr i) {
      ir::Stmt row = t.loop(columns / 32, LoopKind::kSerial, [&](ir::Expr o) {
        return t.loop(32, LoopKind::kVectorized, [&](ir::Expr v) {
          ir::Expr j = t.at(o, 32, v), value = t.b().mul(t.load(x, {i, j}), t.b().real(2));
          return t.store(y, {i, j}, adds ? t.b().add(t.load(y, {i, j}), value) : value);
        });
      });
      return annotated(t, row, key, value);
    });
    kernel = t.lowered(root);
  }
};

std::string assembly(const ir::Kernel& kernel, const target::Target& target) {
  HostOptions options;
  options.want_assembly = true;
  auto artifact = compile_host(after_pass(kernel, target, "plan_hints"), target, options);
  REQUIRE(artifact);
  return artifact->source;
}

}  // namespace

TEST_CASE("vectorized loops that stay scalar code are counted", "[codegen]") {
  for (const bool one_place : {false, true}) {
    Nest t;
    const ir::Buffer *x = t.input("x", Type::kF32, {4, 16}), *y = t.output("y", Type::kF32, {4, 16});
    ir::Kernel kernel = t.lowered(t.loop(4, LoopKind::kSerial, [&](ir::Expr i) {
      return t.loop(16, LoopKind::kVectorized,
                    [&](ir::Expr j) { return t.store(y, {i, one_place ? t.b().integer(0) : j}, t.load(x, {i, j})); });
    }));
    auto artifact = compile_host(kernel, *target::find_target("x86-64-v3"));
    REQUIRE(artifact);
    CHECK(artifact->facts.at("scalar_vector_loops") == (one_place ? 1 : 0));
    CHECK(artifact->facts.contains("local_bytes"));
  }
}

TEST_CASE("non-temporal stores, whatever the caller's alignment", "[codegen]") {
  Doubling d(6, 96, AnnotationKey::kNonTemporal, 1);
  for (const target::Target& target : runnable_targets()) {
    INFO(target.name);
    std::string text = assembly(d.kernel, target);
    CHECK(count(text, "movntps") > 0);
    CHECK(count(text, "sfence") == 1);
    Compiled code = compile(after_pass(d.kernel, target, "plan_hints"), target);
    for (int64_t shift : {0, 1, 4, 8}) {
      Aligned<float> x(600), y(600, -1);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      code.run({x.data() + shift, y.data() + shift}, 2);
      for (int64_t i = 0; i < 600; ++i) {
        bool inside = i >= shift && i < shift + 6 * 96;
        REQUIRE(y[i] == (inside ? static_cast<float>(2 * i) : -1));
      }
    }
  }
}

TEST_CASE("stores go through the caches where that is asked for or must be", "[codegen]") {
  target::Target v3 = *target::find_target("x86-64-v3");
  // Switched off; the buffer is read back in the loop; rows that start in the middle of a vector.
  for (const Doubling& d :
       {Doubling(4, 64, AnnotationKey::kNonTemporal, 0), Doubling(4, 64, AnnotationKey::kNonTemporal, 1, true),
        Doubling(4, 64, AnnotationKey::kUnrollMax, 1)}) {
    std::string text = assembly(d.kernel, v3);
    CHECK(count(text, "movnt") == 0);
    CHECK(count(text, "sfence") == 0);
  }
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {5, 67}), *y = t.output("y", Type::kF32, {5, 67});
  ir::Stmt root = t.loop(5, LoopKind::kSerial, [&](ir::Expr i) {
    return t.loop(64, LoopKind::kVectorized, [&](ir::Expr v) { return t.store(y, {i, v}, t.load(x, {i, v})); });
  });
  CHECK(count(assembly(t.lowered(annotated(t, root, AnnotationKey::kNonTemporal, 1)), v3), "movnt") == 0);
}

TEST_CASE("weights are asked for where a network has driven them out of the caches", "[codegen]") {
  // 64 rows of 256 bytes: four lines, 12 KB ahead.
  for (int64_t rows : {64, 1024}) {
    Nest t;
    const ir::Buffer *x = t.input("x", Type::kF32, {rows}), *y = t.output("y", Type::kF32, {rows, 64});
    const ir::Buffer* w = t.buffer("w", Type::kF32, {rows, 64}, ir::BufferRole::kWeight);
    ir::Kernel kernel = t.lowered(t.loop(rows, LoopKind::kSerial, [&](ir::Expr i) {
      return t.loop(64, LoopKind::kVectorized,
                    [&](ir::Expr v) { return t.store(y, {i, v}, t.b().mul(t.load(x, {i}), t.load(w, {i, v}))); });
    }));
    HostOptions options;
    options.want_ir = true;
    Compiled code = compile(after_pass(kernel, host(), "plan_hints"), host(), options);
    CHECK(count(code.artifact.source, "call void @llvm.prefetch") == (rows == 64 ? 0 : 4));
    const auto n = static_cast<size_t>(rows);
    Aligned<float> a(n, 3), b(n * 64, 2), out(n * 64);
    code.run({a.data(), out.data(), b.data()});
    CHECK(std::all_of(out.begin(), out.end(), [](float f) { return f == 6; }));
  }
}

TEST_CASE("prefetches of the lines of a later iteration", "[codegen]") {
  // A row of 96 floats is six lines, read and written: twelve a row. Two rows ahead.
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {8, 96}), *y = t.output("y", Type::kF32, {8, 96});
  const ir::Buffer* scale = t.input("scale", Type::kF32, {96});
  ir::Stmt rows = t.loop(8, LoopKind::kSerial, [&](ir::Expr i) {
    return t.loop(3, LoopKind::kSerial, [&](ir::Expr o) {
      return t.loop(32, LoopKind::kVectorized, [&](ir::Expr v) {
        ir::Expr j = t.at(o, 32, v);
        return t.store(y, {i, j}, t.b().mul(t.load(x, {i, j}), t.load(scale, {j})));
      });
    });
  });
  for (int64_t distance : {0, 2}) {
    ir::Kernel kernel = t.lowered(annotated(t, rows, AnnotationKey::kPrefetch, distance));
    HostOptions options;
    options.want_ir = true;
    Compiled code = compile(after_pass(kernel, host(), "plan_hints"), host(), options);
    // What stays where it is, the scale, is not asked for.
    CHECK(count(code.artifact.source, "call void @llvm.prefetch") == (distance == 0 ? 0 : 12));
    if (distance != 0) {
      CHECK(count(code.artifact.source, "i32 1, i32 3, i32 1)") == 6);
      CHECK(count(assembly(kernel, host()), "prefetch") >= 12);
    }
    Aligned<float> a(8 * 96, 3), s(96, 2), out(8 * 96);
    code.run({a.data(), out.data(), s.data()});
    CHECK(std::all_of(out.begin(), out.end(), [](float f) { return f == 6; }));
  }
}

}  // namespace tcc::codegen
