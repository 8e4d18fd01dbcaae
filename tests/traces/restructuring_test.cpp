// The primitives that restructure blocks, with random arguments on kernels of odd, prime and unit extents: a reject, or
// a kernel that verifies and computes the same at Scheduled and at Nest.
#include <catch2/catch.hpp>

#include <map>

#include "reference.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/schedule.h"
#include "tcc/task/task.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

// The schedule's kernel, its replay, its text form, and what lowering makes of it.
void check(const testing::Reference& reference, const ir::Kernel& naive, const Schedule& s) {
  INFO(print_trace(s.trace()));
  reference.check(s.kernel(), "scheduled");
  auto arena = std::make_shared<Arena>();
  auto again = replay(s.trace(), s.trace().decisions, naive, arena);
  REQUIRE(again);
  REQUIRE(ir::hash_kernel(*again) == ir::hash_kernel(s.kernel()));
  auto parsed = ir::parse(ir::print(*again));
  REQUIRE(parsed);
  REQUIRE(ir::hash_kernel(*parsed) == ir::hash_kernel(*again));
  auto nest = lower::lower(*again, target::host_target(), ir::Stage::kNest, arena);
  if (nest) reference.check(*nest, "nest");
  if (!nest) REQUIRE(nest.error().reason == ir::RejectReason::kVectorTooWide);
  auto lowered = lower::lower(*again, target::host_target(), ir::Stage::kLowered, arena);
  if (lowered) reference.check(*lowered, "lowered");
}

int64_t odd(Rng& rng) {
  static constexpr std::array<int64_t, 7> kExtents = {1, 2, 3, 5, 7, 8, 11};
  return kExtents[static_cast<size_t>(rng.below(kExtents.size()))];
}

template <class T>
const T& any(Rng& rng, const std::vector<T>& v) {
  return v[static_cast<size_t>(rng.below(static_cast<int64_t>(v.size())))];
}

task::Task random_task(Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      return task::make_gemm({.m = odd(rng), .n = odd(rng), .k = odd(rng), .bias = true, .relu = rng.below(2) == 0});
    case 1: {
      int64_t size = 3 + rng.below(5);
      return task::make_conv({.batch = 1 + rng.below(2),
                              .channels = 1 + rng.below(3),
                              .filters = odd(rng),
                              .size = {size, size + 1},
                              .kernel = {3, 2},
                              .strides = {1 + rng.below(2), 1},
                              .pads = {1, rng.below(2)}});
    }
    case 2:
      return task::make_softmax({odd(rng), odd(rng)}, 1);
    case 3:
      return task::make_elementwise({odd(rng), odd(rng), 1});
    default:
      return task::make_reduction({odd(rng), odd(rng)}, {1}, graph::Op::kReduceSum);
  }
}

std::vector<BlockRv> blocks_of(Schedule& s, const ir::Kernel& k) {
  std::vector<BlockRv> out;
  for (const ir::Block* b : ir::collect_blocks(k.root)) out.push_back(s.get_block(ir::name_hint(k, b->id)));
  REQUIRE(s.ok());
  return out;
}

