#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model_spec.hpp"
#include "support/random.hpp"
#include "support/temp_directory.hpp"

namespace ple::test {

struct TableShape {
  std::uint64_t row_count = 0;
  std::vector<std::uint32_t> part_bytes;
  std::uint64_t shard_count = 1;  // of each part
  std::uint32_t file_count = 1;
};

// A table of random bytes in files: shards of each part dealt over the files in random order, at
// random offsets; each file ends with a shard's last row. Knows what every row must be.
class TableFiles {
 public:
  TableFiles(Random& random, const TableShape& shape) {
    spec_.row_count = shape.row_count;
    spec_.part_bytes = shape.part_bytes;
    std::uint32_t row_bytes = 0;
    for (const std::uint32_t bytes : shape.part_bytes) row_bytes += bytes;
    spec_.encoding = {RowFormat::fp8_e4m3, static_cast<std::int32_t>(row_bytes),
                      static_cast<std::int32_t>(row_bytes), 1.0F};
    rows_.resize(shape.row_count * row_bytes);
    for (char& byte : rows_) byte = static_cast<char>(random.bits());
    place_shards(random, shape);
    write_files(random, shape);
  }

  const TableSpec& spec() const { return spec_; }
  const std::vector<ModelFile>& files() const { return files_; }
  std::uint32_t row_bytes() const { return static_cast<std::uint32_t>(spec_.encoding.row_bytes); }
  const char* row(std::uint64_t row) const { return rows_.data() + row * row_bytes(); }
  std::string row_string(std::uint64_t r) const { return std::string(row(r), row_bytes()); }

  // The extent that holds a part of a row.
  const ShardExtent& extent(std::uint64_t row, std::uint32_t part = 0) const {
    std::size_t index = 0;
    while (spec_.shards[index].part != part ||
           row >= spec_.shards[index].row_begin + spec_.shards[index].row_count) {
      ++index;
    }
    return spec_.shards[index];
  }
  // Where the row begins in its file.
  std::uint64_t offset(std::uint64_t row, std::uint32_t part = 0) const {
    const ShardExtent& shard = extent(row, part);
    return shard.offset + (row - shard.row_begin) * spec_.part_bytes[part];
  }

  // The number of a file among those that a table opens: in the order of the rows they hold.
  std::uint32_t opened_index(std::uint32_t file_index) const {
    std::vector<std::uint32_t> opened;
    for (const ShardExtent& shard : spec_.shards) {
      const bool is_new = std::find(opened.begin(), opened.end(), shard.file_index) == opened.end();
      if (shard.row_count > 0 && is_new) opened.push_back(shard.file_index);
    }
    const auto found = std::find(opened.begin(), opened.end(), file_index);
    return static_cast<std::uint32_t>(found - opened.begin());
  }

 private:
  void place_shards(Random& random, const TableShape& shape) {
    for (std::uint32_t part = 0; part < shape.part_bytes.size(); ++part) {
      // The first shards are equal, as torch.chunk makes them, or of any size, or empty.
      std::uint64_t begin = 0;
      const std::uint64_t usual = (shape.row_count + shape.shard_count - 1) / shape.shard_count;
      const bool is_usual = random.chance(0.5);
      for (std::uint64_t shard = 0; shard < shape.shard_count; ++shard) {
        const std::uint64_t left = shape.row_count - begin;
        std::uint64_t count = std::min(usual, left);
        if (!is_usual) {
          count = static_cast<std::uint64_t>(
              random.between(0, static_cast<std::int64_t>(std::min(2 * usual, left))));
        }
        if (shard + 1 == shape.shard_count) count = left;
        spec_.shards.push_back({});
        spec_.shards.back().part = part;
        spec_.shards.back().row_begin = begin;
        spec_.shards.back().row_count = count;
        begin += count;
      }
    }
  }

  void write_files(Random& random, const TableShape& shape) {
    std::vector<std::string> bytes(shape.file_count);
    std::vector<std::size_t> order(spec_.shards.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random.engine());
    for (const std::size_t index : order) {
      ShardExtent& shard = spec_.shards[index];
      shard.file_index =
          static_cast<std::uint32_t>(random.between(0, std::int64_t{shape.file_count} - 1));
      std::string& file = bytes[shard.file_index];
      file.resize(file.size() + static_cast<std::size_t>(random.between(0, 3000)), 'x');
      shard.offset = file.size();
      std::uint32_t part_offset = 0;
      for (std::uint32_t part = 0; part < shard.part; ++part) part_offset += spec_.part_bytes[part];
      for (std::uint64_t i = 0; i < shard.row_count; ++i) {
        file.append(row(shard.row_begin + i) + part_offset, spec_.part_bytes[shard.part]);
      }
    }
    for (std::uint32_t file = 0; file < shape.file_count; ++file) {
      const std::string path = directory_.write("table-" + std::to_string(file), bytes[file]);
      files_.push_back({path, bytes[file].size()});
    }
  }

  TempDirectory directory_;
  TableSpec spec_;
  std::vector<ModelFile> files_;
  std::vector<char> rows_;  // [row_count, row_bytes]
};

}  // namespace ple::test
