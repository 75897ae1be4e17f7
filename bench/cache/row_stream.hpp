#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ple::bench {

// The rows that a run of steps asks for, each row once a step.
struct RowStream {
  struct Step {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool is_hot = true;  // false: part of a scan, whose hits do not count
  };
  std::string name;
  std::vector<RowId> rows;
  std::vector<Step> steps;
  std::size_t distinct_count = 0;  // rows of hot steps

  std::span<const RowId> rows_of(const Step& step) const {
    return std::span(rows).subspan(step.begin, step.end - step.begin);
  }
};

// Row ids, 16 a token, of the first tokens_max tokens of a .u32 file, in the released geometry.
Result<std::vector<RowId>> read_token_rows(const std::string& path, std::size_t tokens_max);

// Steps of so many tokens over ids.
RowStream text_stream(std::string name, std::span<const RowId> ids, std::size_t step_tokens);

// A text that is read over and over in steps of 16 tokens, beside another that is read once in
// steps of 2,048: two tokens of the scan for each of the hot text.
RowStream scan_stream(std::string name, std::span<const RowId> hot_ids,
                      std::span<const RowId> scan_ids);

}  // namespace ple::bench