// Splits and orders loops before the step, so that it meets what search would give it.
void disturb(Schedule& s, BlockRv block, Rng& rng) {
  for (int64_t n = rng.below(4); n > 0; --n) {
    std::vector<LoopRv> loops = s.get_loops(block);
    if (!s.ok() || loops.empty()) break;
    if (rng.below(3) > 0) {
      s.split(any(rng, loops), std::array{ExprRv{}, lit(1 + rng.below(4))});
    } else {
      for (size_t i = loops.size(); i > 1; --i)
        std::swap(loops[i - 1], loops[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
      s.reorder(loops);
    }
    s.clear_reject();
  }
  s.clear_reject();
}

// Runs `step` in many random places; it must be accepted at least `least` times.
template <class Step>
void try_often(uint64_t seed, int rounds, int least, const Step& step) {
  Rng rng(seed);
  int accepted = 0;
  std::map<std::string, int> reasons;
  for (int round = 0; round < rounds; ++round) {
    task::Task t = random_task(rng);
    testing::Reference reference(t.kernel);
    Schedule s(t.kernel, std::make_shared<Arena>(), &rng);
    std::vector<BlockRv> blocks = blocks_of(s, t.kernel);
    BlockRv block = any(rng, blocks);
    if (rng.below(2) == 0) disturb(s, block, rng);
    std::vector<LoopRv> loops = s.get_loops(block);
    if (!s.ok() || loops.empty()) continue;
    step(s, block, loops, rng);
    if (s.ok()) {
      ++accepted;
      check(reference, t.kernel, s);
      disturb(s, block, rng);
      check(reference, t.kernel, s);
    } else {
      CHECK_FALSE(s.reject().text.empty());
      ++reasons[std::string(ir::reject_reason_name(s.reject().reason))];
    }
  }
  std::string summary;
  for (const auto& [reason, n] : reasons) summary += fmt::format("{} {}, ", n, reason);
  INFO(accepted << " accepted; " << summary);
  CHECK(accepted >= least);
}

}  // namespace

TEST_CASE("random blocks in blocks keep the meaning", "[traces]") {
  try_often(1, 400, 100, [](Schedule& s, BlockRv, std::vector<LoopRv>& loops, Rng& rng) {
    BlockRv outer = s.blockize(any(rng, loops));
    if (!s.ok()) return;
    std::vector<LoopRv> around = s.get_loops(outer);
    if (rng.below(2) == 0 && !around.empty()) {
      s.decompose_reduction(outer, any(rng, around));
      s.clear_reject();
    }
    if (rng.below(3) == 0 && !around.empty()) {
      s.blockize(any(rng, around));
      s.clear_reject();
    }
    if (rng.below(3) == 0 && !around.empty()) {
      s.parallel(around[0]);
      s.clear_reject();
    }
  });
}

TEST_CASE("random copies in the order of iterators keep the meaning", "[traces]") {
  try_often(2, 300, 80, [](Schedule& s, BlockRv block, std::vector<LoopRv>&, Rng& rng) {
    BlockRv copy = s.reindex(block, static_cast<int>(rng.below(4)) - 1);
    if (!s.ok() || rng.below(2) == 0) return;
    std::vector<LoopRv> loops = s.get_loops(block);
    s.compute_at(copy, any(rng, loops));
    s.clear_reject();
  });
}

TEST_CASE("random iterators of blocks keep the meaning", "[traces]") {
  try_often(3, 400, 60, [](Schedule& s, BlockRv block, std::vector<LoopRv>&, Rng& rng) {
    const ir::Block* b = ir::find_block(s.kernel().root, s.id(block));
    std::vector<std::vector<IterDigit>> map;
    for (size_t i = 0; i < b->iters.size(); ++i) {
      auto iter = static_cast<int64_t>(i);
      int64_t extent = ir::int_value(b->iters[i].extent), tile = rng.below(2) == 0 ? 1 : 1 + rng.below(4);
      if (rng.below(8) > 0 && extent % tile != 0) tile = 1;
      map.push_back({{iter, tile, 0}});
      if (tile > 1) map.push_back({{iter, 1, tile}});
    }
    for (size_t i = map.size(); i > 1; --i)
      std::swap(map[i - 1], map[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
    for (int64_t joins = rng.below(3); joins > 0 && map.size() > 1; --joins) {
      map[0].insert(map[0].end(), map.back().begin(), map.back().end());
      map.pop_back();
    }
    s.transform_block_layout(block, map);
  });
}

TEST_CASE("random fills of borders keep the meaning", "[traces]") {
  try_often(4, 500, 15, [](Schedule& s, BlockRv block, std::vector<LoopRv>& loops, Rng& rng) {
    s.decompose_padding(block, any(rng, loops));
  });
}

TEST_CASE("random copies at loops keep the meaning", "[traces]") {
  try_often(5, 300, 60, [](Schedule& s, BlockRv block, std::vector<LoopRv>& loops, Rng& rng) {
    if (rng.below(2) == 0)
      s.read_at(block, any(rng, loops), static_cast<int>(rng.below(2)), ir::Scope::kLocal);
    else
      s.write_at(block, any(rng, loops), ir::Scope::kShared);
  });
}

TEST_CASE("random scopes, strides, unit loops and annotations keep the meaning", "[traces]") {
  try_often(6, 300, 80, [](Schedule& s, BlockRv block, std::vector<LoopRv>& loops, Rng& rng) {
    if (rng.below(2) == 0) s.cache_write(block, ir::Scope::kGlobal);
    if (!s.ok()) return;
    s.add_unit_loop(any(rng, loops));
    s.add_unit_loop(block);
    s.annotate(block, ir::AnnotationKey::kUnrollMax, lit(16));
    s.unannotate(block, ir::AnnotationKey::kUnrollMax);
    if (rng.below(2) == 0) return;
    s.set_scope(block, rng.below(2) == 0 ? ir::Scope::kLocal : ir::Scope::kShared);
    s.storage_align(block, static_cast<int>(rng.below(3)), 1 + rng.below(9), rng.below(4));
  });
}

TEST_CASE("random binding of loops keeps the meaning", "[traces]") {
  using ir::Axis;
  static constexpr std::array kAxes = {Axis::kGridX,   Axis::kGridY,   Axis::kThreadX, Axis::kThreadY,
                                       Axis::kThreadZ, Axis::kVthread, Axis::kWarp,    Axis::kLane};
  auto gpu = target::find_target("a100");
  REQUIRE(gpu.has_value());
  Rng rng(7);
  int accepted = 0, refused = 0, lowered = 0;
  for (int round = 0; round < 300; ++round) {
    task::Task t = random_task(rng);
    const testing::Reference reference(t.kernel);
    Schedule s(t.kernel, std::make_shared<Arena>(), &rng);
    BlockRv block = any(rng, blocks_of(s, t.kernel));
    disturb(s, block, rng);
    for (int64_t n = 1 + rng.below(4); n > 0; --n) {
      std::vector<LoopRv> loops = s.get_loops(block);
      if (!s.ok() || loops.empty()) break;
      s.bind(any(rng, loops), any(rng, std::vector<Axis>(kAxes.begin(), kAxes.end())));
      (s.ok() ? accepted : refused)++;
      if (!s.ok()) CHECK_FALSE(s.reject().text.empty());
      s.clear_reject();
    }
    s.clear_reject();
    INFO(print_trace(s.trace()));
    reference.check(s.kernel(), "scheduled", rng.below(1000));
    auto arena = std::make_shared<Arena>();
    auto again = replay(s.trace(), s.trace().decisions, t.kernel, arena);
    REQUIRE(again);
    REQUIRE(ir::hash_kernel(*again) == ir::hash_kernel(s.kernel()));
    auto nest = lower::lower(*again, *gpu, ir::Stage::kNest, arena);
    if (!nest) continue;
    reference.check(*nest, "nest", rng.below(1000));
    ++lowered;
  }
  INFO(accepted << " accepted, " << refused << " refused, " << lowered << " lowered");
  CHECK(accepted > 200);
  CHECK(refused > 50);
  CHECK(lowered > 20);
}

namespace {

// Attention over `rows` queries and `keys` keys as its naive blocks: with heads, a scale, a causal mask, and the
// division before or behind the second product.
std::string attention(int64_t heads, int64_t rows, int64_t keys, int64_t depth, int64_t width, bool mask,
                      bool divide_first) {
  std::string score = mask ? "select(k <= q + 1, S[h, q, k] * 0.25, -inf)" : "S[h, q, k] * 0.25";
  auto rw = [&](std::string block, const char* kinds) {
    std::string out = fmt::format(
        "  for a in {} {{\n    for i in {} {{\n      for j in {} {{\n        block {}(h: spatial "
        "{} = a, q: spatial {} = i, k: {} {} = j) ",
        heads, rows, keys, block, heads, rows, kinds, keys);
    return out;
  };
  std::string out = "kernel built {\n";
  out += fmt::format("  input Q: f32[{}, {}, {}]\n  input K: f32[{}, {}, {}]\n  input V: f32[{}, {}, {}]\n", heads,
                     rows, depth, heads, keys, depth, heads, keys, width);
  out += fmt::format("  output O: f32[{}, {}, {}]\n", heads, rows, width);
  for (const char* name : {"S", "E", "P"}) out += fmt::format("  temp {}: f32[{}, {}, {}]\n", name, heads, rows, keys);
  for (const char* name : {"M", "L"}) out += fmt::format("  temp {}: f32[{}, {}]\n", name, heads, rows);
  out += fmt::format("  temp U: f32[{}, {}, {}]\n", heads, rows, width);
  out += fmt::format(
      "  for a in {} {{\n    for i in {} {{\n      for j in {} {{\n        for d in {} {{\n          block "
      "scores(h: spatial {} = a, q: spatial {} = i, k: spatial {} = j, vd: reduce {} = d) reduce(sum) {{\n"
      "            init {{\n              S[h, q, k] = 0.0\n            }}\n            S[h, q, k] = S[h, q, "
      "k] + Q[h, q, vd] * K[h, k, vd]\n          }}\n        }}\n      }}\n    }}\n  }}\n",
      heads, rows, keys, depth, heads, rows, keys, depth);
  const char* end = "        }\n      }\n    }\n  }\n";
  out += rw("top", "reduce") + "reduce(max) {\n init {\n M[h, q] = -inf\n }\n M[h, q] = max(M[h, q], " + score + ")\n" +
         end;
  out += rw("weights", "spatial") + "{\n E[h, q, k] = exp(" + score + " - M[h, q])\n" + end;
  out += rw("total", "reduce") + "reduce(sum) {\n init {\n L[h, q] = 0.0\n }\n L[h, q] = L[h, q] + E[h, q, k]\n" + end;
  if (divide_first) out += rw("share", "spatial") + "{\n P[h, q, k] = E[h, q, k] / L[h, q]\n" + end;
  const char* result = divide_first ? "O" : "U";
  out += fmt::format(
      "  for a in {} {{\n    for i in {} {{\n      for c in {} {{\n        for j in {} {{\n          block "
      "mix(h: spatial {} = a, q: spatial {} = i, vc: spatial {} = c, k: reduce {} = j) reduce(sum) {{\n"
      "init {{\n {}[h, q, vc] = 0.0\n }}\n {}[h, q, vc] = {}[h, q, vc] + {}[h, q, k] * V[h, k, vc]\n }}\n }}\n "
      "}}\n }}\n }}\n",
      heads, rows, width, keys, heads, rows, width, keys, result, result, result, divide_first ? "P" : "E");
  if (!divide_first)
    out += fmt::format(
        "  for a in {} {{\n    for i in {} {{\n      for c in {} {{\n        block share(h: spatial {} = a, q: "
        "spatial {} = i, vc: spatial {} = c) {{\n O[h, q, vc] = U[h, q, vc] / L[h, q]\n }}\n }}\n }}\n }}\n",
        heads, rows, width, heads, rows, width);
  return out + "}\n";
}

}  // namespace

TEST_CASE("attention in one pass keeps the meaning", "[traces]") {
  Rng rng(11);
  for (int round = 0; round < 60; ++round) {
    bool divide_first = rng.below(2) == 0;
    std::string text =
        attention(1 + rng.below(2), odd(rng), odd(rng), odd(rng), odd(rng), rng.below(2) == 0, divide_first);
    auto start = ir::parse(text, "attention");
    INFO(text);
    if (!start) FAIL(start.error().message);
    // Without the buffers that this form does not use.
    ir::Kernel k = *start;
    std::vector<const ir::Buffer*> used;
    for (const ir::Buffer* b : k.buffers)
      if (ir::name_hint(k, b->id) != (divide_first ? "U" : "P")) used.push_back(b);
    k.buffers = k.arena->copy(used);
    testing::Reference reference(k);
    Schedule s(k, std::make_shared<Arena>(), &rng);
    BlockRv scores = s.get_block("scores"), mix = s.get_block("mix");
    // Whole tiles need sums and maxima that nothing behind the product reads.
    std::optional<ExprRv> group;
    if (divide_first && round % 3 == 0) group = lit(1 + rng.below(3));
    LoopRv tiles = s.stream_reduction(mix, lit(1 + rng.below(5)), lit(1 + rng.below(4)), group);
    REQUIRE(s.ok());
    check(reference, k, s);
    s.compute_at(scores, tiles);
    INFO(print_trace(s.trace()));
    if (!s.ok()) FAIL(s.reject().text);
    check(reference, k, s);
    // One kernel: nothing is outside of the loops over heads and rows, whose iterations are independent.
    if (divide_first) CHECK(s.kernel().root->kind == ir::StmtKind::kLoop);
    s.parallel(s.get_loops(mix)[0]);
    REQUIRE(s.ok());
    check(reference, k, s);
    disturb(s, mix, rng);
    disturb(s, scores, rng);
    check(reference, k, s);
  }
}

TEST_CASE("attention in one pass with tiles that are still symbols", "[traces]") {
  auto start = ir::parse(attention(2, 6, 8, 3, 4, true, true), "attention");
  REQUIRE(start);
  ir::Kernel k = *start;
  std::vector<const ir::Buffer*> used;
  for (const ir::Buffer* b : k.buffers)
    if (ir::name_hint(k, b->id) != "U") used.push_back(b);
  k.buffers = k.arena->copy(used);
  testing::Reference reference(k);
  Rng rng(5);
  Schedule s(k, std::make_shared<Arena>(), &rng);
  BlockRv scores = s.get_block("scores"), mix = s.get_block("mix");
  std::vector<LoopRv> loops = s.get_loops(mix);
  std::vector<ExprRv> keys = s.sample_perfect_tile(loops[3], 2, 8), rows = s.sample_perfect_tile(loops[1], 2, 4);
  s.compute_at(scores, s.stream_reduction(mix, keys[1], rows[1]));
  REQUIRE(s.ok());
  check(reference, k, s);
  Executor symbolic(k, std::make_shared<Arena>(), Mode::kSymbolic, nullptr);
  std::vector<int64_t> decisions = s.trace().decisions;
  for (const Instruction& in : s.trace().instructions) {
    std::span<int64_t> d;
    if (in.decision >= 0)
      d = std::span(decisions).subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
    auto done = symbolic.run(in, d);
    if (!done) FAIL(done.error().text);
  }
  INFO(ir::print(symbolic.kernel()));
  CHECK(ir::verify(symbolic.kernel()).empty());
}

namespace {

// Two statistics of rows of f(X), as their naive blocks: the maximum and the sum of exponentials relative to it, of
// masked terms; or the mean and the squares about it, of terms far from zero.
std::string statistics(int64_t rows, int64_t terms, bool exponential) {
  const char* term = exponential ? "select(k <= 2*q, X[q, k] * 0.25, -inf)" : "X[q, k] + 1000.0";
  auto nest = [&](const char* block, const char* identity, const char* reducer, const std::string& buffer,
                  const std::string& update) {
    return fmt::format(
        "for i in {0} {{\nfor j in {1} {{\nblock {2}(q: spatial {0} = i, k: reduce {1} = j) reduce({3}) {{\ninit {{\n"
        "{4}[q] = {5}\n}}\n{4}[q] = {6}\n}}\n}}\n}}\n",
        rows, terms, block, reducer, buffer, identity, update);
  };
  std::string out =
      fmt::format("kernel built {{\n input X: f32[{0}, {1}]\n output A: f32[{0}]\n output B: f32[{0}]\n", rows, terms);
  if (exponential) {
    out += nest("first", "-inf", "max", "A", fmt::format("max(A[q], {})", term));
    out += nest("second", "0.0", "sum", "B", fmt::format("B[q] + exp({} - A[q])", term));
  } else {
    const std::string d = fmt::format("({} - A[q] / {}.0)", term, terms);
    out += nest("first", "0.0", "sum", "A", fmt::format("A[q] + ({})", term));
    out += nest("second", "0.0", "sum", "B", fmt::format("B[q] + {} * {}", d, d));
  }
  return out + "}\n";
}

}  // namespace

TEST_CASE("statistics of rows in one pass keep the meaning", "[traces]") {
  Rng rng(19);
  for (int round = 0; round < 60; ++round) {
    const bool exponential = round % 2 == 0;
    const std::string text = statistics(odd(rng), 1 + rng.below(40), exponential);
    auto start = ir::parse(text, "statistics");
    INFO(text);
    if (!start) FAIL(start.error().message);
    testing::Reference reference(*start, 1e-4);
    Schedule s(*start, std::make_shared<Arena>(), &rng);
    BlockRv first = s.get_block("first"), second = s.get_block("second");
    LoopRv round_loop = s.stream_reduction(second, lit(1 + rng.below(4)), lit(1 + rng.below(5)), lit(1 + rng.below(3)));
    INFO(print_trace(s.trace()));
    if (!s.ok()) FAIL(s.reject().text);
    check(reference, *start, s);
    // Chunks do not depend on each other, nor do rows.
    s.parallel(round_loop);
    REQUIRE(s.ok());
    check(reference, *start, s);
    disturb(s, first, rng);
    disturb(s, second, rng);
    check(reference, *start, s);
  }
}

TEST_CASE("statistics of rows in one pass with chunks that are still symbols", "[traces]") {
  for (const bool exponential : {true, false}) {
    auto start = ir::parse(statistics(3, 24, exponential), "statistics");
    REQUIRE(start);
    testing::Reference reference(*start, 1e-4);
    Rng rng(5);
    Schedule s(*start, std::make_shared<Arena>(), &rng);
    BlockRv second = s.get_block("second");
    std::vector<ExprRv> tiles = s.sample_perfect_tile(s.get_loops(second)[1], 3, 8);
    s.stream_reduction(second, tiles[1], tiles[2], lit(2));
    REQUIRE(s.ok());
    check(reference, *start, s);
    Executor symbolic(*start, std::make_shared<Arena>(), Mode::kSymbolic, nullptr);
    std::vector<int64_t> decisions = s.trace().decisions;
    std::string reason;
    for (const Instruction& in : s.trace().instructions) {
      std::span<int64_t> d;
      if (in.decision >= 0)
        d = std::span(decisions).subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
      auto done = symbolic.run(in, d);
      if (!done) reason = ir::reject_reason_name(done.error().reason);
    }
    // The number of terms of a chunk, which squares about a mean need, takes numbers.
    CHECK(reason == (exponential ? "" : ir::reject_reason_name(ir::RejectReason::kNotConstant)));
    INFO(ir::print(symbolic.kernel()));
    CHECK(ir::verify(symbolic.kernel()).empty());
  }
}
