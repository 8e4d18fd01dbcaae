// What a machine can do: plain data, measured (host) or cited (GPU descriptors). Nothing here touches a device.
// Units: bytes, hertz, operations per second (a fused multiply-add counts as two), bytes per second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/result.h"
#include "tcc/target/core_model.h"
#include "tcc/target/sm_model.h"

namespace tcc::target {

enum class TargetKind { kCpu, kCuda };

// X(field, LLVM feature name). The field name is also the JSON name. Order is part of no stored format.
// clang-format off
#define TCC_CPU_FEATURES(X) \
  X(sse3, "sse3") \
  X(ssse3, "ssse3") \
  X(sse4_1, "sse4.1") \
  X(sse4_2, "sse4.2") \
  X(popcnt, "popcnt") \
  X(cx16, "cx16") \
  X(sahf, "sahf") \
  X(movbe, "movbe") \
  X(bmi, "bmi") \
  X(bmi2, "bmi2") \
  X(lzcnt, "lzcnt") \
  X(avx, "avx") \
  X(f16c, "f16c") \
  X(fma, "fma") \
  X(avx2, "avx2") \
  X(avx_vnni, "avxvnni") \
  X(avx512f, "avx512f") \
  X(avx512cd, "avx512cd") \
  X(avx512bw, "avx512bw") \
  X(avx512dq, "avx512dq") \
  X(avx512vl, "avx512vl") \
  X(avx512_ifma, "avx512ifma") \
  X(avx512_vbmi, "avx512vbmi") \
  X(avx512_vbmi2, "avx512vbmi2") \
  X(avx512_vnni, "avx512vnni") \
  X(avx512_bitalg, "avx512bitalg") \
  X(avx512_vpopcntdq, "avx512vpopcntdq") \
  X(avx512_bf16, "avx512bf16") \
  X(avx512_fp16, "avx512fp16") \
  X(amx_tile, "amx-tile") \
  X(amx_bf16, "amx-bf16") \
  X(amx_int8, "amx-int8") \
  X(amx_fp16, "amx-fp16")
// clang-format on

// A bit is set only where the processor has the instructions and the system saves their registers (XCR0).
// AMX tiles further need the kernel's permission, which the process that runs the code asks for.
struct CpuFeatures {
#define TCC_DECLARE_FEATURE(field, llvm) bool field = false;
  TCC_CPU_FEATURES(TCC_DECLARE_FEATURE)
#undef TCC_DECLARE_FEATURE
  bool operator==(const CpuFeatures&) const = default;
};

struct CpuInfo {
  CpuFeatures features;
  int64_t vector_bits = 128;  // 128, 256 or 512: the width to generate; also LLVM's prefer-vector-width
  int64_t num_vector_registers = 16;
  int64_t cores = 1;             // physical cores this process may use (affinity and cgroup quota)
  int64_t threads = 1;           // logical processors this process may use
  int64_t l1_bytes = 32 << 10;   // data cache of one core
  int64_t l2_bytes = 512 << 10;  // of one core
  int64_t l3_bytes = 0;          // one instance, shared; 0 = none
  int64_t cache_line_bytes = 64;
  CoreModel core;
  bool operator==(const CpuInfo&) const = default;
};

// X(field): what the instruction set of a compute capability offers.
// clang-format off
#define TCC_CUDA_FEATURES(X) \
  X(dp4a) /* 4-way int8 dot product, sm_61 */ \
  X(mma_sync) /* any mma.sync, sm_70 (m8n8k4 f16 only) */ \
  X(ldmatrix) /* sm_75 */ \
  X(mma_m16n8) /* m16n8k8 f16, sm_75 */ \
  X(mma_int8) /* mma.sync s8/u8, sm_75 */ \
  X(mma_m16n8k16) /* m16n8k16 f16 and m16n8k32 s8, sm_80 */ \
  X(bf16) /* bf16 arithmetic and mma, sm_80 */ \
  X(tf32) /* tf32 mma, sm_80 */ \
  X(cp_async) /* sm_80 */ \
  X(mbarrier) /* sm_80 */ \
  X(tma) /* cp.async.bulk.tensor, sm_90 */ \
  X(clusters) /* thread block clusters, sm_90 */ \
  X(wgmma) /* sm_90a only */ \
  X(setmaxnreg) /* sm_90a, sm_100a */ \
  X(tcgen05) /* sm_100a only */
// clang-format on

struct CudaFeatures {
#define TCC_DECLARE_FEATURE(field) bool field = false;
  TCC_CUDA_FEATURES(TCC_DECLARE_FEATURE)
#undef TCC_DECLARE_FEATURE
  bool operator==(const CudaFeatures&) const = default;
};

struct CudaInfo {
  int64_t sm_arch = 0;    // 80 for compute capability 8.0
  std::string sm_suffix;  // "", or "a" where architecture-specific code (wgmma, tcgen05) is generated
  CudaFeatures features;
  int64_t sm_count = 0;
  int64_t warp_size = 32;
  int64_t schedulers_per_sm = 4;
  int64_t fp32_lanes_per_sm = 0;  // fp32 fused multiply-adds per SM and clock
  int64_t max_threads_per_block = 1024;
  int64_t max_threads_per_sm = 0;
  int64_t max_blocks_per_sm = 0;
  int64_t registers_per_sm = 0;  // 32-bit registers
  int64_t registers_per_block = 0;
  int64_t max_registers_per_thread = 255;
  int64_t register_allocation_unit = 256;  // registers are given to a warp in multiples of this
  int64_t shared_per_block = 48 << 10;     // without opting in
  int64_t shared_per_block_optin = 0;      // with cudaFuncAttributeMaxDynamicSharedMemorySize; equal if none
  int64_t shared_per_sm = 0;
  int64_t shared_reserved_per_block = 0;  // taken by the system from shared_per_sm for each resident block
  int64_t shared_allocation_unit = 0;
  int64_t shared_banks = 32;  // of 4 bytes
  int64_t l2_bytes = 0;
  int64_t memory_transaction_bytes = 32;  // one L2 sector
  double launch_seconds = 1e-6;           // of kernels behind each other in a graph: 0.8 us on an H100
  // Clusters of 2, 4 and 8 blocks that run at a time where each block takes a whole multiprocessor, as the driver says;
  // 0: unknown, and resident_clusters() uses a formula.
  int64_t clusters_of_2 = 0, clusters_of_4 = 0, clusters_of_8 = 0;
  // Seed of the simulated GPU (tcc/simulation/multiprocessor.h) that replaces the device; 0: a device. Searches never
  // exchange programs between a simulated GPU and a device, nor between seeds.
  int64_t simulated = 0;
  SmModel model;
  bool calibrated = false;  // `model` and launch_seconds hold numbers fitted to this device (driver/calibrate.h)
  bool operator==(const CudaInfo&) const = default;
};

// Dense peaks, operations per second over the whole machine. Half types: products of that type accumulated in
// fp32 by matrix (or dot product) instructions; 0 = no such instruction.
struct Peaks {
  double fp32 = 0;
  double tf32 = 0;
  double fp16 = 0;
  double bf16 = 0;
  double int8 = 0;
  bool operator==(const Peaks&) const = default;
};

struct Target {
  std::string name;  // "host", "x86-64-v3", "a100"
  TargetKind kind = TargetKind::kCpu;
  std::string source;              // where the numbers come from
  std::vector<std::string> notes;  // what was assumed rather than known, one sentence each
  CpuInfo cpu;                     // meaningful for kCpu
  CudaInfo cuda;                   // meaningful for kCuda
  Peaks peak;
  double clock_hz = 0;
  double memory_bandwidth = 0;  // bytes per second
  int64_t memory_bytes = 0;
  bool measured = false;  // the rates were measured on this machine (see probe.h); else nominal
  bool operator==(const Target&) const = default;

