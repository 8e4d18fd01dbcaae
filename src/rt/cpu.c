// The instruction sets that may be used here: the CPU has them by CPUID, and the operating system saves their state by
// XCR0.
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tcc/rt/rt.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { kEax, kEbx, kEcx, kEdx };
enum {
  kStateNone = 0,
  kStateAvx = 0x6,      // xmm, ymm
  kStateAvx512 = 0xe6,  // and opmask, zmm
  kStateAmx = 0x60000   // tile configuration and data
};
enum { kArchReqXcompPerm = 0x1023, kXfeatureTileData = 18 };

typedef struct {
  const char* name;
  uint32_t leaf, subleaf, reg, bit;
  uint64_t state;  // XCR0 bits that must all be set
} cpu_feature;

// Position in this table is the bit number in masks that shipped libraries carry: only append.
static const cpu_feature features[] = {
    {"sse4.2", 1, 0, kEcx, 20, kStateNone},       {"popcnt", 1, 0, kEcx, 23, kStateNone},
    {"avx", 1, 0, kEcx, 28, kStateAvx},           {"f16c", 1, 0, kEcx, 29, kStateAvx},
    {"fma", 1, 0, kEcx, 12, kStateAvx},           {"avx2", 7, 0, kEbx, 5, kStateAvx},
    {"bmi", 7, 0, kEbx, 3, kStateNone},           {"bmi2", 7, 0, kEbx, 8, kStateNone},
    {"avx512f", 7, 0, kEbx, 16, kStateAvx512},    {"avx512dq", 7, 0, kEbx, 17, kStateAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kStateAvx512},   {"avx512bw", 7, 0, kEbx, 30, kStateAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kStateAvx512},   {"avx512vbmi", 7, 0, kEcx, 1, kStateAvx512},
    {"avx512vnni", 7, 0, kEcx, 11, kStateAvx512}, {"avx512bf16", 7, 1, kEax, 5, kStateAvx512},
    {"avx512fp16", 7, 0, kEdx, 23, kStateAvx512}, {"avxvnni", 7, 1, kEax, 4, kStateAvx},
    {"amx-tile", 7, 0, kEdx, 24, kStateAmx},      {"amx-bf16", 7, 0, kEdx, 22, kStateAmx},
    {"amx-int8", 7, 0, kEdx, 25, kStateAmx},      {"lzcnt", 0x80000001u, 0, kEcx, 5, kStateNone},
    {"movbe", 1, 0, kEcx, 22, kStateNone},        {"avx512vbmi2", 7, 0, kEcx, 6, kStateAvx512},
    {"avx512ifma", 7, 0, kEbx, 21, kStateAvx512}, {"avx512bitalg", 7, 0, kEcx, 12, kStateAvx512},
    {"amx-fp16", 7, 1, kEax, 21, kStateAmx},      {"avx512vpopcntdq", 7, 0, kEcx, 14, kStateAvx512},
    {"sse3", 1, 0, kEcx, 0, kStateNone},          {"ssse3", 1, 0, kEcx, 9, kStateNone},
    {"sse4.1", 1, 0, kEcx, 19, kStateNone},       {"cx16", 1, 0, kEcx, 13, kStateNone},
    {"sahf", 0x80000001u, 0, kEcx, 0, kStateNone}};
enum { kNumFeatures = sizeof features / sizeof features[0] };

static uint64_t saved_state(void) {
  uint32_t a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return ((uint64_t)high << 32) | low;
}

uint64_t tcc_rt_cpu_features(void) {
  uint64_t state = saved_state(), mask = 0;
  for (int i = 0; i < kNumFeatures; ++i) {
    const cpu_feature* f = &features[i];
    uint32_t regs[4] = {0, 0, 0, 0};
    if (!__get_cpuid_count(f->leaf, f->subleaf, &regs[0], &regs[1], &regs[2], &regs[3])) continue;
    if ((regs[f->reg] >> f->bit & 1) && (state & f->state) == f->state) mask |= 1ull << i;
  }
  return mask;
}

uint64_t tcc_rt_cpu_feature(const char* name) {
  for (int i = 0; i < kNumFeatures; ++i) {
    if (strcmp(features[i].name, name) == 0) return 1ull << i;
  }
  return 0;
}

static const char* feature_name(int bit) {
  return bit < kNumFeatures ? features[bit].name : "an unknown feature";
}

static tcc_status permit_amx(uint64_t needed) {
  if (!(needed & tcc_rt_cpu_feature("amx-tile"))) return TCC_OK;
  if (syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0) return TCC_OK;
  return tcc_rt_fail(TCC_ERROR_UNSUPPORTED_CPU,
                     "the operating system refuses the use of AMX tiles; build the model for a target without AMX");
}
#else
uint64_t tcc_rt_cpu_features(void) {
  return 0;
}
uint64_t tcc_rt_cpu_feature(const char* name) {
  (void)name;
  return 0;
}
static const char* feature_name(int bit) {
  (void)bit;
  return "an x86-64 feature";
}
static tcc_status permit_amx(uint64_t needed) {
  (void)needed;
  return TCC_OK;
}
#endif

tcc_status tcc_rt_require_cpu(uint64_t needed) {
  uint64_t missing = needed & ~tcc_rt_cpu_features();
  if (!missing) return permit_amx(needed);
  char names[512] = "";
  for (int bit = 0; bit < 64; ++bit) {
    if (!(missing >> bit & 1)) continue;
    const char* name = feature_name(bit);
    if (strlen(names) + strlen(name) + 3 > sizeof names) break;
    if (names[0]) strcat(names, ", ");
    strcat(names, name);
  }
  return tcc_rt_fail(TCC_ERROR_UNSUPPORTED_CPU,
                     "this CPU or its operating system lacks %s, which the kernels use; build the model for this "
                     "machine's target",
                     names);
}
