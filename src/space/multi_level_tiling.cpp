// Multi-level tiling of one reduction on a CPU, "SSRSRS" with a write cache (MetaSchedule, section 4.1 and appendix):
//
//   parallel (S0...) { S1... { acc = 0; R0 { S2 { R1 { unrolled S3 { vectorized v3 { acc += ... } } } } }; out = f(acc)
//   } }
//
// Each spatial iterator has four parts, each reduced one two. The register tile S3 x v3 is directly inside R1, so
// that the emitter keeps it in vector registers over R1; the accumulators are S2 x S3, in registers over R0 too where
// they fit (lower/promote_registers.h). The epilogue (bias, activation, residual) runs when the tile of the cache is
// complete. Variants: the level of the write cache, after S1 as above or after S0, whose tile is S1 x S2 x S3; which
// iterator is vectorized; the order of the outer tiles; and how a constant operand is packed so that the vectorized or
// unrolled iterator is contiguous in it.
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "tcc/analysis/lanes.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

constexpr int kNoVector = -1;
constexpr int kSpatialParts = 4, kReduceParts = 2;
constexpr int64_t kFewDivisors = 16;  // a sum's extent without a divisor up to this is tiled freely

struct Plan {
  int v = kNoVector;  // iterator index
  int cost = 0;       // of the accesses along v
  bool v_outermost = false;
  std::vector<Packing> packings;
  int cache_level = 2;  // the write cache is complete after S0 (1) or after S1 (2)
};

// Blocks of a packed dimension must not straddle groups.
bool packs_evenly(const NaiveNest& nest, size_t i, int64_t tile) {
  return nest.group[i] == 0 || nest.group[i] % tile == 0;
}

// What vectorizing iterator i costs: 0 contiguous, 1 packed or small strides, 2 scattered stores, 10 and more gathers,
// whose places are strides or a table's.
int vector_cost(const NaiveNest& nest, size_t i, int64_t lanes, const SpaceOptions& options) {
  int cost = 0;
  for (const analysis::Operand& o : nest.operands) {
    if (!o.stride[i]) {
      cost += 10;
    } else if (*o.stride[i] > 1) {
      const bool packable = options.pack_weights && o.constant && o.dim[i] >= 0 && packs_evenly(nest, i, lanes);
      cost += packable ? 0 : *o.stride[i] <= kFewApart ? 1 : 10;
    }
  }
  if (nest.result.stride[i] != 1) cost += 2;
  if (nest.tiled_extent(i) < 8) cost += 2;
  return cost;
}

// Divisors serve where they fill vectors (or are near enough to a wanted size); elsewhere free tiles with a masked
// tail.
bool wants_free_vector(int64_t extent, int64_t lanes, int64_t limit) {
  if (extent <= limit || extent % lanes == 0) return false;
  for (int64_t d = lanes; d <= limit; ++d)
    if (extent % d == 0 && static_cast<double>((d + lanes - 1) / lanes * lanes) <= 1.15 * static_cast<double>(d))
      return false;
  return true;
}
// Lanes that gather read as much for few elements as for all: vectors are whole ones.
bool gathers(const NaiveNest& nest, size_t i, int64_t lanes) {
  return nest.extents[i] > lanes && std::any_of(nest.operands.begin(), nest.operands.end(),
                                                [&](const analysis::Operand& o) { return !o.stride[i]; });
}
bool wants_free_rows(int64_t extent, int64_t limit) {
  return extent > limit && best_divisor(extent, limit) < std::min<int64_t>(4, limit);
}

// Applies one plan.
struct Tiler {
  const NaiveNest& nest;
  const Plan& plan;
  const SpaceOptions& options;
  int64_t lanes;

  struct Tiles {
    std::vector<LoopRv> unit, unit_reduce, s0, s1, s2, s3, r0, r1, columns, v3;
    std::vector<ExprRv> inner;  // per iterator: its part in S3, invalid for those without
  };

