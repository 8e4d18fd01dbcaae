// How each instruction runs: inputs and attributes of the trace become arguments of the primitive.
#include <algorithm>

#include "sampling.h"
#include "schedule/step.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::schedule {

using namespace ir;

Id Step::id(size_t i) const {
  const Input& input = in.inputs[i];
  if (input.kind != Input::Kind::kVariable || static_cast<size_t>(input.value) >= executor.values_.size()) return kNoId;
  return executor.values_[static_cast<size_t>(input.value)].id;
}
std::vector<Id> Step::ids() const {
  std::vector<Id> out;
  for (size_t i = 0; i < in.inputs.size(); ++i) out.push_back(id(i));
  return out;
}
Expr Step::expr(size_t i) const {
  const Input& input = in.inputs[i];
  switch (input.kind) {
    case Input::Kind::kInferred:
      return nullptr;
    case Input::Kind::kLiteral:
      return Builder(*kernel.arena).integer(input.value);
    case Input::Kind::kVariable:
      return executor.values_[static_cast<size_t>(input.value)].expr;
  }
  return nullptr;
}
void Step::put(int i, Value v) {
  auto& values = executor.values_;
  auto at = static_cast<size_t>(in.first_output + i);
  if (values.size() <= at) values.resize(at + 1);
  values[at] = v;
}
Legal<void> Step::put_ids(std::span<const Id> ids) {
  executor.last_outputs_ = static_cast<int>(ids.size());
  if (in.outputs >= 0 && in.outputs != static_cast<int>(ids.size()))
    return reject(RejectReason::kNotALoopChain,
                  fmt::format("{} gives {} results, the trace expects {}", op_name(in.op), ids.size(), in.outputs));
  for (size_t i = 0; i < ids.size(); ++i) put(static_cast<int>(i), {ids[i], nullptr});
  return {};
}
Legal<void> Step::become(Legal<Kernel> next) {
  TCC_TRY(kernel, std::move(next));
  return {};
}
Expr Step::symbol(int64_t low, int64_t high) {
  Builder b(*kernel.arena);
  Id id = kernel.next_id++;
  kernel.names = b.arena().make<NameHint>(kernel.names, id, kNoId, 0, "s");
  std::vector<Scalar> all(kernel.scalars.begin(), kernel.scalars.end());
  all.push_back({id, ScalarRole::kDecision, low, high, 1});
  kernel.scalars = b.arena().copy(all);
  executor.symbols_.push_back(id);
  return b.var(id);
}

