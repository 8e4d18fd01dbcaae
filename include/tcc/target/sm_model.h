// The numbers by which the analytical model of GPU programs (tcc/cost/gpu_facts.h) turns counts into time. A target
// description holds them under "cuda": {"model": ...}; `tcc targets --calibrate` fits some of them on a device.
//
// A source "estimate" means that nobody has measured the number on this architecture for tcc.
#pragma once

#include <array>
#include <string_view>

namespace tcc::target {

// X(field, default, least value, meaning, source). Defaults are those of compute capability 8.0; the descriptors of
// other capabilities change some (src/target/gpu_descriptors.cpp).
// clang-format off
#define TCC_SM_MODEL(X) \
  X(copy_share, 0.9, 0.01, "share of memory_bandwidth that a copy reaches", \
    "estimate: 4.3 of 4.8 TB/s on an H200, 1.4 of 1.555 on an A100") \
  X(cache_share, 0.75, 0, "share of accesses beyond the least traffic that the second-level cache serves", "estimate") \
  X(small_cache_share, 0.95, 0, "the same for a tensor of at most half of that cache", "estimate") \
  X(l2_bytes_per_cycle, 28, 0.1, "bytes between the second-level cache and one multiprocessor", \
    "estimate: 4.3 TB/s of an A100 by public microbenchmarks") \
  X(memory_latency_ns, 500, 1, "of a load from memory, on a device with little else to do", \
    "estimate: 270 ns by pointer chasing (Luo et al., IPDPS 2024), more where pages and banks change") \
  X(l2_latency_ns, 160, 1, "of a load that the second-level cache serves", "Luo et al., IPDPS 2024: 262 cycles") \
  X(l1_latency_cycles, 38, 1, "of a load that the first-level cache serves", "Luo et al., IPDPS 2024") \
  X(shared_latency_cycles, 29, 1, "of a load from shared memory", "Luo et al., IPDPS 2024") \
  X(arithmetic_latency_cycles, 4, 1, "of a multiply-add", "Jia et al., arXiv 1804.06826") \
  X(l1_bytes_per_cycle, 128, 1, "bytes of shared memory or the first-level cache for one access of a warp", \
    "CUDA C++ Programming Guide: 32 banks of 4 bytes") \
  X(barrier_cycles, 60, 0, "of a barrier and of the accesses around it", "estimate") \
  X(fill_cycles, 480, 0, "for which the first step of a tile is waited for", "Luo et al., IPDPS 2024: 479 cycles") \
  X(remote_arrive_cycles, 20, 0, "for each other block of a cluster, in each step of a pipeline", "estimate") \
  X(warp_matrix_share, 1, 0.01, "share of the peak that matrix instructions of a warp reach", \
    "8.0: NVIDIA A100 whitepaper; 9.0: 0.63 by Luo et al., IPDPS 2024; 10.0: estimate") \
  X(sms_per_gpc, 0, 0, "multiprocessors of a graphics processing cluster at most; 0: blocks form no clusters", \
    "NVIDIA H100 whitepaper, figure of GH100: 18; 10.0: estimate") \
  X(special_per_cycle, 16, 0.1, "exponentials, reciprocals and the like of one multiprocessor", \
    "CUDA C++ Programming Guide, throughput of arithmetic instructions") \
  X(full_rate_share, 0.5, 0.01, "share of a multiprocessor's warps, times independent sums, that arithmetic needs", \
    "estimate after Volkov, UC Berkeley 2016") \
  X(matrix_warps, 2, 1, "warps of a scheduler that keep its matrix unit busy: one loads, one multiplies", "estimate") \
  X(loop_instructions, 4, 0, "of an iteration for its counter, branch and addresses", "estimate from SASS") \
  X(copy_instructions, 6, 0, "of one piece of a copy: its address, its condition, itself", "estimate from SASS") \
  X(condition_instructions, 2, 0, "of a predicate", "estimate from SASS") \
  X(division_instructions, 4, 0, "of an index's quotient or remainder by a constant", "estimate from SASS") \
  X(wide_index_factor, 3, 1, "how much longer index arithmetic of 64 bits is", "estimate from SASS") \
  X(exp_instructions, 2, 1, "of an exponential: a product and a power of two", "SASS of NVRTC 13, sm_80 and sm_90") \
  X(erf_instructions, 32, 1, "of an error function of 32 bits", "SASS of NVRTC 13, sm_80 and sm_90") \
  X(divide_instructions, 5, 1, "of a quotient of floats, to 2 ulp", "SASS of NVRTC 13, sm_80 and sm_90") \
  X(function_instructions, 20, 1, "of any other function", "estimate from SASS")
// clang-format on

struct SmModel {
#define TCC_X(name, value, least, meaning, source) double name = value;
  TCC_SM_MODEL(TCC_X)
#undef TCC_X
  bool operator==(const SmModel&) const = default;
};

// The rows of the table above, in its order.
struct SmModelField {
  std::string_view name;
  double SmModel::* value;
  double least;
  std::string_view meaning, source;
};
inline constexpr std::array kSmModelFields = {
#define TCC_X(name, value, least, meaning, source) SmModelField{#name, &SmModel::name, least, meaning, source},
    TCC_SM_MODEL(TCC_X)
#undef TCC_X
};

}  // namespace tcc::target
