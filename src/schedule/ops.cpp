// One function an instruction kind: reads inputs, calls the primitive, stores outputs. Attributes per kind:
//   sample_perfect_tile [n, max_innermost]; sample_tile [n, max_innermost, multiple, extent when recorded, tail modes
//   as a bit set];
//     its decision is the n factors and the tail mode, which is its last output;
//   sample_categorical [candidates..., weights in millionths...]; cache_read [read index, scope]; cache_write [scope];
//   bind [axis]; annotate [key]; transform_layout [read index, -1 the result, length of order, order..., (dim,
//   tile)...];
//   pad_einsum [multiples...]; set_scope [scope]; storage_align [dimension, factor, offset]; unannotate [key];
//   read_at [read index, scope]; write_at [scope]; reindex [read index, -1 the result];
//   transform_block_layout [for each new iterator: number of digits, (iterator, divisor, extent)...]. The text
//   of tensorize is the instruction's name.
#include <algorithm>
#include <array>

#include "sampling.h"
#include "tcc/ir/build.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/check.h"

namespace tcc::schedule {

using namespace ir;

struct Step {
  Executor& executor;
  Kernel& kernel;
  const Instruction& in;
  std::span<int64_t> decision;
};

struct Ops {
  // --- inputs and outputs ------------------------------------------------------------------------------------------
  static Id id(Step& s, size_t i) {
    const Input& input = s.in.inputs[i];
    if (input.kind != Input::Kind::kVariable || static_cast<size_t>(input.value) >= s.executor.values_.size())
      return kNoId;
    return s.executor.values_[static_cast<size_t>(input.value)].id;
  }
  static std::vector<Id> ids(Step& s) {
    std::vector<Id> out;
    for (size_t i = 0; i < s.in.inputs.size(); ++i) out.push_back(id(s, i));
    return out;
  }
  // nullptr: inferred, or a variable that holds no expression.
  static Expr expr(Step& s, size_t i) {
    const Input& input = s.in.inputs[i];
    switch (input.kind) {
      case Input::Kind::kInferred:
        return nullptr;
      case Input::Kind::kLiteral:
        return Builder(*s.kernel.arena).integer(input.value);
      case Input::Kind::kVariable:
        return s.executor.values_[static_cast<size_t>(input.value)].expr;
    }
    return nullptr;
  }
  static void put(Step& s, int i, Value v) {
    auto& values = s.executor.values_;
    auto at = static_cast<size_t>(s.in.first_output + i);
    if (values.size() <= at) values.resize(at + 1);
    values[at] = v;
  }
  static Legal<void> put_ids(Step& s, std::span<const Id> ids) {
    s.executor.last_outputs_ = static_cast<int>(ids.size());
    if (s.in.outputs >= 0 && s.in.outputs != static_cast<int>(ids.size()))
      return reject(RejectReason::kNotALoopChain, fmt::format("{} gives {} results, the trace expects {}",
                                                              op_name(s.in.op), ids.size(), s.in.outputs));
    for (size_t i = 0; i < ids.size(); ++i) put(s, static_cast<int>(i), {ids[i], nullptr});
    return {};
  }
  static Legal<void> become(Step& s, Legal<Kernel> next) {
    if (!next) return tl::make_unexpected(std::move(next).error());
    s.kernel = std::move(*next);
    return {};
  }
  static int64_t attr(Step& s, size_t i) { return s.in.attrs[i]; }

  // A fresh decision scalar in [low, high].
  static Expr symbol(Step& s, int64_t low, int64_t high) {
    Builder b(*s.kernel.arena);
    Id id = s.kernel.next_id++;
    s.kernel.names = b.arena().make<NameHint>(s.kernel.names, id, kNoId, 0, "s");
    std::vector<Scalar> all(s.kernel.scalars.begin(), s.kernel.scalars.end());
    all.push_back({id, ScalarRole::kDecision, low, high, 1});
    s.kernel.scalars = b.arena().copy(all);
    s.executor.symbols_.push_back(id);
    return b.var(id);
  }

