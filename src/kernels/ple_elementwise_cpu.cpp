#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ple_elementwise_cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/ple_elementwise_cpu.hpp"
#include "kernels/projection.hpp"
#include "kernels/vector_io-inl.hpp"

#include <cmath>

#include "base/number_formats.hpp"

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

template <bool kReference>
HWY_INLINE Vector round_in(Vector x) {
  return kReference ? rounded_to_bf16(x) : x;
}

// exp for any argument: 0 below and infinity above what f32 holds. NaN must not reach it.
HWY_INLINE Vector exp_clamped(Vector x) {
  const F32 f32;
  const Vector limit = hn::Set(f32, 100.0F);
  return hn::Exp(f32, hn::Min(hn::Max(x, hn::Neg(limit)), limit));
}

// y * sigmoid(y). What the clamp makes of a NaN does not matter: the quotient is NaN again.
HWY_INLINE Vector silu(Vector y) {
  const Vector one = hn::Set(F32(), 1.0F);
  return hn::Div(y, hn::Add(one, exp_clamped(hn::Neg(y))));
}

template <class Residual>
void gate_sums_of(const GateSumsArgs& args) {
  const F32 f32;
  for (std::int32_t t = 0; t < args.token_count; ++t) {
    const float* keys = args.keys + t * args.key_stride;
    const Residual* highway = static_cast<const Residual*>(args.highway) + t * args.highway_stride;
    Vector dot = hn::Zero(f32);
    Vector key_square = hn::Zero(f32);
    Vector highway_square = hn::Zero(f32);
    for_each_vector(args.row_count, [&](std::int64_t i, std::size_t count) HWY_ATTR {
      const Vector k = load(keys + i, count);
      const Vector r = load(highway + i, count);
      dot = hn::MulAdd(hn::Mul(k, load(args.gate_scale + i, count)), r, dot);
      key_square = hn::MulAdd(k, k, key_square);
      highway_square = hn::MulAdd(r, r, highway_square);
    });
    args.sums[t * args.sums_stride] = {sum_of_lanes(dot), sum_of_lanes(key_square),
                                       sum_of_lanes(highway_square)};
  }
}

void gate_sums(const GateSumsArgs& args) {
  if (args.highway_type == HighwayType::f32) return gate_sums_of<float>(args);
  gate_sums_of<std::uint16_t>(args);
}

void add_rows(const float* bias, std::int32_t row_count, std::int32_t token_count, float* product) {
  for (std::int32_t t = 0; t < token_count; ++t, product += PackedMatrix::kPanelRows) {
    for_each_vector(row_count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
      store(hn::Add(load(product + i, lanes), load(bias + i, lanes)), product + i, lanes);
    });
  }
}

template <class Element>
float sum_of_squares_of(const Element* values, std::int32_t count) {
  Vector sum = hn::Zero(F32());
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    const Vector x = load(values + i, lanes);
    sum = hn::MulAdd(x, x, sum);
  });
  return sum_of_lanes(sum);
}

float sum_of_squares(const void* values, Arithmetic arithmetic, std::int32_t count) {
  if (arithmetic == Arithmetic::float32) {
    return sum_of_squares_of(static_cast<const float*>(values), count);
  }
  return sum_of_squares_of(static_cast<const std::uint16_t*>(values), count);
}

template <class Residual>
float reference_score_of(const ReferenceScoreArgs& args) {
  const F32 f32;
  const auto* highway = static_cast<const Residual*>(args.highway);
  const auto hidden = static_cast<float>(args.hidden);
  const float key_mean = sum_of_squares_of(args.key, args.hidden) / hidden;
  const float query_mean = sum_of_squares_of(highway, args.hidden) / hidden;
  const Vector key_root = hn::Set(f32, 1.0F / std::sqrt(key_mean + args.eps));
  const Vector query_root = hn::Set(f32, 1.0F / std::sqrt(query_mean + args.eps));
  Vector dot = hn::Zero(f32);
  for_each_vector(args.hidden, [&](std::int64_t i, std::size_t count) HWY_ATTR {
    const Vector key = rounded_to_bf16(
        hn::Mul(hn::Mul(load(args.key + i, count), key_root), load(args.key_scale + i, count)));
    const Vector query = rounded_to_bf16(
        hn::Mul(hn::Mul(load(highway + i, count), query_root), load(args.query_scale + i, count)));
    dot = hn::Add(dot, rounded_to_bf16(hn::Mul(key, query)));
  });
  return round_to_bf16(round_to_bf16(sum_of_lanes(dot)) / std::sqrt(hidden));
}

float reference_score(const ReferenceScoreArgs& args) {
  if (args.highway_type == HighwayType::f32) return reference_score_of<float>(args);
  return reference_score_of<std::uint16_t>(args);
}

