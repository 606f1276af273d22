// How is a vector of tokens computed with? As many float lanes as a register has, exp and log.

#pragma once

#include <c10/util/BFloat16.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

namespace {

using c10::BFloat16;

#define INLINE inline __attribute__((always_inline))
#ifdef __AVX512F__
constexpr int kLanes = 16, kAtOnce = 4;  // vectors whose sums stay in registers, of which it has 32
#else
constexpr int kLanes = 8, kAtOnce = 2;  // 16 registers; where they are narrower, two stand for one
#endif
typedef float F __attribute__((vector_size(4 * kLanes)));
typedef int32_t I __attribute__((vector_size(4 * kLanes)));
typedef uint16_t H __attribute__((vector_size(2 * kLanes)));

INLINE F load(const float* p) { F v; std::memcpy(&v, p, sizeof v); return v; }
INLINE void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
INLINE void store(BFloat16* p, F v) {  // to nearest, ties away from zero
  const I bits = ((I)v + 0x8000) >> 16;
  const H half = __builtin_convertvector(bits, H);
  std::memcpy(p, &half, sizeof half);
}
INLINE F splat(float x) { return x - F{}; }  // x + 0 would not be x where x is -0
#ifdef __AVX512F__
INLINE F larger(F a, F b) { return _mm512_max_ps(a, b); }
#elif defined(__AVX__)
INLINE F larger(F a, F b) { return _mm256_max_ps(a, b); }
#else
INLINE F larger(F a, F b) { return a > b ? a : b; }
#endif  // b where one is NaN: a compiler makes two instructions of it
INLINE F smaller(F a, F b) { return a < b ? a : b; }

// exp on [-87, 88], relative error 2e-7 near 0; below, exp(-87) = 1.6e-38. NaN stays NaN.
INLINE F clamped(F x) { return larger(splat(-87.f), x); }
INLINE F exponential(F clamped_x) {
  const F shifted = clamped_x * 1.44269504088896f + 12582912.f;
  // `shifted` holds the rounded integer in its low bits.
  const F r = clamped_x - (shifted - 12582912.f) * 0.69314718055995f;
  F p = splat(8.312525764e-3f);  // minimax, degree 5, on |r| <= log(2) / 2
  p = p * r + 4.189011452e-2f;
  p = p * r + 1.666711446e-1f;
  p = p * r + 4.999923178e-1f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  return (F)((I)p + ((I)shifted << 23));
}
INLINE F or_zero(F x, F value) { return x < -87.f ? splat(0.f) : value; }  // an exact exp(-inf)

// log for normal x > 0, cephes logf: relative error 2e-7.
INLINE F logarithm(F x) {
  I bits = (I)x - 0x3F3504F3;  // exponent relative to sqrt(1/2)
  F e = __builtin_convertvector(bits >> 23, F);
  F m = (F)((bits & 0x7FFFFF) + 0x3F3504F3) - 1.f;
  F p = splat(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  F m2 = m * m;
  return m + (m2 * m * p - 0.5f * m2 + e * -2.12194440e-4f) + e * 0.693359375f;
}

}  // namespace
