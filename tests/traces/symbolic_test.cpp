// Each primitive on loops whose extents are decision symbols: the sketch stays symbolic, and for drawn decisions it
// gives the same as replay and lowering, and the right numbers.
#include <catch2/catch.hpp>

#include <functional>
#include <set>

#include "reference.h"
#include "sample_tasks.h"
#include "task_shapes.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/schedule.h"
#include "tcc/space/sketch.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

// A product with its three loops tiled by sampled factors: i0 j0 k0 i1 j1 k1.
struct Tiled {
  Schedule& s;
  BlockRv gemm;
  std::array<LoopRv, 6> loops;
};

Tiled tile(Schedule& s) {
  Tiled t{s, s.get_block("gemm"), {}};
  std::vector<LoopRv> all = s.get_loops(t.gemm);
  for (size_t d = 0; d < 3; ++d) {
    std::vector<LoopRv> parts = s.split(all[d], s.sample_perfect_tile(all[d], 2, 8));
    t.loops[d] = parts[0], t.loops[d + 3] = parts[1];
  }
  s.reorder(t.loops);
  return t;
}
// The loops of a spatial block tiled likewise, two of each.
std::vector<LoopRv> tile_all(Schedule& s, BlockRv block) {
  std::vector<LoopRv> outer, inner;
  for (LoopRv loop : s.get_loops(block)) {
    std::vector<LoopRv> parts = s.split(loop, s.sample_perfect_tile(loop, 2, 8));
    outer.push_back(parts[0]), inner.push_back(parts[1]);
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  s.reorder(outer);
  return outer;
}

struct Row {
  Op op;
  task::Task task;
  std::function<void(Schedule&)> steps;
};

task::Task product() {
  return task::make_gemm({.m = 12, .n = 16, .k = 6, .bias = true, .relu = true, .constant_weights = true});
}

Row on_tiles(Op op, const std::function<void(Tiled&)>& step) {
  return {op, product(), [step](Schedule& s) {
            Tiled t = tile(s);
            step(t);
          }};
}

std::vector<Row> rows_of_loops() {
  return {
      on_tiles(Op::kSplit, [](Tiled& t) { t.s.split(t.loops[3], std::array{ExprRv{}, lit(2)}); }),
      on_tiles(Op::kFuse, [](Tiled& t) { t.s.fuse(std::span(t.loops).first(2)); }),
      on_tiles(Op::kReorder, [](Tiled& t) { t.s.reorder(std::array{t.loops[2], t.loops[0]}); }),
      on_tiles(Op::kParallel, [](Tiled& t) { t.s.parallel(t.loops[0]); }),
      on_tiles(Op::kVectorize, [](Tiled& t) { t.s.vectorize(t.loops[4]); }),
      on_tiles(Op::kUnroll, [](Tiled& t) { t.s.unroll(t.loops[3]); }),
      on_tiles(Op::kBind, [](Tiled& t) { t.s.bind(t.loops[0], ir::Axis::kGridX); }),
      on_tiles(Op::kAddUnitLoop, [](Tiled& t) { t.s.add_unit_loop(t.loops[3]); }),
      on_tiles(Op::kAnnotate,
               [](Tiled& t) {
                 const std::array<int64_t, 3> steps = {0, 16, 64};
                 const std::array<double, 3> weights = {0.2, 0.3, 0.5};
                 t.s.annotate(t.gemm, ir::AnnotationKey::kUnrollMax, t.s.sample_categorical(steps, weights));
               }),
      on_tiles(Op::kUnannotate,
               [](Tiled& t) {
                 t.s.annotate(t.loops[3], ir::AnnotationKey::kUnrollMax, lit(16));
                 t.s.unannotate(t.loops[3], ir::AnnotationKey::kUnrollMax);
               }),
      on_tiles(Op::kDecomposeReduction, [](Tiled& t) { t.s.decompose_reduction(t.gemm, t.loops[2]); }),
      on_tiles(Op::kRfactor, [](Tiled& t) { t.s.rfactor(t.gemm, t.loops[5]); }),
      on_tiles(Op::kBlockize, [](Tiled& t) { t.s.blockize(t.loops[3]); }),
  };
}

std::vector<Row> rows_of_blocks() {
  return {
      on_tiles(Op::kCacheRead, [](Tiled& t) { t.s.cache_read(t.gemm, 0, ir::Scope::kLocal); }),
      on_tiles(Op::kCacheReads, [](Tiled& t) { t.s.cache_reads(t.gemm, 0, ir::Scope::kLocal); }),
      on_tiles(Op::kCacheWrite, [](Tiled& t) { t.s.cache_write(t.gemm, ir::Scope::kLocal); }),
      on_tiles(Op::kReadAt, [](Tiled& t) { t.s.read_at(t.gemm, t.loops[2], 0, ir::Scope::kLocal); }),
      on_tiles(Op::kWriteAt, [](Tiled& t) { t.s.write_at(t.gemm, t.loops[1], ir::Scope::kLocal); }),
      on_tiles(Op::kComputeAt,
               [](Tiled& t) { t.s.compute_at(t.s.cache_read(t.gemm, 0, ir::Scope::kLocal), t.loops[2]); }),
      on_tiles(Op::kReverseComputeAt,
               [](Tiled& t) { t.s.reverse_compute_at(t.s.cache_write(t.gemm, ir::Scope::kLocal), t.loops[1]); }),
      on_tiles(Op::kReindex, [](Tiled& t) { t.s.reindex(t.gemm, 0); }),
      on_tiles(Op::kSetScope,
               [](Tiled& t) {
                 t.s.cache_write(t.gemm, ir::Scope::kGlobal);
                 t.s.set_scope(t.gemm, ir::Scope::kLocal);
               }),
      on_tiles(Op::kStorageAlign,
               [](Tiled& t) {
                 t.s.cache_write(t.gemm, ir::Scope::kLocal);
                 t.s.storage_align(t.gemm, 0, 8, 1);
               }),
      on_tiles(Op::kTransformLayout,
               [](Tiled& t) {
                 const std::array<int32_t, 3> order = {1, 0, 2};
                 const std::array<std::pair<int32_t, int64_t>, 1> tiles = {{{1, 4}}};
                 t.s.transform_layout(t.gemm, 1, order, tiles);
               }),
      {Op::kComputeInline, product(),
       [](Schedule& s) {
         tile_all(s, s.get_block("relu"));
         s.compute_inline(s.get_block("bias"));
       }},
      {Op::kReverseComputeInline, product(),
       [](Schedule& s) {
         tile_all(s, s.get_block("bias"));
         s.reverse_compute_inline(s.get_block("relu"));
       }},
  };
}

// A product whose operands and result are in tiles of the matrix unit.
task::Task product_of_tiles() {
  auto k = ir::parse(R"(kernel built {
  input A: bf16[64, 64]
  input B: bf16[64, 16]
  output C: f32[64, 16]
  temp a: bf16[64, 64] amx_tile
  temp b: bf16[64, 16] amx_tile
  temp d: f32[64, 16] amx_tile
  for i_a in 64 {
    for k_a in 64 {
      block load_a(vi_a: spatial 64 = i_a, vk_a: spatial 64 = k_a) {
        a[vi_a, vk_a] = A[vi_a, vk_a]
      }
    }
  }
  for k_b in 64 {
    for j_b in 16 {
      block load_b(vk_b: spatial 64 = k_b, vj_b: spatial 16 = j_b) {
        b[vk_b, vj_b] = B[vk_b, vj_b]
      }
    }
  }
  for i in 64 {
    for j in 16 {
      for k in 64 {
        block gemm(vi: spatial 64 = i, vj: spatial 16 = j, vk: reduce 64 = k) reduce(sum) {
          init {
            d[vi, vj] = 0.0
          }
          d[vi, vj] = d[vi, vj] + f32(a[vi, vk]) * f32(b[vk, vj])
        }
      }
    }
  }
  for i_c in 64 {
    for j_c in 16 {
      block store(vi_c: spatial 64 = i_c, vj_c: spatial 16 = j_c) {
        C[vi_c, vj_c] = d[vi_c, vj_c]
      }
    }
  }
})");
  if (!k) FAIL(k.error().message);
  task::Task t;
  t.workload = "product of tiles";
  t.kernel = *k;
  return t;
}

