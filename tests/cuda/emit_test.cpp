// What CUDA source looks like for small kernels.
#include "cuda/support.h"
#include "ir/layouts.h"
#include "tcc/ir/instr.h"
#include "tcc/lower/pass.h"

using namespace tcc;
using namespace tcc::codegen;
using namespace tcc::codegen::testing;
using namespace tcc::ir;

namespace {

// out[i] = in[i] cast through `value`, over threads x lanes.
Kernel copy_kernel(Type type, int64_t threads, int64_t lanes, int32_t alignment = 16) {
  Draft d;
  const Buffer* in = d.buffer("in", type, {threads * lanes}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", type, {threads * lanes}, BufferRole::kOutput);
  const Id t = d.kb.new_id("t"), v = d.kb.new_id("v");
  Expr at = d.b.add(d.b.scale(d.b.var(t), lanes), d.b.var(v));
  Stmt body = d.b.loop(v, d.num(lanes), d.store(out, {at}, d.load(in, {at})), LoopKind::kVectorized);
  return d.finish(d.b.loop(t, d.num(threads), body, LoopKind::kBound, Axis::kThreadX), alignment);
}

Kernel run_passes(Kernel k, std::initializer_list<const char*> names) {
  for (const char* name : names)
    k = *lower::run_pass(*lower::find_pass(lower::pipeline_of(gpu("h200")), name), k, gpu("h200"),
                         std::make_shared<Arena>());
  return k;
}
// The kernel as the last passes of the lowering leave it.
Kernel last_passes(Kernel k) {
  return run_passes(std::move(k), {"vectorize_stores", "plan_unrolling", "choose_access_widths"});
}
std::string copy_text(Type type, int64_t threads, int64_t lanes, int32_t alignment = 16) {
  return kernel_text(run_passes(copy_kernel(type, threads, lanes, alignment), {"choose_access_widths"}));
}

}  // namespace

TEST_CASE("vectorized loops become accesses of up to 16 bytes") {
  CHECK(count_of(copy_text(Type::kF32, 32, 4), "tcc_store<4>(out_1") == 1);
  CHECK(count_of(copy_text(Type::kF32, 32, 8), "tcc_store<4>(out_1") == 2);
  CHECK(count_of(copy_text(Type::kF16, 32, 8), "tcc_store<8>(out_1") == 1);
  CHECK(count_of(copy_text(Type::kF64, 32, 2), "tcc_load<2>(in_0") == 1);
  CHECK(count_of(copy_text(Type::kF32, 32, 6), "tcc_store<2>(out_1") == 3);
  // Pointers aligned to one element only: single accesses.
  CHECK(count_of(copy_text(Type::kF32, 32, 4, 4), "tcc_store") == 0);
  CHECK(count_of(copy_text(Type::kF32, 32, 4, 8), "tcc_store<2>(out_1") == 2);
}

TEST_CASE("the annotation access_bytes says how wide accesses are, and alignment limits it") {
  // Stores of 4 bytes and of 16 bytes, of buffers aligned to `alignment` bytes.
  auto text = [](int64_t bytes, int32_t alignment) {
    Kernel k = copy_kernel(Type::kF32, 32, 4, alignment);
    const Loop* threads = as<Loop>(k.root);
    const Loop* lanes = as<Loop>(threads->body);
    Builder b(*k.arena);
    const Annotation widest[] = {{AnnotationKey::kAccessBytes, b.integer(bytes)}};
    k.root =
        b.with_body(*threads, b.loop(lanes->id, lanes->extent, lanes->body, lanes->loop_kind, lanes->axis, widest));
    return kernel_text(k);
  };
  CHECK(count_of(text(16, 16), "tcc_store<4>(out_1") == 1);
  CHECK(count_of(text(16, 8), "tcc_store<2>(out_1") == 2);
  CHECK(count_of(text(12, 16), "tcc_store<2>(out_1") == 2);
  CHECK(count_of(text(8, 16), "tcc_store<2>(out_1") == 2);
  CHECK(count_of(text(4, 16), "out_1[") == 4);
  CHECK(count_of(text(4, 16), "tcc_store") == 0);
  // Without it the compiler unrolls the loop.
  CHECK(count_of(kernel_text(copy_kernel(Type::kF32, 32, 4)), "#pragma unroll") == 1);
  CHECK(count_of(kernel_text(copy_kernel(Type::kF32, 32, 4)), "tcc_store") == 0);
}

TEST_CASE("launch dimensions come from bound loops, shorter loops are guarded") {
  Draft d;
  const Buffer* out = d.buffer("out", Type::kF32, {7, 96}, BufferRole::kOutput);
  const Id g = d.kb.new_id("g"), t = d.kb.new_id("t"), u = d.kb.new_id("u");
  Stmt wide =
      d.b.loop(t, d.num(96), d.store(out, {d.b.var(g), d.b.var(t)}, d.b.real(1)), LoopKind::kBound, Axis::kThreadX);
  Stmt narrow =
      d.b.loop(u, d.num(33), d.store(out, {d.b.var(g), d.b.var(u)}, d.b.real(2)), LoopKind::kBound, Axis::kThreadX);
  const Stmt both[] = {wide, narrow};
  Kernel k = d.finish(d.b.loop(g, d.num(7), d.b.seq(both), LoopKind::kBound, Axis::kGridY));
  auto source = emit_cuda_source(k, gpu("a100"), {.prefix = "dims"});
  REQUIRE(source);
  REQUIRE(source->launches.size() == 1);
  CHECK(source->launches[0].symbol == "tcc_dims_0");
  CHECK(source->launches[0].grid == std::array<int64_t, 3>{1, 7, 1});
  CHECK(source->launches[0].block == std::array<int64_t, 3>{96, 1, 1});
  CHECK(count_of(source->text, "if (u_3 < 33)") == 1);
  CHECK(count_of(source->text, "if (t_2 <") == 0);
  CHECK(count_of(source->text, "__launch_bounds__(96)") == 1);
}

TEST_CASE("warp and lane loops are coordinates of the linear thread id") {
  Draft d;
  const Buffer* out = d.buffer("out", Type::kI32, {4, 32}, BufferRole::kOutput);
  const Id w = d.kb.new_id("w"), l = d.kb.new_id("l");
  Stmt body = d.store(out, {d.b.var(w), d.b.var(l)}, d.b.integer(-3, Type::kI32));
  body = d.b.loop(l, d.num(32), body, LoopKind::kBound, Axis::kLane);
  auto source = emit_cuda_source(d.finish(d.b.loop(w, d.num(4), body, LoopKind::kBound, Axis::kWarp)), gpu("a100"));
  REQUIRE(source);
  CHECK(source->launches[0].block == std::array<int64_t, 3>{128, 1, 1});
  CHECK(source->text.find("= (int)(tcc_w);") != std::string::npos);
  CHECK(source->text.find("= (int)(threadIdx.x % 32);") != std::string::npos);
  CHECK(source->text.find("= (-3);") != std::string::npos);
}

TEST_CASE("each statement of the root is a launch, workspace follows the parameters") {
  Draft d;
  const Buffer* in = d.buffer("in", Type::kF32, {8}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kF32, {8}, BufferRole::kOutput);
  const Buffer* w = d.buffer("w", Type::kF32, {8}, BufferRole::kTemp, Scope::kWorkspace);
  auto pass = [&](const Buffer* from, const Buffer* to) {
    const Id t = d.kb.new_id("t");
    return d.b.loop(t, d.num(8), d.store(to, {d.b.var(t)}, d.load(from, {d.b.var(t)})), LoopKind::kBound,
                    Axis::kThreadX);
  };
  const Stmt both[] = {pass(in, w), pass(w, out)};
  const Id workspace[] = {w->id};
  auto source = emit_cuda_source(d.finish(d.b.alloc(workspace, d.b.seq(both))), gpu("a100"));
  REQUIRE(source);
  REQUIRE(source->launches.size() == 2);
  CHECK(source->launches[1].symbol == "tcc_kernel_1");
  REQUIRE(source->buffers.size() == 3);
  CHECK(source->buffers[2].role == BufferRole::kTemp);
  CHECK(source->buffers[2].bytes == 32);
  CHECK(count_of(source->text, "(TCC_GLOBAL(const float, in_0), TCC_GLOBAL(float, out_1), TCC_GLOBAL(float, w_2))") ==
        2);
}

TEST_CASE("indices that do not fit 32 bits are 64-bit, and no others of the launch") {
  auto big = [](int64_t n) {
    Draft d;
    const Buffer* out = d.buffer("out", Type::kI8, {n, 1024}, BufferRole::kOutput);
    const Id g = d.kb.new_id("g"), t = d.kb.new_id("t");
    Stmt body = d.store(out, {d.b.var(g), d.b.var(t)}, d.b.integer(1, Type::kI8));
    body = d.b.loop(t, d.num(1024), body, LoopKind::kBound, Axis::kThreadX);
    return kernel_text(d.finish(d.b.loop(g, d.num(n), body, LoopKind::kBound, Axis::kGridX)));
  };
  CHECK(count_of(big(2097152 / 2), "long long") == 0);
  CHECK(count_of(big(2097152 * 2), "const int g_1") == 1);
  CHECK(count_of(big(2097152 * 2), "1024 * (long long)g_1 + t_2") == 1);
  CHECK(count_of(big(2097152 * 2), "long long") == 1);
  // A row of a table: the table's index is an int64 value, the other tensor's place is not.
  Draft d;
  const Buffer* rows = d.buffer("rows", Type::kI64, {64}, BufferRole::kInput);
  const Buffer* table = d.buffer("table", Type::kF32, {1000, 96}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kF32, {64, 96}, BufferRole::kOutput);
  const Id g = d.kb.new_id("g"), t = d.kb.new_id("t");
  const Expr row = d.b.floor_div(d.b.var(t), d.num(96)), column = d.b.floor_mod(d.b.var(t), d.num(96));
  const Expr at = d.b.add(d.b.scale(d.b.var(g), 8), row);
  Stmt body = d.store(out, {at, column}, d.load(table, {d.load(rows, {at}), column}));
  body = d.b.loop(t, d.num(768), body, LoopKind::kBound, Axis::kThreadX);
  const std::string text = kernel_text(d.finish(d.b.loop(g, d.num(8), body, LoopKind::kBound, Axis::kGridX)));
  INFO(text);
  CHECK(count_of(text, "unsigned long long") == 0);
  CHECK(count_of(text, "(long long)") <= 1);
  CHECK(count_of(text, "96 * rows_0[") == 1);
}

TEST_CASE("sums and products of 64-bit numbers of tensors wrap around, what is known to be small does not") {
  Draft d;
  const Buffer* x = d.buffer("x", Type::kI64, {64}, BufferRole::kInput);
  const Buffer* z = d.buffer("z", Type::kI64, {64}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kI64, {3, 64}, BufferRole::kOutput);
  const Id t = d.kb.new_id("t");
  const Expr at = d.b.var(t), a = d.load(x, {at}), c = d.load(z, {at});
  const Stmt stores[] = {d.store(out, {d.num(0), at}, d.b.sub(d.b.add(a, c), d.num(7))),
                         d.store(out, {d.num(1), at}, d.b.mul(a, c)),
                         d.store(out, {d.num(2), at}, d.b.add(d.b.scale(at, 3), d.num(1)))};
  const std::string text =
      kernel_text(d.finish(d.b.loop(t, d.num(64), d.b.seq(stores), LoopKind::kBound, Axis::kThreadX)));
  INFO(text);
  CHECK(count_of(text, "= (long long)((unsigned long long)") == 2);
  CHECK(count_of(text, " + (unsigned long long)") == 1);
  CHECK(count_of(text, " * (unsigned long long)") == 1);
  CHECK(count_of(text, "unsigned") == 4);
}

TEST_CASE("values of 16 bits that are only moved keep their bits") {
  Draft d;
  const Buffer* in = d.buffer("in", Type::kF16, {30}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kF16, {32}, BufferRole::kOutput);
  const Id t = d.kb.new_id("t");
  const Expr inside = d.b.lt(d.b.var(t), d.num(30)), at[] = {d.b.var(t)};
  const Expr moved = d.b.load(*in, at, inside, d.b.real(0, Type::kF16));
  const auto text_of = [&](Expr value) {
    return kernel_text(
        d.finish(d.b.loop(t, d.num(32), d.store(out, {d.b.var(t)}, value), LoopKind::kBound, Axis::kThreadX)));
  };
  CHECK(count_of(text_of(moved), "tcc_") == count_of(text_of(d.b.real(0, Type::kF16)), "tcc_"));
  CHECK(count_of(text_of(moved), "? in_0[t_2] : 0)") == 1);
  CHECK(count_of(text_of(d.b.cast(d.b.cast(moved, Type::kF32), Type::kF16)), "? in_0[t_2] : 0)") == 1);
  // What is computed is converted.
  CHECK(count_of(text_of(d.b.binary(ExprKind::kAdd, moved, moved)), "tcc_to_f16(") == 1);
}

TEST_CASE("inputs of one element are read once, before the loops") {
  Draft d;
  const Buffer* scale = d.buffer("scale", Type::kF16, {1}, BufferRole::kWeight);
  const Buffer* in = d.buffer("in", Type::kF32, {32, 8}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kF32, {32, 8}, BufferRole::kOutput);
  const Id t = d.kb.new_id("t"), i = d.kb.new_id("i");
  const Expr factor = d.b.cast(d.load(scale, {d.num(0)}), Type::kF32);
  Stmt body =
      d.store(out, {d.b.var(t), d.b.var(i)}, d.b.binary(ExprKind::kMul, d.load(in, {d.b.var(t), d.b.var(i)}), factor));
  body = d.b.loop(t, d.num(32), d.b.loop(i, d.num(8), body), LoopKind::kBound, Axis::kThreadX);
  const std::string text = kernel_text(d.finish(body));
  INFO(text);
  CHECK(count_of(text, "const unsigned short scale_0_value = scale_0[0];") == 1);
  CHECK(count_of(text, "scale_0[") == 1);
  CHECK(text.find("scale_0_value = ") < text.find("for ("));
}

TEST_CASE("xor layouts appear in addresses and keep wide accesses where they move whole runs") {
  auto swizzled = [](int32_t low_bit) {
    Draft d;
    const Buffer* in = d.buffer("in", Type::kF32, {8, 32}, BufferRole::kInput);
    const int64_t shape[] = {8, 32};
    const Layout* rows = make_row_major(d.b.arena(), shape);
    Buffer fields{d.kb.new_id("s"),
                  Type::kF32,
                  Scope::kShared,
                  BufferRole::kTemp,
                  in->shape,
                  with_xor(d.b.arena(), *rows, {5, low_bit, 7}),
                  64};
    const Buffer* s = d.b.buffer(fields);
    const Id t = d.kb.new_id("t"), v = d.kb.new_id("v");
    Expr row = d.b.floor_div(d.b.var(t), d.num(8));
    Expr column = d.b.add(d.b.scale(d.b.floor_mod(d.b.var(t), d.num(8)), 4), d.b.var(v));
    Stmt body = d.b.loop(v, d.num(4), d.store(s, {row, column}, d.load(in, {row, column})), LoopKind::kVectorized);
    const Id shared[] = {s->id};
    body = d.b.alloc(shared, d.b.loop(t, d.num(64), body, LoopKind::kBound, Axis::kThreadX));
    Kernel k = d.finish(body);
    std::vector<const Buffer*> all(k.buffers.begin(), k.buffers.end());
    all.push_back(s);
    k.buffers = d.b.arena().copy(all);
    k.next_id = d.kb.new_id("end");
    return kernel_text(run_passes(k, {"choose_access_widths"}));
  };
  const std::string whole = swizzled(2);
  CHECK(count_of(whole, "tcc_store<4>(s_1 + tcc_xor<int>(") == 1);
  CHECK(count_of(whole, ", 5, 7, 2)") == 1);
  CHECK(count_of(swizzled(1), "tcc_store<2>(s_1 + tcc_xor<int>(") == 2);
}

TEST_CASE("instructions become calls of the prelude with places and arguments") {
  Draft d;
  const Buffer* in = d.buffer("in", Type::kF32, {32}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kF32, {32}, BufferRole::kOutput);
  const Buffer* x = d.buffer("x", Type::kF32, {1}, BufferRole::kTemp, Scope::kLocal);
  const Buffer* y = d.buffer("y", Type::kF32, {1}, BufferRole::kTemp, Scope::kLocal);
  const Id l = d.kb.new_id("l");
  const Expr zero[] = {d.num(0)};
  const Operand operands[] = {{y->id, zero}, {x->id, zero}};
  const Expr args[] = {d.num(3), d.num(16), d.num(32)};
  const Stmt body[] = {d.store(x, {d.num(0)}, d.load(in, {d.b.var(l)})),
                       d.b.instr(find_instruction("shfl.f32"), operands, args),
                       d.store(out, {d.b.var(l)}, d.load(y, {d.num(0)}))};
  const Id locals[] = {x->id, y->id};
  Stmt root = d.b.loop(l, d.num(32), d.b.alloc(locals, d.b.seq(body)), LoopKind::kBound, Axis::kLane);
  const std::string text = kernel_text(d.finish(root));
  CHECK(count_of(text, "tcc_shfl_f32<(int)3, (int)16, (int)32>(y_3 + 0, x_2 + 0);") == 1);
  CHECK(count_of(kernel_text(gpu_check::make_gemm(64, 64, 64, gpu_check::kSmallTile)),
                 "tcc_bar_sync<(int)0, (int)256>();") == 2);
}

TEST_CASE("what is unrolled beyond a limit is unrolled in part, loops over registers always") {
  auto kernel = [](int64_t rounds, LoopKind kind, bool registers) {
    Draft d;
    const Buffer* in = d.buffer("in", Type::kF32, {32 * rounds}, BufferRole::kInput);
    const Buffer* out = d.buffer("out", Type::kF32, {32 * rounds}, BufferRole::kOutput);
    const Buffer* x = d.buffer("x", Type::kF32, {rounds}, BufferRole::kTemp, Scope::kLocal);
    const Id t = d.kb.new_id("t"), r = d.kb.new_id("r");
    const Expr at = d.b.add(d.b.scale(d.b.var(r), 32), d.b.var(t)), argument[] = {d.load(in, {at})};
    const Expr value = d.b.call(Intrinsic::kExp, argument);
    const Expr slot = registers ? d.b.var(r) : d.num(0);
    const Stmt body[] = {d.store(x, {slot}, value), d.store(out, {at}, d.load(x, {slot}))};
    const Id locals[] = {x->id};
    Stmt root = d.b.alloc(locals, d.b.loop(r, d.num(rounds), d.b.seq(body), kind));
    return kernel_text(last_passes(d.finish(d.b.loop(t, d.num(32), root, LoopKind::kBound, Axis::kThreadX))));
  };
  // 12 statements a round: the store, a math function that counts as ten, and the store of its value.
  CHECK(count_of(kernel(16, LoopKind::kUnrolled, false), "#pragma unroll\n") == 1);
  CHECK(count_of(kernel(400, LoopKind::kUnrolled, false), "#pragma unroll 16\n") == 1);
  CHECK(count_of(kernel(400, LoopKind::kUnrolled, true), "#pragma unroll\n") == 1);
  CHECK(count_of(kernel(401, LoopKind::kUnrolled, false), "#pragma unroll 16\n") == 1);  // prime
  // Loads of a serial loop are issued together, as many as 64 statements have.
  CHECK(count_of(kernel(16, LoopKind::kSerial, false), "#pragma unroll 4\n") == 1);
  CHECK(count_of(kernel(35, LoopKind::kSerial, false), "#pragma unroll 5\n") == 1);
  CHECK(count_of(kernel(41, LoopKind::kSerial, false), "#pragma unroll 4\n") == 1);  // prime
  CHECK(count_of(kernel(16, LoopKind::kSerial, true), "#pragma unroll\n") == 1);
  CHECK(count_of(kernel(400, LoopKind::kSerial, true), "#pragma unroll 1\n") == 1);
}

TEST_CASE("a loop of matrix products is unrolled whole, whatever else the launch unrolls") {
  auto kernel = [](bool product) {
    Draft d;
    const Buffer* in = d.buffer("in", Type::kF32, {32, 512}, BufferRole::kInput);
    const Buffer* out = d.buffer("out", Type::kF32, {32, 512}, BufferRole::kOutput);
    const Buffer* x = d.buffer("x", Type::kF32, {4}, BufferRole::kTemp, Scope::kLocal);
    const Buffer* a = d.buffer("a", Type::kF16, {8}, BufferRole::kTemp, Scope::kLocal);
    const Buffer* b = d.buffer("b", Type::kF16, {4}, BufferRole::kTemp, Scope::kLocal);
    const Id l = d.kb.new_id("l"), k = d.kb.new_id("k"), i = d.kb.new_id("i");
    const Expr zero[] = {d.num(0)}, argument[] = {d.load(in, {d.b.var(l), d.b.var(i)})};
    const Operand operands[] = {{x->id, zero}, {a->id, zero}, {b->id, zero}};
    Stmt step = product ? d.b.instr(find_instruction("mma.m16n8k16.f32.f16"), operands, {})
                        : d.store(x, {d.num(0)}, d.b.real(1));
    const Stmt body[] = {
        d.b.loop(k, d.num(4), step, LoopKind::kUnrolled),
        d.b.loop(i, d.num(512), d.store(out, {d.b.var(l), d.b.var(i)}, d.b.call(Intrinsic::kExp, argument)),
                 LoopKind::kUnrolled)};
    const Id locals[] = {x->id, a->id, b->id};
    Stmt root = d.b.loop(l, d.num(32), d.b.alloc(locals, d.b.seq(body)), LoopKind::kBound, Axis::kLane);
    return kernel_text(last_passes(d.finish(root)));
  };
  CHECK(count_of(kernel(true), "#pragma unroll\n  ") == 1);
  CHECK(count_of(kernel(true), "#pragma unroll 16\n") == 1);
  CHECK(count_of(kernel(false), "#pragma unroll\n  ") == 0);
}

TEST_CASE("a nest of unrolled loops around one store ends in vectors where the order of its iterations is free") {
  // out[t][a][b] = f(registers), b the outer loop of the two; `step` is how far two values of a are from each other.
  auto kernel = [](int64_t step, bool reads_itself) {
    Draft d;
    const Buffer* in = d.buffer("in", Type::kF32, {32, 4 * step}, BufferRole::kInput);
    const Buffer* out = d.buffer("out", Type::kF32, {32, 4 * step}, BufferRole::kOutput);
    const Id t = d.kb.new_id("t"), a = d.kb.new_id("a"), b = d.kb.new_id("b");
    const Expr at = d.b.add(d.b.scale(d.b.var(a), step), d.b.var(b));
    const Expr value = d.load(reads_itself ? out : in, {d.b.var(t), at});
    Stmt body = d.store(out, {d.b.var(t), at}, d.b.binary(ExprKind::kMul, value, d.b.real(2)));
    body = d.b.loop(b, d.num(4), d.b.loop(a, d.num(4), body, LoopKind::kUnrolled), LoopKind::kUnrolled);
    return kernel_text(last_passes(d.finish(d.b.loop(t, d.num(32), body, LoopKind::kBound, Axis::kThreadX))));
  };
  CHECK(count_of(kernel(8, false), "tcc_store<4>(out_1") == 1);
  CHECK(count_of(kernel(8, false), "tcc_load<4>(in_0") == 1);
  CHECK(count_of(kernel(8, true), "tcc_store") == 0);
  CHECK(count_of(kernel(2, false), "tcc_store") == 0);  // elements are written twice
}

TEST_CASE("a value that is rounded when it is stored is not rounded before") {
  Draft d;
  const Buffer* in = d.buffer("in", Type::kF16, {32}, BufferRole::kInput);
  const Buffer* out = d.buffer("out", Type::kF16, {32}, BufferRole::kOutput);
  const Id t = d.kb.new_id("t");
  const Expr x = d.load(in, {d.b.var(t)});
  Stmt body = d.store(out, {d.b.var(t)}, d.b.binary(ExprKind::kAdd, d.b.binary(ExprKind::kAdd, x, x), x));
  const std::string text = kernel_text(d.finish(d.b.loop(t, d.num(32), body, LoopKind::kBound, Axis::kThreadX)));
  CHECK(count_of(text, "tcc_round_f16(") == 1);
  CHECK(count_of(text, "= tcc_to_f16((tcc_round_f16(") == 1);
}

TEST_CASE("errors say which rule is broken") {
  Draft d;
  const Buffer* out = d.buffer("out", Type::kF32, {2048}, BufferRole::kOutput);
  const Id t = d.kb.new_id("t");
  auto kernel = [&](LoopKind kind, Axis axis) {
    return d.finish(d.b.loop(t, d.num(2048), d.store(out, {d.b.var(t)}, d.b.real(1)), kind, axis));
  };
  CHECK_THAT(emit_cuda_source(kernel(LoopKind::kBound, Axis::kThreadX), gpu("t4")).error().message,
             Catch::Contains("2048 threads a block, t4 has at most 1024"));
  CHECK_THAT(emit_cuda_source(kernel(LoopKind::kParallel, Axis::kNone), gpu("t4")).error().message,
             Catch::Contains("the parallel loop 't' is not bound"));
  CHECK_THAT(emit_cuda_source(kernel(LoopKind::kBound, Axis::kGridX), target::host_target()).error().message,
             Catch::Contains("is not a CUDA device"));
}
