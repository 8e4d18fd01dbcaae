// The text form: round trips, exact spelling, errors with places, hostile input.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

Kernel parse_ok(const std::string& text) {
  auto k = parse(text, "test.tir");
  INFO(text);
  if (!k) FAIL(k.error().message);
  return *k;
}

// The text is already in printed form; parsing and printing must not change it.
void check_fixpoint(const std::string& text) {
  Kernel k = parse_ok(text);
  CHECK(print(k) == text);
  Kernel again = parse_ok(print(k));
  CHECK(hash_kernel(again) == hash_kernel(k));
}

std::string error_of(const std::string& text) {
  auto k = parse(text, "t.tir");
  REQUIRE_FALSE(k.has_value());
  return k.error().message;
}

const char* const kGemm = R"(kernel scheduled {
  param m in 1..128 div 2
  decision s0 in 1..512
  decision s1 in 1..512
  product s0 * s1 = 512
  input A: f32[m, 512]
  weight B: f32[512, 512] align 128 layout[512,512]{1/32%0@addr*16384, 0/1%0@addr*32, 1/1%32@addr*1} size 262144
  output C: f32[m, 512]
  temp T: f16[4] shared
  for i in m parallel @unroll_max(16) {
    for j in s0 {
      for k in s1*2 bound(thread.x) {
        block gemm(vi: spatial m = i, vj: spatial 512 = j*32 + k, vk: reduce 512 = min(i, j)) reduce(sum) where j*32 + k < 500 @min_threads(1) {
          init {
            C[vi, vj] = 0.0
          }
          C[vi, vj] = C[vi, vj] + A[vi, vk]*B[vk, vj] where vi < 100
        }
      }
    }
  }
}
)";

}  // namespace

TEST_CASE("a scheduled kernel prints as it was written", "[text]") {
  std::string text = kGemm;
  size_t at = text.find("A[vi, vk]*B[vk, vj]");
  text.replace(at, 19, "A[vi, vk] * B[vk, vj]");  // products of data are spaced, products of indices are not
  check_fixpoint(text);
}

TEST_CASE("statements print as written", "[text]") {
  check_fixpoint(R"(kernel lowered {
  input X: f16[64]
  output Y: f32[64]
  temp S: f16[64] shared
  temp bars: barrier[3] shared align 8
  for b in 2 bound(grid.x) {
    for t in 64 bound(thread.x) {
      alloc S, bars {
        instr cp.async.16.f16(S[t*8], X[t*8]; 16) where t < 8
        instr bar.sync(; 0, 64)
        roles {
          role warps 1 from 0 registers 232 {
            if t == 0 {
              Y[t] = 1.0
            } else {
              Y[t] = (Y[t - 1] where t < 30 else inf)
            }
          }
          role warps 1 from 1 {
            Y[t] = select(t % 2 < 1 && !(Y[0] < 2.0), f32(S[t]), max(Y[t], -1.5))
          }
        }
      }
    }
  }
}
)");
}

TEST_CASE("constants keep type and value", "[text]") {
  KernelBuilder kb;
  Builder& b = kb.b();
  std::vector<Stmt> stmts;
  std::vector<std::pair<Type, double>> values = {
      {Type::kF32, 0.1},    {Type::kF32, -0.0},      {Type::kF32, 1e30},          {Type::kF64, 0.1},
      {Type::kF64, 5e-324}, {Type::kF64, 1e300},     {Type::kF16, 65504},         {Type::kBF16, 3},
      {Type::kI8, -128},    {Type::kU8, 255},        {Type::kI32, -2147483648.0}, {Type::kI64, 7},
      {Type::kBool, 1},     {Type::kF16, -INFINITY}, {Type::kF32, INFINITY},      {Type::kF64, NAN},
      {Type::kI16, -32768}, {Type::kU16, 65535}};
  int n = 0;
  for (auto [type, value] : values) {
    const Buffer* out = kb.add_buffer(("o" + std::to_string(n++)).c_str(), type, {}, BufferRole::kOutput);
    stmts.push_back(b.store(out->id, {}, b.constant(value, type)));
  }
  const Buffer* wide = kb.add_buffer("wide", Type::kI64, {}, BufferRole::kOutput);
  stmts.push_back(b.store(wide->id, {}, b.integer(std::numeric_limits<int64_t>::min())));
  Kernel k = kb.finish(b.seq(stmts));
  std::string text = print(k);
  Kernel again = parse_ok(text);
  CHECK(print(again) == text);
  CHECK(hash_kernel(again) == hash_kernel(k));
  auto stores = as<Seq>(again.root)->stmts;
  for (size_t i = 0; i < values.size(); ++i) {
    Expr e = as<Store>(stores[i])->value;
    CHECK(e->type == values[i].first);
    CHECK(equal(e, as<Store>(as<Seq>(k.root)->stmts[i])->value));
  }
  CHECK(int_value(as<Store>(stores.back())->value) == std::numeric_limits<int64_t>::min());
}