task::Task siblings() {
  auto k = ir::parse(R"(kernel built {
  input A: f32[12]
  output B: f32[12]
  output C: f32[12]
  for i in 12 {
    block twice(vi: spatial 12 = i) {
      B[vi] = A[vi] * 2.0
    }
  }
  for j in 12 {
    block plus(vj: spatial 12 = j) {
      C[vj] = A[vj] + 1.0
    }
  }
})");
  if (!k) FAIL(k.error().message);
  task::Task t;
  t.workload = "siblings";
  t.kernel = *k;
  return t;
}

// Those that begin with plain loops, which are tiled afterwards or beside them, and those of one family alone.
std::vector<Row> other_rows() {
  return {
      {Op::kPadEinsum, product(),
       [](Schedule& s) {
         s.pad_einsum(s.get_block("gemm"), std::array<int64_t, 3>{8, 8, 4});
         tile(s);
       }},
      {Op::kTransformBlockLayout, product(),
       [](Schedule& s) {
         BlockRv gemm = s.get_block("gemm");
         s.transform_block_layout(gemm, std::vector<std::vector<IterDigit>>{{{1, 1, 0}}, {{0, 1, 0}}, {{2, 1, 0}}});
         tile(s);
       }},
      {Op::kDecomposePadding,
       task::make_conv({.channels = 4, .filters = 4, .size = {8, 8}, .kernel = {3, 3}, .pads = {1, 1}}),
       [](Schedule& s) {
         BlockRv pad = s.get_block("pad");
         LoopRv channels = s.get_loops(pad)[1];
         std::vector<LoopRv> parts = s.split(channels, s.sample_perfect_tile(channels, 2, 4));
         s.decompose_padding(pad, parts[0]);
       }},
      {Op::kTensorize, product_of_tiles(),
       [](Schedule& s) {
         BlockRv gemm = s.get_block("gemm");
         std::vector<LoopRv> loops = s.get_loops(gemm);
         std::vector<LoopRv> rows = s.split(loops[0], std::array{ExprRv{}, lit(16)});
         std::vector<LoopRv> depth = s.split(loops[2], std::array{ExprRv{}, lit(32)});
         s.reorder(std::array{rows[0], depth[0], rows[1], loops[1], depth[1]});
         s.split(rows[0], s.sample_perfect_tile(rows[0], 2, 4));
         s.split(depth[0], s.sample_perfect_tile(depth[0], 2, 4));
         s.tensorize(s.get_loops(s.decompose_reduction(gemm, s.get_loops(gemm)[2]))[2], "amx.zero.f32");
         s.tensorize(rows[1], "amx.tdpbf16ps.kn");
       }},
      {Op::kMerge, siblings(),
       [](Schedule& s) {
         LoopRv merged = s.merge(s.get_loops(s.get_block("twice"))[0], s.get_loops(s.get_block("plus"))[0]);
         s.split(merged, s.sample_perfect_tile(merged, 2, 4));
       }},
      {Op::kStreamReduction, task::make_attention({.heads = 2, .queries = 6, .keys = 8, .depth = 4, .mask = true}),
       [](Schedule& s) {
         s.compute_inline(s.get_block("row_scale"));
         BlockRv mix = s.get_block("gemm1");
         std::vector<LoopRv> loops = s.get_loops(mix);
         std::vector<ExprRv> keys = s.sample_perfect_tile(loops.back(), 2, 8);
         s.stream_reduction(mix, keys[1], lit(2));
       }},
  };
}

