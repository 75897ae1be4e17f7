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

// The bits of an f16 number that is exact and at least 2^-14 in magnitude, or zero.
std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value == 0.0F) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3FFFF) - (112 << 10)));
}

// Rows of elements that each take a lane of the words: make(lane) is an element.
template <class Lane, class Make>
void write_lanes(const Noise& noise, std::uint64_t row_begin, std::uint64_t row_count,
                 std::uint64_t row_elements, std::byte* out, Make make) {
  constexpr std::uint64_t kLanes = sizeof(std::uint64_t) / sizeof(Lane);
  using Element = decltype(make(Lane{}));
  for_each_word<kLanes>(noise, row_begin, row_count, row_elements,
                        [=](std::uint64_t word, std::uint64_t begin, std::uint64_t count) {
                          std::array<Lane, kLanes> lanes;
                          std::memcpy(lanes.data(), &word, sizeof word);
                          std::array<Element, kLanes> elements;
                          std::transform(lanes.begin(), lanes.end(), elements.begin(), make);
                          std::memcpy(out + begin * sizeof(Element), elements.data(),
                                      count * sizeof(Element));
                        });
}

}  // namespace

std::uint64_t element_bytes(Noise::Format format) {
  switch (format) {
    case Noise::Format::f32:
    case Noise::Format::f32_scale:
      return 4;
    case Noise::Format::bf16:
    case Noise::Format::f16:
      return 2;
    default:
      return 1;
  }
}

const char* dtype_of(Noise::Format format) {
  switch (format) {
    case Noise::Format::f32:
    case Noise::Format::f32_scale:
      return "F32";
    case Noise::Format::bf16:
      return "BF16";
    case Noise::Format::f16:
      return "F16";
    case Noise::Format::bytes:
      return "U8";
    case Noise::Format::e4m3:
    case Noise::Format::e4m3_scale:
      return "F8_E4M3";
    case Noise::Format::e8m0:
      return "F8_E8M0";
  }
  return "";
}

void write_noise_rows(const Noise& noise, std::uint64_t row_begin, std::uint64_t row_count,
                      std::uint64_t row_elements, std::byte* out) {
  const float amplitude = noise.amplitude;
  const auto write = [&]<class Lane>(Lane, auto make) {
    write_lanes<Lane>(noise, row_begin, row_count, row_elements, out, make);
  };
  const auto real = [=](std::int16_t lane) {
    return static_cast<float>(lane) * (amplitude * 0x1p-15F);
  };
  switch (noise.format) {
    case Noise::Format::bf16:
      return write(std::int16_t{}, [=](std::int16_t lane) { return to_bf16(real(lane)); });
    case Noise::Format::f32:
      return write(std::int16_t{}, real);
    case Noise::Format::f16:
      return write(std::int16_t{}, [=](std::int16_t lane) {
        return to_f16(static_cast<float>(lane >> 5) * (amplitude * 0x1p-10F));
      });
    case Noise::Format::bytes:
      return write(std::uint8_t{}, [](std::uint8_t lane) { return lane; });
    case Noise::Format::e4m3:
      return write(std::uint8_t{},
                   [&codes = e4m3_codes()](std::uint8_t lane) { return codes[lane]; });
    case Noise::Format::e8m0:
      return write(std::uint8_t{},
                   [](std::uint8_t lane) { return static_cast<std::uint8_t>(115 + lane % 2); });
    case Noise::Format::e4m3_scale:
      return write(std::uint8_t{},
                   [](std::uint8_t lane) { return static_cast<std::uint8_t>(0x60 + lane % 8); });
    case Noise::Format::f32_scale:
      return write(std::int16_t{},
                   [=](std::int16_t lane) { return lane % 2 == 0 ? amplitude : amplitude / 2; });
  }
}

}  // namespace pleiades::cli
