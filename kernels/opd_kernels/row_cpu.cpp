// How is one chunk of tokens done on a CPU? Products and rows fused, tile by tile.
//
// Logits are kept transposed, [vocab, tokens]: a tile of them is A = head rows (used where they lie)
// times B = hidden states (packed once per chunk), so no large operand is ever repacked, the vector
// lanes are tokens, and a row operation needs no horizontal sums. While a tile is still in cache
// its contribution to the softmax statistics is taken (a running maximum, as in online softmax,
// Milakov & Gimelshein 2018, 1805.02867). A second sweep turns tiles into gradients, in place, and
// multiplies them into the head's gradient. bf16 products accumulate and arrive in float32.
// T is the type of the operands, Factor<T> that in which they are multiplied.

#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <optional>

#include "products_cpu.h"
#include "rows_cpu.h"

namespace {

using Maybe = std::optional<Tensor>;

struct Scratch {  // of one thread
  std::vector<float> scaled, wide;
};

// C [rows, n] (+)= scale * (head rows) B, the scale per token.
template <typename T>
void scaled_product(const Tensor& head, const Tensor& packed, const Maybe& scale, int64_t row,
                    int64_t rows, float* c, int64_t ld, int64_t n, Scratch& scratch, bool add) {
  const int64_t k = head.size(1);
  int64_t pitch = head.stride(0);
  const auto* a = left_factor(head.const_data_ptr<T>() + row * pitch, rows, k, pitch, scratch.wide);
  if (scale) scratch.scaled.resize(rows * ld);
  product(a, pitch, packed.const_data_ptr<Factor<T>>(), scale ? scratch.scaled.data() : c, ld, rows,
          n, k, add && !scale);
  if (!scale) return;
  const float* factor = scale->const_data_ptr<float>();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < n; j += kLanes) {
      const F scaled = load(factor + j) * load(scratch.scaled.data() + r * ld + j);
      store(c + r * ld + j, add ? load(c + r * ld + j) + scaled : scaled);
    }
}

struct Chunk {
  std::vector<Tensor> heads, packed;  // the student's, then the teachers'
  std::vector<Maybe> scales;          // per token, where they are not folded into `packed`
  Tensor student, teacher;            // buffers [vocab, tokens], overwritten
  Tensor weight;                      // total weight of the teachers, per token
  Maybe normalizer;                   // weighted sum of the teachers' log-normalizers, where cached
  float parameter;
  Maybe coefficient;                  // of the gradient, per token; absent: no gradient
  Maybe hidden, head_gradient;        // packed hidden states and what it adds to; absent: frozen head
  Tensor measured;                    // [4, tokens]: divergence, entropy, cross-entropy, agreement
};

template <typename Work>  // work(first row, rows, thread)
void for_tiles(int64_t vocab, const Work& work) {
  const int64_t tiles = (vocab + kTileRows - 1) / kTileRows, threads = at::get_num_threads();
  at::parallel_for(0, tiles, (tiles + threads - 1) / threads, [&](int64_t from, int64_t to) {
    for (int64_t row = from * kTileRows; row < to * kTileRows; row += kTileRows)
      work(row, std::min(kTileRows, vocab - row), at::get_thread_num());
  });
}

// First sweep: both logits, and their statistics. True where an infinite logit was met.
template <typename T>
bool first_sweep(Chunk& c, Sums& total) {
  const int64_t n = total.n, ld = c.student.stride(0), threads = at::get_num_threads();
  float *s = c.student.data_ptr<float>(), *z = c.teacher.data_ptr<float>();
  const float* w = c.weight.const_data_ptr<float>();
  const bool teacher_sum = !c.normalizer.has_value();
  std::vector<Sums> parts(threads, Sums(n));
  std::vector<char> infinite(threads, 0);
  std::vector<Scratch> scratch(threads);
  for_tiles(c.heads[0].size(0), [&](int64_t row, int64_t rows, int thread) {
    float *st = s + row * ld, *zt = z + row * ld;
    for (size_t k = 0; k < c.heads.size(); k++)
      scaled_product<T>(c.heads[k], c.packed[k], c.scales[k], row, rows, k ? zt : st, ld, n,
                        scratch[thread], k > 1);
    auto take = [&](auto vectors, int64_t j) {
      constexpr int V = decltype(vectors)::value;
      Sums& sums = parts[thread];
      if (accumulate<V, false>(st + j, zt + j, rows, ld, w, sums, j, teacher_sum)) return;
      accumulate<V, true>(st + j, zt + j, rows, ld, w, sums, j, teacher_sum);
      infinite[thread] = 1;
    };
    int64_t j = 0;
    for (; j + kAtOnce * kLanes <= n; j += kAtOnce * kLanes)
      take(std::integral_constant<int, kAtOnce>(), j);
    for (; j < n; j += kLanes) take(std::integral_constant<int, 1>(), j);
  });
  for (Sums& part : parts) merge(total, part);
  return std::count(infinite.begin(), infinite.end(), 1) > 0;
}

