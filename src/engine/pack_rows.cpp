#include "engine/pack_rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/number_formats.hpp"
#include "kernels/gather_rows.hpp"
#include "table/row_encoder.hpp"

namespace ple {

namespace {

constexpr std::uint64_t kBlockBytes = 64 << 10;
constexpr std::uint16_t kInfinity = 0x7F80;  // bf16

struct Sums {
  double error = 0;
  double norm = 0;
};

// In a fixed order, with independent chains of additions.
Sums compare(std::span<const std::uint16_t> before, std::span<const std::uint16_t> after) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> error{};
  std::array<double, kLanes> norm{};
  const auto add = [&](std::size_t lane, std::size_t i) {
    const auto value = static_cast<double>(bf16_to_f32(before[i]));
    const double difference = static_cast<double>(bf16_to_f32(after[i])) - value;
    error[lane] += difference * difference;
    norm[lane] += value * value;
  };
  std::size_t i = 0;
  for (; i + kLanes <= before.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (std::size_t lane = 0; i < before.size(); ++i, ++lane) add(lane, i);
  Sums sums;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sums.error += error[lane];
    sums.norm += norm[lane];
  }
  return sums;
}

}  // namespace

RowPacker::RowPacker(const RowEncoding& old, const PackTable& table,
                     std::span<const OutputFile> files, std::uint64_t batch_rows, ThreadPool& pool)
    : old_(old),
      table_(table),
      files_(files),
      pool_(pool),
      block_rows_(std::max<std::uint64_t>(
          1, kBlockBytes / static_cast<std::uint64_t>(std::max(old.row_bytes, old.dim * 2)))),
      dim_(static_cast<std::size_t>(old.dim)),
      row_bytes_(static_cast<std::size_t>(table.encoding.row_bytes)),
      values_(batch_rows * dim_),
      again_(((batch_rows - 1) / block_rows_ + 1) * dim_),
      encoded_(batch_rows * row_bytes_),
      split_(table.part_bytes.size() > 1 ? encoded_.size() : 0),
      errors_(batch_rows),
      norms_(batch_rows) {}

template <class Work>
void RowPacker::for_each_block(const RowStream::Rows& rows, Work work) {
  blocks_.clear();
  for (std::uint64_t begin = 0; begin < rows.count; begin += block_rows_) {
    blocks_.push_back({.begin = begin, .end = std::min(rows.count, begin + block_rows_)});
  }
  pool_.parallel_for(std::ssize(blocks_), [&](std::int64_t index) {
    Block& block = blocks_[static_cast<std::size_t>(index)];
    decode(rows, block);
    if (!block.bad_row) work(block, static_cast<std::size_t>(index));
  });
}

void RowPacker::decode(const RowStream::Rows& rows, Block& block) {
  for (std::uint64_t i = block.begin; i < block.end; ++i) {
    const std::span values = std::span(values_).subspan(i * dim_, dim_);
    const auto row_bytes = static_cast<std::size_t>(old_.row_bytes);
    kernels::decode_row_cpu(old_, rows.bytes + i * row_bytes, values.data());
    const std::uint16_t largest = largest_magnitude(values);
    block.largest = std::max(block.largest, largest);
    if (largest >= kInfinity && !block.bad_row) block.bad_row = rows.begin + i;
  }
}

std::uint16_t RowPacker::measure(const RowStream::Rows& rows) {
  for_each_block(rows, [](Block&, std::size_t) {});
  std::uint16_t largest = 0;
  for (const Block& block : blocks_) largest = std::max(largest, block.largest);
  return largest;
}

Result<PackedRows> RowPacker::convert(const RowStream::Rows& rows) {
  for_each_block(rows, [&](Block& block, std::size_t number) {
    const std::span again = std::span(again_).subspan(number * dim_, dim_);
    for (std::uint64_t i = block.begin; i < block.end; ++i) {
      const std::span before = std::span<const std::uint16_t>(values_).subspan(i * dim_, dim_);
      std::byte* encoded = encoded_.data() + i * row_bytes_;
      Sums sums;
      if (table_.keeps_codes) {
        std::memcpy(encoded, rows.bytes + i * row_bytes_, row_bytes_);
        sums = compare(before, before);
      } else {
        encode_row(table_.encoding, before.data(), encoded);
        kernels::decode_row_cpu(table_.encoding, encoded, again.data());
        sums = compare(before, again);
      }
      errors_[i] = sums.error;
      norms_[i] = sums.norm;
    }
    block.status = write(rows, block);
  });
  for (const Block& block : blocks_) PLE_TRY(block.status);
  return PackedRows{std::span(errors_).first(rows.count), std::span(norms_).first(rows.count)};
}

Status RowPacker::write(const RowStream::Rows& rows, const Block& block) const {
  const std::uint64_t row_begin = rows.begin + block.begin;
  const std::uint64_t row_end = rows.begin + block.end;
  const std::uint64_t count = block.end - block.begin;
  const std::byte* encoded = encoded_.data() + block.begin * row_bytes_;
  if (table_.part_bytes.size() == 1) {
    return write_part(0, row_begin, row_end, {encoded, count * row_bytes_});
  }
  // A block's part of split_ is its own.
  std::byte* to = const_cast<std::byte*>(split_.data()) + block.begin * row_bytes_;
  std::size_t part_offset = 0;
  for (std::uint32_t part = 0; part < table_.part_bytes.size(); ++part) {
    const std::size_t part_bytes = table_.part_bytes[part];
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * part_bytes, encoded + i * row_bytes_ + part_offset, part_bytes);
    }
    PLE_TRY(write_part(part, row_begin, row_end, {to, count * part_bytes}));
    to += count * part_bytes;
    part_offset += part_bytes;
  }
  return {};
}

// Rows [row_begin, row_end) may lie in several extents.
Status RowPacker::write_part(std::uint32_t part, std::uint64_t row_begin, std::uint64_t row_end,
                             std::span<const std::byte> bytes) const {
  const std::size_t part_bytes = table_.part_bytes[part];
  auto shard = std::partition_point(
      table_.shards.begin(), table_.shards.end(), [&](const ShardExtent& candidate) {
        return candidate.part < part ||
               (candidate.part == part && candidate.row_begin + candidate.row_count <= row_begin);
      });
  for (; row_begin < row_end; ++shard) {
    const std::uint64_t skipped = row_begin - shard->row_begin;
    const std::uint64_t count = std::min(row_end - row_begin, shard->row_count - skipped);
    PLE_TRY(files_[shard->file_index].write(shard->offset + skipped * part_bytes,
                                            bytes.first(count * part_bytes)));
    bytes = bytes.subspan(count * part_bytes);
    row_begin += count;
  }
  return {};
}

std::optional<std::uint64_t> RowPacker::first_bad_row() const {
  for (const Block& block : blocks_) {
    if (block.bad_row) return block.bad_row;
  }
  return std::nullopt;
}

}  // namespace ple