TEST_CASE("names become unique and stay so", "[text]") {
  KernelBuilder kb;
  Builder& b = kb.b();
  const Buffer* x = kb.add_buffer("for", Type::kF32, std::vector<int64_t>{4}, BufferRole::kInput);
  const Buffer* y = kb.add_buffer("a.b c", Type::kF32, std::vector<int64_t>{4}, BufferRole::kOutput);
  Id i = kb.new_id("i"), j = kb.new_id("i"), k = kb.new_id("i_1"), n = kb.new_id("nan_count"), m = kb.new_id("inf");
  auto copy = [&](Id at) {
    std::vector<Expr> index = {b.var(at)};
    return b.loop(at, b.integer(4), b.store(y->id, index, b.load(*x, index)));
  };
  std::vector<Stmt> stmts = {copy(i), copy(j), copy(k), copy(n), copy(m)};
  Kernel kernel = kb.finish(b.seq(stmts));
  std::string text = print(kernel);
  CHECK(text.find("for vnan_count in 4 {") != std::string::npos);
  CHECK(text.find("for vinf in 4 {") != std::string::npos);
  CHECK(text.find("for i in 4 {") != std::string::npos);
  CHECK(text.find("for i_1 in 4 {") != std::string::npos);
  CHECK(text.find("for i_1_1 in 4 {") != std::string::npos);
  CHECK(text.find("a_b_c[i] = for_1[i]") != std::string::npos);
  Kernel again = parse_ok(text);
  CHECK(print(again) == text);
  CHECK(hash_kernel(again) == hash_kernel(kernel));
}

// Schedules find blocks by name: a kernel that went through text must have the names that it had.
TEST_CASE("blocks keep their names, also words of the language and names of variables", "[text]") {
  for (const char* label : {"tanh", "where", "for", "f32", "x", "i", "copy"}) {
    CAPTURE(label);
    const std::string text = fmt::format(R"(kernel built {{
  input x: f32[4]
  output y: f32[4]
  for i in 4 {{
    block {}(v: spatial 4 = i) {{
      y[v] = tanh(x[v])
    }}
  }}
}}
)",
                                         label);
    check_fixpoint(text);
    const Kernel kernel = parse_ok(text);
    visit(kernel.root, [&](Stmt s) {
      if (const Block* b = as<Block>(s)) CHECK(name_hint(kernel, b->id) == std::string_view(label));
      return true;
    });
  }
  CHECK_THAT(error_of("kernel built {\n  output y: f32[4]\n  block 4(v: spatial 4 = 0) {\n  }\n}\n"),
             Catch::Contains("a name"));
}

TEST_CASE("the order of ids does not change the text", "[text]") {
  // The same kernel with loop ids given in the opposite order: index expressions are sorted differently inside.
  auto make = [](bool reversed) {
    KernelBuilder kb;
    Builder& b = kb.b();
    const Buffer* y = kb.add_buffer("Y", Type::kF32, std::vector<int64_t>{64}, BufferRole::kOutput);
    Id i = kNoId, j = kNoId;
    if (reversed)
      j = kb.new_id("j"), i = kb.new_id("i");
    else
      i = kb.new_id("i"), j = kb.new_id("j");
    Expr at = b.add(b.var(i), b.var(j));
    std::vector<Expr> index = {b.min(at, b.mul(b.var(i), b.var(j)))};
    Expr condition = b.logical_and(b.eq(b.var(i), b.offset(b.var(j), 3)), b.ne(b.var(j), b.scale(b.var(i), 2)));
    Stmt s = b.store(y->id, index, b.real(1), condition);
    return kb.finish(b.loop(i, b.integer(8), b.loop(j, b.integer(8), s)));
  };
  Kernel a = make(false), c = make(true);
  CHECK(print(a) == print(c));
  CHECK(hash_kernel(a) == hash_kernel(c));
  Kernel parsed = parse_ok(print(c));
  CHECK(print(parsed) == print(c));
  CHECK(hash_kernel(parsed) == hash_kernel(c));
}

