// GPU descriptors: data only, each row with its source.
//
// Limits of a compute capability: CUDA C++ Programming Guide, "Compute Capabilities", tables "Features and Technical
// Specifications"; sm_37 from the same table of the guide of CUDA 11.8. Shared memory reserved by the system (1 KiB a
// block from 8.0 on) and the opt-in limits: the tuning guides of Volta, Turing, Ampere, Hopper and Blackwell.
// Allocation units: the CUDA occupancy calculator of CUDA 11.8 (warp register unit 256; shared unit 256, 128 from 8.0).
//
// Peaks are dense and, for half types, with fp32 accumulation: GeForce chips run that at half the rate of fp16
// accumulation. "boost" means computed as SMs x lanes x 2 x boost clock where the source gives no figure.
#include "target/gpu_descriptors.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tcc/target/device.h"

namespace tcc::target {
namespace {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

struct ArchRow {
  int64_t sm_arch;
  int64_t fp32_lanes;
  int64_t threads_per_sm;
  int64_t blocks_per_sm;
  int64_t registers_per_sm;
  int64_t shared_per_sm;
  int64_t shared_optin;
  int64_t shared_reserved;
  int64_t shared_unit;
};

constexpr ArchRow kArchRows[] = {
    // arch lanes threads blocks registers  shared/SM   opt-in      reserved unit
    {37, 192, 2048, 16, 131072, 112 * kKiB, 48 * kKiB, 0, 256},
    {50, 128, 2048, 32, 65536, 64 * kKiB, 48 * kKiB, 0, 256},
    {52, 128, 2048, 32, 65536, 96 * kKiB, 48 * kKiB, 0, 256},
    {60, 64, 2048, 32, 65536, 64 * kKiB, 48 * kKiB, 0, 256},
    {61, 128, 2048, 32, 65536, 96 * kKiB, 48 * kKiB, 0, 256},
    {70, 64, 2048, 32, 65536, 96 * kKiB, 96 * kKiB, 0, 256},
    {75, 64, 1024, 16, 65536, 64 * kKiB, 64 * kKiB, 0, 256},
    {80, 64, 2048, 32, 65536, 164 * kKiB, 163 * kKiB, kKiB, 128},
    {86, 128, 1536, 16, 65536, 100 * kKiB, 99 * kKiB, kKiB, 128},
    {87, 128, 1536, 16, 65536, 164 * kKiB, 163 * kKiB, kKiB, 128},
    {89, 128, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, kKiB, 128},
    {90, 128, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, kKiB, 128},
    {100, 128, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, kKiB, 128},
    {103, 128, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, kKiB, 128},
    {110, 128, 1536, 24, 65536, 228 * kKiB, 227 * kKiB, kKiB, 128},
    {120, 128, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, kKiB, 128},
};

struct GpuRow {
  const char* name;
  int64_t sm_arch;
  const char* suffix;
  int64_t sm_count;
  double clock_mhz;  // boost
  int64_t l2_bytes;
  double bandwidth_gb;  // 1e9 bytes per second
  int64_t memory_bytes;
  // 1e12 operations per second
  double fp32, tf32, fp16, bf16, int8;
  const char* source;
};

// The strings hold the sources in full, so that `show` can print them.
constexpr GpuRow kGpuRows[] = {
    {"k80", 37, "", 13, 875, 3 * kMiB / 2, 240, 12 * kGiB, 4.37, 0, 0, 0, 0,
     "NVIDIA Tesla K80 Board Specification BD-07317-001; one of the board's two GK210, fp32 = boost"},
    {"v100", 70, "", 80, 1530, 6 * kMiB, 900, 16 * kGiB, 15.7, 0, 125, 0, 62.8,
     "NVIDIA Tesla V100 GPU Architecture WP-08608-001 (SXM2 16 GB); int8 = dp4a at boost"},
    {"titan-v", 70, "", 80, 1455, 9 * kMiB / 2, 652.8, 12 * kGiB, 14.9, 0, 110, 0, 59.6,
     "NVIDIA TITAN V product page (110 TFLOPS deep learning); fp32 = boost, int8 = dp4a at boost"},
    {"t4", 75, "", 40, 1590, 4 * kMiB, 320, 16 * kGiB, 8.1, 0, 65, 0, 130,
     "NVIDIA Turing GPU Architecture WP-09183-001, appendix Tesla T4"},
    {"a100", 80, "", 108, 1410, 40 * kMiB, 1555, 40 * kGiB, 19.5, 156, 312, 312, 624,
     "NVIDIA A100 Tensor Core GPU Architecture whitepaper v1.0 (SXM4 40 GB)"},
    {"rtx-3070", 86, "", 46, 1725, 4 * kMiB, 448, 8 * kGiB, 20.3, 20.3, 40.6, 40.6, 162.6,
     "NVIDIA Ampere GA102 GPU Architecture whitepaper v2, appendix RTX 3070"},
    {"rtx-3080ti", 86, "", 80, 1665, 6 * kMiB, 912.4, 12 * kGiB, 34.1, 34.1, 68.2, 68.2, 272.8,
     "NVIDIA GeForce RTX 3080 Ti product page; rates = boost with the per-SM rates of the GA102 whitepaper v2"},
    {"rtx-3090", 86, "", 82, 1695, 6 * kMiB, 936.2, 24 * kGiB, 35.6, 35.6, 71, 71, 284,
     "NVIDIA Ampere GA102 GPU Architecture whitepaper v2, table RTX 3090"},
    {"orin-agx", 87, "", 16, 1300, 4 * kMiB, 204.8, 64 * kGiB, 5.3, 21.3, 42.6, 42.6, 85,
     "NVIDIA Jetson AGX Orin Series Technical Brief v1.2 (64 GB: 170 sparse int8 TOPS, halved); tf32, fp16 and bf16 = "
     "boost with the per-SM rates of GA100; L2 from deviceQuery"},
    {"orin-nano", 87, "", 8, 625, 2 * kMiB, 68, 8 * kGiB, 1.28, 5.1, 10.2, 10.2, 20,
     "NVIDIA Jetson Orin Nano Series Data Sheet DS-11105-001 (8 GB: 40 sparse int8 TOPS, halved); tf32, fp16 and bf16 "
     "= boost with the per-SM rates of GA100; L2 as reported by deviceQuery"},
    {"rtx-4090", 89, "", 128, 2520, 72 * kMiB, 1008, 24 * kGiB, 82.6, 82.6, 165.2, 165.2, 660.6,
     "NVIDIA Ada GPU Architecture whitepaper v2, appendix RTX 4090"},
    {"l4", 89, "", 58, 2040, 48 * kMiB, 300, 24 * kGiB, 30.3, 60, 121, 121, 242,
     "NVIDIA L4 Tensor Core GPU Datasheet (sparse figures halved); L2 from the Ada whitepaper's AD104"},
    {"h100", 90, "a", 132, 1980, 50 * kMiB, 3350, 80 * kGiB, 66.9, 494.7, 989.4, 989.4, 1978.9,
     "NVIDIA H100 Tensor Core GPU Architecture whitepaper v1.04 (SXM5)"},
    {"h200", 90, "a", 132, 1980, 60 * kMiB, 4800, 141 * int64_t{1000000000}, 66.9, 494.7, 989.4, 989.4, 1978.9,
     "NVIDIA H200 Tensor Core GPU Datasheet (SXM; sparse figures halved); L2: device attribute (PyTorch prints "
     "L2_cache_size=60MB)"},
    {"b200", 100, "a", 148, 1965, 126 * kMiB, 7700, 180 * int64_t{1000000000}, 74.4, 1125, 2250, 2250, 4500,
     "NVIDIA HGX B200 specifications (an eighth of the board, sparse figures halved); L2: Blackwell Tuning Guide; "
     "fp32 = boost"},
};

// What the model's numbers are where they differ from those of 8.0 (sm_model.h has the sources).
SmModel sm_model(int64_t sm_arch) {
  SmModel m;
  if (sm_arch == 90) m.warp_matrix_share = 0.63;
  if (sm_arch >= 100 && sm_arch < 120) m.warp_matrix_share = 0.28;  // tcgen05 has the rest
  if (sm_arch >= 90 && sm_arch < 120) m.sms_per_gpc = 18;
  return m;
}

Target make_target(const GpuRow& row) {
  Target t;
  t.name = row.name;
  t.kind = TargetKind::kCuda;
  t.source = row.source;
  t.cuda = cuda_limits(row.sm_arch);
  t.cuda.sm_suffix = row.suffix;
  t.cuda.features = cuda_features(row.sm_arch, row.suffix);
  t.cuda.sm_count = row.sm_count;
  t.cuda.l2_bytes = row.l2_bytes;
  t.clock_hz = row.clock_mhz * 1e6;
  t.memory_bandwidth = row.bandwidth_gb * 1e9;
  t.memory_bytes = row.memory_bytes;
  t.peak = {row.fp32 * 1e12, row.tf32 * 1e12, row.fp16 * 1e12, row.bf16 * 1e12, row.int8 * 1e12};
  return t;
}

}  // namespace

CudaFeatures cuda_features(int64_t sm_arch, std::string_view suffix) {
  CudaFeatures f;
  f.dp4a = sm_arch >= 61;
  f.mma_sync = sm_arch >= 70;
  f.ldmatrix = f.mma_m16n8 = f.mma_int8 = sm_arch >= 75;
  f.mma_m16n8k16 = f.bf16 = f.tf32 = f.cp_async = f.mbarrier = sm_arch >= 80;
  f.tma = f.clusters = sm_arch >= 90;
  // Code for an "a" target runs on that one architecture only: sm_100a has tcgen05 in place of wgmma.
  const bool accelerated = suffix == "a";
  f.wgmma = accelerated && sm_arch == 90;
  f.tcgen05 = accelerated && (sm_arch == 100 || sm_arch == 103);
  f.setmaxnreg = accelerated && sm_arch >= 90;
  return f;
}

CudaInfo cuda_limits(int64_t sm_arch) {
  CudaInfo info;
  const ArchRow* best = nullptr;
  for (const ArchRow& row : kArchRows)
    if (row.sm_arch <= sm_arch) best = &row;
  if (!best) return info;
  info.sm_arch = best->sm_arch;
  info.features = cuda_features(best->sm_arch, "");
  info.fp32_lanes_per_sm = best->fp32_lanes;
  info.max_threads_per_sm = best->threads_per_sm;
  info.max_blocks_per_sm = best->blocks_per_sm;
  info.registers_per_sm = best->registers_per_sm;
  info.registers_per_block = 65536;  // of every capability listed
  info.shared_per_sm = best->shared_per_sm;
  info.shared_per_block_optin = best->shared_optin;
  info.shared_reserved_per_block = best->shared_reserved;
  info.shared_allocation_unit = best->shared_unit;
  info.model = sm_model(best->sm_arch);
  return info;
}

const std::vector<Target>& gpu_descriptors() {
  static const std::vector<Target> descriptors = [] {
    std::vector<Target> all;
    for (const GpuRow& row : kGpuRows) all.push_back(make_target(row));
    return all;
  }();
  return descriptors;
}

void complete_device(Target& device) {
  CudaInfo& c = device.cuda;
  const Target* like = nullptr;
  for (const Target& known : gpu_descriptors()) {
    if (known.cuda.sm_arch > c.sm_arch) continue;
    auto distance = [&](const Target& t) {
      return std::pair(c.sm_arch - t.cuda.sm_arch, std::abs(c.sm_count - t.cuda.sm_count));
    };
    if (like == nullptr || distance(known) < distance(*like)) like = &known;
  }
  if (like == nullptr) return;
  if (like->cuda.sm_arch == c.sm_arch) {
    // 9.0 and the data-centre Blackwells have instructions that only architecture-specific code may use.
    c.sm_suffix = like->cuda.sm_suffix;
    c.features = like->cuda.features;
  } else {
    device.notes.push_back(
        fmt::format("peaks of tensor cores are those of {}, scaled: no target is {}", like->name, sm_name(device)));
  }
  const double scale =
      static_cast<double>(c.sm_count) * device.clock_hz / (static_cast<double>(like->cuda.sm_count) * like->clock_hz);
  device.peak.tf32 = like->peak.tf32 * scale;
  device.peak.fp16 = like->peak.fp16 * scale;
  device.peak.bf16 = like->peak.bf16 * scale;
  device.peak.int8 = like->peak.int8 * scale;
}

}  // namespace tcc::target