void check_row(const Row& row, const target::Target& target) {
  INFO(op_name(row.op));
  Rng rng(7);
  Schedule s(row.task.kernel, std::make_shared<Arena>(), &rng);
  row.steps(s);
  INFO(print_trace(s.trace()));
  if (!s.ok()) FAIL(s.reject().text);
  REQUIRE(std::any_of(s.trace().instructions.begin(), s.trace().instructions.end(),
                      [&](const Instruction& in) { return in.op == row.op; }));
  auto sketch = space::make_sketch(s.trace(), row.task.kernel, target);
  if (!sketch) FAIL(sketch.error().text);
  CHECK(sketch->symbolic);
  const testing::Reference reference(row.task.kernel);
  std::vector<int64_t> decisions = sketch->trace.decisions;
  std::set<uint64_t> programs;
  for (int round = 0; round < 30; ++round) {
    space::draw_decisions(*sketch, decisions, rng);
    auto arena = std::make_shared<Arena>();
    auto nest = space::instantiate(*sketch, decisions, target, arena);
    auto replayed = replay(s.trace(), decisions, row.task.kernel, arena);
    if (!replayed) FAIL(replayed.error().text);
    auto lowered = lower::lower(*replayed, target, ir::Stage::kNest, arena);
    REQUIRE(nest.has_value() == lowered.has_value());
    if (!nest) continue;
    REQUIRE(ir::hash_kernel(*nest) == ir::hash_kernel(*lowered));
    if (programs.insert(ir::hash_kernel(*nest)).second) reference.check(*nest, std::string(op_name(row.op)));
  }
  CHECK(programs.size() > 1);
}

}  // namespace

