#include "kernels/gather_rows.hpp"

#include <array>
#include <cstring>

#include "base/number_formats.hpp"

namespace ple::kernels {

namespace {

constexpr std::int32_t kE8m0BlockLength = 32;
constexpr std::int32_t kNvfp4BlockLength = 16;

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> table{};
    for (std::size_t code = 0; code < table.size(); ++code) {
      table[code] = e4m3_to_f32(static_cast<std::uint8_t>(code));
    }
    return table;
  }();
  return values;
}

std::uint8_t code_at(const std::byte* row, std::int32_t index) {
  return std::to_integer<std::uint8_t>(row[index]);
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void decode_f16(std::int32_t dim, const std::byte* row, std::uint16_t* out) {
  for (std::int32_t i = 0; i < dim; ++i) {
    out[i] = f32_to_bf16(f16_to_f32(load<std::uint16_t>(row + std::size_t{2} * i)));
  }
}

void decode_f32(std::int32_t dim, const std::byte* row, std::uint16_t* out) {
  for (std::int32_t i = 0; i < dim; ++i) {
    out[i] = f32_to_bf16(load<float>(row + std::size_t{4} * i));
  }
}

void decode_e4m3(std::int32_t dim, const std::byte* row, float scale, std::uint16_t* out) {
  const std::array<float, 256>& values = e4m3_values();
  for (std::int32_t i = 0; i < dim; ++i) out[i] = f32_to_bf16(values[code_at(row, i)] * scale);
}

void decode_e4m3_e8m0(std::int32_t dim, const std::byte* row, std::uint16_t* out) {
  for (std::int32_t block = 0; block * kE8m0BlockLength < dim; ++block) {
    const std::int32_t begin = block * kE8m0BlockLength;
    decode_e4m3(kE8m0BlockLength, row + begin, e8m0_to_f32(code_at(row, dim + block)), out + begin);
  }
}

void decode_int8(std::int32_t dim, const std::byte* row, std::uint16_t* out) {
  const float scale = load<float>(row + dim);
  for (std::int32_t i = 0; i < dim; ++i) {
    out[i] = f32_to_bf16(static_cast<float>(static_cast<std::int8_t>(code_at(row, i))) * scale);
  }
}

void decode_nvfp4(std::int32_t dim, const std::byte* row, float table_scale, std::uint16_t* out) {
  constexpr std::int32_t kCodes = 16;
  for (std::int32_t begin = 0; begin < dim; begin += kNvfp4BlockLength) {
    const float block_scale = e4m3_values()[code_at(row, dim / 2 + begin / kNvfp4BlockLength)];
    std::array<std::uint16_t, kCodes> values;  // by code
    for (std::uint8_t code = 0; code < kCodes; ++code) {
      values[code] = f32_to_bf16(e2m1_to_f32(code) * block_scale * table_scale);
    }
    for (std::int32_t i = begin; i < begin + kNvfp4BlockLength; i += 2) {
      const std::uint8_t pair = code_at(row, i / 2);
      out[i] = values[pair & 0xF];
      out[i + 1] = values[pair >> 4];
    }
  }
}

void prefetch_row(const std::byte* row, std::int32_t row_bytes) {
  constexpr std::int32_t kLineBytes = 64;
  if (row == nullptr) return;
  for (std::int32_t byte = 0; byte < row_bytes; byte += kLineBytes) __builtin_prefetch(row + byte);
}

}  // namespace

void decode_row_cpu(const RowEncoding& encoding, const std::byte* row, std::uint16_t* out) {
  const std::int32_t dim = encoding.dim;
  switch (encoding.format) {
    case RowFormat::bf16:
      std::memcpy(out, row, std::size_t{2} * static_cast<std::size_t>(dim));
      return;
    case RowFormat::f16:
      return decode_f16(dim, row, out);
    case RowFormat::f32:
      return decode_f32(dim, row, out);
    case RowFormat::fp8_e4m3:
      return decode_e4m3(dim, row, round_to_bf16(encoding.scale), out);
    case RowFormat::fp8_e4m3_row:
      return decode_e4m3(dim, row, load<float>(row + dim), out);
    case RowFormat::fp8_e4m3_e8m0:
      return decode_e4m3_e8m0(dim, row, out);
    case RowFormat::int8_row:
      return decode_int8(dim, row, out);
    case RowFormat::nvfp4:
      return decode_nvfp4(dim, row, encoding.scale, out);
  }
}

void gather_rows_cpu(const GatherRowsArgs& args) {
  const std::int32_t dim = args.rows.encoding.dim;
  const std::int64_t row_count = std::int64_t{args.token_count} * args.column_count;
  const std::int64_t prefetch_rows = args.column_count;  // the rows of the next token
  for (std::int64_t i = 0; i < prefetch_rows && i < row_count; ++i) {
    prefetch_row(row_bytes_of(args.rows, args.slots[i]), args.rows.encoding.row_bytes);
  }
  for (std::int32_t token = 0; token < args.token_count; ++token) {
    std::uint16_t* out = args.out + token * args.stride;
    for (std::int32_t column = 0; column < args.column_count; ++column, out += dim) {
      const std::int64_t index = std::int64_t{token} * args.column_count + column;
      if (const std::int64_t ahead = index + prefetch_rows; ahead < row_count) {
        prefetch_row(row_bytes_of(args.rows, args.slots[ahead]), args.rows.encoding.row_bytes);
      }
      if (const std::byte* row = row_bytes_of(args.rows, args.slots[index]); row != nullptr) {
        decode_row_cpu(args.rows.encoding, row, out);
      } else {
        std::memset(out, 0, std::size_t{2} * static_cast<std::size_t>(dim));
      }
    }
    std::uint16_t* end = args.out + (token + 1) * args.stride;
    std::memset(out, 0, static_cast<std::size_t>(end - out) * 2);
  }
}

}  // namespace ple::kernels