  // --- queries -----------------------------------------------------------------------------------------------------
  static Legal<void> get_block(Step& s) {
    Id block = find_block_by_name(s.kernel, s.in.text);
    if (block == kNoId) {
      std::string known;
      for (const Block* other : collect_blocks(s.kernel.root))
        known += (known.empty() ? " '" : ", '") + name_hint(s.kernel, other->id) + "'";
      return reject(RejectReason::kUnknownHandle,
                    fmt::format("no block, or not just one, is named '{}'; the kernel has{}", s.in.text, known));
    }
    put(s, 0, {block, nullptr});
    return {};
  }
  static Legal<void> get_loops(Step& s) {
    std::vector<Id> loops = loops_of(s.kernel, id(s, 0));
    if (loops.empty() && find_block(s.kernel.root, id(s, 0)) == nullptr)
      return reject(RejectReason::kUnknownHandle, "the handle is no block, or the block has been inlined");
    return put_ids(s, loops);
  }
  static Legal<void> get_producers(Step& s) { return put_ids(s, producers_of(s.kernel, id(s, 0))); }
  static Legal<void> get_consumers(Step& s) { return put_ids(s, consumers_of(s.kernel, id(s, 0))); }

  // --- sampling ----------------------------------------------------------------------------------------------------
  static Legal<int64_t> constant_extent(Step& s, Id loop) {
    const Loop* l = find_loop(s.kernel.root, loop);
    if (l == nullptr) return reject(RejectReason::kUnknownHandle, "no such loop to tile");
    if (!is_int(l->extent) || int_value(l->extent) < 1)
      return reject(RejectReason::kNotConstant, "extent of loop " + name_hint(s.kernel, loop));
    return int_value(l->extent);
  }

  static Legal<void> sample_perfect_tile(Step& s) {
    Legal<int64_t> extent = constant_extent(s, id(s, 0));
    if (!extent) return tl::make_unexpected(extent.error());
    Builder b(*s.kernel.arena);
    if (s.executor.mode_ == Mode::kSymbolic) {
      std::vector<Expr> factors;
      for (int i = 0; i < s.in.outputs; ++i) {
        factors.push_back(symbol(s, 1, i > 0 && i + 1 == s.in.outputs ? std::min(*extent, attr(s, 1)) : *extent));
        put(s, i, {kNoId, factors.back()});
      }
      std::sort(factors.begin(), factors.end(), [](Expr x, Expr y) { return compare(x, y) < 0; });
      std::vector<ProductFact> facts(s.kernel.products.begin(), s.kernel.products.end());
      facts.push_back({b.arena().copy(factors), *extent});
      s.kernel.products = b.arena().copy(facts);
      return {};
    }
    if (s.executor.mode_ == Mode::kSample)
      draw_perfect_tile(*extent, attr(s, 1), *s.executor.rng_, s.decision);
    else
      repair_perfect_tile(*extent, s.decision);
    for (int i = 0; i < s.in.outputs; ++i) put(s, i, {kNoId, b.integer(s.decision[static_cast<size_t>(i)])});
    return {};
  }

