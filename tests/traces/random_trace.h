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

// What a step of a random trace may be.
inline constexpr std::array<const char*, 27> kTraceSteps = {"split",
                                                            "split_free",
                                                            "split_odd",
                                                            "fuse",
                                                            "reorder",
                                                            "compute_at",
                                                            "reverse_compute_at",
                                                            "compute_inline",
                                                            "reverse_compute_inline",
                                                            "cache_read",
                                                            "cache_write",
                                                            "decompose_reduction",
                                                            "kind",
                                                            "sample_compute_location",
                                                            "rfactor",
                                                            "annotate",
                                                            "unannotate",
                                                            "add_unit_loop",
                                                            "set_scope",
                                                            "storage_align",
                                                            "blockize",
                                                            "reindex",
                                                            "transform_block_layout",
                                                            "decompose_padding",
                                                            "read_at",
                                                            "write_at",
                                                            "stream_reduction"};

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

 private:
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
    auto which = static_cast<size_t>(rng_.below(static_cast<int64_t>(kTraceSteps.size())));
    LoopRv loop = any(loops);
    switch (which) {
      case 0:
        s.split(loop, s.sample_perfect_tile(loop, 2 + static_cast<int>(rng_.below(2)), 16));
        break;
      case 1: {
        ExprRv tail;
        std::vector<ExprRv> factors = s.sample_tile(loop, 2 + static_cast<int>(rng_.below(2)), 16, 1, &tail, 7);
        std::vector<LoopRv> tiles = s.split(loop, factors);
        if (s.ok()) s.annotate(tiles[0], ir::AnnotationKey::kTail, tail);
        break;
      }
      case 2:
        s.split(loop, std::array{ExprRv{}, lit(1 + rng_.below(7))});
        break;
      case 3: {
        size_t i = static_cast<size_t>(rng_.below(static_cast<int64_t>(loops.size())));
        size_t n = 1 + static_cast<size_t>(rng_.below(static_cast<int64_t>(loops.size() - i)));
        s.fuse(std::span(loops).subspan(i, std::min<size_t>(n, 3)));
        break;
      }
      case 4: {
        std::vector<LoopRv> order = loops;
        for (size_t i = order.size(); i > 1; --i)
          std::swap(order[i - 1], order[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
        order.resize(1 + static_cast<size_t>(rng_.below(static_cast<int64_t>(order.size()))));
        s.reorder(order);
        break;
      }
      case 5:
      case 6: {
        std::vector<BlockRv> others = which == 5 ? s.get_consumers(block) : s.get_producers(block);
        if (!s.ok() || others.empty()) break;
        std::vector<LoopRv> at = s.get_loops(any(others));
        if (!s.ok() || at.empty()) break;
        if (which == 5)
          s.compute_at(block, any(at));
        else
          s.reverse_compute_at(block, any(at));
        break;
      }
      case 7:
        s.compute_inline(block);
        break;
      case 8:
        s.reverse_compute_inline(block);
        break;
      case 9:
        keep(s.cache_read(block, static_cast<int>(rng_.below(3)),
                          rng_.below(2) == 0 ? ir::Scope::kLocal : ir::Scope::kGlobal));
        break;
      case 10:
        keep(s.cache_write(block, rng_.below(2) == 0 ? ir::Scope::kLocal : ir::Scope::kGlobal));
        break;
      case 11:
        keep(s.decompose_reduction(block, loop));
        break;
      case 12:
        switch (rng_.below(3)) {
          case 0:
            s.parallel(loop);
            break;
          case 1:
            s.vectorize(loop);
            break;
          default:
            s.unroll(loop);
            break;
        }
        break;
      case 13:
        s.compute_at(block, s.sample_compute_location(block));
        break;
      case 14:
        keep(s.rfactor(block, loop));
        break;
      default:
        other_step(which, block, loop);
        break;
      case 15: {
        std::array<int64_t, 3> values = {0, 16, 64};
        std::array<double, 3> weights = {0.2, 0.3, 0.5};
        s.annotate(block, ir::AnnotationKey::kUnrollMax, s.sample_categorical(values, weights));
        break;
      }
    }
    (s.ok() ? out_.applied : out_.rejected)[kTraceSteps[which]]++;
    s.clear_reject();
  }
  void other_step(size_t which, schedule::BlockRv block, schedule::LoopRv loop) {
    using namespace schedule;
    Schedule& s = out_.schedule;
    ir::Scope scope = rng_.below(2) == 0 ? ir::Scope::kLocal : ir::Scope::kShared;
    switch (which) {
      case 16:
        s.unannotate(block, ir::AnnotationKey::kUnrollMax);
        break;
      case 17:
        if (rng_.below(2) == 0)
          s.add_unit_loop(block);
        else
          s.add_unit_loop(loop);
        break;
      case 18:
        s.set_scope(block, scope);
        break;
      case 19:
        s.storage_align(block, static_cast<int>(rng_.below(4)), 1 + rng_.below(16), rng_.below(5));
        break;
      case 20:
        keep(s.blockize(loop));
        break;
      case 21:
        keep(s.reindex(block, static_cast<int>(rng_.below(4)) - 1));
        break;
      case 22:
        transform(block);
        break;
      case 23:
        keep(s.decompose_padding(block, loop));
        break;
      case 24:
        keep(s.read_at(block, loop, static_cast<int>(rng_.below(3)), scope));
        break;
      case 25:
        keep(s.write_at(block, loop, scope));
        break;
      default:
        stream(block);
        break;
    }
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