TEST_CASE("random expressions survive the round trip", "[text][fuzz]") {
  uint64_t seed = 20240611;
  INFO("seed " << seed);
  Rng rng(seed);
  auto below = [&](uint64_t n) { return static_cast<int>(rng.next() % n); };
  for (int round = 0; round < 300; ++round) {
    KernelBuilder kb;
    Builder& b = kb.b();
    const Buffer* x = kb.add_buffer("X", Type::kF32, std::vector<int64_t>{64}, BufferRole::kInput);
    const Buffer* y = kb.add_buffer("Y", Type::kF32, std::vector<int64_t>{64}, BufferRole::kOutput);
    std::vector<Id> loops;
    for (const char* n : {"k", "j", "i"}) loops.push_back(kb.new_id(n));
    std::reverse(loops.begin(), loops.end());
    std::function<Expr(int)> index = [&](int depth) -> Expr {
      int pick = below(depth == 0 ? 2 : 8);
      if (pick == 0) return b.integer(below(40) - 20);
      if (pick == 1) return b.var(loops[static_cast<size_t>(below(3))]);
      Expr p = index(depth - 1), q = index(depth - 1);
      switch (pick) {
        case 2:
          return b.add(p, q);
        case 3:
          return b.sub(p, q);
        case 4:
          return b.mul(p, q);
        case 5:
          return b.floor_div(p, b.integer(1 + below(9)));
        case 6:
          return b.floor_mod(p, b.integer(1 + below(9)));
        default:
          return below(2) != 0 ? b.min(p, q) : b.max(p, q);
      }
    };
    std::function<Expr(int)> truth = [&](int depth) -> Expr {
      int pick = below(depth == 0 ? 3 : 6);
      if (pick < 3) {
        constexpr ExprKind kKinds[] = {ExprKind::kLt, ExprKind::kEq, ExprKind::kNe};
        return b.binary(kKinds[pick], index(2), index(2));
      }
      if (pick == 3) return b.logical_not(truth(depth - 1));
      return b.binary(pick == 4 ? ExprKind::kAnd : ExprKind::kOr, truth(depth - 1), truth(depth - 1));
    };
    std::function<Expr(int)> value = [&](int depth) -> Expr {
      int pick = below(depth == 0 ? 2 : 9);
      std::vector<Expr> at = {index(2)};
      if (pick == 0) return b.real(below(100) * 0.3 - 15);
      if (pick == 1) return b.load(*x, at);
      if (pick == 2) return b.select(truth(1), value(depth - 1), value(depth - 1));
      if (pick == 3) return b.load(*x, at, truth(1), b.real(-0.5));
      if (pick == 4) return b.call(Intrinsic::kExp, std::vector<Expr>{value(depth - 1)});
      constexpr ExprKind kKinds[] = {ExprKind::kAdd, ExprKind::kSub, ExprKind::kMul, ExprKind::kDiv};
      return b.binary(kKinds[pick - 5], value(depth - 1), value(depth - 1));
    };
    std::vector<Expr> at = {index(3)};
    Stmt s = b.store(y->id, at, value(4), truth(2));
    if (s == nullptr) continue;
    for (size_t d = loops.size(); d-- > 0;) s = b.loop(loops[d], b.integer(8), s);
    Kernel k = kb.finish(s);
    std::string text = print(k);
    INFO(text);
    Kernel again = parse_ok(text);
    REQUIRE(print(again) == text);
    REQUIRE(hash_kernel(again) == hash_kernel(k));
  }
}

