#include <sys/syscall.h>
#include <unistd.h>

#include <bit>

#include "nest.h"
#include "tcc/ir/instr.h"

namespace tcc::codegen {
namespace {

using ir::LoopKind;
using ir::Type;

ir::Stmt call(Nest& t, const char* name, std::vector<ir::Operand> operands, std::vector<ir::Expr> args = {}) {
  int32_t row = ir::find_instruction(name);
  REQUIRE(row >= 0);
  for (ir::Operand& o : operands)
    o.indices = t.b().arena().copy(std::vector<ir::Expr>(o.indices.begin(), o.indices.end()));
  return t.b().instr(row, operands, args);
}

}  // namespace

TEST_CASE("vector instructions with active lanes", "[codegen]") {
  if (!host().cpu.features.avx512f) SKIP("no AVX-512 on this processor");
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {11}), *s = t.input("s", Type::kF32, {1}),
                   *y = t.output("y", Type::kF32, {11});
  const ir::Buffer *d = t.buffer("d", Type::kF32, {16}, ir::BufferRole::kTemp),
                   *v = t.buffer("v", Type::kF32, {16}, ir::BufferRole::kTemp);
  std::vector<ir::Expr> zero{t.i(0)}, lanes{t.i(11)};
  auto at = [&](const ir::Buffer* b) { return ir::Operand{b->id, zero}; };
  ir::Stmt body = t.seq({call(t, "zmm.load.f32", {at(d), at(x)}, lanes), call(t, "zmm.load.f32", {at(v), at(x)}, lanes),
                         call(t, "zmm.fma.f32", {at(d), at(v), at(v)}, lanes),
                         call(t, "zmm.fma.broadcast.f32", {at(d), at(s), at(v)}, lanes),
                         call(t, "zmm.store.f32", {at(y), at(d)}, lanes)});
  Aligned<float> a(11), out(16, -9);
  for (int i = 0; i < 11; ++i) a[i] = static_cast<float>(i) - 4;
  float scale = 3;
  compile(t.lowered(t.alloc({d, v}, body))).run({a.data(), &scale, out.data()});
  for (int i = 0; i < 16; ++i) CHECK(out[i] == (i < 11 ? a[i] + a[i] * a[i] + 3 * a[i] : -9));
}

TEST_CASE("AMX products of bf16 tiles", "[codegen]") {
  if (!host().cpu.features.amx_bf16) SKIP("no AMX on this processor");
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0)
    SKIP("the operating system does not let a process use AMX");
  // C[16, 32] = A[16, 64] B[64, 32], B in pairs: Bp[k / 2, n * 2 + k % 2].
  Nest t;
  ir::Builder& b = t.b();
  const ir::Buffer *a = t.input("A", Type::kBF16, {16, 64}), *w = t.input("B", Type::kBF16, {32, 64}),
                   *c = t.output("C", Type::kF32, {16, 32});
  auto tile = [&](const char* name, Type type, std::vector<int64_t> shape) {
    ir::Buffer fields = *t.buffer(name, type, shape, ir::BufferRole::kTemp);
    fields.scope = ir::Scope::kAmxTile;
    return b.buffer(fields);
  };
  const ir::Buffer *ct = tile("ct", Type::kF32, {2, 16, 16}), *at = tile("at", Type::kBF16, {16, 32}),
                   *wt = tile("wt", Type::kBF16, {2, 16, 32});
  auto op = [&](const ir::Buffer* buffer, std::vector<ir::Expr> indices) {
    return ir::Operand{buffer->id, b.arena().copy(indices)};
  };
  auto two = [&](const std::function<ir::Stmt(ir::Expr)>& f) { return t.loop(2, LoopKind::kUnrolled, f); };
  ir::Expr z = t.i(0);
  ir::Stmt zero = two([&](ir::Expr j) { return call(t, "amx.zero.f32", {op(ct, {j, z, z})}); });
  ir::Stmt reduce = t.loop(2, LoopKind::kSerial, [&](ir::Expr k) {
    return t.seq({call(t, "amx.load.bf16", {op(at, {z, z}), op(a, {z, b.scale(k, 32)})}), two([&](ir::Expr j) {
                    return t.seq(
                        {call(t, "amx.load.bf16", {op(wt, {j, z, z}), op(w, {b.scale(k, 16), b.scale(j, 32)})}),
                         call(t, "amx.tdpbf16ps", {op(ct, {j, z, z}), op(at, {z, z}), op(wt, {j, z, z})})});
                  })});
  });
  ir::Stmt write =
      two([&](ir::Expr j) { return call(t, "amx.store.f32", {op(c, {z, b.scale(j, 16)}), op(ct, {j, z, z})}); });
  ir::Stmt config = call(t, "amx.config", {}, {t.i(16), t.i(64)});
  ir::Kernel kernel = t.lowered(t.alloc({ct, at, wt}, t.seq({config, zero, reduce, write})));
  std::vector<const ir::Buffer*> buffers;
  for (const ir::Buffer* old : kernel.buffers) {
    const ir::Buffer* replaced = old;
    for (const ir::Buffer* x : {ct, at, wt})
      if (x->id == old->id) replaced = x;
    buffers.push_back(replaced);
  }
  kernel.buffers = b.arena().copy(buffers);
  Compiled code = compile(kernel);
  auto narrow = [](float f) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16); };
  Aligned<uint16_t> av(16 * 64), wv(32 * 64);
  Aligned<float> out(16 * 32);
  auto a_at = [](int64_t i, int64_t k) { return static_cast<float>((i * 5 + k * 3) % 7 - 3); };
  auto w_at = [](int64_t k, int64_t j) { return static_cast<float>((k * 2 + j) % 5 - 2); };
  for (int64_t k = 0; k < 64; ++k) {
    for (int64_t i = 0; i < 16; ++i) av[i * 64 + k] = narrow(a_at(i, k));
    for (int64_t j = 0; j < 32; ++j) wv[k / 2 * 64 + j * 2 + k % 2] = narrow(w_at(k, j));
  }
  code.run({av.data(), wv.data(), out.data()});
  for (int64_t i = 0; i < 16; ++i)
    for (int64_t j = 0; j < 32; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < 64; ++k) sum += a_at(i, k) * w_at(k, j);
      REQUIRE(out[i * 32 + j] == sum);
    }
}

TEST_CASE("instructions the target lacks are errors", "[codegen]") {
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {16}), *y = t.output("y", Type::kF32, {16});
  const ir::Buffer* d = t.buffer("d", Type::kF32, {16}, ir::BufferRole::kTemp);
  std::vector<ir::Expr> zero{t.i(0)}, lanes{t.i(16)};
  ir::Stmt body = t.seq(
      {call(t, "zmm.load.f32", {{d->id, zero}, {x->id, zero}}, lanes), t.store(y, {t.i(0)}, t.load(d, {t.i(0)}))});
  auto artifact = compile_host(t.lowered(t.alloc({d}, body)), *target::find_target("x86-64-v2"));
  REQUIRE_FALSE(artifact);
  CHECK(artifact.error().message.find("avx512f") != std::string::npos);
}

}  // namespace tcc::codegen