  bool is_cpu() const { return kind == TargetKind::kCpu; }
  bool is_cuda() const { return kind == TargetKind::kCuda; }
};

// "host", "x86-64-v2/-v3/-v4" or a GPU descriptor. Unknown names are usage errors that list the nearest names.
Result<Target> find_target(std::string_view name);
// Every name find_target knows, in the order to print them.
std::vector<std::string> target_names();
// This machine, from CPUID, XGETBV, sysfs, affinity and cgroup quota; never from a model number. Rates are nominal
// until a probe is applied. What had to be assumed is in `notes`.
Target host_target();
// Limits and features of a compute capability (86 = 8.6); device sizes and rates are zero, for the caller to fill
// from the device. An unknown capability takes the nearest older row and says so in `notes`; older than 3.7: error.
Result<Target> cuda_target_for(int64_t sm_arch);

// Clusters of `blocks` blocks that run at a time, `per_sm` blocks on a multiprocessor: what the driver said of this
// device, else CUTLASS's formula (tile_scheduler_params.h, get_max_cta_occupancy): clusters do not span the groups of
// model.sms_per_gpc multiprocessors, of which the last one may be smaller. At least 1. Only for kCuda.
int64_t resident_clusters(const Target& target, int64_t blocks, int64_t per_sm = 1);

// The target is a simulated GPU's: of CudaInfo::simulated.
inline bool is_simulated(const Target& target) {
  return target.cuda.simulated != 0;
}
// "sm_90a". Only for kCuda.
std::string sm_name(const Target& target);
// "+avx2,+fma,...": for LLVM's subtarget with CPU "x86-64". Only for kCpu.
std::string llvm_feature_string(const Target& target);
// 1 to 4 for x86-64, -v2, -v3, -v4, whichever the features contain entirely; 0 for a GPU.
int64_t isa_level(const Target& target);
// "x86-64", "x86-64-v2", ...
std::string isa_level_name(int64_t level);
// Equal for targets that run the same code: instruction set and hard limits, not sizes or rates. Stable: stored.
uint64_t feature_hash(const Target& target);

// JSON with the field names above. "base": "a100" starts from that descriptor, so a file need only name what differs.
// Unknown keys, wrong types and impossible values are input errors that name the key.
Result<Target> target_from_json(std::string_view text);
std::string target_to_json(const Target& target);

}  // namespace tcc::target
