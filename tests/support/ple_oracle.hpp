#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/number_formats.hpp"
#include "support/ple_problem.hpp"

// The PLE layer as specification A.5 words it, in plain float64: no rings, no chunks, keys and
// normed rows stored whole. Shared by the tests of every backend.

namespace ple::test {

using kernels::Arithmetic;

// A double rounded to the nearest bf16, ties to even. Exact: every bf16 step is a scaled integer.
inline double nearest_bf16(double value) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), -126) - 7;
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

// A gate that took another rounding than float64's: so many steps of bf16 from it.
struct MovedGate {
  std::size_t token = 0;
  std::size_t stream = 0;
  int steps = 0;
};

class PleOracle {
 public:
  PleOracle(const PleProblem& problem, Arithmetic arithmetic)
      : problem_(problem), shape_(problem.shape), arithmetic_(arithmetic) {}

  // What the layer adds to the highway of one sequence from position 0 on, [token_count,
  // stream_count, hidden]. embeddings: [token_count, embed_dim] bf16 bits.
  std::vector<double> run(const std::vector<std::uint16_t>& embeddings,
                          const std::vector<float>& highway, MovedGate moved = {}) const {
    const std::size_t channels = static_cast<std::size_t>(problem_.channel_count());
    const std::size_t token_count = highway.size() / channels;
    std::vector<double> gated(highway.size());
    std::vector<double> normed(highway.size());
    std::vector<double> out(highway.size());
    for (std::size_t t = 0; t < token_count; ++t) {
      gate_token(embeddings.data() + t * static_cast<std::size_t>(shape_.embed_dim),
                 highway.data() + t * channels, gated.data() + t * channels,
                 normed.data() + t * channels, t == moved.token ? moved : MovedGate{});
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const double y = rounded(convolve(normed, t, channel));
        const double z = rounded(y / (1.0 + std::exp(-y)));
        out[t * channels + channel] = rounded(gated[t * channels + channel] + z);
      }
    }
    return out;
  }

  // Gate of a score, steps 9 and 10 of A.5.
  double gate(double score) const {
    const double root = rounded(std::sqrt(rounded(std::max(std::fabs(score), 1e-6))));
    const double signed_root = score == 0.0 ? 0.0 : std::copysign(root, score);
    return rounded(1.0 / (1.0 + std::exp(-signed_root)));
  }

 private:
  bool is_reference() const { return arithmetic_ == Arithmetic::reference; }
  double rounded(double value) const { return is_reference() ? nearest_bf16(value) : value; }

  static double weight(const std::vector<std::uint16_t>& bits, std::size_t index) {
    return bf16_to_f32(bits[index]);
  }

  double product(const std::vector<std::uint16_t>& matrix, const std::vector<std::uint16_t>& bias,
                 std::size_t row, const std::uint16_t* x) const {
    const auto length = static_cast<std::size_t>(shape_.embed_dim);
    double sum = bias.empty() ? 0.0 : weight(bias, row);
    for (std::size_t k = 0; k < length; ++k)
      sum += weight(matrix, row * length + k) * bf16_to_f32(x[k]);
    return rounded(sum);
  }

  double inverse_root_mean_square(const double* values) const {
    double sum = 0.0;
    for (std::int32_t d = 0; d < shape_.hidden; ++d) sum += values[d] * values[d];
    return 1.0 / std::sqrt(sum / shape_.hidden + static_cast<double>(shape_.eps));
  }

  // Steps 1 to 12 for one token: G and N of all streams.
  void gate_token(const std::uint16_t* x, const float* highway, double* gated, double* normed,
                  MovedGate moved) const {
    const auto hidden = static_cast<std::size_t>(shape_.hidden);
    std::vector<double> v(hidden), key(hidden), query(hidden);
    for (std::size_t d = 0; d < hidden; ++d) {
      v[d] = product(problem_.value, problem_.value_bias, d, x);
      if (arithmetic_ == Arithmetic::mixed) v[d] = nearest_bf16(v[d]);
    }
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape_.stream_count); ++c) {
      for (std::size_t d = 0; d < hidden; ++d) {
        key[d] = product(problem_.key, problem_.key_bias, c * hidden + d, x);
        query[d] = static_cast<double>(highway[c * hidden + d]);
      }
      const double key_root = inverse_root_mean_square(key.data());
      const double query_root = inverse_root_mean_square(query.data());
      double score = 0.0;
      for (std::size_t d = 0; d < hidden; ++d) {
        const std::size_t channel = c * hidden + d;
        score +=
            rounded(rounded(key[d] * key_root * (1.0 + weight(problem_.norm_key, channel))) *
                    rounded(query[d] * query_root * (1.0 + weight(problem_.norm_query, channel))));
      }
      double gamma = gate(rounded(rounded(score) / std::sqrt(static_cast<double>(shape_.hidden))));
      if (c == moved.stream) gamma += moved.steps * std::ldexp(1.0, std::ilogb(gamma) - 7);
      for (std::size_t d = 0; d < hidden; ++d) gated[c * hidden + d] = rounded(gamma * v[d]);
      const double root = inverse_root_mean_square(gated + c * hidden);
      for (std::size_t d = 0; d < hidden; ++d) {
        const std::size_t channel = c * hidden + d;
        normed[channel] =
            rounded(gated[channel] * root * (1.0 + weight(problem_.norm_conv, channel)));
      }
    }
  }

  double convolve(const std::vector<double>& normed, std::size_t t, std::size_t channel) const {
    const auto channels = static_cast<std::size_t>(problem_.channel_count());
    const auto taps = static_cast<std::size_t>(shape_.tap_count);
    double y = 0.0;
    for (std::size_t i = 0; i < taps; ++i) {
      const std::size_t lag = (taps - 1 - i) * static_cast<std::size_t>(shape_.dilation);
      if (lag > t) continue;
      y += weight(problem_.conv, channel * taps + i) * normed[(t - lag) * channels + channel];
    }
    return y;
  }

  const PleProblem& problem_;
  const kernels::PleShape& shape_;
  Arithmetic arithmetic_;
};

// ||a - b|| / ||b||.
template <class A, class B>
double relative_error(const std::vector<A>& a, const std::vector<B>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

// The relative error of a sequence's output. In reference, sums in another order may move one
// gate's rounding by a step, which is much of a sequence of few tokens: where the error is not
// below the bound, the least of those to an oracle with such a gate.
template <class Output>
double error_to_float64(const std::vector<Output>& output, const PleProblem& problem,
                        Arithmetic arithmetic, const std::vector<std::uint16_t>& embeddings,
                        const std::vector<float>& highway, double bound) {
  constexpr std::size_t kFewTokens = 8;
  const PleOracle oracle(problem, arithmetic);
  double error = relative_error(output, oracle.run(embeddings, highway));
  const std::size_t token_count =
      highway.size() / static_cast<std::size_t>(problem.channel_count());
  if (error < bound || arithmetic != Arithmetic::reference || token_count > kFewTokens) {
    return error;
  }
  for (std::size_t token = 0; token < token_count; ++token) {
    for (std::size_t stream = 0; stream < static_cast<std::size_t>(problem.shape.stream_count);
         ++stream) {
      for (const int steps : {-1, 1}) {
        const auto moved = oracle.run(embeddings, highway, {token, stream, steps});
        error = std::min(error, relative_error(output, moved));
      }
    }
  }
  return error;
}

}  // namespace ple::test
