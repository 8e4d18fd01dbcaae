// Each rule of the verifier has a kernel that breaks it and is otherwise sound.
#include <catch2/catch.hpp>

#include "tcc/ir/build.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

std::vector<std::string> findings(const std::string& text) {
  auto k = parse(text, "v.tir");
  INFO(text);
  if (!k) FAIL(k.error().message);
  return verify(*k);
}

void check_clean(const std::string& text) {
  for (const std::string& f : findings(text)) FAIL_CHECK(f);
}

// Exactly one finding, which contains `what`.
void check_finds(const std::string& text, const std::string& what) {
  auto found = findings(text);
  INFO(text);
  for (const std::string& f : found) UNSCOPED_INFO(f);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find(what) != std::string::npos);
}

std::string in(const std::string& stage, const std::string& body) {
  return "kernel " + stage +
         " { input A: f32[64] output C: f32[64] temp S: f32[64] shared temp R: f32[4] local temp W: f32[64] "
         "workspace " +
         body + " }";
}

}  // namespace

TEST_CASE("sound kernels have no findings", "[verify]") {
  check_clean(in("scheduled",
                 "for i in 64 parallel { for k in 4 { block b(v: spatial 64 = i, r: reduce 4 = k) reduce(sum) "
                 "{ init { C[v] = 0.0 } C[v] = C[v] + A[v] } } }"));
  check_clean(in("lowered",
                 "for g in 2 bound(grid.x) { alloc S { for t in 64 bound(thread.x) { S[t] = A[t]; instr bar.sync(; 0, "
                 "64); C[t] = S[63 - t] } } }"));
}

TEST_CASE("the verifier finds", "[verify]") {
  SECTION("extents that index arithmetic cannot hold") {
    check_finds(in("nest", "for i in 1000000000000000 { C[0] = 1.0 }"), "an extent beyond 2^48");
    check_finds(in("built", "for i in 64 { block b(v: spatial 1000000000000000 = i) { C[0] = 1.0 } }"),
                "iterator 'v' has an extent beyond 2^48");
  }
  SECTION("written inputs") {
    check_finds(in("nest", "A[0] = 1.0"), "writes the input 'A'");
  }
  SECTION("blocks after Nest") {
    check_finds(in("nest", "block b() { C[0] = 1.0 }"), "a block at stage nest");
  }
  SECTION("init without reduction") {
    check_finds(in("built", "for i in 64 { block b(v: spatial 64 = i) { init { C[v] = 0.0 } C[v] = 1.0 } }"),
                "an init without reduce iterators");
  }
  SECTION("a reducer without reduction") {
    check_finds(in("built", "for i in 64 { block b(v: spatial 64 = i) reduce(sum) { C[v] = 1.0 } }"),
                "a reducer without");
  }
  SECTION("reduce iterators in init") {
    check_finds(in("built", "for i in 64 { block b(v: reduce 64 = i) reduce(sum) { init { C[v] = 0.0 } C[v] = 1.0 } }"),
                "variable 'v' is not bound here");
  }
  SECTION("parallel reductions") {
    check_finds(
        in("scheduled", "for i in 64 parallel { block b(v: reduce 64 = i) reduce(sum) { C[0] = C[0] + A[v] } }"),
        "the parallel loop 'i' feeds the reduce iterator 'v'");
    check_finds(in("scheduled", "for i in 64 vectorized { block b(v: carried 64 = i) { C[0] = C[0] + A[v] } }"),
                "the vectorized loop 'i' feeds the carried iterator 'v'");
    check_finds(in("scheduled", "for i in 64 bound(grid.x) { block b(v: reduce 64 = i) { C[0] = C[0] + A[v] } }"),
                "the grid.x loop 'i' feeds the reduce iterator 'v'");
    check_clean(in("scheduled", "for i in 64 bound(thread.x) { block b(v: reduce 64 = i) { C[0] = C[0] + A[v] } }"));
  }
  SECTION("loop variables inside blocks") {
    check_finds(in("built", "for i in 64 { block b(v: spatial 64 = i) { C[v] = A[i] } }"),
                "the loop variable 'i' is used inside a block");
  }
  SECTION("grid axes that are not outermost") {
    check_finds(in("nest", "for i in 2 { for g in 2 bound(grid.x) { C[i*2 + g] = 1.0 } }"),
                "a grid.x loop must be outermost");
  }
  SECTION("axes bound twice") {
    check_finds(in("nest", "for i in 2 bound(thread.x) { for g in 2 bound(thread.x) { C[i*2 + g] = 1.0 } }"),
                "thread.x is bound twice");
  }
  SECTION("thread extents that disagree") {
    check_finds(in("nest",
                   "for g in 2 bound(grid.x) { for i in 2 bound(thread.x) { C[i] = 1.0 } for j in 4 bound(thread.x) { "
                   "C[j] = 1.0 } }"),
                "thread.x has the extent 2 elsewhere in this launch");
    check_clean(in("nest", "for i in 2 bound(thread.x) { C[i] = 1.0 } for j in 4 bound(thread.x) { C[j] = 1.0 }"));
  }
  SECTION("two spellings of threads") {
    check_finds(in("nest", "for i in 2 bound(warp) { for j in 4 bound(thread.x) { C[i*2 + j] = 1.0 } }"),
                "two spellings");
  }
  SECTION("use outside of alloc") {
    check_finds(in("nest", "alloc S { S[0] = 1.0 } C[0] = S[0]"), "uses 'S' outside of its alloc");
    check_clean(in("nest", "W[0] = 1.0; C[0] = W[0]"));
  }
  SECTION("alloc before nest") {
    check_finds(in("scheduled", "alloc S { C[0] = 1.0 }"), "an alloc before stage nest");
  }
  SECTION("alloc of parameters") {
    check_finds(in("nest", "alloc C { C[0] = 1.0 }"), "only temporaries");
  }
  SECTION("nested alloc of one buffer") {
    check_finds(in("nest", "alloc S { alloc S { S[0] = 1.0 } }"), "allocated inside of its alloc");
  }
  SECTION("roles that overlap") {
    check_finds(in("lowered",
                   "for t in 64 bound(thread.x) { roles { role warps 2 from 0 { C[t] = 1.0 } role warps 1 from 1 { "
                   "C[t] = 2.0 } } }"),
                "two roles share a warp");
  }
  SECTION("odd register counts") {
    check_finds(
        in("lowered", "for t in 64 bound(thread.x) { roles { role warps 2 from 0 registers 100 { C[t] = 1.0 } } }"),
        "multiple of 8");
  }
  SECTION("operands of instructions") {
    check_finds(in("lowered", "for t in 32 bound(thread.x) { instr atomic.add.f32(C[t], A[t]) }"),
                "operand S is in global instead of local");
    check_finds(in("lowered", "for t in 32 bound(thread.x) { alloc R { instr atomic.add.f32(A[t], R[0]) } }"),
                "writes the input 'A'");
    check_finds(in("lowered", "for t in 32 bound(thread.x) { instr warp.sync(; -1) where t < 3 }"),
                "only instructions of one thread");
  }
  SECTION("layouts") {
    check_finds("kernel built { param n in 1..4 temp T: f32[n] layout[4]{0/1%0@addr*1} size 4 T[0] = 1.0 }",
                "no constant shape");
    check_finds("kernel built { temp T: f32[4] layout[5]{0/1%0@addr*1} size 5 T[0] = 1.0 }",
                "a layout of another shape");
    check_finds("kernel built { temp T: f32[4] layout[4]{0/1%2@addr*1} size 4 T[0] = 1.0 }",
                "two elements in one place");
  }
}