TEST_CASE("every primitive works on extents that are symbols", "[traces]") {
  auto host = target::find_target("x86-64-v4"), gpu = target::find_target("a100");
  REQUIRE((host.has_value() && gpu.has_value()));
  std::set<Op> seen;
  for (const auto& rows : {rows_of_loops(), rows_of_blocks(), other_rows()})
    for (const Row& row : rows) {
      seen.insert(row.op);
      check_row(row, row.op == Op::kBind ? *gpu : *host);
    }
  for (const OpRow& row : op_table()) {
    INFO(row.name);
    CHECK((row.flag != Flag::kNone || seen.contains(row.op)));
  }
}

namespace {

// Every draw of the trace's decisions gives the program that replay gives.
void check_draws(const task::Task& task, const std::string& text, const std::vector<int64_t>& decisions) {
  const target::Target target = *target::find_target("x86-64-v3");
  auto trace = parse_trace(text);
  if (!trace) FAIL(trace.error().message);
  auto sketch = space::make_sketch(*trace, task.kernel, target);
  if (!sketch) FAIL(sketch.error().text);
  CHECK(sketch->symbolic);
  auto check = [&](const std::vector<int64_t>& drawn) {
    auto arena = std::make_shared<Arena>();
    auto nest = space::instantiate(*sketch, drawn, target, arena);
    auto replayed = replay(*trace, drawn, task.kernel, arena);
    if (!replayed) FAIL(replayed.error().text);
    auto lowered = lower::lower(*replayed, target, ir::Stage::kNest, arena);
    REQUIRE((nest.has_value() && lowered.has_value()));
    INFO(ir::print(*nest) << ir::print(*lowered));
    REQUIRE(ir::hash_kernel(*nest) == ir::hash_kernel(*lowered));
    testing::Reference(task.kernel).check(*nest, text);
  };
  check(decisions);
  Rng rng(11);
  std::vector<int64_t> drawn = sketch->trace.decisions;
  for (int round = 0; round < 40; ++round) {
    space::draw_decisions(*sketch, drawn, rng);
    check(drawn);
  }
}

}  // namespace

// The predicate of the first split says nothing where its factor is 1, or where it divides; the second one's stays.
TEST_CASE("a sketch drops the conditions that replay never makes", "[traces]") {
  const task::Task max = task::make_reduction({7, 6}, {0}, graph::Op::kReduceMax);
  const std::string text = R"(v0 = get_block("reduce_max")
v1, v2 = get_loops(v0)
v3 = rfactor(v0, v2)
v4, v5 = get_loops(v0)
v6, v7, v8, v9 = sample_tile(v5) max_innermost=16 extent=7 tails=[mask, peel, pad] <3, 3, 1, 0>
v10, v11, v12 = split(v5, v6, v7, v8)
v13, v14 = split(v12, _, 7)
v15, v16, v17 = sample_tile(v4) max_innermost=16 extent=6 tails=[mask, peel, pad] <2, 3, 0>
v18, v19 = split(v4, v15, v16)
v20, v21 = split(v19, _, 2)
)";
  check_draws(max, text, {7, 1, 1, 1, 2, 3, 1});
}

// A block cannot move to a loop of one iteration: replay leaves it in place.
TEST_CASE("a sketch's place for a block is one for the decisions that leave it iterations", "[traces]") {
  const task::Task softmax = task::make_softmax({6, 17}, 1);
  check_draws(softmax, R"(v0 = get_block("row_max")
v1 = get_block("row_exp")
v2, v3 = get_loops(v1)
v4, v5 = sample_perfect_tile(v2) max_innermost=16 <3, 2>
v6, v7 = split(v2, v4, v5)
v8 = sample_compute_location(v0) <0>
compute_at(v0, v8)
)",
              {1, 6, 0});
}
