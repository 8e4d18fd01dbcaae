#include "tcc/nn/level.h"

#include <array>

#include "nn/kernels.h"
#include "tcc/rt/rt.h"

namespace tcc::nn {
namespace {

bool host_has_all(std::initializer_list<const char*> names) {
  static const uint64_t have = tcc_rt_cpu_features();  // CPUID is slow on virtual machines
  for (const char* name : names) {
    const uint64_t bit = tcc_rt_cpu_feature(name);
    if (bit == 0 || (have & bit) == 0) return false;
  }
  return true;
}

}  // namespace

std::string_view level_name(Level level) {
  switch (level) {
    case Level::kV2:
      return "v2";
    case Level::kV3:
      return "v3";
    case Level::kV4:
      return "v4";
  }
  return "";
}

bool host_has(Level level) {
#if defined(__x86_64__)
  switch (level) {
    case Level::kV2:
      return host_has_all({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"});
    case Level::kV3:
      return host_has(Level::kV2) && host_has_all({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"});
    case Level::kV4:
      return host_has(Level::kV3) && host_has_all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  }
  return false;
#else
  return level == Level::kV2;  // compiled for the baseline of the machine
#endif
}

Result<Level> host_level() {
  for (Level level : {Level::kV4, Level::kV3, Level::kV2})
    if (host_has(level)) return level;
  return environment_error(
      "learned cost models need a CPU of x86-64-v2 (SSE4.2, POPCNT, CMPXCHG16B); this CPU or its operating system "
      "lacks "
      "one of them: use a cost model that is not a network");
}

#if defined(__x86_64__)
const Kernels<float>& kernels_f32(Level level) {
  return level == Level::kV4 ? v4::table_f32 : level == Level::kV3 ? v3::table_f32 : v2::table_f32;
}
const Kernels<double>& kernels_f64(Level level) {
  return level == Level::kV4 ? v4::table_f64 : level == Level::kV3 ? v3::table_f64 : v2::table_f64;
}
#else
const Kernels<float>& kernels_f32(Level) {
  return v2::table_f32;
}
const Kernels<double>& kernels_f64(Level) {
  return v2::table_f64;
}
#endif
template <>
const Kernels<float>& kernels_of<float>(Level level) {
  return kernels_f32(level);
}
template <>
const Kernels<double>& kernels_of<double>(Level level) {
  return kernels_f64(level);
}

}  // namespace tcc::nn
