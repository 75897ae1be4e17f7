#include "kernels/gather_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/number_formats.hpp"

namespace ple::test {
namespace {

// A row's bytes, put together piece by piece.
class Bytes {
 public:
  template <class T>
  Bytes& add(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
    return *this;
  }
  const std::byte* data() const { return bytes_.data(); }
  std::int32_t size() const { return static_cast<std::int32_t>(bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<float> decode(RowFormat format, std::int32_t dim, const Bytes& row,
                          float scale = 1.0F) {
  EXPECT_EQ(encoded_row_bytes(format, dim), row.size());
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(dim));
  kernels::decode_row_cpu({format, dim, row.size(), scale}, row.data(), bits.data());
  std::vector<float> values;
  for (const std::uint16_t value : bits) values.push_back(bf16_to_f32(value));
  return values;
}

using Values = std::vector<float>;

TEST(DecodeRow, Bf16IsCopied) {
  const Bytes row = Bytes().add<std::uint16_t>(0x3F80).add<std::uint16_t>(0xC040);
  EXPECT_EQ(decode(RowFormat::bf16, 2, row), (Values{1.0F, -3.0F}));
}

TEST(DecodeRow, F16AndF32RoundToNearestEven) {
  const Bytes half =
      Bytes().add<std::uint16_t>(0x3C04).add<std::uint16_t>(0x3C0C).add<std::uint16_t>(0x0001);
  EXPECT_EQ(decode(RowFormat::f16, 3, half), (Values{1.0F, 1.015625F, 0x1p-24F}));
  const Bytes single =
      Bytes().add(1.00390625F).add(1.01171875F).add(std::numeric_limits<float>::infinity());
  EXPECT_EQ(decode(RowFormat::f32, 3, single),
            (Values{1.0F, 1.015625F, std::numeric_limits<float>::infinity()}));
}

TEST(DecodeRow, Fp8WithATableScaleRoundsTheScaleFirst) {
  const Bytes row = Bytes().add<std::uint8_t>(0x38).add<std::uint8_t>(0xBD).add<std::uint8_t>(0x01);
  const float scale = 0.1F;
  const float rounded = round_to_bf16(scale);
  EXPECT_EQ(decode(RowFormat::fp8_e4m3, 3, row, scale),
            (Values{rounded, round_to_bf16(-1.625F * rounded), round_to_bf16(0x1p-9F * rounded)}));
  EXPECT_NE(round_to_bf16(-1.625F * rounded), round_to_bf16(-1.625F * scale));
}

TEST(DecodeRow, Fp8WithARowScaleKeepsItInF32) {
  const Bytes row = Bytes().add<std::uint8_t>(0x38).add<std::uint8_t>(0xC4).add(0.1F);
  EXPECT_EQ(decode(RowFormat::fp8_e4m3_row, 2, row),
            (Values{round_to_bf16(0.1F), round_to_bf16(-3.0F * 0.1F)}));
}

TEST(DecodeRow, Fp8BlocksTakeTheirOwnPowerOfTwo) {
  Bytes row;
  for (int i = 0; i < 64; ++i) row.add<std::uint8_t>(0x40);  // 2
  row.add<std::uint8_t>(127).add<std::uint8_t>(0);
  const Values values = decode(RowFormat::fp8_e4m3_e8m0, 64, row);
  EXPECT_EQ(values[0], 2.0F);
  EXPECT_EQ(values[31], 2.0F);
  EXPECT_EQ(values[32], 0x1p-126F);  // byte 0 is 2^-127, not 0
  EXPECT_EQ(values[63], 0x1p-126F);
}

TEST(DecodeRow, Int8TimesItsRowScale) {
  const Bytes row =
      Bytes().add<std::int8_t>(-128).add<std::int8_t>(127).add<std::int8_t>(0).add(0.5F);
  EXPECT_EQ(decode(RowFormat::int8_row, 3, row), (Values{-64.0F, 63.5F, 0.0F}));
}

TEST(DecodeRow, Nvfp4TakesTheLowNibbleFirst) {
  Bytes row;
  row.add<std::uint8_t>(0xF2);                               // 1, then -6
  for (int i = 1; i < 16; ++i) row.add<std::uint8_t>(0x11);  // 0.5, 0.5
  row.add<std::uint8_t>(0x38).add<std::uint8_t>(0x40);       // blocks of scale 1 and 2
  const Values values = decode(RowFormat::nvfp4, 32, row, 4.0F);
  EXPECT_EQ(values[0], 4.0F);
  EXPECT_EQ(values[1], -24.0F);
  EXPECT_EQ(values[15], 2.0F);
  EXPECT_EQ(values[16], 4.0F);
}

TEST(DecodeRow, NanCodesStayNan) {
  EXPECT_TRUE(std::isnan(decode(RowFormat::fp8_e4m3, 1, Bytes().add<std::uint8_t>(0x7F), 2.0F)[0]));
  EXPECT_TRUE(std::isnan(decode(RowFormat::f16, 1, Bytes().add<std::uint16_t>(0x7E00))[0]));
}

TEST(GatherRows, ReadsArenaStagingAndTheZeroSlotAndPads) {
  std::vector<std::uint16_t> arena(2 * 8, 0);
  std::vector<std::uint16_t> staging(8, 0);
  arena[8] = 11;  // slot 1
  arena[9] = 12;
  staging[0] = 21;  // slot 2
  staging[1] = 22;
  const std::vector<SlotId> slots = {1, 2, kZeroSlot, 1};
  std::vector<std::uint16_t> out(2 * 6, 0xFFFF);
  kernels::gather_rows_cpu({.rows = {reinterpret_cast<const std::byte*>(arena.data()),
                                     reinterpret_cast<const std::byte*>(staging.data()),
                                     2,
                                     16,
                                     {RowFormat::bf16, 2, 4, 1.0F}},
                            .slots = slots.data(),
                            .out = out.data(),
                            .stride = 6,
                            .token_count = 2,
                            .column_count = 2});
  EXPECT_EQ(out, (std::vector<std::uint16_t>{11, 12, 21, 22, 0, 0, 0, 0, 11, 12, 0, 0}));
}

}  // namespace
}  // namespace ple::test