void summarize(Chunk& c, Sums& sums, Columns& columns) {
  const int64_t n = sums.n;
  float* measured = c.measured.data_ptr<float>();
  for (int64_t j = 0; j < n; j++) {
    const double w = c.weight.const_data_ptr<float>()[j], sum = *sums.at(kSum, j);
    const double normalizer = *sums.at(kMax, j) + std::log(sum), mean = *sums.at(kDot, j) / sum;
    const double teacher = c.normalizer ? c.normalizer->const_data_ptr<float>()[j]
                                        : *sums.at(kTeacherMax, j) + std::log((double)*sums.at(kTeacherSum, j));
    const double entropy = std::log(sum) - *sums.at(kEntropy, j) / sum;
    columns.student_normalizer[j] = normalizer;
    columns.teacher_normalizer[j] = teacher;
    columns.mean[j] = mean;
    columns.loss[j] = mean - w * normalizer + teacher;
    measured[1 * n + j] = entropy;
    measured[2 * n + j] = columns.loss[j] + w * entropy;
    measured[3 * n + j] = *sums.at(kTeacherAtMax, j) == *sums.at(kTeacherMax, j);
  }
}

template <int K>
void second_sweep(Chunk& c, Columns& columns) {
  const int64_t n = c.measured.size(1), ld = c.student.stride(0);
  std::vector<Columns> parts(at::get_num_threads(), Columns(n));
  for_tiles(c.heads[0].size(0), [&](int64_t row, int64_t rows, int thread) {
    evaluate<K>(c.student.data_ptr<float>() + row * ld, c.teacher.data_ptr<float>() + row * ld,
                rows, ld, n, c.parameter, columns, parts[thread]);
  });
  for (int64_t j = 0; j < n; j++) {
    columns.loss[j] = columns.mean[j] = 0.f;
    for (Columns& part : parts) columns.loss[j] += part.loss[j], columns.mean[j] += part.mean[j];
  }
}

template <typename T, int K, bool Safe>
void last_sweep(Chunk& c, const Columns& columns) {
  using P = Factor<T>;
  const int64_t n = c.measured.size(1), ld = c.student.stride(0);
  const float* w = c.weight.const_data_ptr<float>();
  for_tiles(c.heads[0].size(0), [&](int64_t row, int64_t rows, int) {
    float *s = c.student.data_ptr<float>() + row * ld, *z = c.teacher.data_ptr<float>() + row * ld;
    int64_t j = 0;
    for (; j + kAtOnce * kLanes <= n; j += kAtOnce * kLanes)
      differentiate<P, K, kAtOnce, Safe>(s, z, rows, ld, j, w, columns);
    for (; j < n; j += kLanes) differentiate<P, K, 1, Safe>(s, z, rows, ld, j, w, columns);
    if (!c.head_gradient) return;
    const int64_t width = c.head_gradient->size(1), pitch = ld * sizeof(float) / sizeof(P);
    const P *gradient = reinterpret_cast<P*>(s), *hidden = c.hidden->const_data_ptr<P>();
    if (c.head_gradient->scalar_type() == at::kFloat) {
      float* to = c.head_gradient->mutable_data_ptr<float>() + row * width;
      product(gradient, pitch, hidden, to, width, rows, width, n, true);
      return;
    }
    std::vector<float> scratch(rows * width);  // rounded once per chunk
    product(gradient, pitch, hidden, scratch.data(), width, rows, width, n, false);
    BFloat16* to = c.head_gradient->mutable_data_ptr<BFloat16>() + row * width;
    for (int64_t i = 0; i < rows * width; i++) to[i] = (float)to[i] + scratch[i];
  });
}

template <typename T, int K>
void run(Chunk& c) {
  Sums sums(c.measured.size(1));
  Columns columns(sums.n);
  const bool infinite = first_sweep<T>(c, sums);
  summarize(c, sums, columns);
  if constexpr (K != kReverse) second_sweep<K>(c, columns);
  for (int64_t j = 0; j < sums.n; j++) {
    const float loss = columns.loss[j];
    // Below 0 by rounding only. An infinite divergence has no finite direction: no gradient.
    c.measured.data_ptr<float>()[j] = loss < 0.f ? 0.f : loss;
    const float coefficient = c.coefficient ? c.coefficient->const_data_ptr<float>()[j] : 0.f;
    columns.coefficient[j] = loss == kInfinity ? 0.f : coefficient;
  }
  if (c.coefficient && infinite) last_sweep<T, K, true>(c, columns);
  if (c.coefficient && !infinite) last_sweep<T, K, false>(c, columns);
  release<T>();
}

