// Reads the tiles of a trace without looking at the scheduled kernel: splits make a tree of loops from those of
// get_loops, reorder gives their order, bind, parallel, vectorize and unroll say what runs them. The kernel right
// before the first split says what the block reads; later steps move its operands, but not what it reads.
//
//   l0, l1, l2 = get_loops(b)
//   a, b2 = sample_perfect_tile(l0, 2); x, y = split(l0, [a, b2])     axis 0: factors x, y with slots of a, b2
//   reorder(x, ..., y); parallel(x)                                   x: grid, y: the innermost place
#include "tcc/construct/tile_nest.h"

#include <algorithm>
#include <map>

#include "tcc/analysis/contraction.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/primitives.h"
#include "tcc/support/result.h"

namespace tcc::construct {

using namespace ir;
using schedule::Input;
using schedule::Instruction;
using schedule::Op;

namespace {

constexpr int kNoPlace = 1 << 20;

// Splits, fusions and kinds of loops by the number of the loop's variable.
struct Steps {
  std::map<int, const Instruction*> split_of;  // by the loop that is split
  std::map<int, const Instruction*> fuse_of;   // by a loop that is fused
  std::map<int, const Instruction*> sampled;   // by a factor
  std::map<int, Part> part;                    // as bound, by loop
  std::map<int, int> place;                    // by loop
  int epilogue = kNoPlace;                     // the loop at which sums are complete; kNoPlace: behind all of them
  bool on_threads = false, matrix = false, shared = false;
};

Part part_of(const Instruction& in) {
  switch (in.op) {
    case Op::kParallel:
      return Part::kGrid;
    case Op::kVectorize:
      return Part::kVector;
    case Op::kUnroll:
      return Part::kUnrolled;
    default: {
      const auto axis = schedule::enumerator<ir::Axis>(in, "axis");
      return axis == ir::Axis::kVthread ? Part::kVthread : is_thread(axis) ? Part::kThread : Part::kGrid;
    }
  }
}

Steps read_steps(const schedule::Trace& trace) {
  Steps steps;
  for (const Instruction& in : trace.instructions) {
    const auto loop = in.inputs.empty() ? -1 : static_cast<int>(in.inputs[0].value);
    switch (in.op) {
      case Op::kSplit:
        steps.split_of.emplace(loop, &in);
        break;
      case Op::kFuse:
        for (const Input& i : in.inputs) steps.fuse_of.emplace(static_cast<int>(i.value), &in);
        break;
      case Op::kSamplePerfectTile:
      case Op::kSampleTile:
        for (int i = 0; i < in.outputs; ++i) steps.sampled.emplace(in.first_output + i, &in);
        break;
      case Op::kReorder:
        // The last order holds; loops that it does not name keep their places.
        for (size_t i = 0; i < in.inputs.size(); ++i)
          steps.place[static_cast<int>(in.inputs[i].value)] = static_cast<int>(i);
        break;
      case Op::kBind:
        steps.on_threads = true;
        [[fallthrough]];
      case Op::kParallel:
      case Op::kVectorize:
      case Op::kUnroll:
        steps.part[loop] = part_of(in);
        break;
      case Op::kReverseComputeAt:
        if (const auto at = steps.place.find(static_cast<int>(in.inputs[1].value)); at != steps.place.end())
          steps.epilogue = at->second;
        break;
      case Op::kTensorize:
        steps.matrix = true;
        break;
      case Op::kCacheRead:
      case Op::kCacheReads:
        steps.shared |= schedule::enumerator<Scope>(in, "scope") == Scope::kShared;
        break;
      default:
        break;
    }
  }
  return steps;
}

// Whether a loop or what it was fused into is bound.
Part kind_of(const Steps& steps, int loop) {
  for (int depth = 0; depth < 8; ++depth) {
    if (const auto found = steps.part.find(loop); found != steps.part.end()) return found->second;
    const auto fused = steps.fuse_of.find(loop);
    if (fused == steps.fuse_of.end()) break;
    loop = fused->second->first_output;
  }
  return Part::kSerial;
}

struct Reader {
  const schedule::Trace& trace;
  const Steps& steps;
  std::string& why;

