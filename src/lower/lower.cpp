// The one list of passes. Every pass says in its header what must hold before and after, and why it stands here.
#include "tcc/lower/lower.h"

#include "lower/gpu/align_vectors.h"
#include "lower/gpu/distribute_fragments.h"
#include "lower/gpu/expand_pipeline.h"
#include "lower/gpu/expand_roles.h"
#include "lower/gpu/insert_barriers.h"
#include "lower/gpu/place_gpu_storage.h"
#include "lower/gpu/sink_vthreads.h"
#include "lower/gpu/spread_banks.h"
#include "lower/gpu/spread_threads.h"
#include "lower/gpu/unroll_loops.h"
#include "lower/hoist_accumulators.h"
#include "lower/order_local_dims.h"
#include "lower/pad_tails.h"
#include "lower/promote_registers.h"
#include "lower/share_output.h"
#include "lower/split_launches.h"
#include "lower/split_tails.h"
#include "tcc/ir/verify.h"
#include "tcc/lower/nest.h"

namespace tcc::lower {

using namespace ir;

namespace {

void check(const Kernel& k, const char* after) {
#ifdef TCC_CHECK_PASSES
  check_verified(k, after);
#else
  (void)k;
  (void)after;
#endif
}

// The passes for GPUs: sequential code with bound loops in it becomes the code of one thread.
Legal<Kernel> lower_threads(const Kernel& nest, const target::Target& target, const ArenaPtr& arena) {
  Kernel k = place_gpu_storage(nest, arena);
  check(k, "place_gpu_storage");
  Legal<Kernel> warps = distribute_fragments(k, target, arena);
  if (!warps) return warps;
  check(*warps, "distribute_fragments");
  Legal<Kernel> roles = expand_roles(*warps, target, arena);
  if (!roles) return roles;
  check(*roles, "expand_roles");
  Legal<Kernel> sunk = sink_vthreads(*roles, arena);
  if (!sunk) return sunk;
  check(*sunk, "sink_vthreads");
  Legal<Kernel> spread = spread_threads(*sunk, arena);
  if (!spread) return spread;
  // Coordinates in place of loops, and rounds in place of copies, leave terms to fold.
  k = finish_nest(*spread, {}, arena);
  k = align_vectors(k, arena);
  Legal<Kernel> stages = expand_pipeline(k, target, arena);
  if (!stages) return stages;
  k = *stages;
  check(k, "expand_pipeline");
  k = hoist_accumulators(k, arena);
  k = spread_banks(k, target, arena);
  check(k, "spread_banks");
  k = insert_barriers(k, target, arena);
  check(k, "insert_barriers");
  k = unroll_loops(k, arena);
  k = promote_registers(k, arena, register_file(target));
  check(k, "promote_registers");
  return k;
}

}  // namespace

Legal<Kernel> lower(const Kernel& kernel, const target::Target& target, Stage stop, const ArenaPtr& arena) {
  arena->keep_alive(kernel.arena);
  Kernel k = kernel;
  k.arena = arena;

  // --- to Nest: blocks become plain loops; what search reads --------------------------------------------------------
  if (k.stage < Stage::kNest) {
    Legal<Kernel> nest = build_nest(k, arena);
    if (!nest) return nest;
    k = finish_nest(*nest, {}, arena);
    check(k, "finish_nest");
    if (Legal<void> ok = check_limits(k, target); !ok) return tl::make_unexpected(ok.error());
  }
  if (stop == Stage::kNest) return k;

  // --- to Lowered: finalists only; what code is printed from ---------------------------------------------------------
  if (target.is_cpu()) {
    k = share_output(k, target, arena);
    check(k, "share_output");
    k = pad_tails(k, arena);
    check(k, "pad_tails");
    k = split_tails(k, arena);
    check(k, "split_tails");
    k = order_local_dims(k, arena);
    check(k, "order_local_dims");
    k = promote_registers(k, arena, register_file(target));
    check(k, "promote_registers");
    k = hoist_local_tiles(k, arena, register_file(target));
    check(k, "hoist_local_tiles");
    Legal<Kernel> launches = split_launches(k, arena);
    if (!launches) return launches;
    k = *launches;
  } else {
    Legal<Kernel> threads = lower_threads(k, target, arena);
    if (!threads) return threads;
    k = *threads;
  }
  k.stage = Stage::kLowered;
  check(k, "lower");
  return k;
}

}  // namespace tcc::lower
