// The schema of programs for CPUs: the whole program, and the loops around its hottest statement. Large quantities are
// log2(1 + x).
#pragma once

#include "tcc/features/schema.h"

namespace tcc::features {

extern const Schema kHotStatement;

// X(name). log2(1 + x) unless said otherwise; "share" values are in [0, 1].
//  flops, int_ops            arithmetic of the whole program, on floats and on integers; calls of instructions count
//                            with the operations that the instruction table has for them
//  stores, loads             executed accesses
//  param_bytes               what has to move at least once
//  intensity                 operations (flops and int_ops) per parameter byte; the columns named flops below, and the
//                            shares, count operations too
//  The hot statement is the one that does most operations in all of its executions. A call of an instruction is a
//  statement: its vector is the tile of its result.
//  hot_*                     loops around it, by kind; register tile; accesses per flop; strides of its innermost loop
//  touched_*                 bytes of all buffers that one iteration of a loop level touches
//  level_l1, level_l2        outermost depth share at which the touched bytes still fit the cache
//  traffic_*                 bytes that move into a cache level, by the largest loop nest that fits it
// clang-format off
#define TCC_FEATURES(X) \
  X(flops) \
  X(int_ops) \
  X(stores) \
  X(loads) \
  X(param_bytes) \
  X(intensity) \
  X(statements) \
  X(loops) \
  X(parallel_extent) \
  X(parallel_balance) \
  X(parallel_grain_flops) \
  X(vector_share) \
  X(scalar_flops) \
  X(hot_share) \
  X(hot_depth) \
  X(hot_vector) \
  X(hot_vector_registers) \
  X(hot_vector_fill) \
  X(hot_unroll) \
  X(hot_unroll_loops) \
  X(hot_register_tile) \
  X(hot_register_pressure) \
  X(hot_spills) \
  X(hot_inner_serial) \
  X(hot_inner_trip) \
  X(hot_reduce_inside) \
  X(hot_accumulator_local) \
  X(hot_loads_vector) \
  X(hot_loads_broadcast) \
  X(hot_loads_gather) \
  X(hot_loads_strided) \
  X(hot_store_stride) \
  X(hot_loads_per_flop) \
  X(hot_masked) \
  X(hot_predicate) \
  X(gather_accesses) \
  X(masked_accesses) \
  X(strided_stores) \
  X(tail_waste) \
  X(div_mod) \
  X(math_calls) \
  X(local_bytes) \
  X(workspace_bytes) \
  X(touched_inner) \
  X(touched_middle) \
  X(touched_outer) \
  X(level_l1) \
  X(level_l2) \
  X(traffic_l1) \
  X(traffic_l2) \
  X(traffic_per_flop_l1) \
  X(traffic_per_flop_l2) \
  X(code_size) \
  X(launches) \
  X(copy_bytes) \
  X(copy_vector_share) \
  X(threads) \
  X(vector_lanes)
// clang-format on

enum class Feature : int32_t {
#define TCC_X(name) name,
  TCC_FEATURES(TCC_X)
#undef TCC_X
};

}  // namespace tcc::features
