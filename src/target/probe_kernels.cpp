// Intrinsics under target attributes: the rest of tcc is built for plain x86-64, and dispatch is by feature bits.
#include "target/probe_kernels.h"

#include <immintrin.h>

#include "tcc/support/check.h"

namespace tcc::target {
namespace {

// Named accumulators rather than an array: at -O1 an array would stay in memory.
#define TCC_CHAINS_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define TCC_CHAINS_12(X) TCC_CHAINS_8(X) X(8) X(9) X(10) X(11)
#define TCC_CHAINS_24(X) TCC_CHAINS_12(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)

// Hides where a value comes from, so that the compiler neither folds nor reorders the chain across it.
#define TCC_OPAQUE(v) __asm__ volatile("" : "+v"(v))
#define TCC_OPAQUE_SSE(v) __asm__ volatile("" : "+x"(v))

__attribute__((target("avx512f"))) float fma_512(int64_t iterations) {
  __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  TCC_OPAQUE(x);
  TCC_OPAQUE(y);
#define TCC_STEP(i) __m512 a##i = _mm512_set1_ps(1.0f + 0.01f * i);
  TCC_CHAINS_24(TCC_STEP)
#undef TCC_STEP
  for (int64_t n = 0; n < iterations; ++n) {
#define TCC_STEP(i) a##i = _mm512_fmadd_ps(a##i, x, y);
    TCC_CHAINS_24(TCC_STEP)
#undef TCC_STEP
  }
  __m512 sum = _mm512_setzero_ps();
#define TCC_STEP(i) sum = _mm512_add_ps(sum, a##i);
  TCC_CHAINS_24(TCC_STEP)
#undef TCC_STEP
  return _mm512_cvtss_f32(sum);
}

__attribute__((target("avx2,fma"))) float fma_256(int64_t iterations) {
  __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  TCC_OPAQUE_SSE(x);
  TCC_OPAQUE_SSE(y);
#define TCC_STEP(i) __m256 a##i = _mm256_set1_ps(1.0f + 0.01f * i);
  TCC_CHAINS_12(TCC_STEP)
#undef TCC_STEP
  for (int64_t n = 0; n < iterations; ++n) {
#define TCC_STEP(i) a##i = _mm256_fmadd_ps(a##i, x, y);
    TCC_CHAINS_12(TCC_STEP)
#undef TCC_STEP
  }
  __m256 sum = _mm256_setzero_ps();
#define TCC_STEP(i) sum = _mm256_add_ps(sum, a##i);
  TCC_CHAINS_12(TCC_STEP)
#undef TCC_STEP
  return _mm256_cvtss_f32(sum);
}

float fma_128(int64_t iterations) {
  __m128 x = _mm_set1_ps(0.999f), y = _mm_set1_ps(0.001f);
  TCC_OPAQUE_SSE(x);
  TCC_OPAQUE_SSE(y);
#define TCC_STEP(i) __m128 a##i = _mm_set1_ps(1.0f + 0.01f * i);
  TCC_CHAINS_12(TCC_STEP)
#undef TCC_STEP
  for (int64_t n = 0; n < iterations; ++n) {
#define TCC_STEP(i) a##i = _mm_add_ps(_mm_mul_ps(a##i, x), y);
    TCC_CHAINS_12(TCC_STEP)
#undef TCC_STEP
  }
  __m128 sum = _mm_setzero_ps();
#define TCC_STEP(i) sum = _mm_add_ps(sum, a##i);
  TCC_CHAINS_12(TCC_STEP)
#undef TCC_STEP
  return _mm_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) float read_512(const std::byte* data, int64_t bytes) {
#define TCC_STEP(i) __m512i a##i = _mm512_setzero_si512();
  TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  for (const std::byte* end = data + bytes; data < end; data += 512) {
#define TCC_STEP(i) a##i = _mm512_xor_si512(a##i, _mm512_load_si512(data + 64 * i));
    TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  }
  __m512i sum = _mm512_setzero_si512();
#define TCC_STEP(i) sum = _mm512_xor_si512(sum, a##i);
  TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  return _mm512_cvtss_f32(_mm512_castsi512_ps(sum));
}

__attribute__((target("avx2"))) float read_256(const std::byte* data, int64_t bytes) {
#define TCC_STEP(i) __m256i a##i = _mm256_setzero_si256();
  TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  for (const std::byte* end = data + bytes; data < end; data += 256) {
#define TCC_STEP(i) a##i = _mm256_xor_si256(a##i, _mm256_load_si256(reinterpret_cast<const __m256i*>(data + 32 * i)));
    TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  }
  __m256i sum = _mm256_setzero_si256();
#define TCC_STEP(i) sum = _mm256_xor_si256(sum, a##i);
  TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  return _mm256_cvtss_f32(_mm256_castsi256_ps(sum));
}

float read_128(const std::byte* data, int64_t bytes) {
#define TCC_STEP(i) __m128i a##i = _mm_setzero_si128();
  TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  for (const std::byte* end = data + bytes; data < end; data += 128) {
#define TCC_STEP(i) a##i = _mm_xor_si128(a##i, _mm_load_si128(reinterpret_cast<const __m128i*>(data + 16 * i)));
    TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  }
  __m128i sum = _mm_setzero_si128();
#define TCC_STEP(i) sum = _mm_xor_si128(sum, a##i);
  TCC_CHAINS_8(TCC_STEP)
#undef TCC_STEP
  return _mm_cvtss_f32(_mm_castsi128_ps(sum));
}

__attribute__((target("avx512f"))) void copy_512(std::byte* to, const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 256) {
    const __m512i a = _mm512_load_si512(from + i), b = _mm512_load_si512(from + i + 64);
    const __m512i c = _mm512_load_si512(from + i + 128), d = _mm512_load_si512(from + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 192), d);
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void copy_256(std::byte* to, const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
    const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), b);
  }
  _mm_sfence();
}

void copy_128(std::byte* to, const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
  _mm_sfence();
}

constexpr ProbeKernels k128 = {128, 12 * 4 * 2, fma_128, read_128, copy_128};
constexpr ProbeKernels k256 = {256, 12 * 8 * 2, fma_256, read_256, copy_256};
constexpr ProbeKernels k512 = {512, 24 * 16 * 2, fma_512, read_512, copy_512};

}  // namespace

const ProbeKernels& probe_kernels(int64_t vector_bits) {
  TCC_CHECK(vector_bits == 128 || vector_bits == 256 || vector_bits == 512, "{} bits", vector_bits);
  return vector_bits == 512 ? k512 : vector_bits == 256 ? k256 : k128;
}

}  // namespace tcc::target
