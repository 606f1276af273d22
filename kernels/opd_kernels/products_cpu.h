// How is a tile of rows multiplied with a factor that was packed before? As this CPU does it best.
//
// With AVX-512 by oneDNN's tiles, bf16 too. Without, those are slower than PyTorch's own product, so
// blocks of six rows by two registers do it here, in float32: bf16 operands are widened on the way.

#pragma once

#include <ATen/native/CPUBlas.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

#include "lanes_cpu.h"

namespace {

using at::Tensor;

constexpr int64_t kUnit = 16;  // tokens of a chunk are padded to a multiple of it

#ifdef __AVX512F__

template <typename T>
using Factor = T;  // what operands of type T are multiplied as
constexpr int64_t kTileRows = 64;
constexpr int64_t kProductDepth = 1024;  // of the right factor, so that its panel stays in cache

template <typename T>
const T* left_factor(const T* rows, int64_t, int64_t, int64_t&, std::vector<float>&) {
  return rows;
}

// hidden^T [width, tokens] as the right factor of a product; missing tokens up to `n` are zero.
template <typename T>
Tensor pack_transposed(const Tensor& hidden, int64_t n) {
  constexpr int64_t pair = sizeof(float) / sizeof(T);  // bf16: two rows of the factor interleaved
  const int64_t tokens = hidden.size(0), pairs = hidden.size(1) / pair, stride = hidden.stride(0);
  Tensor packed = n > tokens ? at::zeros({pairs, n, pair}, hidden.options())
                             : at::empty({pairs, n, pair}, hidden.options());
  const T* from = hidden.const_data_ptr<T>();
  T* to = packed.mutable_data_ptr<T>();
  for (int64_t i = 0; i < pairs; i++)
    for (int64_t j = 0; j < tokens; j++)
      std::memcpy(to + (i * n + j) * pair, from + j * stride + i * pair, sizeof(float));
  return packed;
}

// hidden [tokens, width] as the right factor of a product over tokens, padded likewise.
template <typename T>
Tensor pack_plain(const Tensor& hidden, int64_t n) {
  constexpr int64_t pair = sizeof(float) / sizeof(T);
  const int64_t tokens = hidden.size(0), width = hidden.size(1), stride = hidden.stride(0);
  Tensor packed = at::zeros({n / pair, width, pair}, hidden.options());
  const T* from = hidden.const_data_ptr<T>();
  T* to = packed.mutable_data_ptr<T>();
  for (int64_t j = 0; j < tokens; j++)
    for (int64_t i = 0; i < width; i++)
      to[(j / pair * width + i) * pair + j % pair] = from[j * stride + i];
  return packed;
}

// C [m, n] (+)= A B, with B [k, n] packed.
template <typename T>
void product(const T* a, int64_t lda, const T* b, float* c, int64_t ldc, int64_t m, int64_t n,
             int64_t k, bool add) {
  for (int64_t at = 0; at < k; at += kProductDepth)
    at::native::cpublas::brgemm(m, n, std::min(kProductDepth, k - at), lda, n, ldc, add || at > 0,
                                a + at, b + at * n, c, std::is_same_v<T, BFloat16>);
}

template <typename T>
void release() {  // what a thread's products held
  at::native::cpublas::brgemm_release(std::is_same_v<T, BFloat16>);
}

#else

template <typename T>
using Factor = float;
constexpr int64_t kBlockRows = 6, kTileRows = 10 * kBlockRows;  // 12 sums, 3 operands: 15 registers
constexpr int64_t kStrip = 2 * kLanes;  // columns of a packed factor that lie together
static_assert(kUnit % kStrip == 0);
constexpr int64_t kProductDepth = 256;  // so that a strip stays in the first cache

// Rows of a left factor [count, width], `pitch` apart; where they are bf16 widened into `wide`, with
// the pitch they have there.
inline const float* left_factor(const float* rows, int64_t, int64_t, int64_t&, std::vector<float>&) {
  return rows;
}
inline const float* left_factor(const BFloat16* rows, int64_t count, int64_t width, int64_t& pitch,
                                std::vector<float>& wide) {
  wide.resize(count * width);
  for (int64_t r = 0; r < count; r++)
    for (int64_t i = 0; i < width; i++) wide[r * width + i] = rows[r * pitch + i];
  pitch = width;
  return wide.data();
}

template <typename T>
Tensor pack_transposed(const Tensor& hidden, int64_t n) {
  const int64_t tokens = hidden.size(0), width = hidden.size(1), stride = hidden.stride(0);
  const auto wide = hidden.options().dtype(at::kFloat);
  Tensor packed = n > tokens ? at::zeros({n / kStrip, width, kStrip}, wide)
                             : at::empty({n / kStrip, width, kStrip}, wide);
  const T* from = hidden.const_data_ptr<T>();
  float* to = packed.mutable_data_ptr<float>();
  for (int64_t j = 0; j < tokens; j++)
    for (int64_t i = 0; i < width; i++)
      to[(j / kStrip * width + i) * kStrip + j % kStrip] = from[j * stride + i];
  return packed;
}

template <typename T>
Tensor pack_plain(const Tensor& hidden, int64_t n) {
  const int64_t tokens = hidden.size(0), width = hidden.size(1), stride = hidden.stride(0);
  const int64_t strips = (width + kStrip - 1) / kStrip;
  Tensor packed = at::zeros({strips, n, kStrip}, hidden.options().dtype(at::kFloat));
  const T* from = hidden.const_data_ptr<T>();
  float* to = packed.mutable_data_ptr<float>();
  for (int64_t first = 0; first < width; first += kStrip)
    for (int64_t j = 0; j < tokens; j++)
      for (int64_t i = first; i < std::min(first + kStrip, width); i++)
        to[(first / kStrip * n + j) * kStrip + i - first] = from[j * stride + i];
  return packed;
}

// R rows by one strip, of which `columns` are wanted.
template <int R>
INLINE void block(const float* a, int64_t lda, const float* strip, float* c, int64_t ldc,
                  int64_t columns, int64_t depth, bool add) {
  F low[R], high[R];
  for (int r = 0; r < R; r++) low[r] = high[r] = F{};
  for (int64_t p = 0; p < depth; p++) {
    const F first = load(strip + p * kStrip), second = load(strip + p * kStrip + kLanes);
    for (int r = 0; r < R; r++) {
      const F x = splat(a[r * lda + p]);
      low[r] += x * first;
      high[r] += x * second;
    }
  }
  for (int r = 0; r < R; r++) {
    float* to = c + r * ldc;
    if (columns >= kStrip) {
      store(to, add ? load(to) + low[r] : low[r]);
      store(to + kLanes, add ? load(to + kLanes) + high[r] : high[r]);
      continue;
    }
    float part[kStrip];
    store(part, low[r]);
    store(part + kLanes, high[r]);
    for (int64_t j = 0; j < columns; j++) to[j] = add ? to[j] + part[j] : part[j];
  }
}

inline void product(const float* a, int64_t lda, const float* b, float* c, int64_t ldc, int64_t m,
                    int64_t n, int64_t k, bool add) {
  for (int64_t at = 0; at < k; at += kProductDepth)
    for (int64_t j = 0; j < n; j += kStrip) {
      const int64_t depth = std::min(kProductDepth, k - at), columns = std::min(kStrip, n - j);
      const float* strip = b + j * k + at * kStrip;
      int64_t r = 0;
      for (; r + kBlockRows <= m; r += kBlockRows)
        block<kBlockRows>(a + r * lda + at, lda, strip, c + r * ldc + j, ldc, columns, depth,
                          add || at > 0);
      for (; r < m; r++)
        block<1>(a + r * lda + at, lda, strip, c + r * ldc + j, ldc, columns, depth, add || at > 0);
    }
}

template <typename T>
void release() {}

#endif

}  // namespace
