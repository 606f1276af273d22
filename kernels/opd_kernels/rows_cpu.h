// What happens to a tile of logits? Softmax statistics, the divergence, its gradient.
//
// A tile is `rows` words of the vocabulary by a few vectors of tokens, `ld` floats apart. `Safe` forms
// bear infinite logits (0 * inf is NaN); the plain ones run until the first is met.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lanes_cpu.h"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = -3e38f;  // below every logit, yet finite: no inf - inf

// kTeacherAtMax: the teacher's logit at the student's most likely token.
enum Row { kMax, kSum, kEntropy, kDot, kTeacherMax, kTeacherSum, kTeacherAtMax, kRows };
enum Kind { kReverse, kForward, kJsd, kSkewForward, kSkewReverse, kTotalVariation };

struct Sums {  // one row per statistic, one column per token
  std::vector<float> data;
  int64_t n;
  explicit Sums(int64_t columns) : data(kRows * columns, 0.f), n(columns) {
    for (Row row : {kMax, kTeacherMax}) std::fill_n(&data[row * n], n, kLowest);
  }
  float* at(Row row, int64_t j) { return &data[row * n + j]; }
};

// Take V vectors of a tile's columns into the running sums; `weight` is the teachers' total weight.
// False, and nothing taken, where an infinite logit asks for the `Safe` form (0 * inf is NaN).
template <int V, bool Safe>
INLINE bool accumulate(const float* s, const float* z, int64_t rows, int64_t ld, const float* weight,
                       Sums& sums, int64_t j, bool teacher_sum) {
  F top[V], teacher_top[V], at_top[V], sum[V], entropy[V], dot[V], teacher[V], w[V];
  for (int v = 0; v < V; v++) {
    const int64_t at = j + v * kLanes;
    w[v] = load(weight + at);
    top[v] = load(sums.at(kMax, at));
    at_top[v] = load(sums.at(kTeacherAtMax, at));
    teacher_top[v] = load(sums.at(kTeacherMax, at));
    sum[v] = entropy[v] = dot[v] = teacher[v] = splat(0.f);
  }
  for (int64_t r = 0; r < rows; r++)
    for (int v = 0; v < V; v++) {
      const F a = load(s + r * ld + v * kLanes), b = load(z + r * ld + v * kLanes);
      at_top[v] = a > top[v] ? b : at_top[v];
      top[v] = larger(a, top[v]);
      teacher_top[v] = larger(b, teacher_top[v]);
    }
  for (int64_t r = 0; r < rows; r++)
    for (int v = 0; v < V; v++) {
      const F a = load(s + r * ld + v * kLanes), b = load(z + r * ld + v * kLanes);
      const F x = clamped(a - top[v]), y = clamped(b - teacher_top[v]);
      F e = exponential(x), term = w[v] * a - b;
      if (Safe) e = or_zero(a - top[v], e), term = e == 0.f ? splat(0.f) : term;
      sum[v] += e;
      entropy[v] += e * x;
      dot[v] += e * term;
      if (teacher_sum) teacher[v] += Safe ? or_zero(b - teacher_top[v], exponential(y)) : exponential(y);
    }
  if (!Safe) {
    F total = dot[0] - dot[0];
    for (int v = 1; v < V; v++) total += dot[v] - dot[v];
    for (int i = 0; i < kLanes; i++)
      if (total[i] != 0.f) return false;
  }
  for (int v = 0; v < V; v++) {
    const int64_t at = j + v * kLanes;
    const F shift = load(sums.at(kMax, at)) - top[v], shrink = or_zero(shift, exponential(clamped(shift)));
    const F old = load(sums.at(kSum, at)), carried = load(sums.at(kDot, at));
    store(sums.at(kEntropy, at), entropy[v] + shrink * (load(sums.at(kEntropy, at)) + shift * old));
    store(sums.at(kSum, at), sum[v] + shrink * old);
    store(sums.at(kDot, at), dot[v] + (shrink == 0.f ? splat(0.f) : shrink * carried));
    const F step = load(sums.at(kTeacherMax, at)) - teacher_top[v];
    const F grown = or_zero(step, exponential(clamped(step)));
    store(sums.at(kTeacherSum, at), teacher[v] + grown * load(sums.at(kTeacherSum, at)));
    store(sums.at(kMax, at), top[v]);
    store(sums.at(kTeacherAtMax, at), at_top[v]);
    store(sums.at(kTeacherMax, at), teacher_top[v]);
  }
  return true;
}

