// The floating-point mode kernels are compiled for: round to nearest, exceptions masked, denormals flushed.
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
static inline uint32_t tcc_rt_fp_get(void) {
  return __builtin_ia32_stmxcsr();
}
static inline void tcc_rt_fp_set(uint32_t mode) {
  __builtin_ia32_ldmxcsr(mode);
}
static inline uint32_t tcc_rt_fp_kernel_mode(void) {
  return 0x1f80u | 0x8000u /* FTZ */ | 0x0040u /* DAZ */;
}
// The same for contexts that keep denormals.
static inline uint32_t tcc_rt_fp_exact_mode(void) {
  return 0x1f80u;
}
#elif defined(__aarch64__)
static inline uint32_t tcc_rt_fp_get(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return (uint32_t)mode;
}
static inline void tcc_rt_fp_set(uint32_t mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
}
static inline uint32_t tcc_rt_fp_kernel_mode(void) {
  return 1u << 24 /* FZ */;
}
static inline uint32_t tcc_rt_fp_exact_mode(void) {
  return 0;
}
#else
#error "rt knows the floating-point control register of x86-64 and aarch64 only"
#endif
