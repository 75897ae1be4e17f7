#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/e4m3_panel_cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/e4m3_panel_cpu.hpp"

#include "kernels/projection.hpp"

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kPairLength = 2 * PackedMatrix::kPanelRows;
constexpr std::int32_t kBlockLength = 2 * kScaleBlock;  // of a pair's elements in a block of rows

using I16 = hn::CappedTag<std::int16_t, kBlockLength>;
using Codes = hn::Vec<I16>;

// Entry i of eight for each lane i below eight; anything for the others.
HWY_INLINE Codes entries(const std::int16_t* eight, Codes i) {
  const I16 i16;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(i16, eight[hn::GetLane(i) & 7]);
#else
  // The bytes of entry i stand at 2i and 2i + 1.
  const hn::Repartition<std::uint8_t, I16> bytes;
  const auto places = hn::Add(hn::Mul(i, hn::Set(i16, 0x0202)), hn::Set(i16, 0x0100));
  const auto table = hn::BitCast(bytes, hn::LoadDup128(i16, eight));
  return hn::BitCast(i16, hn::TableLookupBytes(table, hn::BitCast(bytes, places)));
#endif
}

// 32 rows by 32 elements of one scale. In an E4M3 code the exponent counts from 2^-7, in bf16 from
// 2^-127; codes without one are the eight multiples of 2^-9.
void decode_block(const std::uint8_t* codes, std::uint8_t scale, std::uint16_t* out) {
  const I16 i16;
  const hn::Rebind<std::uint8_t, I16> u8;
  alignas(16) std::int16_t small[8] = {0,      0x3B00, 0x3B80, 0x3BC0,
                                       0x3C00, 0x3C20, 0x3C40, 0x3C60};  // in bf16
  for (int i = 1; i < 8; ++i) small[i] = static_cast<std::int16_t>(small[i] + (scale - 127) * 128);
  const Codes exponent = hn::Set(i16, static_cast<std::int16_t>((scale - 7) * 128));
  for (std::int32_t pair = 0; pair < kScaleBlock / 2; ++pair) {
    for (std::size_t i = 0; i < kBlockLength; i += hn::Lanes(i16)) {
      const Codes code = hn::PromoteTo(i16, hn::LoadU(u8, codes + i));
      const Codes magnitude = hn::And(code, hn::Set(i16, 0x7F));
      const Codes normal = hn::Add(hn::ShiftLeft<4>(magnitude), exponent);
      const auto is_small = hn::Lt(magnitude, hn::Set(i16, 8));
      const Codes value = hn::IfThenElse(is_small, entries(small, magnitude), normal);
      const Codes sign = hn::ShiftLeft<8>(hn::AndNot(hn::Set(i16, 0x7F), code));
      hn::StoreU(hn::Or(value, sign), i16, reinterpret_cast<std::int16_t*>(out) + i);
    }
    codes += kPairLength;
    out += kPairLength;
  }
}

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple::kernels {

HWY_EXPORT(decode_block);

void decode_e4m3_block(const std::uint8_t* codes, std::uint8_t scale, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(decode_block)(codes, scale, out);
}

}  // namespace ple::kernels
#endif  // HWY_ONCE
