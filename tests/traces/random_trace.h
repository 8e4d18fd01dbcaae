// Random schedules: any primitive on any handle, keeping what is legal.
#pragma once

#include <array>
#include <map>

#include "tcc/ir/walk.h"
#include "tcc/schedule/schedule.h"

namespace tcc::testing {

struct RandomTrace {
  schedule::Schedule schedule;
  std::map<std::string, int> applied, rejected;  // by primitive
};

// Blocks are addressed by their name hints, which tasks keep unique.
class TraceWriter {
 public:
  TraceWriter(const ir::Kernel& start, Rng& rng)
      : out_{schedule::Schedule(start, std::make_shared<Arena>(), &rng), {}, {}}, rng_(rng) {
    for (const ir::Block* b : ir::collect_blocks(start.root)) {
      schedule::BlockRv rv = out_.schedule.get_block(ir::name_hint(start, b->id));
      if (out_.schedule.ok()) blocks_.push_back(rv);
      out_.schedule.clear_reject();
    }
  }

  RandomTrace write(int steps) {
    for (int i = 0; i < steps; ++i) step();
    return std::move(out_);
  }

  // What a random step works on.
  struct At {
    schedule::BlockRv block;
    schedule::LoopRv loop;
    std::vector<schedule::LoopRv> loops;  // around the block
  };
  struct Step {
    schedule::Op op;
    void (*make)(TraceWriter& w, const At& at);
  };
  // One row for each instruction that random traces try, several for some.
  static const std::vector<Step>& steps() {
    using namespace schedule;
    static const std::vector<Step> all = {
        {Op::kSplit,
         [](TraceWriter& w, const At& at) {
           Schedule& s = w.out_.schedule;
           s.split(at.loop, s.sample_perfect_tile(at.loop, 2 + w.below(2), 16));
         }},
        {Op::kSplit,
         [](TraceWriter& w, const At& at) {
           Schedule& s = w.out_.schedule;
           ExprRv tail;
           std::vector<ExprRv> factors = s.sample_tile(at.loop, 2 + w.below(2), 16, 1, &tail, 7);
           std::vector<LoopRv> tiles = s.split(at.loop, factors);
           if (s.ok()) s.annotate(tiles[0], ir::AnnotationKey::kTail, tail);
         }},
        {Op::kSplit, [](TraceWriter& w,
                        const At& at) { w.out_.schedule.split(at.loop, std::array{ExprRv{}, lit(1 + w.below(7))}); }},
        {Op::kFuse, [](TraceWriter& w, const At& at) { w.fuse(at.loops); }},
        {Op::kMerge, [](TraceWriter& w, const At& at) { w.merge(at); }},
        {Op::kReorder, [](TraceWriter& w, const At& at) { w.reorder(at.loops); }},
        {Op::kComputeAt, [](TraceWriter& w, const At& at) { w.move(at.block, true); }},
        {Op::kReverseComputeAt, [](TraceWriter& w, const At& at) { w.move(at.block, false); }},
        {Op::kComputeInline, [](TraceWriter& w, const At& at) { w.out_.schedule.compute_inline(at.block); }},
        {Op::kReverseComputeInline,
         [](TraceWriter& w, const At& at) { w.out_.schedule.reverse_compute_inline(at.block); }},
        {Op::kCacheRead,
         [](TraceWriter& w, const At& at) {
           const int read = w.below(3);
           w.keep(w.out_.schedule.cache_read(at.block, read, local_or_global(w.rng_)));
         }},
        {Op::kCacheReads,
         [](TraceWriter& w, const At& at) {
           const int read = w.below(3);
           w.keep(w.out_.schedule.cache_reads(at.block, read, local_or_global(w.rng_)));
         }},
        {Op::kCacheWrite,
         [](TraceWriter& w, const At& at) { w.keep(w.out_.schedule.cache_write(at.block, local_or_global(w.rng_))); }},
        {Op::kDecomposeReduction,
         [](TraceWriter& w, const At& at) { w.keep(w.out_.schedule.decompose_reduction(at.block, at.loop)); }},
        {Op::kParallel, [](TraceWriter& w, const At& at) { w.out_.schedule.parallel(at.loop); }},
        {Op::kVectorize, [](TraceWriter& w, const At& at) { w.out_.schedule.vectorize(at.loop); }},
        {Op::kUnroll, [](TraceWriter& w, const At& at) { w.out_.schedule.unroll(at.loop); }},
        {Op::kSampleComputeLocation,
         [](TraceWriter& w, const At& at) {
           Schedule& s = w.out_.schedule;
           s.compute_at(at.block, s.sample_compute_location(at.block));
         }},
        {Op::kRfactor, [](TraceWriter& w, const At& at) { w.keep(w.out_.schedule.rfactor(at.block, at.loop)); }},
        {Op::kAnnotate,
         [](TraceWriter& w, const At& at) {
           std::array<int64_t, 3> values = {0, 16, 64};
           std::array<double, 3> weights = {0.2, 0.3, 0.5};
           Schedule& s = w.out_.schedule;
           s.annotate(at.block, ir::AnnotationKey::kUnrollMax, s.sample_categorical(values, weights));
         }},
        {Op::kUnannotate,
         [](TraceWriter& w, const At& at) { w.out_.schedule.unannotate(at.block, ir::AnnotationKey::kUnrollMax); }},
        {Op::kAddUnitLoop,
         [](TraceWriter& w, const At& at) {
           if (w.below(2) == 0)
             w.out_.schedule.add_unit_loop(at.block);
           else
             w.out_.schedule.add_unit_loop(at.loop);
         }},
        {Op::kSetScope,
         [](TraceWriter& w, const At& at) { w.out_.schedule.set_scope(at.block, local_or_shared(w.rng_)); }},
        {Op::kStorageAlign,
         [](TraceWriter& w, const At& at) {
           const int dim = w.below(4), factor = 1 + w.below(16), offset = w.below(5);
           w.out_.schedule.storage_align(at.block, dim, factor, offset);
         }},
        {Op::kBlockize, [](TraceWriter& w, const At& at) { w.keep(w.out_.schedule.blockize(at.loop)); }},
        {Op::kReindex, [](TraceWriter& w, const At& at) { w.keep(w.out_.schedule.reindex(at.block, w.below(4) - 1)); }},
        {Op::kTransformBlockLayout, [](TraceWriter& w, const At& at) { w.transform(at.block); }},
        {Op::kDecomposePadding,
         [](TraceWriter& w, const At& at) { w.keep(w.out_.schedule.decompose_padding(at.block, at.loop)); }},
        {Op::kReadAt,
         [](TraceWriter& w, const At& at) {
           const int read = w.below(3);
           w.keep(w.out_.schedule.read_at(at.block, at.loop, read, local_or_shared(w.rng_)));
         }},
        {Op::kWriteAt,
         [](TraceWriter& w, const At& at) {
           w.keep(w.out_.schedule.write_at(at.block, at.loop, local_or_shared(w.rng_)));
         }},
        {Op::kStreamReduction, [](TraceWriter& w, const At& at) { w.stream(at.block); }},
    };
    return all;
  }
  // Random traces leave these to tests of their own: they fit few kernels, or promise what a thread must be.
  static bool is_left_out(schedule::Op op) {
    using schedule::Op;
    return op == Op::kBind || op == Op::kTransformLayout || op == Op::kPadEinsum || op == Op::kTensorize;
  }

