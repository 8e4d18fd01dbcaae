#include "lower/cpu/plan_hints.h"

#include <algorithm>
#include <vector>

#include "lower/check_limits.h"
#include "lower/cpu/loop_forms.h"
#include "tcc/analysis/memory_hints.h"
#include "tcc/analysis/next_block.h"
#include "tcc/analysis/next_panel.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxLines = 32;  // of one access in one iteration
// Weights: how far ahead they are asked for, and how large a tensor is that other kernels have driven out of the
// first-level cache.
constexpr int64_t kBytesAhead = 12 << 10, kLargeWeights = 32 << 10;
// Panels of weights: two of them share the second-level cache with what the program reads and writes. One that is swept
// so often that an iteration would ask for a small part of an element is soon read in any case.
constexpr double kPanelShare = 0.75;
constexpr int64_t kMaxPanelLines = 16, kMostTooMuch = 2;
// Blocks of activations: lines an iteration, and operations on vectors that it has for each of them.
constexpr int64_t kMaxBlockLines = 16, kOperationsOfLine = 10;

class HintPlanner {
 public:
  HintPlanner(const Kernel& kernel, Arena& arena, const target::CpuInfo& cpu)
      : kernel_(kernel),
        b_(arena),
        ranges_(kernel),
        line_bytes_(cpu.cache_line_bytes),
        l2_bytes_(cpu.l2_bytes),
        vector_bytes_(cpu.vector_bits / 8) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  // `streams`: stores of a loop around go past the caches; `lanes`: a loop around is the lanes of vectors.
  Stmt rewrite(Stmt s, bool streams, bool lanes) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c, streams, lanes); });
    lanes = lanes || becomes_lanes(*l);
    const bool keeps_stores = !streams && writes_past_caches(*l);
    const int64_t panel = !lanes && may_ask_evenly(*l) ? panel_lines(*l) : 0;
    const int64_t block = !lanes && may_ask_evenly(*l) ? block_lines(*l) : 0;
    const int64_t lines = lanes || panel > 0 ? 0 : prefetched_lines(*l);
    const bool was_swept_in_l1 = swept_in_l1_;
    around_.push_back(l);
    Stmt body = rewrite(l->body, streams || keeps_stores, lanes);
    around_.pop_back();
    const int64_t ahead = !lanes && !swept_in_l1_ && may_ask_for_weights(*l) ? weights_ahead(*l) : 0;
    swept_in_l1_ = was_swept_in_l1;
    if (!has_hints(*l) && ahead == 0 && panel == 0 && block == 0) return b_.with_body(*l, body);
    std::vector<Annotation> annotations;
    for (const Annotation& a : l->annotations) {
      const bool drops = (a.key == AnnotationKey::kNonTemporal && !keeps_stores) ||
                         (a.key == AnnotationKey::kPrefetch && lines == 0) || a.key == AnnotationKey::kPrefetchLines;
      if (!drops) annotations.push_back(a);
    }
    if (lines > 0) annotations.push_back({AnnotationKey::kPrefetchLines, b_.integer(lines)});
    if (ahead > 0) annotations.push_back({AnnotationKey::kPrefetchWeights, b_.integer(ahead)});
    if (panel > 0) annotations.push_back({AnnotationKey::kPrefetchPanel, b_.integer(panel)});
    if (block > 0) annotations.push_back({AnnotationKey::kPrefetchBlock, b_.integer(block)});
    return b_.loop(l->id, l->extent, body, l->loop_kind, l->axis, annotations);
  }

 private:
  static bool has_hints(const Loop& l) {
    return has_annotation(l, AnnotationKey::kNonTemporal) || has_annotation(l, AnnotationKey::kPrefetch) ||
           has_annotation(l, AnnotationKey::kPrefetchLines);
  }
  bool in_memory(Id id) const {
    const Buffer* buffer = kernel_.buffer(id);
    return buffer != nullptr && !is_on_stack(*buffer);
  }

  bool writes_past_caches(const Loop& l) const {
    if (annotation_or(l, AnnotationKey::kNonTemporal, 0) == 0) return false;
    return !analysis::streamed_buffers(l.body, [this](Id id) { return in_memory(id); }).empty();
  }

  // Of the access that takes most; 0: nothing to ask for.
  int64_t prefetched_lines(const Loop& l) {
    const int64_t distance = annotation_or(l, AnnotationKey::kPrefetch, 0);
    if (distance <= 0) return 0;
    int64_t most = 0;
    for (const analysis::LinesAhead& access :
         analysis::lines_ahead(b_, kernel_, ranges_, l, distance, line_bytes_, [this](Id id) { return in_memory(id); }))
      if (const int64_t n = std::ssize(access.starts); n <= kMaxLines) most = std::max(most, n);
    return most;
  }

  template <class F>
  static bool is_innermost(const Loop& l, const F& counts) {
    bool innermost = counts(l);
    visit(l.body, [&](Stmt s) {
      const Loop* inner = as<Loop>(s);
      innermost &= inner == nullptr || !counts(*inner);
      return innermost;
    });
    return innermost;
  }
  static bool asks_ahead(const Loop& l) { return annotation_or(l, AnnotationKey::kPrefetch, 0) > 0; }
  // Where the schedule does not say what is asked for.
  static bool may_ask_for_weights(const Loop& l) {
    const auto counts = [](const Loop& x) { return x.loop_kind == LoopKind::kSerial || asks_ahead(x); };
    return is_innermost(l, counts) && !asks_ahead(l);
  }
  // Whatever the schedule says: it names a distance. Each copy of a loop that is written out would ask for a part of a
  // line.
  static bool may_ask_evenly(const Loop& l) {
    return is_innermost(l, [](const Loop& x) { return x.loop_kind == LoopKind::kSerial && !is_written_out(x); });
  }
  // Iterations after which the loop reads what is kBytesAhead further on in the weights; 0: it reads none.
  int64_t weights_ahead(const Loop& l) {
    int64_t most = 0;
    for (const analysis::LinesAhead& access :
         analysis::lines_ahead(b_, kernel_, ranges_, l, 1, line_bytes_, [this](Id id) { return is_large_weight(id); }))
      if (const int64_t n = std::ssize(access.starts); n <= analysis::kMaxWeightLines) most = std::max(most, n);
    return most == 0 ? 0 : std::max<int64_t>(kBytesAhead / (most * line_bytes_), 1);
  }
  // Of the next panel of weights that an iteration asks for; 0: none is worth it, or it would not fit.
  int64_t panel_lines(const Loop& l) {
    const auto panel =
        analysis::next_panel(b_, kernel_, ranges_, around_, l, [this](Id id) { return is_large_weight(id); });
    if (!panel || panel->each * panel->iterations > kMostTooMuch * panel->elements) return 0;
    const int64_t size = type_bytes(panel->buffer->type);
    if (2 * static_cast<double>(panel->elements * size) > kPanelShare * static_cast<double>(l2_bytes_)) return 0;
    const int64_t lines = (panel->each * size + line_bytes_ - 1) / line_bytes_;
    if (lines > kMaxPanelLines) return 0;
    swept_in_l1_ = panel->elements * size <= kBytesAhead;
    return lines;
  }
  // Of the next block of activations that an iteration asks for; 0: none, or too few operations hide it.
  int64_t block_lines(const Loop& l) {
    const auto is_meant = [this](Id id) { return in_memory(id) && analysis::is_large_activation(*kernel_.buffer(id)); };
    const auto block = analysis::next_block(b_, kernel_, ranges_, around_, l, line_bytes_,
                                            l2_bytes_ / analysis::kBlocksOfL2, is_meant);
    if (!block) return 0;
    const int64_t lines = std::ssize(block->lines);
    const int64_t lanes = std::max<int64_t>(vector_bytes_ / type_bytes(block->buffer->type), 1);
    return lines <= kMaxBlockLines && iterations(l.body) / lanes >= kOperationsOfLine * lines ? lines : 0;
  }
  // Of the innermost statements of `s`, of all the longest.
  static int64_t iterations(Stmt s) {
    int64_t most = 1;
    visit(s, [&](Stmt c) {
      const Loop* l = as<Loop>(c);
      if (l == nullptr) return true;
      most = std::max(most, iterations(l->body) * (is_int(l->extent) ? int_value(l->extent) : 1));
      return false;
    });
    return most;
  }
  bool is_large_weight(Id id) const {
    const Buffer* buffer = kernel_.buffer(id);
    if (buffer == nullptr || buffer->role != BufferRole::kWeight) return false;
    const Legal<int64_t> bytes = storage_bytes(kernel_, *buffer);
    return bytes && *bytes >= kLargeWeights;
  }

  const Kernel& kernel_;
  Builder b_;
  analysis::Ranges ranges_;
  std::vector<const Loop*> around_;  // the present statement, outermost first
  // A loop around asks for panels that are swept from the first-level cache. Asked for by distance, all of the next one
  // is asked for in the first of the sweeps, which is slower than not to ask: 4 MB that come from memory in panels of
  // 8 KB took 850 us without hints, 990 us by distance, and 610 us where each sweep asks for its part.
  bool swept_in_l1_ = false;
  int64_t line_bytes_, l2_bytes_, vector_bytes_;
};

}  // namespace

Kernel plan_hints(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  k.root = HintPlanner(kernel, *arena, target.cpu).rewrite(kernel.root, false, false);
  return k;
}

}  // namespace tcc::lower