  // Adds the loops that splits make of `loop`.
  bool add_factors(Axis& axis, int loop, int slot, int64_t size) const {
    const auto found = steps.split_of.find(loop);
    if (found == steps.split_of.end()) {
      const auto place = steps.place.find(loop);
      axis.factors.push_back(
          {kind_of(steps, loop), kOutside, slot, size, place == steps.place.end() ? kNoPlace : place->second});
      return true;
    }
    const Instruction& split = *found->second;
    for (int i = 0; i < split.outputs; ++i) {
      const Input& factor = split.inputs[static_cast<size_t>(i) + 1];
      int part_slot = -1;
      int64_t part_size = 0;
      if (factor.kind == Input::Kind::kLiteral) part_size = factor.value;
      if (factor.kind == Input::Kind::kVariable) {
        const auto sampled = steps.sampled.find(static_cast<int>(factor.value));
        if (sampled == steps.sampled.end()) {
          why = "a split takes a number that no tile sampled";
          return false;
        }
        const Instruction& sample = *sampled->second;
        part_slot = sample.decision + static_cast<int>(factor.value) - sample.first_output;
        if (!take_sample(axis, sample)) return false;
      }
      if (!add_factors(axis, split.first_output + i, part_slot, part_size)) return false;
    }
    return true;
  }