  static Legal<void> sample_tile(Step& s) {
    Legal<int64_t> extent = constant_extent(s, id(s, 0));
    if (!extent) return tl::make_unexpected(extent.error());
    Builder b(*s.kernel.arena);
    int n = s.in.outputs - 1;
    if (s.executor.mode_ == Mode::kSymbolic) {
      // The first factor follows from the others: ceil(extent / product).
      std::vector<Expr> inner;
      Expr product = b.integer(1);
      for (int i = 0; i < n; ++i) {
        inner.push_back(symbol(s, 1, i > 0 && i + 1 == n ? std::min(*extent, attr(s, 1)) : *extent));
        if (i > 0) product = b.mul(product, inner.back());
      }
      put(s, 0, {kNoId, b.ceil_div(b.integer(*extent), product)});
      for (int i = 1; i < n; ++i) put(s, i, {kNoId, inner[static_cast<size_t>(i)]});
      put(s, n, {kNoId, symbol(s, 0, static_cast<int64_t>(TailMode::kPad))});
      return {};
    }
    std::span<int64_t> factors = s.decision.first(static_cast<size_t>(n));
    if (s.executor.mode_ == Mode::kSample) {
      draw_tile(*extent, attr(s, 1), attr(s, 2), *s.executor.rng_, factors);
      s.decision.back() = draw_tail(attr(s, 4), *s.executor.rng_);
    } else {
      repair_tile(*extent, factors);
      if (s.decision.back() < 0 || s.decision.back() > static_cast<int64_t>(TailMode::kPad))
        return reject(RejectReason::kBadDecision,
                      fmt::format("tail mode {}: 0 masks, 1 peels, 2 pads", s.decision.back()));
    }
    for (int i = 0; i <= n; ++i) put(s, i, {kNoId, b.integer(s.decision[static_cast<size_t>(i)])});
    return {};
  }

  static Legal<void> sample_categorical(Step& s) {
    size_t n = s.in.attrs.size() / 2;
    std::span<const int64_t> candidates(s.in.attrs.data(), n), weights(s.in.attrs.data() + n, n);
    if (s.executor.mode_ == Mode::kSymbolic) {
      auto [low, high] = std::minmax_element(candidates.begin(), candidates.end());
      put(s, 0, {kNoId, symbol(s, *low, *high)});
      return {};
    }
    if (s.executor.mode_ == Mode::kSample) {
      std::vector<double> w(weights.begin(), weights.end());
      s.decision[0] = s.executor.rng_->weighted(w);
    }
    if (s.decision[0] < 0 || static_cast<size_t>(s.decision[0]) >= n)
      return reject(RejectReason::kBadDecision,
                    fmt::format("choice {} of {} candidates, counted from 0", s.decision[0], n));
    put(s, 0, {kNoId, Builder(*s.kernel.arena).integer(candidates[static_cast<size_t>(s.decision[0])])});
    return {};
  }

  // Legal places of a block under its first consumer: -2 inline, -1 where it is, i the i-th loop of the consumer.
  static std::vector<int64_t> compute_locations(const Kernel& kernel, Id block) {
    std::vector<int64_t> out;
    if (compute_inline(kernel, block)) out.push_back(-2);
    out.push_back(-1);
    std::vector<Id> consumers = consumers_of(kernel, block);
    if (consumers.empty()) return out;
    const Block* consumer = find_block(kernel.root, consumers[0]);
    std::vector<Id> loops = loops_of(kernel, consumers[0]);
    bool reduction_seen = false;
    for (size_t i = 0; i < loops.size(); ++i) {
      const Loop* l = find_loop(kernel.root, loops[i]);
      bool feeds_reduce = false;
      for (const Iter& it : consumer->iters)
        if (it.kind != IterKind::kSpatial && may_mention(it.binding, l->id)) feeds_reduce = true;
      if (reduction_seen && !feeds_reduce) break;  // a data-parallel loop met after a reduction loop
      reduction_seen |= feeds_reduce;
      if (is_int(l->extent, 1)) continue;
      if (compute_at(kernel, block, loops[i])) out.push_back(static_cast<int64_t>(i));
    }
    return out;
  }

  static Legal<void> sample_compute_location(Step& s) {
    Id block = id(s, 0);
    if (find_block(s.kernel.root, block) == nullptr)
      return reject(RejectReason::kUnknownHandle, "no such block to place");
    std::vector<int64_t> places = compute_locations(s.kernel, block);
    if (s.executor.mode_ == Mode::kSymbolic) {
      s.executor.symbols_.push_back(kNoId);  // structural: taken from the trace
    } else if (s.executor.mode_ == Mode::kSample) {
      s.decision[0] = places[static_cast<size_t>(s.executor.rng_->below(static_cast<int64_t>(places.size())))];
    }
    // Keep the decision if it is still legal, else the nearest smaller one, else -1.
    int64_t chosen = -1;
    bool found = false;
    for (int64_t p : places)
      if (p <= s.decision[0] && (!found || p > chosen)) chosen = p, found = true;
    if (!found) chosen = -1;
    s.decision[0] = chosen;
    if (chosen < 0) {
      put(s, 0, {static_cast<Id>(chosen), nullptr});
      return {};
    }
    std::vector<Id> loops = loops_of(s.kernel, consumers_of(s.kernel, block)[0]);
    put(s, 0, {loops[static_cast<size_t>(chosen)], nullptr});
    return {};
  }