 private:
  int below(int64_t n) { return static_cast<int>(rng_.below(n)); }
  template <class T>
  const T& any(const std::vector<T>& v) {
    return v[static_cast<size_t>(rng_.below(static_cast<int64_t>(v.size())))];
  }

  void step() {
    using namespace schedule;
    Schedule& s = out_.schedule;
    BlockRv block = any(blocks_);
    if (!ir::find_path(s.kernel().root, s.id(block)).found()) return;  // inlined away
    std::vector<LoopRv> loops = s.get_loops(block);
    if (loops.empty()) {
      s.clear_reject();
      return;
    }
    const Step& step = any(steps());
    LoopRv loop = any(loops);
    step.make(*this, {block, loop, loops});
    (s.ok() ? out_.applied : out_.rejected)[std::string(op_name(step.op))]++;
    s.clear_reject();
  }

  static ir::Scope local_or_shared(Rng& rng) { return rng.below(2) == 0 ? ir::Scope::kLocal : ir::Scope::kShared; }
  static ir::Scope local_or_global(Rng& rng) { return rng.below(2) == 0 ? ir::Scope::kLocal : ir::Scope::kGlobal; }

  void fuse(const std::vector<schedule::LoopRv>& loops) {
    size_t i = static_cast<size_t>(rng_.below(static_cast<int64_t>(loops.size())));
    size_t n = 1 + static_cast<size_t>(rng_.below(static_cast<int64_t>(loops.size() - i)));
    out_.schedule.fuse(std::span(loops).subspan(i, std::min<size_t>(n, 3)));
  }
  // With the loop of another block at the same depth.
  void merge(const At& at) {
    schedule::Schedule& s = out_.schedule;
    std::vector<schedule::LoopRv> others = s.get_loops(any(blocks_));
    if (!s.ok() || others.empty()) return;
    const size_t depth = static_cast<size_t>(rng_.below(std::ssize(at.loops)));
    s.merge(at.loops[depth], others[std::min(depth, others.size() - 1)]);
  }
  void reorder(std::vector<schedule::LoopRv> order) {
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
    order.resize(1 + static_cast<size_t>(rng_.below(static_cast<int64_t>(order.size()))));
    out_.schedule.reorder(order);
  }
  // To a loop of a consumer, or of a producer.
  void move(schedule::BlockRv block, bool to_consumer) {
    schedule::Schedule& s = out_.schedule;
    std::vector<schedule::BlockRv> others = to_consumer ? s.get_consumers(block) : s.get_producers(block);
    if (!s.ok() || others.empty()) return;
    std::vector<schedule::LoopRv> at = s.get_loops(any(others));
    if (!s.ok() || at.empty()) return;
    if (to_consumer)
      s.compute_at(block, any(at));
    else
      s.reverse_compute_at(block, any(at));
  }
  // An attention's weighted sum where there is one; its softmax divides once a row, which the step wants in place.
  void stream(schedule::BlockRv block) {
    schedule::Schedule& s = out_.schedule;
    s.compute_inline(s.get_block("row_scale"));
    s.clear_reject();
    schedule::BlockRv product = s.get_block("gemm1");
    if (!s.ok() || rng_.below(4) == 0) product = block;
    s.clear_reject();
    const int64_t keys = 1 + rng_.below(8), rows = 1 + rng_.below(8);
    std::optional<schedule::ExprRv> group;
    if ((keys + rows) % 3 == 0) group = schedule::lit(1 + keys % 4);
    s.stream_reduction(product, schedule::lit(keys), schedule::lit(rows), group);
  }
  // Each iterator whole, or split by a small factor; the digits in any order, some joined.
  void transform(schedule::BlockRv block) {
    using namespace schedule;
    const ir::Block* b = ir::find_block(out_.schedule.kernel().root, out_.schedule.id(block));
    std::vector<std::vector<IterDigit>> map;
    for (size_t i = 0; b != nullptr && i < b->iters.size(); ++i) {
      int64_t tile = rng_.below(2) == 0 ? 1 + rng_.below(4) : 1;
      auto iter = static_cast<int64_t>(i);
      map.push_back({{iter, tile, 0}});
      if (tile > 1) map.push_back({{iter, 1, tile}});
    }
    for (size_t i = map.size(); i > 1; --i)
      std::swap(map[i - 1], map[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
    if (map.size() > 1 && rng_.below(2) == 0) {
      map[0].insert(map[0].end(), map.back().begin(), map.back().end());
      map.pop_back();
    }
    out_.schedule.transform_block_layout(block, map);
  }
  void keep(schedule::BlockRv b) {
    if (out_.schedule.ok()) blocks_.push_back(b);
  }

  RandomTrace out_;
  Rng& rng_;
  std::vector<schedule::BlockRv> blocks_;
};

}  // namespace tcc::testing