  // What the sampling instruction says of the tiles.
  bool take_sample(Axis& axis, const Instruction& sample) const {
    const bool free = sample.op == Op::kSampleTile;
    int64_t extent = 1;
    if (free) {
      extent = schedule::integer(sample, "extent");
      const int64_t tails = schedule::integer(sample, "tails");
      axis.tail_slot = sample.decision + sample.decision_length - 1;
      while ((tails >> axis.tail & 1) == 0) ++axis.tail;
    } else {
      for (int i = 0; i < sample.decision_length; ++i)
        extent *= trace.decisions[static_cast<size_t>(sample.decision + i)];
    }
    const bool again = axis.is_sampled();
    for (const Factor& f : axis.factors)
      if (f.slot >= 0 && (f.slot < sample.decision || f.slot >= sample.decision + sample.decision_length)) {
        why = "one loop is tiled by two sampled tiles";
        return false;
      }
    if (again) return true;
    axis.free = free;
    axis.slots = sample.decision_length - (free ? 1 : 0);
    axis.sampled = extent;
    axis.limit = schedule::integer(sample, "max_innermost");
    axis.multiple = free ? schedule::integer(sample, "multiple") : 1;
    return true;
  }
};

void finish_axis(Axis& axis) {
  size_t last = axis.factors.size();
  for (size_t i = 0; i < axis.factors.size(); ++i)
    if (axis.factors[i].slot >= 0) last = i;
  axis.unit = 1;
  for (size_t i = axis.is_sampled() ? last + 1 : 0; i < axis.factors.size(); ++i)
    axis.unit *= std::max<int64_t>(axis.factors[i].size, 1);
  for (const Factor& f : axis.factors) axis.is_vector |= f.part == Part::kVector;
  axis.whole = axis.factors.empty() ? kOutside : axis.factors.front().level;
}

// The fastest memory that holds what all iterations of a loop touch; see the header.
void assign_levels(TileNest& nest, bool on_threads) {
  int first_reduce = kNoPlace, last_reduce = -1;
  for (const Axis& axis : nest.axes)
    for (const Factor& f : axis.factors)
      if (axis.reduce && f.place != kNoPlace && f.slot >= 0) {
        first_reduce = std::min(first_reduce, f.place);
        last_reduce = std::max(last_reduce, f.place);
      }
  const bool sums = nest.has_reduction();
  for (Axis& axis : nest.axes)
    for (size_t i = 0; i < axis.factors.size(); ++i) {
      Factor& f = axis.factors[i];
      const bool last = i + 1 == axis.factors.size();
      if (f.part == Part::kGrid) {
        f.level = kOutside;
      } else if (on_threads) {
        if (axis.reduce)
          f.level = i == 0 && !last ? kOutside : last || f.slot < 0 ? 0 : 1;
        else
          f.level = f.part == Part::kThread ? 1 : 0;
      } else if (axis.reduce) {
        f.level = i == 0 && !last ? 2 : 1;
      } else if (f.part == Part::kVector || f.part == Part::kUnrolled) {
        f.level = 0;
      } else if (!sums) {
        f.level = 1;
      } else {
        f.level = f.place > last_reduce ? 0 : f.place > first_reduce ? 1 : 2;
      }
    }
}

// coefficient * (iterator / divisor % modulus), for the atoms that convolutions and their groups use.
std::optional<IndexTerm> term_of(Expr atom, int64_t coefficient, const std::map<Id, size_t>& axis_of) {
  IndexTerm term{0, coefficient, 1, 0};
  for (int depth = 0; depth < 3; ++depth) {
    if (const Var* v = as<Var>(atom)) {
      const auto found = axis_of.find(v->id);
      if (found == axis_of.end()) return std::nullopt;
      term.axis = found->second;
      return term;
    }
    if (atom->kind != ExprKind::kFloorDiv && atom->kind != ExprKind::kFloorMod) return std::nullopt;
    const Binary* b = as<Binary>(atom);
    if (!is_int(b->b) || int_value(b->b) < 1) return std::nullopt;
    if (atom->kind == ExprKind::kFloorDiv)
      term.divisor *= int_value(b->b);
    else
      term.modulus = int_value(b->b);
    atom = b->a;
  }
  return std::nullopt;
}

AccessDim dim_of(Expr index, int64_t extent, const std::map<Id, size_t>& axis_of) {
  AccessDim dim;
  dim.extent = extent;
  auto add = [&](Expr atom, int64_t coefficient) {
    if (const auto term = term_of(atom, coefficient, axis_of))
      dim.terms.push_back(*term);
    else
      dim.whole = true;
  };
  if (is_int(index)) return dim;
  if (const Sum* sum = as<Sum>(index)) {
    dim.offset = sum->constant;
    for (const Term& t : sum->terms) add(t.atom, t.coefficient);
  } else {
    add(index, 1);
  }
  return dim;
}

// Elements along a dimension that the layout places side by side, from the first one on.
int64_t run_of(const Layout& layout, size_t dim) {
  std::vector<int64_t> at(layout.shape.size(), 0);
  int64_t run = 1;
  while (run < layout.shape[dim]) {
    at[dim] = run;
    if (ir::apply(layout, std::span<const int64_t>(at)).address != run) break;
    ++run;
  }
  return run;
}

// The access with its strides.
Access access_of(const Kernel& kernel, Id buffer, std::span<const Expr> indices, bool output, size_t axes,
                 const std::map<Id, size_t>& axis_of) {
  const Buffer* info = kernel.buffer(buffer);
  Access access;
  access.bytes = type_bytes(info->type);
  access.output = output;
  for (size_t d = 0; d < indices.size(); ++d)
    access.dims.push_back(dim_of(indices[d], is_int(info->shape[d]) ? int_value(info->shape[d]) : 1, axis_of));
  access.stride.assign(axes, 0);
  access.block.assign(axes, 0);
  for (const auto& [id, axis] : axis_of) {
    const std::optional<int64_t> stride = analysis::flat_stride(kernel, buffer, indices, id);
    access.stride[axis] = stride ? std::abs(*stride) : -1;
    // A packed constant is contiguous along the dimension that its innermost blocks run over.
    if (info->layout == nullptr || !stride || *stride == 0) continue;
    const int dim = analysis::dim_of_iter(indices, id);
    if (dim < 0) continue;
    std::vector<int64_t> at(indices.size(), 0);
    if (info->layout->shape[static_cast<size_t>(dim)] < 2) continue;
    at[static_cast<size_t>(dim)] = 1;
    access.stride[axis] = ir::apply(*info->layout, std::span<const int64_t>(at)).address;
    access.block[axis] = run_of(*info->layout, static_cast<size_t>(dim));
  }
  return access;
}

Choice choice_of(const schedule::Trace& trace, const Instruction& sample) {
  for (const Instruction& in : trace.instructions) {
    if (in.op != Op::kAnnotate || in.inputs[1] != schedule::variable(sample.first_output)) continue;
    switch (schedule::enumerator<AnnotationKey>(in, "key")) {
      case AnnotationKey::kUnrollMax:
        return Choice::kUnroll;
      case AnnotationKey::kCooperativeFetch:
        return Choice::kVectorLength;
      case AnnotationKey::kPipelineDepth:
        return Choice::kStages;
      default:
        return Choice::kOther;
    }
  }
  return Choice::kOther;
}

// The loops of one get_loops, and the kernel at that time.
struct Roots {
  const Instruction* query = nullptr;
  Kernel kernel;
  Id block = kNoId;
  std::vector<Id> loops;
};

// Loops that are fused before anything splits them are one axis.
struct Root {
  int variable = -1;
  std::vector<size_t> loops;
};
std::vector<Root> fused_roots(const Roots& roots, const Steps& steps) {
  std::vector<Root> out;
  for (size_t i = 0; i < roots.loops.size(); ++i) {
    const int variable = roots.query->first_output + static_cast<int>(i);
    const auto fused = steps.fuse_of.find(variable);
    const bool tiled = fused != steps.fuse_of.end() && steps.split_of.count(fused->second->first_output) > 0;
    const int root = tiled ? fused->second->first_output : variable;
    if (!out.empty() && out.back().variable == root)
      out.back().loops.push_back(i);
    else
      out.push_back({root, {i}});
  }
  return out;
}

std::optional<TileNest> nest_of(const Roots& roots, const Reader& reader, const target::Target& target) {
  const Block* block = find_block(roots.kernel.root, roots.block);
  if (block == nullptr) return std::nullopt;
  TileNest nest;
  nest.block = name_hint(roots.kernel, roots.block);
  std::map<Id, size_t> axis_of;
  double domain = 1;
  for (const Root& root : fused_roots(roots, reader.steps)) {
    Axis axis;
    for (size_t l : root.loops) {
      const Loop* loop = find_loop(roots.kernel.root, roots.loops[l]);
      if (loop == nullptr || !is_int(loop->extent)) return std::nullopt;
      if (int_value(loop->extent) < 1) {
        reader.why = "a loop has no iterations";
        return std::nullopt;
      }
      axis.extent *= int_value(loop->extent);
      for (const Iter& it : block->iters) {
        if (!mentions(it.binding, roots.loops[l])) continue;
        axis.reduce |= it.kind != IterKind::kSpatial;
        const Var* v = as<Var>(it.binding);
        if (v == nullptr || root.loops.size() > 1)
          nest.fused = true;
        else
          axis_of.emplace(it.id, nest.axes.size());
      }
    }
    domain *= static_cast<double>(axis.extent);
    if (!reader.add_factors(axis, root.variable, -1, 0)) return std::nullopt;
    const auto sampled =
        std::count_if(axis.factors.begin(), axis.factors.end(), [](const Factor& f) { return f.slot >= 0; });
    if (axis.is_sampled() && sampled != axis.slots) {
      reader.why = "a loop is split by a part of a sampled tile";
      return std::nullopt;
    }
    nest.axes.push_back(std::move(axis));
  }
  assign_levels(nest, reader.steps.on_threads);
  for (Axis& axis : nest.axes) finish_axis(axis);
  nest.levels = reader.steps.on_threads ? 2 : 3;
  for (const Axis& axis : nest.axes)
    for (const Factor& f : axis.factors)
      if (!axis.reduce && f.place != kNoPlace && f.place > reader.steps.epilogue && f.level != kOutside)
        nest.sums_level = std::max(nest.sums_level, f.level);
  nest.matrix = reader.steps.matrix;
  nest.shared = reader.steps.shared;
  nest.warp_lanes = nest.matrix && reader.steps.on_threads ? target.cuda.warp_size : 1;
  nest.operations = domain * (nest.has_reduction() ? 2 : 1);
  const Store* store = as<Store>(block->body);
  if (store == nullptr || nest.fused) {
    nest.fused = true;
    return nest;
  }
  visit_roots(block->body, [&](Expr e) {
    visit(e, [&](Expr x) {
      if (const Load* l = as<Load>(x); l != nullptr && l->buffer != store->buffer)
        nest.accesses.push_back(access_of(roots.kernel, l->buffer, l->indices, false, nest.axes.size(), axis_of));
      return true;
    });
  });
  nest.accesses.push_back(access_of(roots.kernel, store->buffer, store->indices, true, nest.axes.size(), axis_of));
  return nest;
}

// Those of each get_loops, in order, as far as the trace replays.
std::vector<Roots> all_roots(const schedule::Trace& trace, const Kernel& start, std::string& why) {
  std::vector<Roots> out;
  auto arena = std::make_shared<Arena>();
  schedule::Executor executor(start, arena, schedule::Mode::kReplay, nullptr);
  std::vector<int64_t> decisions = trace.decisions;
  for (const Instruction& in : trace.instructions) {
    std::span<int64_t> d;
    if (in.decision >= 0)
      d = std::span(decisions).subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
    if (const auto done = executor.run(in, d); !done) {
      why = fmt::format("the trace does not replay: {}", done.error().text);
      return {};
    }
    if (in.op != Op::kGetLoops) continue;
    Roots roots{&in, executor.kernel(), executor.value(static_cast<int>(in.inputs[0].value)).id, {}};
    for (int i = 0; i < in.outputs; ++i) roots.loops.push_back(executor.value(in.first_output + i).id);
    out.push_back(std::move(roots));
  }
  return out;
}

}  // namespace

bool TileNest::has_reduction() const {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return a.reduce && a.extent > 1; });
}

