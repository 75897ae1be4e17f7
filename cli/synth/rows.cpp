#include "synth/rows.hpp"

#include <cstring>

#include "command.hpp"

namespace pleiades::cli {
namespace {

constexpr float kTableScale = 0x1p-11F;  // of codes of up to 448, so that rows are like bf16's
constexpr float kInt8Scale = 0x1p-9F;

// How a format lies in a checkpoint: elements of a tensor's row for each element of a row, as a
// fraction, and the scales.
struct Layout {
  Noise codes;
  std::uint64_t elements_per_code = 1;
  const char* scale_suffix = "";  // empty: rows have none
  Noise scales = {};
  std::uint64_t elements_per_scale = 0;  // 0: one for the row
};

Layout layout_of(RowDtype dtype) {
  using Format = Noise::Format;
  const auto noise = [](Format format, float amplitude = 1.0F) {
    return Noise{.format = format, .amplitude = amplitude};
  };
  switch (dtype) {
    case RowDtype::bf16:
      return {.codes = noise(Format::bf16, kRowAmplitude)};
    case RowDtype::f16:
      return {.codes = noise(Format::f16, kRowAmplitude)};
    case RowDtype::f32:
      return {.codes = noise(Format::f32, kRowAmplitude)};
    case RowDtype::fp8:
      return {.codes = noise(Format::e4m3)};
    case RowDtype::fp8_row:
      return {.codes = noise(Format::e4m3),
              .scale_suffix = ".weight_scale",
              .scales = noise(Format::f32_scale, kTableScale)};
    case RowDtype::fp8_e8m0:
      return {.codes = noise(Format::e4m3),
              .scale_suffix = ".scale",
              .scales = noise(Format::e8m0),
              .elements_per_scale = 32};
    case RowDtype::int8:
      return {.codes = noise(Format::bytes),
              .scale_suffix = ".weight_scale",
              .scales = noise(Format::f32_scale, kInt8Scale)};
    case RowDtype::nvfp4:
      return {.codes = noise(Format::bytes),
              .elements_per_code = 2,
              .scale_suffix = ".weight_scale",
              .scales = noise(Format::e4m3_scale),
              .elements_per_scale = 16};
  }
  return {};
}

}  // namespace

void add_rows(RowDtype dtype, const PlannedRows& rows, CheckpointPlan& plan) {
  Layout layout = layout_of(dtype);
  if (layout.elements_per_scale != 0 && rows.dim % layout.elements_per_scale != 0) {
    refuse("--dtype: rows of {} elements do not fill blocks of {}", rows.dim,
           layout.elements_per_scale);
  }
  const auto add = [&](const std::string& suffix, std::uint64_t elements, Noise noise,
                       std::uint64_t stream) {
    noise.stream = stream;
    PlannedTensor tensor =
        noise_tensor(rows.table + rows.shard + suffix, {rows.row_count, elements}, noise);
    tensor.row_begin = rows.row_begin;
    plan.tensors.push_back(std::move(tensor));
  };
  add(".weight", rows.dim / layout.elements_per_code, layout.codes, rows.stream);
  if (dtype == RowDtype::int8) plan.tensors.back().dtype = "I8";
  if (*layout.scale_suffix == '\0') return;
  const std::uint64_t scale_count =
      layout.elements_per_scale == 0 ? 1 : rows.dim / layout.elements_per_scale;
  add(layout.scale_suffix, scale_count, layout.scales, rows.scale_stream);
}

void add_table_scale(RowDtype dtype, const std::string& table, CheckpointPlan& plan) {
  if (dtype != RowDtype::fp8 && dtype != RowDtype::nvfp4) return;
  PlannedTensor scale{
      .name = table + (dtype == RowDtype::fp8 ? ".weight_scale" : ".weight_scale_2"),
      .dtype = "F32",
      .shape = {},
      .noise = {},
      .literal = std::vector<std::byte>(sizeof kTableScale)};
  std::memcpy(scale.literal.data(), &kTableScale, sizeof kTableScale);
  plan.tensors.push_back(std::move(scale));
}

}  // namespace pleiades::cli