TEST_CASE("the verifier finds what text cannot say", "[verify]") {
  KernelBuilder kb;
  Builder& b = kb.b();
  const Buffer* y = kb.add_buffer("Y", Type::kF32, std::vector<int64_t>{4}, BufferRole::kOutput);
  Id i = kb.new_id("i");
  std::vector<Expr> index = {b.var(i)};
  auto one = [&](Stmt root) {
    auto found = verify(kb.finish(root));
    REQUIRE(found.size() == 1);
    return found[0];
  };
  SECTION("unbound variables") {
    CHECK(one(b.store(y->id, index, b.real(1))) == "variable 'i' is not bound here");
  }
  SECTION("a loop twice") {
    Stmt l = b.loop(i, b.integer(4), b.store(y->id, std::vector<Expr>{b.integer(0)}, b.real(1)));
    std::vector<Stmt> twice = {l, l};
    CHECK(one(b.seq(twice)) == "loop 'i' is bound a second time");
  }
  SECTION("value types") {
    CHECK(one(b.loop(i, b.integer(4), b.store(y->id, index, b.real(1, Type::kF16))))
              .find("the stored value has type f16 instead of f32") == 0);
  }
  SECTION("index counts") {
    std::vector<Expr> two = {b.var(i), b.var(i)};
    CHECK(one(b.loop(i, b.integer(4), b.store(y->id, two, b.real(1)))) == "a store of 'Y' has 2 indices for rank 1");
  }
  SECTION("unknown buffers") {
    CHECK(one(b.loop(i, b.integer(4), b.store(77, index, b.real(1)))) == "a store uses the unknown buffer 77");
  }
}