TEST_CASE("errors name the place and what was expected", "[text][errors]") {
  auto in = [](const std::string& statement) {
    return error_of("kernel built {\n  input A: f32[8]\n  output C: f32[8]\n  temp H: f16[8]\n" + statement + "\n}\n");
  };
  CHECK(in("  fro i in 4 { C[i] = 0.0 }") ==
        "t.tir:5:3: expected a statement or '}', found 'fro'; did you mean 'for'?");
  CHECK(in("for i in 4 paralel { C[i] = 0.0 }").find("t.tir:5:12: expected '{' or a loop kind") == 0);
  CHECK(in("for i in 4 paralel { C[i] = 0.0 }").find("did you mean 'parallel'") != std::string::npos);
  CHECK(in("C[0] = AA[0]").find("did you mean 'A'") != std::string::npos);
  CHECK(in("C[0, 0] = 1.0") == "t.tir:5:2: expected 1 indices, found 2");
  CHECK(in("C[0] = H[0]").find("t.tir:5:8: expected a value for the buffer of type f32") == 0);
  CHECK(in("C[0] = A[0] + H[0]").find("the two sides have types f32 and f16") != std::string::npos);
  CHECK(in("C[i] = 0.0").find("expected a variable") != std::string::npos);
  CHECK(in("for i in 4 { for i in 4 { C[i] = 0.0 } }").find("expected a new name, found 'i'") != std::string::npos);
  CHECK(in("C[9223372036854775807 + 1] = 0.0").find("overflows") != std::string::npos);
  CHECK(in("C[4611686018427387904 * 2] = 0.0").find("overflows") != std::string::npos);
  CHECK(in("C[99999999999999999999] = 0.0").find("does not fit i64") != std::string::npos);
  CHECK(in("C[0] = 1e99").find("does not fit f32") != std::string::npos);
  CHECK(in("C[1 // 0] = 1.0").find("division by zero") != std::string::npos);
  CHECK(in("C[0] = exp(1.0, 2.0)").find("takes 1 arguments") != std::string::npos);
  CHECK(in("C[0] = expp(1.0)").find("did you mean 'exp'") != std::string::npos);
  CHECK(in("instr mma.m16n8k16.f32.f61(C[0], A[0], A[0])").find("did you mean 'mma.m16n8k16.f32.f16'") !=
        std::string::npos);
  CHECK(in("instr bar.sync(; 0)").find("takes 0 operands and 2 arguments") != std::string::npos);
  CHECK(in("for i in 4 bound(tread.x) { C[i] = 0.0 }").find("did you mean 'thread.x'") != std::string::npos);
  CHECK(in("for i in 4 @unrol_max(2) { C[i] = 0.0 }").find("did you mean 'unroll_max'") != std::string::npos);
  CHECK(in("C[0] = 0.0 ?").find("found '?'") != std::string::npos);
  CHECK(in("if 1 { C[0] = 0.0 }").find("a condition of type bool") != std::string::npos);
  CHECK(error_of("").find("t.tir:1:1: expected 'kernel', found the end of the text") == 0);
  CHECK(error_of("kernel lowerd {").find("did you mean 'lowered'") != std::string::npos);
  CHECK(error_of("kernel built { }").find("expected a statement") != std::string::npos);
  CHECK(error_of("kernel built { input A: f31[1] }").find("did you mean 'f32'") != std::string::npos);
  CHECK(error_of("kernel built { temp T: f32[1099511627776, 1099511627776] }").find("at most 2^48") !=
        std::string::npos);
  CHECK(
      error_of("kernel built { temp T: f32[4] layout[4]{0/1%0@addr*2} size 4 }").find("address 6 is outside size 4") !=
      std::string::npos);
}

TEST_CASE("hostile text ends in an error", "[text][errors][fuzz]") {
  auto repeat = [](const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  std::string head = "kernel built { output C: f32[8] ";
  CHECK(error_of(head + repeat("if C[0] < 1.0 {", 100000)).find("at most 200 nested levels") != std::string::npos);
  CHECK(error_of(head + "C[0] = " + repeat("(", 100000)).find("at most 200 nested levels") != std::string::npos);
  CHECK(error_of(head + "C[0] = " + repeat("-(", 100000)).find("at most 200 nested levels") != std::string::npos);
  CHECK(error_of(head + "C[0] = (" + repeat("C[(", 100)).find("expected") != std::string::npos);
  CHECK(error_of(head + "C[0] = 1.0" + repeat(" + 1.0", 100000)).find("at most 1000 levels") != std::string::npos);
  CHECK(error_of(head + "for a in 2 { for b in 2 { C[0] = f32(" + repeat("(a + b)*", 200) + "a) } } }")
            .find("overflows") != std::string::npos);
  // Any prefix and any single damaged byte of a valid kernel gives a kernel or an error, never a crash.
  std::string text = kGemm;
  for (size_t n = 0; n + 1 < text.size(); ++n) CHECK_FALSE(parse(text.substr(0, n)).has_value());
  Rng rng(7);
  INFO("seed 7");
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (uint64_t i = 0; i <= rng.next() % 3; ++i) damaged[rng.next() % damaged.size()] = static_cast<char>(rng.next());
    auto k = parse(damaged);
    if (k)
      verify(*k);
    else
      REQUIRE_FALSE(k.error().message.empty());
  }
}