bool TileNest::has_reuse() const {
  for (const Access& access : accesses)
    for (size_t a = 0; a < axes.size(); ++a)
      if (!access.output && !axes[a].reduce && axes[a].extent > 1 && access.stride[a] == 0) return true;
  return false;
}

bool TileNest::has_overlap() const {
  for (const Access& access : accesses)
    for (const AccessDim& dim : access.dims) {
      int64_t step = 0, window = 1;
      for (const IndexTerm& t : dim.terms) {
        if (axes[t.axis].reduce)
          window += std::abs(t.coefficient) * (axes[t.axis].extent - 1);
        else if (axes[t.axis].extent > 1)
          step = std::abs(t.coefficient);
      }
      if (!access.output && step > 0 && step < window) return true;
    }
  return false;
}

bool TileNest::below(const AccessDim& dim) const {
  int64_t least = dim.offset;
  for (const IndexTerm& t : dim.terms) least += std::min<int64_t>(t.coefficient * (axes[t.axis].extent - 1), 0);
  return least < 0;
}

bool TileNest::beyond(const AccessDim& dim) const {
  int64_t most = dim.offset;
  for (const IndexTerm& t : dim.terms) {
    int64_t steps = (axes[t.axis].extent - 1) / t.divisor;
    if (t.modulus > 0) steps = std::min(steps, t.modulus - 1);
    most += std::max<int64_t>(t.coefficient * steps, 0);
  }
  return most >= dim.extent;
}

