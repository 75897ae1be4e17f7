#include "synth/noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "counter.hpp"

namespace pleiades::cli {
namespace {

// The nearest E4M3 number to value, at most 448 in magnitude; ties to even.
std::uint8_t to_e4m3(float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::abs(value);
  // The exponent field e and three bits stand for (8 + bits) * 2^(e - 10); below 2^-6 for bits *
  // 2^-9. A mantissa that rounds up to 16 carries into the exponent by itself.
  const int exponent = magnitude < 0x1p-6F ? 1 : std::ilogb(magnitude) + 7;
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<std::uint8_t>(sign | ((exponent - 1) * 8 + steps));
}

const std::array<std::uint8_t, 256>& e4m3_codes() {
  static const std::array<std::uint8_t, 256> codes = [] {
    std::array<std::uint8_t, 256> filled{};
    for (std::size_t lane = 0; lane < filled.size(); ++lane) {
      filled[lane] = to_e4m3(static_cast<float>(static_cast<std::int8_t>(lane)) * 3.5F);
    }
    return filled;
  }();
  return codes;
}

// Calls emit(word, element_begin, element_count) for every counter word of the rows, in order.
template <std::uint64_t kLanes, class Emit>
void for_each_word(const Noise& noise, std::uint64_t row_begin, std::uint64_t row_count,
                   std::uint64_t row_elements, Emit emit) {
  const std::uint64_t words = (row_elements + kLanes - 1) / kLanes;
  for (std::uint64_t r = 0; r < row_count; ++r) {
    const std::uint64_t first_word = (row_begin + r) * words;
    for (std::uint64_t w = 0; w < words; ++w) {
      const std::uint64_t count = std::min(kLanes, row_elements - w * kLanes);
      emit(counter_word(noise.stream, first_word + w), r * row_elements + w * kLanes, count);
    }
  }
}

}  // namespace

std::uint64_t element_bytes(Noise::Format format) { return format == Noise::Format::bf16 ? 2 : 1; }

void write_noise_rows(const Noise& noise, std::uint64_t row_begin, std::uint64_t row_count,
                      std::uint64_t row_elements, std::byte* out) {
  switch (noise.format) {
    case Noise::Format::bf16: {
      const float unit = noise.amplitude * 0x1p-15F;
      for_each_word<4>(noise, row_begin, row_count, row_elements,
                       [=](std::uint64_t word, std::uint64_t begin, std::uint64_t count) {
                         std::array<std::uint16_t, 4> lanes;
                         for (std::size_t i = 0; i < 4; ++i) {
                           const auto lane = static_cast<std::int16_t>(word >> (16 * i));
                           lanes[i] = to_bf16(static_cast<float>(lane) * unit);
                         }
                         std::memcpy(out + 2 * begin, lanes.data(), 2 * count);
                       });
      return;
    }
    case Noise::Format::e4m3: {
      const std::array<std::uint8_t, 256>& codes = e4m3_codes();
      for_each_word<8>(noise, row_begin, row_count, row_elements,
                       [&](std::uint64_t word, std::uint64_t begin, std::uint64_t count) {
                         std::array<std::uint8_t, 8> lanes;
                         for (std::size_t i = 0; i < 8; ++i) {
                           lanes[i] = codes[(word >> (8 * i)) & 0xFF];
                         }
                         std::memcpy(out + begin, lanes.data(), count);
                       });
      return;
    }
    case Noise::Format::e8m0:
      for_each_word<8>(noise, row_begin, row_count, row_elements,
                       [=](std::uint64_t word, std::uint64_t begin, std::uint64_t count) {
                         const std::uint64_t lanes =
                             (word & 0x0101010101010101) + 0x7373737373737373;
                         std::memcpy(out + begin, &lanes, count);
                       });
      return;
  }
}

}  // namespace pleiades::cli