  void split_spatial(Schedule& s, size_t i, LoopRv loop, bool rows, Tiles& tiles) const {
    bool is_v = static_cast<int>(i) == plan.v;
    int64_t extent = nest.tiled_extent(i);
    if (nest.group[i] > 0) {
      std::vector<LoopRv> groups = s.split(loop, {lit(nest.extents[i] / extent), lit(extent)});
      tiles.s0.push_back(groups[0]);
      loop = groups[1];
    }
    std::vector<ExprRv> factors;
    if (is_v) {
      factors =
          nest.group[i] == 0 && (gathers(nest, i, lanes) || wants_free_vector(extent, lanes, options.max_innermost))
              ? s.sample_tile(loop, kSpatialParts, options.max_innermost, lanes)
              : s.sample_perfect_tile(loop, kSpatialParts, options.max_innermost);
    } else if (rows) {
      // A free tile would reach into the next group; a larger unroll limit helps odd group sizes instead.
      bool free = nest.group[i] == 0 && wants_free_rows(extent, options.max_unroll);
      bool odd_group = nest.group[i] > 0 && wants_free_rows(extent, options.max_unroll);
      int64_t limit = odd_group ? 2 * options.max_unroll : options.max_unroll;
      factors = free ? s.sample_tile(loop, kSpatialParts, limit, 1) : s.sample_perfect_tile(loop, kSpatialParts, limit);
    } else {
      // Nothing that is read serves several values of it: no place in the register tile.
      factors = s.sample_perfect_tile(loop, kSpatialParts, 1);
    }
    std::vector<LoopRv> parts = s.split(loop, factors);
    if (!s.ok()) return;
    for (auto [group, part] : {std::pair(&tiles.s0, 0), std::pair(&tiles.s1, 1), std::pair(&tiles.s2, 2)}) {
      group->push_back(parts[static_cast<size_t>(part)]);
      if (is_v && plan.v_outermost) std::rotate(group->begin(), group->end() - 1, group->end());
    }
    if (is_v)
      tiles.v3 = {parts[3]};
    else
      tiles.s3.push_back(parts[3]);
    if (is_v || rows) tiles.inner[i] = factors[3];
  }

  // An operand whose rows run along the sum is read across them by the vectors' lanes: registers transpose as many
  // columns of it as this, where loads of single elements would be several times slower. 0: no operand does so.
  int64_t transposed_width(size_t i) const {
    const auto v = static_cast<size_t>(plan.v);
    const bool across = plan.v >= 0 && std::any_of(nest.operands.begin(), nest.operands.end(), [&](const auto& o) {
                          return !o.constant && o.stride[i] == 1 && o.stride[v].value_or(0) > kFewApart;
                        });
    for (int64_t width = lanes; across && width >= analysis::kMinTransposed; width /= 2)
      if (nest.extents[i] % width == 0) return width;
    return 0;
  }

  void split_reduce(Schedule& s, size_t i, LoopRv loop, size_t reduce_axes, Tiles& tiles) const {
    if (const int64_t width = transposed_width(i); width > 0) {
      const std::vector<LoopRv> whole = s.split(loop, {{}, lit(width)});
      if (!s.ok()) return;
      const std::vector<LoopRv> parts =
          s.split(whole[0], s.sample_perfect_tile(whole[0], kReduceParts, options.max_innermost / width));
      if (!s.ok()) return;
      s.unroll(whole[1]);
      tiles.r0.push_back(parts[0]);
      tiles.r1.push_back(parts[1]);
      tiles.columns.push_back(whole[1]);
      return;
    }
    // The only axis of a sum may have a prime extent that is too long to be written out.
    bool free = reduce_axes == 1 && best_divisor(nest.extents[i], kFewDivisors) == 1;
    std::vector<ExprRv> factors = free ? s.sample_tile(loop, kReduceParts, kFewDivisors, 1)
                                       : s.sample_perfect_tile(loop, kReduceParts, options.max_innermost);
    std::vector<LoopRv> parts = s.split(loop, factors);
    if (!s.ok()) return;
    tiles.r0.push_back(parts[0]);
    tiles.r1.push_back(parts[1]);
  }

  // Whether the schedule allows it.
  bool apply(Schedule& s) const {
    BlockRv block = s.get_block(nest.name);
    for (const Packing& p : plan.packings) pack(s, block, p);

    // Step 1. The accumulator, and the epilogue that reads it.
    std::optional<BlockRv> reader = localise(s, nest, block);
    if (!reader) return false;
    BlockRv epilogue = *reader;

    // Step 2. Tiles.
    std::vector<LoopRv> loops = s.get_loops(block);
    if (!s.ok() || loops.size() != nest.extents.size()) return false;
    size_t reduce_axes = 0, reusing = 0;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (nest.reduce[i] && nest.extents[i] > 1) ++reduce_axes;
      if (!nest.reduce[i] && nest.extents[i] > 1 && static_cast<int>(i) != plan.v && nest.has_reuse(i)) ++reusing;
    }
    Tiles tiles;
    tiles.inner.resize(loops.size());
    size_t last_spatial = loops.size();
    for (size_t i = 0; i < loops.size(); ++i)
      if (!nest.reduce[i] && nest.extents[i] > 1 && static_cast<int>(i) != plan.v) last_spatial = i;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (nest.extents[i] == 1) {
        (nest.reduce[i] ? tiles.unit_reduce : tiles.unit).push_back(loops[i]);
      } else if (nest.reduce[i]) {
        split_reduce(s, i, loops[i], reduce_axes, tiles);
      } else {
        // Iterators without reuse are unrolled only where no other gives independent accumulators.
        bool rows = nest.has_reuse(i) || (reusing == 0 && i == last_spatial);
        split_spatial(s, i, loops[i], rows, tiles);
      }
    }
    if (!s.ok()) return false;
    s.reorder(tiles.unit, tiles.s0, tiles.s1, tiles.r0, tiles.s2, tiles.r1, tiles.unit_reduce, tiles.columns, tiles.s3,
              tiles.v3);
    if (!s.ok()) return false;

    // Step 3. The epilogue goes where a tile of the cache is complete.
    const std::vector<LoopRv> outer = joined(tiles.unit, tiles.s0);
    const std::vector<LoopRv> around = plan.cache_level == 2 ? joined(outer, tiles.s1) : outer;
    if (!around.empty()) s.reverse_compute_at(epilogue, around.back());
    if (!s.ok() || !mark_epilogue(s, nest, plan.v, epilogue, around.size(), tiles.inner)) return false;

    // Step 4. Kinds of loops.
    for (LoopRv l : tiles.s3) s.unroll(l);
    for (LoopRv l : tiles.v3) s.vectorize(l);
    if (!tiles.r1.empty()) {
      ExprRv steps = s.sample_categorical({1, 64, 256, 512}, {0.25, 0.25, 0.25, 0.25});
      // Any of them may have one iteration, and be left out.
      for (LoopRv l : tiles.r1) s.annotate(l, AnnotationKey::kUnrollMax, steps);
    }
    if (!s.ok()) return false;
    fuse_parallel(s, outer);
    return s.ok();
  }
};

