// The device prelude: the same text in front of every kernel. No headers are included; NVRTC's built-in functions
// suffice. Values of f16 and bf16 are floats in registers, rounded after every operation, and 16-bit words in memory.
#pragma once

namespace tcc::codegen::cuda {

inline constexpr char kPrelude[] = R"cuda(#define TCC_DEVICE static __device__ __forceinline__
template <class T, int N>
struct alignas(sizeof(T) * N) tcc_vec {
  T v[N];
};
template <class T>
TCC_DEVICE T tcc_min(T a, T b) { return b < a ? b : a; }
template <class T>
TCC_DEVICE T tcc_max(T a, T b) { return a < b ? b : a; }
template <class T>
TCC_DEVICE T tcc_floor_div(T a, T b) { return a / b - (a % b != 0 && ((a < 0) != (b < 0)) ? 1 : 0); }
template <class T>
TCC_DEVICE T tcc_floor_mod(T a, T b) { return a - tcc_floor_div(a, b) * b; }
template <class T>
TCC_DEVICE T tcc_xor(T a, int from, T mask, int to) { return a ^ (((a >> from) & mask) << to); }
TCC_DEVICE float tcc_from_f16(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
TCC_DEVICE unsigned short tcc_to_f16(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
TCC_DEVICE float tcc_round_f16(float f) { return tcc_from_f16(tcc_to_f16(f)); }
TCC_DEVICE float tcc_from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
TCC_DEVICE unsigned short tcc_to_bf16(float f) {
  unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
TCC_DEVICE float tcc_round_bf16(float f) { return tcc_from_bf16(tcc_to_bf16(f)); }
TCC_DEVICE float tcc_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
TCC_DEVICE double tcc_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
TCC_DEVICE unsigned tcc_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
)cuda";

}  // namespace tcc::codegen::cuda