// The same merge for two sets of sums over different parts of the vocabulary.
void merge(Sums& into, Sums& from) {
  for (int64_t j = 0; j < into.n; j++)
    for (auto [max, sum] : {std::pair{kMax, kSum}, std::pair{kTeacherMax, kTeacherSum}}) {
      float *m = into.at(max, j), top = std::max(*m, *from.at(max, j));
      const float a = std::exp(*m - top), b = std::exp(*from.at(max, j) - top);
      auto scaled = [](float factor, float x) { return factor == 0.f ? 0.f : factor * x; };
      if (max == kMax) {
        *into.at(kEntropy, j) =
            scaled(a, *into.at(kEntropy, j) + (*m - top) * *into.at(kSum, j)) +
            scaled(b, *from.at(kEntropy, j) + (*from.at(kMax, j) - top) * *from.at(kSum, j));
        *into.at(kDot, j) = scaled(a, *into.at(kDot, j)) + scaled(b, *from.at(kDot, j));
      }
      *into.at(sum, j) = scaled(a, *into.at(sum, j)) + scaled(b, *from.at(sum, j));
      if (max == kMax && top > *m) *into.at(kTeacherAtMax, j) = *from.at(kTeacherAtMax, j);
      *m = top;
    }
}

struct Columns {  // what the second and third sweep need to know of each token
  std::vector<float> student_normalizer, teacher_normalizer, mean, coefficient, loss;
  explicit Columns(int64_t n)
      : student_normalizer(n), teacher_normalizer(n), mean(n), coefficient(n), loss(n) {}
};

// Value and slope of the divergence at one token of the vocabulary; slope is d value / d p up to a
// constant. r = q / p is clamped where one of the two has vanished: it then meets a weight of 0.
template <int K>
INLINE void terms(F p, F q, F s_minus_z, float c, F& value, F& slope) {
  const F d = s_minus_z == s_minus_z ? s_minus_z : splat(0.f);
  if (K == kForward) {
    value = q == 0.f ? splat(0.f) : q * -d;
    slope = q;
  } else if (K == kTotalVariation) {
    value = 0.5f * larger(p - q, q - p);
    slope = p > q ? splat(0.5f) : (p < q ? splat(-0.5f) : splat(0.f));
  } else {
    const F log_ratio = larger(smaller(-d, splat(80.f)), splat(-80.f)), r = exponential(log_ratio);
    const float share = K == kSkewReverse ? 1.f - c : c;  // the teacher's, in the mixture
    const F mixture = 1.f + share * (r - 1.f), log_mixture = logarithm(mixture);
    if (K == kJsd) {
      value = c * q * (log_ratio - log_mixture) - (1.f - c) * p * log_mixture;
      slope = (c - 1.f) * log_mixture;
    } else if (K == kSkewForward) {
      value = q * (log_ratio - log_mixture);
      slope = (c - 1.f) * r / mixture;
    } else {
      value = p * -log_mixture;
      slope = -log_mixture - c / mixture;
    }
  }
}

// Second sweep, for all but reverse KL: the value, and the slope in place of the teacher's logits.
template <int K>
void evaluate(const float* s, float* z, int64_t rows, int64_t ld, int64_t n, float c,
              const Columns& columns, Columns& into) {
  for (int64_t j = 0; j < n; j += kLanes) {
    const F ns = load(&columns.student_normalizer[j]), nt = load(&columns.teacher_normalizer[j]);
    F value = load(&into.loss[j]), expected = load(&into.mean[j]);
    for (int64_t r = 0; r < rows; r++) {
      const F a = load(s + r * ld + j) - ns, b = load(z + r * ld + j) - nt;
      const F p = or_zero(a, exponential(clamped(a))), q = or_zero(b, exponential(clamped(b)));
      F term, slope;
      terms<K>(p, q, a - b, c, term, slope);
      value += term;
      expected += p * slope;
      store(z + r * ld + j, slope);
    }
    store(&into.loss[j], value);
    store(&into.mean[j], expected);
  }
}

// Last sweep: the gradient in the logits over the student's logits; bf16 into the row's first half.
template <typename T, int K, int V, bool Safe>
INLINE void differentiate(float* s, const float* z, int64_t rows, int64_t ld, int64_t j,
                          const float* weight, const Columns& columns) {
  F ns[V], mean[V], factor[V], w[V];
  for (int v = 0; v < V; v++) {
    const int64_t at = j + v * kLanes;
    ns[v] = load(&columns.student_normalizer[at]);
    mean[v] = load(&columns.mean[at]);
    factor[v] = load(&columns.coefficient[at]);
    w[v] = load(weight + at);
  }
  for (int64_t r = 0; r < rows; r++) {
    F gradient[V];
    for (int v = 0; v < V; v++) {
      const F a = load(s + r * ld + j + v * kLanes), b = load(z + r * ld + j + v * kLanes);
      F p = exponential(clamped(a - ns[v]));
      if (Safe) p = or_zero(a - ns[v], p);
      const F slope = K == kReverse ? w[v] * a - b - mean[v] : b - mean[v];
      gradient[v] = factor[v] * (K == kForward ? p - b : p * slope);
      if (Safe) gradient[v] = (factor[v] == 0.f) | ((K != kForward) & (p == 0.f)) ? splat(0.f) : gradient[v];
    }
    T* out = reinterpret_cast<T*>(s + r * ld) + j;
    for (int v = 0; v < V; v++) store(out + v * kLanes, gradient[v]);
  }
}

}  // namespace
