#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/row_view.hpp"
#include "kernels/ple_layer.hpp"

// The cases that the PLE layer of every backend is tested with.

namespace ple::test {

struct PleCase {
  std::string name;
  kernels::PleShape shape;  // embed_dim follows from column_count and row_dim
  RowFormat format = RowFormat::bf16;
  std::int32_t row_dim = 0;
  std::vector<std::int32_t> sequence_lengths;
  bool has_bias = false;

  friend std::ostream& operator<<(std::ostream& out, const PleCase& c) { return out << c.name; }
};

constexpr kernels::PleShape ple_shape(std::int32_t hidden, std::int32_t stream_count,
                                      std::int32_t column_count, std::int32_t tap_count,
                                      std::int32_t dilation) {
  return {.hidden = hidden,
          .stream_count = stream_count,
          .column_count = column_count,
          .tap_count = tap_count,
          .dilation = dilation,
          .eps = 1e-6F};
}

// Of the released model; its rows have 160 elements.
constexpr kernels::PleShape released_ple_shape() {
  kernels::PleShape shape = ple_shape(2560, 4, 16, 4, 3);
  shape.embed_dim = 2560;
  return shape;
}

inline std::vector<PleCase> ple_cases() {
  return {
      {"Plain", ple_shape(64, 4, 4, 4, 3), RowFormat::bf16, 16, {24}},
      {"TwoPanels", ple_shape(128, 2, 16, 4, 3), RowFormat::bf16, 10, {13, 1, 0, 30}},
      {"OddHidden", ple_shape(37, 3, 3, 4, 2), RowFormat::bf16, 11, {17, 5}},
      {"HiddenOne", ple_shape(1, 2, 1, 2, 1), RowFormat::bf16, 1, {6}},
      {"HiddenBelowPanel", ple_shape(63, 8, 5, 5, 5), RowFormat::bf16, 9, {40, 3}},
      {"HiddenAbovePanel", ple_shape(65, 5, 2, 3, 4), RowFormat::f16, 33, {21, 1, 1, 8}},
      {"OneStreamOneTap", ple_shape(48, 1, 4, 1, 1), RowFormat::f32, 8, {9, 2}},
      {"Fp8", ple_shape(96, 4, 4, 4, 3), RowFormat::fp8_e4m3, 24, {20, 20}},
      {"Fp8RowScale", ple_shape(32, 4, 4, 4, 3), RowFormat::fp8_e4m3_row, 20, {12}},
      {"Fp8BlockScale", ple_shape(32, 6, 2, 2, 5), RowFormat::fp8_e4m3_e8m0, 64, {12, 7}},
      {"Int8", ple_shape(80, 7, 3, 4, 3), RowFormat::int8_row, 30, {15}},
      {"Nvfp4", ple_shape(160, 4, 2, 4, 1), RowFormat::nvfp4, 32, {16, 4}},
      {"LongStep", ple_shape(16, 2, 2, 4, 3), RowFormat::bf16, 4, {600, 500}},
      {"Biased", ple_shape(40, 5, 2, 3, 4), RowFormat::bf16, 16, {7, 1}, true},
      {"LongBiased", ple_shape(16, 2, 2, 3, 2), RowFormat::bf16, 8, {500, 30}, true},
  };
}

}  // namespace ple::test