namespace {

Legal<int64_t> constant_extent(Step& s, Id loop) {
  const Loop* l = find_loop(s.kernel.root, loop);
  if (l == nullptr) return reject(RejectReason::kUnknownHandle, "no such loop to tile");
  if (!is_int(l->extent) || int_value(l->extent) < 1)
    return reject(RejectReason::kNotConstant, "extent of loop " + name_hint(s.kernel, loop));
  return int_value(l->extent);
}

// Legal places of a block under its first consumer: -2 inline, -1 where it is, i the i-th loop of the consumer.
std::vector<int64_t> compute_locations(const Kernel& kernel, Id block) {
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

}  // namespace

namespace run {

// --- queries -----------------------------------------------------------------------------------------------------
Legal<void> get_block(Step& s) {
  Id block = find_block_by_name(s.kernel, s.in.text);
  if (block == kNoId) {
    std::vector<std::string> names;
    std::string known;
    for (const Block* other : collect_blocks(s.kernel.root)) {
      names.emplace_back(name_hint(s.kernel, other->id));
      known += (known.empty() ? " '" : ", '") + names.back() + "'";
    }
    const bool several = std::find(names.begin(), names.end(), s.in.text) != names.end();
    const std::string near = several ? "" : suggest(s.in.text, names);
    return reject(RejectReason::kUnknownHandle,
                  fmt::format("{} named '{}'; {}the kernel has{}", several ? "several blocks are" : "no block is",
                              s.in.text, near.empty() ? "" : near + " ", known));
  }
  s.put(0, {block, nullptr});
  return {};
}
Legal<void> get_loops(Step& s) {
  std::vector<Id> loops = loops_of(s.kernel, s.id(0));
  if (loops.empty() && find_block(s.kernel.root, s.id(0)) == nullptr)
    return reject(RejectReason::kUnknownHandle,
                  "expected the handle of a block, found another handle or an inlined block");
  return s.put_ids(loops);
}
Legal<void> get_producers(Step& s) {
  return s.put_ids(producers_of(s.kernel, s.id(0)));
}
Legal<void> get_consumers(Step& s) {
  return s.put_ids(consumers_of(s.kernel, s.id(0)));
}

// --- sampling ----------------------------------------------------------------------------------------------------
Legal<void> sample_perfect_tile(Step& s) {
  TCC_TRY(const int64_t extent, constant_extent(s, s.id(0)));
  Builder b(*s.kernel.arena);
  if (s.mode() == Mode::kSymbolic) {
    std::vector<Expr> factors;
    for (int i = 0; i < s.in.outputs; ++i) {
      factors.push_back(
          s.symbol(1, i > 0 && i + 1 == s.in.outputs ? std::min(extent, s.integer("max_innermost")) : extent));
      s.put(i, {kNoId, factors.back()});
    }
    std::sort(factors.begin(), factors.end(), [](Expr x, Expr y) { return compare(x, y) < 0; });
    std::vector<ProductFact> facts(s.kernel.products.begin(), s.kernel.products.end());
    facts.push_back({b.arena().copy(factors), extent});
    s.kernel.products = b.arena().copy(facts);
    return {};
  }
  if (s.mode() == Mode::kSample)
    draw_perfect_tile(extent, s.integer("max_innermost"), s.rng(), s.decision);
  else
    repair_perfect_tile(extent, s.decision);
  for (int i = 0; i < s.in.outputs; ++i) s.put(i, {kNoId, b.integer(s.decision[static_cast<size_t>(i)])});
  return {};
}

Legal<void> sample_tile(Step& s) {
  TCC_TRY(const int64_t extent, constant_extent(s, s.id(0)));
  Builder b(*s.kernel.arena);
  int n = s.in.outputs - 1;
  if (s.mode() == Mode::kSymbolic) {
    // The first factor follows from the others: ceil(extent / product).
    std::vector<Expr> inner;
    Expr product = b.integer(1);
    for (int i = 0; i < n; ++i) {
      inner.push_back(s.symbol(1, i > 0 && i + 1 == n ? std::min(extent, s.integer("max_innermost")) : extent));
      if (i > 0) product = b.mul(product, inner.back());
    }
    s.put(0, {kNoId, b.ceil_div(b.integer(extent), product)});
    for (int i = 1; i < n; ++i) s.put(i, {kNoId, inner[static_cast<size_t>(i)]});
    s.put(n, {kNoId, s.symbol(0, static_cast<int64_t>(TailMode::kPad))});
    return {};
  }
  std::span<int64_t> factors = s.decision.first(static_cast<size_t>(n));
  if (s.mode() == Mode::kSample) {
    draw_tile(extent, s.integer("max_innermost"), s.integer("multiple"), s.rng(), factors);
    s.decision.back() = draw_tail(s.integer("tails"), s.rng());
  } else {
    repair_tile(extent, factors);
    if (s.decision.back() < 0 || s.decision.back() > static_cast<int64_t>(TailMode::kPad))
      return reject(RejectReason::kBadDecision,
                    fmt::format("tail mode {}: 0 masks, 1 peels, 2 pads", s.decision.back()));
  }
  for (int i = 0; i <= n; ++i) s.put(i, {kNoId, b.integer(s.decision[static_cast<size_t>(i)])});
  return {};
}

Legal<void> sample_categorical(Step& s) {
  const std::span<const int64_t> candidates = attribute(s.in, "candidates"), weights = attribute(s.in, "weights");
  if (s.mode() == Mode::kSymbolic) {
    auto [low, high] = std::minmax_element(candidates.begin(), candidates.end());
    s.put(0, {kNoId, s.symbol(*low, *high)});
    return {};
  }
  if (s.mode() == Mode::kSample) {
    std::vector<double> w(weights.begin(), weights.end());
    s.decision[0] = s.rng().weighted(w);
  }
  if (s.decision[0] < 0 || static_cast<size_t>(s.decision[0]) >= candidates.size())
    return reject(RejectReason::kBadDecision,
                  fmt::format("choice {} of {} candidates, counted from 0", s.decision[0], candidates.size()));
  s.put(0, {kNoId, Builder(*s.kernel.arena).integer(candidates[static_cast<size_t>(s.decision[0])])});
  return {};
}

Legal<void> sample_compute_location(Step& s) {
  Id block = s.id(0);
  if (find_block(s.kernel.root, block) == nullptr)
    return reject(RejectReason::kUnknownHandle, "no such block to place");
  std::vector<int64_t> places = compute_locations(s.kernel, block);
  if (s.mode() == Mode::kSymbolic) {
    s.structural();
  } else if (s.mode() == Mode::kSample) {
    s.decision[0] = places[static_cast<size_t>(s.rng().below(static_cast<int64_t>(places.size())))];
  }
  // Keep the decision if it is still legal, else the nearest smaller one, else -1.
  int64_t chosen = -1;
  bool found = false;
  for (int64_t p : places)
    if (p <= s.decision[0] && (!found || p > chosen)) chosen = p, found = true;
  if (!found) chosen = -1;
  s.decision[0] = chosen;
  if (chosen < 0) {
    s.put(0, {static_cast<Id>(chosen), nullptr});
    return {};
  }
  std::vector<Id> loops = loops_of(s.kernel, consumers_of(s.kernel, block)[0]);
  s.put(0, {loops[static_cast<size_t>(chosen)], nullptr});
  return {};
}

// --- primitives --------------------------------------------------------------------------------------------------
Legal<void> split(Step& s) {
  std::vector<Expr> factors;
  for (size_t i = 1; i < s.in.inputs.size(); ++i) {
    factors.push_back(s.expr(i));
    if (factors.back() == nullptr && s.in.inputs[i].kind != Input::Kind::kInferred)
      return reject(RejectReason::kBadFactor, "a factor is not an integer");
  }
  std::vector<Id> out;
  TCC_TRY_VOID(s.become(schedule::split(s.kernel, s.id(0), factors, out)));
  return s.put_ids(out);
}
Legal<void> fuse(Step& s) {
  return s.make_one([&](Id& out) { return schedule::fuse(s.kernel, s.ids(), out); });
}
Legal<void> reorder(Step& s) {
  return s.become(schedule::reorder(s.kernel, s.ids()));
}
Legal<void> compute_at(Step& s) {
  Id loop = s.id(1);
  if (loop == -2) return s.become(schedule::compute_inline(s.kernel, s.id(0)));
  if (loop == -1) return {};
  return s.become(schedule::compute_at(s.kernel, s.id(0), loop));
}
Legal<void> reverse_compute_at(Step& s) {
  return s.become(schedule::reverse_compute_at(s.kernel, s.id(0), s.id(1)));
}
Legal<void> compute_inline(Step& s) {
  return s.become(schedule::compute_inline(s.kernel, s.id(0)));
}
Legal<void> reverse_compute_inline(Step& s) {
  return s.become(schedule::reverse_compute_inline(s.kernel, s.id(0)));
}
Legal<void> cache_read(Step& s) {
  return s.make_one([&](Id& out) {
    return schedule::cache_read(s.kernel, s.id(0), static_cast<int>(s.integer("read")), s.enumerator<Scope>("scope"),
                                out);
  });
}
Legal<void> cache_reads(Step& s) {
  return s.make_one([&](Id& out) {
    return schedule::cache_reads(s.kernel, s.id(0), static_cast<int>(s.integer("read")), s.enumerator<Scope>("scope"),
                                 out);
  });
}
Legal<void> cache_write(Step& s) {
  return s.make_one(
      [&](Id& out) { return schedule::cache_write(s.kernel, s.id(0), s.enumerator<Scope>("scope"), out); });
}
Legal<void> decompose_reduction(Step& s) {
  return s.make_one([&](Id& out) { return schedule::decompose_reduction(s.kernel, s.id(0), s.id(1), out); });
}
Legal<void> rfactor(Step& s) {
  return s.make_one([&](Id& out) { return schedule::rfactor(s.kernel, s.id(0), s.id(1), out); });
}
Legal<void> parallel(Step& s) {
  return s.become(schedule::parallel(s.kernel, s.id(0)));
}
Legal<void> vectorize(Step& s) {
  return s.become(schedule::vectorize(s.kernel, s.id(0)));
}
Legal<void> unroll(Step& s) {
  return s.become(schedule::unroll(s.kernel, s.id(0)));
}
Legal<void> bind(Step& s) {
  return s.become(schedule::bind(s.kernel, s.id(0), s.enumerator<Axis>("axis")));
}
Legal<void> annotate(Step& s) {
  Expr value = s.expr(1);
  if (value == nullptr) return reject(RejectReason::kBadAnnotation, "annotation without a value");
  return s.become(schedule::annotate(s.kernel, s.id(0), s.enumerator<AnnotationKey>("key"), value));
}
Legal<void> transform_layout(Step& s) {
  const std::span<const int64_t> order = attribute(s.in, "order"), numbers = attribute(s.in, "tiles");
  std::vector<std::pair<int32_t, int64_t>> tiles;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    tiles.emplace_back(static_cast<int32_t>(numbers[i]), numbers[i + 1]);
  return s.become(schedule::transform_layout(s.kernel, s.id(0), static_cast<int>(s.integer("read")),
                                             std::vector<int32_t>(order.begin(), order.end()), tiles));
}
Legal<void> pad_einsum(Step& s) {
  return s.become(schedule::pad_einsum(s.kernel, s.id(0), attribute(s.in, "multiples")));
}
Legal<void> tensorize(Step& s) {
  return s.become(schedule::tensorize(s.kernel, s.id(0), s.in.text));
}
Legal<void> set_scope(Step& s) {
  return s.become(schedule::set_scope(s.kernel, s.id(0), s.enumerator<Scope>("scope")));
}
Legal<void> storage_align(Step& s) {
  return s.become(
      schedule::storage_align(s.kernel, s.id(0), s.integer("dim"), s.integer("factor"), s.integer("offset")));
}
Legal<void> unannotate(Step& s) {
  return s.become(schedule::unannotate(s.kernel, s.id(0), s.enumerator<AnnotationKey>("key")));
}
Legal<void> add_unit_loop(Step& s) {
  return s.make_one([&](Id& out) { return schedule::add_unit_loop(s.kernel, s.id(0), out); });
}
Legal<void> get_child_blocks(Step& s) {
  if (!s.in.inputs.empty()) return s.put_ids(child_blocks_of(s.kernel, s.id(0)));
  std::vector<Id> outermost;  // of the kernel
  visit(s.kernel.root, [&](Stmt x) {
    const Block* block = as<Block>(x);
    if (block != nullptr) outermost.push_back(block->id);
    return block == nullptr;
  });
  return s.put_ids(outermost);
}
Legal<void> get_output_blocks(Step& s) {
  return s.put_ids(output_blocks_of(s.kernel));
}
Legal<void> read_at(Step& s) {
  return s.make_one([&](Id& out) {
    return schedule::read_at(s.kernel, s.id(0), static_cast<int>(s.integer("read")), s.id(1),
                             s.enumerator<Scope>("scope"), out);
  });
}
Legal<void> write_at(Step& s) {
  return s.make_one(
      [&](Id& out) { return schedule::write_at(s.kernel, s.id(0), s.id(1), s.enumerator<Scope>("scope"), out); });
}
Legal<void> reindex(Step& s) {
  return s.make_one(
      [&](Id& out) { return schedule::reindex(s.kernel, s.id(0), static_cast<int>(s.integer("read")), out); });
}
Legal<void> decompose_padding(Step& s) {
  return s.make_one([&](Id& out) { return schedule::decompose_padding(s.kernel, s.id(0), s.id(1), out); });
}
Legal<void> transform_block_layout(Step& s) {
  std::vector<std::vector<IterDigit>> map;
  const std::span<const int64_t> a = attribute(s.in, "map");
  for (size_t i = 0; i < a.size();) {
    map.emplace_back();
    for (int64_t n = a[i++]; n > 0; --n, i += 3) map.back().push_back({a[i], a[i + 1], a[i + 2]});
  }
  return s.become(schedule::transform_block_layout(s.kernel, s.id(0), map));
}
Legal<void> stream_reduction(Step& s) {
  ir::Expr group = s.in.inputs.size() > 3 ? s.expr(3) : nullptr;
  return s.make_one(
      [&](Id& out) { return schedule::stream_reduction(s.kernel, s.id(0), s.expr(1), s.expr(2), group, out); });
}
Legal<void> blockize(Step& s) {
  return s.make_one([&](Id& out) { return schedule::blockize(s.kernel, s.id(0), out); });
}

}  // namespace run

namespace {

using Run = Legal<void> (*)(Step&);
constexpr Run kRuns[] = {
#define TCC_X(kind, name, ...) run::name,
    TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
};

}  // namespace

Executor::Executor(const Kernel& start, const ArenaPtr& arena, Mode mode, Rng* rng)
    : kernel_(start), mode_(mode), rng_(rng) {
  arena->keep_alive(start.arena);
  kernel_.arena = arena;
  values_.reserve(64);
}

Legal<void> Executor::run(const Instruction& in, std::span<int64_t> decision) {
  // Traces come from files too: everything that the functions above take for granted is checked here.
  TCC_TRY_VOID(check_form(in, decision.size(), values_.size()));
  last_outputs_ = in.outputs;
  Step step{*this, kernel_, in, decision};
  Legal<void> done = kRuns[static_cast<size_t>(in.op)](step);
#ifdef TCC_CHECK_PASSES
  if (done) check_verified(kernel_, op_name(in.op).data());
#endif
  return done;
}

}  // namespace tcc::schedule
