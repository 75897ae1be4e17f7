#pragma once

#include <algorithm>
#include <cmath>

namespace ple::kernels {

// The gate of the PLE layer, steps 9 and 10 of specification A.5: sigmoid of the signed root of a
// score. Exactly 0.5 for a score of zero of either sign; NaN stays NaN.
inline constexpr float kGateFloor = 1e-6F;

inline float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

inline float with_sign_of(float magnitude, float score) {
  return score == 0.0F ? 0.0F : std::copysign(magnitude, score);
}

inline float gate_of_score(float score) {
  const float root = std::sqrt(std::max(std::fabs(score), kGateFloor));
  return sigmoid(with_sign_of(root, score));
}

// The same of DeepSeek V4.1 (B.2), where a zero has a sign: 0.50025 for +0, 0.49975 for -0.
inline float signed_gate_of_score(float score) {
  return sigmoid(std::copysign(std::sqrt(std::max(std::fabs(score), kGateFloor)), score));
}

}  // namespace ple::kernels