std::vector<Plan> make_plans(const Kernel& k, const NaiveNest& nest, const target::Target& target,
                             const SpaceOptions& options) {
  int64_t lanes = vector_lanes(target);
  std::vector<Plan> axes;
  for (size_t i = 0; i < nest.extents.size(); ++i)
    if (!nest.reduce[i] && nest.extents[i] > 1)
      axes.push_back({static_cast<int>(i), vector_cost(nest, i, lanes, options), false, {}, 2});
  const auto scatters = [&](const Plan& p) { return nest.result.stride[static_cast<size_t>(p.v)] != 1; };
  std::stable_sort(axes.begin(), axes.end(), [&](const Plan& x, const Plan& y) {
    return x.cost != y.cost ? x.cost < y.cost : scatters(x) < scatters(y);
  });
  // Two vector axes at most; one that gathers only where there is nothing better, and then beside a scalar variant.
  if (axes.size() > 2) axes.resize(2);
  if (axes.size() == 2 && axes[1].cost >= 10) axes.pop_back();
  bool scalar = axes.empty() || axes[0].cost >= 10;
  std::vector<Plan> plans;
  for (const Plan& axis : axes) {
    auto v = static_cast<size_t>(axis.v);
    std::vector<std::vector<Packing>> layouts = {{}};
    if (options.pack_weights) {
      std::vector<std::vector<Packing>> packed;
      for (int64_t tile : {lanes, 2 * lanes, 4 * lanes})
        if (std::vector<Packing> p = packings_for(k, nest, v, tile);
            !p.empty() && packs_evenly(nest, v, tile) && (tile == lanes || tile <= nest.tiled_extent(v)))
          packed.push_back(p);
      if (packed.empty()) {
        // The weights are broadcast: blocks of the unrolled iterator put a tile's values side by side.
        for (size_t i = 0; i < nest.extents.size() && packed.empty(); ++i)
          if (!nest.reduce[i] && i != v && nest.tiled_extent(i) >= 8 && packs_evenly(nest, i, 8) && nest.has_reuse(i))
            if (std::vector<Packing> p = packings_for(k, nest, i, 8); !p.empty()) packed.push_back(p);
      }
      bool must = false;  // without packing the weights would be gathered
      for (const analysis::Operand& o : nest.operands) must |= o.constant && o.stride[v].value_or(2) > 1;
      if (must && !packed.empty()) layouts.clear();
      layouts.insert(layouts.begin(), packed.begin(), packed.end());
    }
    bool several = std::count_if(nest.extents.begin(), nest.extents.end(), [](int64_t e) { return e > 1; }) > 2;
    // After S0 in one order only: the order of S1 is then that of the parts of one tile of the cache.
    for (const std::vector<Packing>& packings : layouts) {
      plans.push_back({axis.v, axis.cost, false, packings, 2});
      if (several) plans.push_back({axis.v, axis.cost, true, packings, 2});
      plans.push_back({axis.v, axis.cost, false, packings, 1});
    }
  }
  for (int level : {2, 1})
    if (scalar) plans.push_back({kNoVector, 0, false, {}, level});
  return plans;
}

}  // namespace

Ways multi_level_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<NaiveNest> nest = find_contraction(state.kernel());
  if (!nest) return {state};
  Ways ways;
  for (const Plan& plan : make_plans(state.kernel(), *nest, target, options))
    ways.attempt(state, [&](Schedule& s) { return Tiler{*nest, plan, options, vector_lanes(target)}.apply(s); });
  return ways.or_else(state);
}

}  // namespace tcc::space
