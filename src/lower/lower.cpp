// The one list of passes. Every pass says in its header what must hold before and after, and why it stands here.
#include "tcc/lower/lower.h"

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
    k = promote_registers(k, arena, target.cpu.num_vector_registers * target.cpu.vector_bits / 8);
    check(k, "promote_registers");
    Legal<Kernel> launches = split_launches(k, arena);
    if (!launches) return launches;
    k = *launches;
  }
  k.stage = Stage::kLowered;
  check(k, "lower");
  return k;
}

}  // namespace tcc::lower