// The states' gradient [tokens, width], out of that in the logits, which lies in `student`.
template <typename T>
void back(Tensor out, const Tensor& student, const Tensor& head) {
  using P = Factor<T>;
  const Tensor logits = std::is_same_v<P, float> ? student : student.view(at::kBFloat16);
  const Tensor gradient = logits.slice(1, 0, out.size(0)).t();
  if (std::is_same_v<T, P>) {
    at::mm_out(out, gradient, head);
    return;
  }
  constexpr int64_t at_once = 1024;  // rows of the head, widened
  Tensor sum = at::zeros(out.sizes(), student.options());
  for (int64_t row = 0; row < head.size(0); row += at_once) {
    const int64_t end = std::min(row + at_once, head.size(0));
    sum.addmm_(gradient.slice(1, row, end), head.slice(0, row, end).to(at::kFloat));
  }
  out.copy_(sum);
}

Maybe padded(const Maybe& values, int64_t from, int64_t to, int64_t n) {
  if (!values) return {};
  Tensor part = at::zeros({n}, values->options());
  part.slice(0, 0, to - from).copy_(values->slice(0, from, to));
  return part;
}

// All tokens, `size` (a multiple of `kUnit`) at a time. `heads`, `states` and `scales` (per token,
// where not folded into the states) are the student's, then the teachers'; `hidden` is the student's
// without a scale. `measured` [4, tokens]:
// divergence, student entropy, cross-entropy, agreement. Gradients are those of
// sum(coefficient * divergence); `head_gradient` is added to.
void divergence(std::vector<Tensor> heads, Tensor hidden, std::vector<Tensor> states, std::vector<Maybe> scales,
                Tensor weight, Maybe normalizer, int64_t kind, double parameter, Maybe coefficient,
                Maybe hidden_gradient, Maybe head_gradient, int64_t size, Tensor measured) {
  const bool half = heads[0].scalar_type() == at::kBFloat16;
  const int64_t tokens = states[0].size(0), vocab = heads[0].size(0);
  // The pitch is off a power of two: rows of a tile must not share cache sets.
  const Tensor student = at::empty({vocab, size + kUnit}, weight.options());
  const Tensor teacher = at::empty_like(student);
  auto pick = [&](auto type, Chunk& c) {
    using T = decltype(type);
    switch (kind) {
      case kReverse: return run<T, kReverse>(c);
      case kForward: return run<T, kForward>(c);
      case kJsd: return run<T, kJsd>(c);
      case kSkewForward: return run<T, kSkewForward>(c);
      case kSkewReverse: return run<T, kSkewReverse>(c);
      case kTotalVariation: return run<T, kTotalVariation>(c);
    }
    TORCH_CHECK_VALUE(false, "kind must be in [0, 5], got ", kind);
  };
  for (int64_t from = 0; from < tokens; from += size) {
    const int64_t to = std::min(from + size, tokens), n = (to - from + kUnit - 1) / kUnit * kUnit;
    auto part = [&](const Tensor& x) { return x.slice(0, from, to); };
    Chunk c{heads, {}, {}, student.slice(1, 0, n), teacher.slice(1, 0, n),
            *padded(weight, from, to, n), padded(normalizer, from, to, n), (float)parameter,
            padded(coefficient, from, to, n), {}, head_gradient, at::empty({4, n}, weight.options())};
    for (size_t k = 0; k < states.size(); k++) {
      c.packed.push_back(half ? pack_transposed<BFloat16>(part(states[k]), n)
                              : pack_transposed<float>(part(states[k]), n));
      c.scales.push_back(padded(scales[k], from, to, n));
    }
    if (head_gradient)
      c.hidden = half ? pack_plain<BFloat16>(part(hidden), n) : pack_plain<float>(part(hidden), n);
    half ? pick(BFloat16{}, c) : pick(float{}, c);
    measured.slice(1, from, to).copy_(c.measured.slice(1, 0, to - from));
    if (!hidden_gradient) continue;
    Tensor out = part(*hidden_gradient);
    half ? back<BFloat16>(out, student, heads[0]) : back<float>(out, student, heads[0]);
  }
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("divergence", &divergence, py::call_guard<py::gil_scoped_release>());
}