  // --- primitives --------------------------------------------------------------------------------------------------
  static Legal<void> split(Step& s) {
    std::vector<Expr> factors;
    for (size_t i = 1; i < s.in.inputs.size(); ++i) {
      factors.push_back(expr(s, i));
      if (factors.back() == nullptr && s.in.inputs[i].kind != Input::Kind::kInferred)
        return reject(RejectReason::kBadFactor, "a factor is not an integer");
    }
    std::vector<Id> out;
    Legal<void> done = become(s, schedule::split(s.kernel, id(s, 0), factors, out));
    return done ? put_ids(s, out) : done;
  }
  static Legal<void> fuse(Step& s) {
    Id out = kNoId;
    std::vector<Id> loops = ids(s);
    Legal<void> done = become(s, schedule::fuse(s.kernel, loops, out));
    if (done) put(s, 0, {out, nullptr});
    return done;
  }
  static Legal<void> reorder(Step& s) { return become(s, schedule::reorder(s.kernel, ids(s))); }
  static Legal<void> compute_at(Step& s) {
    Id loop = id(s, 1);
    if (loop == -2) return become(s, schedule::compute_inline(s.kernel, id(s, 0)));
    if (loop == -1) return {};
    return become(s, schedule::compute_at(s.kernel, id(s, 0), loop));
  }
  static Legal<Kernel> compute_at(const Kernel& k, Id block, Id loop) { return schedule::compute_at(k, block, loop); }
  static Legal<void> reverse_compute_at(Step& s) {
    return become(s, schedule::reverse_compute_at(s.kernel, id(s, 0), id(s, 1)));
  }
  static Legal<void> compute_inline(Step& s) { return become(s, schedule::compute_inline(s.kernel, id(s, 0))); }
  static Legal<Kernel> compute_inline(const Kernel& k, Id block) { return schedule::compute_inline(k, block); }
  static Legal<void> reverse_compute_inline(Step& s) {
    return become(s, schedule::reverse_compute_inline(s.kernel, id(s, 0)));
  }
  static Legal<void> cache_read(Step& s) {
    Id out = kNoId;
    Legal<void> done = become(
        s, schedule::cache_read(s.kernel, id(s, 0), static_cast<int>(attr(s, 0)), static_cast<Scope>(attr(s, 1)), out));
    if (done) put(s, 0, {out, nullptr});
    return done;
  }
  static Legal<void> cache_write(Step& s) {
    Id out = kNoId;
    Legal<void> done = become(s, schedule::cache_write(s.kernel, id(s, 0), static_cast<Scope>(attr(s, 0)), out));
    if (done) put(s, 0, {out, nullptr});
    return done;
  }
  static Legal<void> decompose_reduction(Step& s) {
    Id out = kNoId;
    Legal<void> done = become(s, schedule::decompose_reduction(s.kernel, id(s, 0), id(s, 1), out));
    if (done) put(s, 0, {out, nullptr});
    return done;
  }
  static Legal<void> rfactor(Step& s) {
    Id out = kNoId;
    Legal<void> done = become(s, schedule::rfactor(s.kernel, id(s, 0), id(s, 1), out));
    if (done) put(s, 0, {out, nullptr});
    return done;
  }
  static Legal<void> parallel(Step& s) { return become(s, schedule::parallel(s.kernel, id(s, 0))); }
  static Legal<void> vectorize(Step& s) { return become(s, schedule::vectorize(s.kernel, id(s, 0))); }
  static Legal<void> unroll(Step& s) { return become(s, schedule::unroll(s.kernel, id(s, 0))); }
  static Legal<void> bind(Step& s) {
    return become(s, schedule::bind(s.kernel, id(s, 0), static_cast<Axis>(attr(s, 0))));
  }
  static Legal<void> annotate(Step& s) {
    Expr value = expr(s, 1);
    if (value == nullptr) return reject(RejectReason::kBadAnnotation, "annotation without a value");
    return become(s, schedule::annotate(s.kernel, id(s, 0), static_cast<AnnotationKey>(attr(s, 0)), value));
  }
  static Legal<void> transform_layout(Step& s) {
    int64_t rank = attr(s, 1);
    std::vector<int32_t> order;
    std::vector<std::pair<int32_t, int64_t>> tiles;
    for (int64_t i = 0; i < rank; ++i) order.push_back(static_cast<int32_t>(attr(s, static_cast<size_t>(2 + i))));
    for (size_t i = static_cast<size_t>(2 + rank); i + 1 < s.in.attrs.size(); i += 2)
      tiles.emplace_back(static_cast<int32_t>(attr(s, i)), attr(s, i + 1));
    return become(s, schedule::transform_layout(s.kernel, id(s, 0), static_cast<int>(attr(s, 0)), order, tiles));
  }
  static Legal<void> pad_einsum(Step& s) { return become(s, schedule::pad_einsum(s.kernel, id(s, 0), s.in.attrs)); }
  static Legal<void> tensorize(Step& s) { return become(s, schedule::tensorize(s.kernel, id(s, 0), s.in.text)); }
  static Legal<void> set_scope(Step& s) {
    return become(s, schedule::set_scope(s.kernel, id(s, 0), static_cast<Scope>(attr(s, 0))));
  }
  static Legal<void> storage_align(Step& s) {
    return become(s, schedule::storage_align(s.kernel, id(s, 0), attr(s, 0), attr(s, 1), attr(s, 2)));
  }
  static Legal<void> unannotate(Step& s) {
    return become(s, schedule::unannotate(s.kernel, id(s, 0), static_cast<AnnotationKey>(attr(s, 0))));
  }
  // Primitives that make one handle.
  template <class F>
  static Legal<void> make_one(Step& s, F primitive) {
    Id out = kNoId;
    Legal<void> done = become(s, primitive(out));
    if (done) put(s, 0, {out, nullptr});
    return done;
  }
  static Legal<void> add_unit_loop(Step& s) {
    return make_one(s, [&](Id& out) { return schedule::add_unit_loop(s.kernel, id(s, 0), out); });
  }
  static Legal<void> get_child_blocks(Step& s) {
    if (!s.in.inputs.empty()) return put_ids(s, child_blocks_of(s.kernel, id(s, 0)));
    std::vector<Id> outermost;  // of the kernel
    visit(s.kernel.root, [&](Stmt x) {
      const Block* block = as<Block>(x);
      if (block != nullptr) outermost.push_back(block->id);
      return block == nullptr;
    });
    return put_ids(s, outermost);
  }
  static Legal<void> get_output_blocks(Step& s) { return put_ids(s, output_blocks_of(s.kernel)); }
  static Legal<void> read_at(Step& s) {
    return make_one(s, [&](Id& out) {
      return schedule::read_at(s.kernel, id(s, 0), static_cast<int>(attr(s, 0)), id(s, 1),
                               static_cast<Scope>(attr(s, 1)), out);
    });
  }
  static Legal<void> write_at(Step& s) {
    return make_one(s, [&](Id& out) {
      return schedule::write_at(s.kernel, id(s, 0), id(s, 1), static_cast<Scope>(attr(s, 0)), out);
    });
  }
  static Legal<void> reindex(Step& s) {
    return make_one(s,
                    [&](Id& out) { return schedule::reindex(s.kernel, id(s, 0), static_cast<int>(attr(s, 0)), out); });
  }
  static Legal<void> decompose_padding(Step& s) {
    return make_one(s, [&](Id& out) { return schedule::decompose_padding(s.kernel, id(s, 0), id(s, 1), out); });
  }
  static Legal<void> transform_block_layout(Step& s) {
    std::vector<std::vector<IterDigit>> map;
    const std::vector<int64_t>& a = s.in.attrs;
    for (size_t i = 0; i < a.size();) {
      int64_t n = a[i++];
      if (n < 0 || n > 64 || static_cast<size_t>(n) * 3 > a.size() - i || map.size() > 64)
        return reject(RejectReason::kBadFactor, "an iterator is a number of digits and three numbers for each");
      map.emplace_back();
      for (; n > 0; --n, i += 3) map.back().push_back({a[i], a[i + 1], a[i + 2]});
    }
    return become(s, schedule::transform_block_layout(s.kernel, id(s, 0), map));
  }
  static Legal<void> stream_reduction(Step& s) {
    ir::Expr group = s.in.inputs.size() > 3 ? expr(s, 3) : nullptr;
    return make_one(
        s, [&](Id& out) { return schedule::stream_reduction(s.kernel, id(s, 0), expr(s, 1), expr(s, 2), group, out); });
  }
  static Legal<void> blockize(Step& s) {
    return make_one(s, [&](Id& out) { return schedule::blockize(s.kernel, id(s, 0), out); });
  }
};

namespace {

// The table: what an instruction of each kind must look like, and its function.
struct OpRow {
  Op op;
  std::string_view name;
  int min_inputs, max_inputs;  // -1: any number
  int min_attrs;
  bool sampling;
  Legal<void> (*run)(Step&);
};

constexpr std::array kRows = {
    OpRow{Op::kGetBlock, "get_block", 0, 0, 0, false, Ops::get_block},
    OpRow{Op::kGetLoops, "get_loops", 1, 1, 0, false, Ops::get_loops},
    OpRow{Op::kGetProducers, "get_producers", 1, 1, 0, false, Ops::get_producers},
    OpRow{Op::kGetConsumers, "get_consumers", 1, 1, 0, false, Ops::get_consumers},
    OpRow{Op::kSamplePerfectTile, "sample_perfect_tile", 1, 1, 2, true, Ops::sample_perfect_tile},
    OpRow{Op::kSampleTile, "sample_tile", 1, 1, 5, true, Ops::sample_tile},
    OpRow{Op::kSampleCategorical, "sample_categorical", 0, 0, 2, true, Ops::sample_categorical},
    OpRow{Op::kSampleComputeLocation, "sample_compute_location", 1, 1, 0, true, Ops::sample_compute_location},
    OpRow{Op::kSplit, "split", 2, -1, 0, false, Ops::split},
    OpRow{Op::kFuse, "fuse", 1, -1, 0, false, Ops::fuse},
    OpRow{Op::kReorder, "reorder", 1, -1, 0, false, Ops::reorder},
    OpRow{Op::kComputeAt, "compute_at", 2, 2, 0, false, Ops::compute_at},
    OpRow{Op::kReverseComputeAt, "reverse_compute_at", 2, 2, 0, false, Ops::reverse_compute_at},
    OpRow{Op::kComputeInline, "compute_inline", 1, 1, 0, false, Ops::compute_inline},
    OpRow{Op::kReverseComputeInline, "reverse_compute_inline", 1, 1, 0, false, Ops::reverse_compute_inline},
    OpRow{Op::kCacheRead, "cache_read", 1, 1, 2, false, Ops::cache_read},
    OpRow{Op::kCacheWrite, "cache_write", 1, 1, 1, false, Ops::cache_write},
    OpRow{Op::kDecomposeReduction, "decompose_reduction", 2, 2, 0, false, Ops::decompose_reduction},
    OpRow{Op::kParallel, "parallel", 1, 1, 0, false, Ops::parallel},
    OpRow{Op::kVectorize, "vectorize", 1, 1, 0, false, Ops::vectorize},
    OpRow{Op::kUnroll, "unroll", 1, 1, 0, false, Ops::unroll},
    OpRow{Op::kBind, "bind", 1, 1, 1, false, Ops::bind},
    OpRow{Op::kAnnotate, "annotate", 2, 2, 1, false, Ops::annotate},
    OpRow{Op::kTransformLayout, "transform_layout", 1, 1, 2, false, Ops::transform_layout},
    OpRow{Op::kRfactor, "rfactor", 2, 2, 0, false, Ops::rfactor},
    OpRow{Op::kPadEinsum, "pad_einsum", 1, 1, 1, false, Ops::pad_einsum},
    OpRow{Op::kTensorize, "tensorize", 1, 1, 0, false, Ops::tensorize},
    OpRow{Op::kSetScope, "set_scope", 1, 1, 1, false, Ops::set_scope},
    OpRow{Op::kStorageAlign, "storage_align", 1, 1, 3, false, Ops::storage_align},
    OpRow{Op::kUnannotate, "unannotate", 1, 1, 1, false, Ops::unannotate},
    OpRow{Op::kAddUnitLoop, "add_unit_loop", 1, 1, 0, false, Ops::add_unit_loop},
    OpRow{Op::kBlockize, "blockize", 1, 1, 0, false, Ops::blockize},
    OpRow{Op::kGetChildBlocks, "get_child_blocks", 0, 1, 0, false, Ops::get_child_blocks},
    OpRow{Op::kGetOutputBlocks, "get_output_blocks", 0, 0, 0, false, Ops::get_output_blocks},
    OpRow{Op::kReadAt, "read_at", 2, 2, 2, false, Ops::read_at},
    OpRow{Op::kWriteAt, "write_at", 2, 2, 1, false, Ops::write_at},
    OpRow{Op::kReindex, "reindex", 1, 1, 1, false, Ops::reindex},
    OpRow{Op::kDecomposePadding, "decompose_padding", 2, 2, 0, false, Ops::decompose_padding},
    OpRow{Op::kTransformBlockLayout, "transform_block_layout", 1, 1, 1, false, Ops::transform_block_layout},
    OpRow{Op::kStreamReduction, "stream_reduction", 3, 4, 0, false, Ops::stream_reduction},
};

constexpr size_t kOps = 0
#define TCC_X(kind, text) +1
    TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
    ;
constexpr bool rows_in_order() {
  if (kRows.size() != kOps) return false;
  for (size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<size_t>(kRows[i].op) != i) return false;
  return true;
}
static_assert(rows_in_order());

const OpRow& row(Op op) {
  return kRows[static_cast<size_t>(op)];
}

// Traces come from files too: everything an op function takes for granted is checked here.
Legal<void> check_form(const Instruction& in, std::span<const int64_t> decision, size_t values) {
  const OpRow& r = row(in.op);
  auto bad = [&](const std::string& what) {
    return reject(RejectReason::kBadDecision, fmt::format("{}: {}", r.name, what));
  };
  int n = static_cast<int>(in.inputs.size());
  if (n < r.min_inputs || (r.max_inputs >= 0 && n > r.max_inputs))
    return bad(r.min_inputs == r.max_inputs ? fmt::format("{} inputs instead of {}", n, r.min_inputs)
                                            : fmt::format("{} inputs are too few or too many", n));
  if (static_cast<int>(in.attrs.size()) < r.min_attrs)
    return bad(fmt::format("{} attributes instead of {} or more", in.attrs.size(), r.min_attrs));
  if (in.first_output < 0 || in.first_output > 1 << 20 || in.outputs > 1 << 16)
    return bad("more outputs than there may be variables");
  for (const Input& i : in.inputs)
    if (i.kind == Input::Kind::kVariable && (i.value < 0 || static_cast<size_t>(i.value) >= values))
      return bad(fmt::format("v{} is not defined before it", i.value));
  if (r.sampling && static_cast<int>(decision.size()) != in.decision_length) return bad("missing decision");
  if (in.op == Op::kSamplePerfectTile || in.op == Op::kSampleTile) {
    int64_t outputs = in.attrs[0] + (in.op == Op::kSampleTile ? 1 : 0);
    if (in.attrs[0] < 1 || in.attrs[0] > 16 || in.outputs != outputs || in.decision_length != in.outputs ||
        in.attrs[1] < 1)
      return bad("1 to 16 factors, as many as are decided and given out, and a limit of the innermost above 0");
    if (in.op == Op::kSampleTile && (in.attrs[4] < 1 || in.attrs[4] > 7))
      return bad("the tail modes are a set of three: from 1 to 7");
  }
  if (in.op == Op::kSampleCategorical) {
    if (in.attrs.size() % 2 != 0 || in.decision_length != 1)
      return bad("as many weights as candidates, and one decision");
    int64_t total = 0;
    for (size_t i = in.attrs.size() / 2; i < in.attrs.size(); ++i) {
      if (in.attrs[i] < 0 || in.attrs[i] > 1000000000)
        return bad("weights are from 0 to 1000000000, and one is above 0");
      total += in.attrs[i];
    }
    if (total <= 0) return bad("weights are from 0 to 1000000000, and one is above 0");
  }
  if (in.op == Op::kSampleComputeLocation && in.decision_length != 1) return bad("one decision, which is a place");
  auto in_range = [&](size_t i, int64_t last) { return in.attrs[i] >= 0 && in.attrs[i] <= last; };
  if (in.op == Op::kReindex && (in.attrs[0] < -1 || in.attrs[0] > 1 << 16))
    return bad("a read is named by its number, the result by -1");
  if ((in.op == Op::kCacheRead || in.op == Op::kReadAt) &&
      (!in_range(0, 1 << 16) || !in_range(1, static_cast<int64_t>(Scope::kAmxTile))))
    return bad("no read or no scope has this number");
  if (in.op == Op::kSetScope && !in_range(0, static_cast<int64_t>(Scope::kAmxTile)))
    return bad("no scope has this number");
  if (in.op == Op::kUnannotate && !in_range(0, static_cast<int64_t>(AnnotationKey::kTree)))
    return bad("no annotation has this number");
  if ((in.op == Op::kCacheWrite || in.op == Op::kWriteAt) && !in_range(0, static_cast<int64_t>(Scope::kAmxTile)))
    return bad("no scope has this number");
  if (in.op == Op::kBind && !in_range(0, static_cast<int64_t>(Axis::kVthread))) return bad("no axis has this number");
  if (in.op == Op::kAnnotate && !in_range(0, static_cast<int64_t>(AnnotationKey::kTree)))
    return bad("no annotation has this number");
  if (in.op == Op::kTransformLayout &&
      (in.attrs[0] < -1 || in.attrs[0] > 1 << 16 || !in_range(1, static_cast<int64_t>(in.attrs.size()) - 2)))
    return bad("no read has this number (-1: the result), or the order is shorter than it says");
  return {};
}

}  // namespace

std::string_view op_name(Op op) {
  return row(op).name;
}
bool is_sampling(Op op) {
  return row(op).sampling;
}

Executor::Executor(const Kernel& start, const ArenaPtr& arena, Mode mode, Rng* rng)
    : kernel_(start), mode_(mode), rng_(rng) {
  arena->keep_alive(start.arena);
  kernel_.arena = arena;
  values_.reserve(64);
}

Legal<void> Executor::run(const Instruction& in, std::span<int64_t> decision) {
  if (Legal<void> ok = check_form(in, decision, values_.size()); !ok) return ok;
  last_outputs_ = in.outputs;
  Step step{*this, kernel_, in, decision};
  Legal<void> done = row(in.op).run(step);
#ifdef TCC_CHECK_PASSES
  if (done) check_verified(kernel_, row(in.op).name.data());
#endif
  return done;
}

// Exposed for the mutator.
std::vector<int64_t> legal_compute_locations(const Kernel& kernel, Id block) {
  return Ops::compute_locations(kernel, block);
}

}  // namespace tcc::schedule
