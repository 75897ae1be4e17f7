#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "table/row_source.hpp"

namespace ple::test {

// Destinations for a set of rows, in one piece, each byte 0xAA until it is written.
class RowDestinations {
 public:
  RowDestinations(std::span<const RowId> rows, std::size_t row_bytes)
      : row_bytes_(row_bytes), bytes_(rows.size() * row_bytes, kUntouched) {
    for (const RowId row : rows) {
      reads_.push_back(
          {row, reinterpret_cast<std::byte*>(bytes_.data()) + reads_.size() * row_bytes});
    }
  }

  std::span<const RowRead> reads() const { return reads_; }
  std::string row(std::size_t index) const { return bytes_.substr(index * row_bytes_, row_bytes_); }
  const std::string& bytes() const { return bytes_; }
  bool is_untouched() const { return bytes_.find_first_not_of(kUntouched) == std::string::npos; }

 private:
  static constexpr char kUntouched = '\xAA';
  std::size_t row_bytes_;
  std::string bytes_;
  std::vector<RowRead> reads_;
};

}  // namespace ple::test