float reference_gated_square(const std::uint16_t* values, float gamma, std::int32_t hidden) {
  const Vector gate = hn::Set(F32(), gamma);
  Vector sum = hn::Zero(F32());
  for_each_vector(hidden, [&](std::int64_t i, std::size_t count) HWY_ATTR {
    const Vector gated = rounded_to_bf16(hn::Mul(gate, load(values + i, count)));
    sum = hn::MulAdd(gated, gated, sum);
  });
  return sum_of_lanes(sum);
}

template <class Value, class Residual, bool kReference>
void inject_of(const InjectArgs& args) {
  const F32 f32;
  const auto* highway = static_cast<const Residual*>(args.highway);
  auto* output = static_cast<Residual*>(args.output);
  const bool is_update = args.output_mode == OutputMode::update;
  for_each_vector(args.hidden, [&](std::int64_t i, std::size_t count) HWY_ATTR {
    const Vector scale = load(args.conv_scale + i, count);
    Vector gated = hn::Zero(f32);
    Vector y = hn::Zero(f32);
    for (std::int32_t k = 0; k < args.tap_count; ++k) {
      const TapInput& input = args.inputs[k];
      if (input.values == nullptr) continue;
      const Vector v = load(static_cast<const Value*>(input.values) + i, count);
      gated = round_in<kReference>(hn::Mul(v, hn::Set(f32, input.gamma)));
      const Vector normed =
          round_in<kReference>(hn::Mul(hn::Mul(gated, hn::Set(f32, input.q)), scale));
      y = hn::MulAdd(normed, load(args.taps + k * args.tap_stride + i, count), y);
    }
    // The last tap is the token itself, so gated is its own.
    const Vector z = round_in<kReference>(silu(round_in<kReference>(y)));
    const Vector out = round_in<kReference>(hn::Add(gated, z));
    store(is_update ? hn::Add(load(highway + i, count), out) : out, output + i, count);
  });
}

template <class Residual>
void inject_into(const InjectArgs& args) {
  switch (args.arithmetic) {
    case Arithmetic::float32:
      return inject_of<float, Residual, false>(args);
    case Arithmetic::mixed:
      return inject_of<std::uint16_t, Residual, false>(args);
    case Arithmetic::reference:
      return inject_of<std::uint16_t, Residual, true>(args);
  }
}

void inject(const InjectArgs& args) {
  if (args.highway_type == HighwayType::f32) return inject_into<float>(args);
  inject_into<std::uint16_t>(args);
}

void round_all_to_bf16(const float* from, std::uint16_t* to, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes)
                             HWY_ATTR { store(load(from + i, lanes), to + i, lanes); });
}

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple::kernels {

HWY_EXPORT(gate_sums);
HWY_EXPORT(add_rows);
HWY_EXPORT(sum_of_squares);
HWY_EXPORT(reference_score);
HWY_EXPORT(reference_gated_square);
HWY_EXPORT(inject);
HWY_EXPORT(round_all_to_bf16);

void gate_sums(const GateSumsArgs& args) { HWY_DYNAMIC_DISPATCH(gate_sums)(args); }

float gate_score(const GateSums* sums, std::int32_t panel_count, std::int32_t hidden, float eps) {
  GateSums all;
  for (std::int32_t p = 0; p < panel_count; ++p) {
    all.dot += sums[p].dot;
    all.key_square += sums[p].key_square;
    all.highway_square += sums[p].highway_square;
  }
  const auto count = static_cast<float>(hidden);
  const float key_root = 1.0F / std::sqrt(all.key_square / count + eps);
  const float query_root = 1.0F / std::sqrt(all.highway_square / count + eps);
  return all.dot * key_root * query_root / std::sqrt(count);
}

void add_bias(const float* bias, std::int64_t row_begin, std::int32_t row_count,
              std::int32_t token_count, float* product) {
  if (bias == nullptr) return;
  HWY_DYNAMIC_DISPATCH(add_rows)(bias + row_begin, row_count, token_count, product);
}

float sum_of_squares(const void* values, Arithmetic arithmetic, std::int32_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares)(values, arithmetic, count);
}

float reference_score(const ReferenceScoreArgs& args) {
  return HWY_DYNAMIC_DISPATCH(reference_score)(args);
}

float reference_gated_square(const std::uint16_t* values, float gamma, std::int32_t hidden) {
  return HWY_DYNAMIC_DISPATCH(reference_gated_square)(values, gamma, hidden);
}

void inject(const InjectArgs& args) { HWY_DYNAMIC_DISPATCH(inject)(args); }

void round_all_to_bf16(const float* from, std::uint16_t* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(round_all_to_bf16)(from, to, count);
}

}  // namespace ple::kernels
#endif  // HWY_ONCE
