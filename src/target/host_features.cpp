// The host's instruction set, from CPUID and XGETBV. Model and family numbers are never read: virtual machines mask
// them, and code chosen by model number then falls back to older instructions.
#include "target/host_features.h"

#include <cpuid.h>

namespace tcc::target {
namespace {

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf read_leaf(uint32_t leaf, uint32_t subleaf) {
  Leaf r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

bool bit(uint32_t word, int index) {
  return (word >> index) & 1u;
}

// Register state the system saves on a context switch. Inline assembly, for the intrinsic needs -mxsave.
uint64_t read_xcr0() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

}  // namespace

CpuFeatures host_features() {
  CpuFeatures f;
  const Leaf basic = read_leaf(1, 0);
  const Leaf extended = read_leaf(7, 0);
  const Leaf extended1 = extended.eax >= 1 ? read_leaf(7, 1) : Leaf{};
  const Leaf amd = read_leaf(0x80000001u, 0);

  f.sse3 = bit(basic.ecx, 0);
  f.ssse3 = bit(basic.ecx, 9);
  f.cx16 = bit(basic.ecx, 13);
  f.sse4_1 = bit(basic.ecx, 19);
  f.sse4_2 = bit(basic.ecx, 20);
  f.movbe = bit(basic.ecx, 22);
  f.popcnt = bit(basic.ecx, 23);
  f.sahf = bit(amd.ecx, 0);
  f.lzcnt = bit(amd.ecx, 5);
  f.bmi = bit(extended.ebx, 3);
  f.bmi2 = bit(extended.ebx, 8);

  const bool osxsave = bit(basic.ecx, 27);
  const uint64_t xcr0 = osxsave ? read_xcr0() : 0;
  const bool ymm_saved = (xcr0 & 0x6) == 0x6;
  const bool zmm_saved = (xcr0 & 0xe6) == 0xe6;
  const bool tiles_saved = (xcr0 & 0x60000) == 0x60000;

  if (ymm_saved) {
    f.avx = bit(basic.ecx, 28);
    f.fma = f.avx && bit(basic.ecx, 12);
    f.f16c = f.avx && bit(basic.ecx, 29);
    f.avx2 = f.avx && bit(extended.ebx, 5);
    f.avx_vnni = f.avx2 && bit(extended1.eax, 4);
  }
  if (zmm_saved && f.avx2 && bit(extended.ebx, 16)) {
    f.avx512f = true;
    f.avx512dq = bit(extended.ebx, 17);
    f.avx512_ifma = bit(extended.ebx, 21);
    f.avx512cd = bit(extended.ebx, 28);
    f.avx512bw = bit(extended.ebx, 30);
    f.avx512vl = bit(extended.ebx, 31);
    f.avx512_vbmi = bit(extended.ecx, 1);
    f.avx512_vbmi2 = bit(extended.ecx, 6);
    f.avx512_vnni = bit(extended.ecx, 11);
    f.avx512_bitalg = bit(extended.ecx, 12);
    f.avx512_vpopcntdq = bit(extended.ecx, 14);
    f.avx512_bf16 = bit(extended1.eax, 5);
    f.avx512_fp16 = bit(extended.edx, 23);
  }
  if (tiles_saved && bit(extended.edx, 24)) {
    f.amx_tile = true;
    f.amx_bf16 = bit(extended.edx, 22);
    f.amx_int8 = bit(extended.edx, 25);
    f.amx_fp16 = bit(extended1.eax, 21);
  }
  return f;
}

}  // namespace tcc::target