std::optional<TileNest> find_tile_nest(const schedule::Trace& trace, const Kernel& start, const target::Target& target,
                                       std::string& why) {
  const Steps steps = read_steps(trace);
  if (steps.sampled.empty()) {
    why = "its design space samples no tile";
    return std::nullopt;
  }
  why.clear();
  const Reader reader{trace, steps, why};
  std::optional<TileNest> best;
  for (const Roots& roots : all_roots(trace, start, why)) {
    std::optional<TileNest> nest = nest_of(roots, reader, target);
    if (!nest) continue;
    const bool sampled =
        std::any_of(nest->axes.begin(), nest->axes.end(), [](const Axis& a) { return a.is_sampled(); });
    if (!sampled) continue;
    const bool better = !best || std::pair(nest->has_reduction(), nest->operations) >
                                     std::pair(best->has_reduction(), best->operations);
    if (better) best = std::move(nest);
  }
  if (!best && why.empty()) why = "its sampled tiles belong to no loop of a block";
  if (!best) return best;
  for (const Instruction& in : trace.instructions)
    if (in.op == Op::kSampleCategorical) {
      const std::span<const int64_t> candidates = schedule::attribute(in, "candidates");
      best->choices.push_back(
          {in.decision, choice_of(trace, in), std::vector<int64_t>(candidates.begin(), candidates.end())});
    }
  return best;
}

}  // namespace tcc::construct
