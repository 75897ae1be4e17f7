#include "row_stream.hpp"

#include <algorithm>
#include <fstream>
#include <unordered_set>
#include <utility>

#include "base/error.hpp"
#include "ngram/qwen4_exp_hash.hpp"

namespace ple::bench {

namespace {

constexpr std::size_t kTokenRows = 16;

void append_step(RowStream& stream, std::span<const RowId> ids, bool is_hot) {
  std::unordered_set<RowId> seen;
  const std::size_t begin = stream.rows.size();
  for (const RowId row : ids) {
    if (seen.insert(row).second) stream.rows.push_back(row);
  }
  stream.steps.push_back({begin, stream.rows.size(), is_hot});
}

void count_distinct(RowStream& stream) {
  std::unordered_set<RowId> rows;
  for (const RowStream::Step& step : stream.steps) {
    if (!step.is_hot) continue;
    const std::span<const RowId> hot = stream.rows_of(step);
    rows.insert(hot.begin(), hot.end());
  }
  stream.distinct_count = rows.size();
}

}  // namespace

Result<std::vector<RowId>> read_token_rows(const std::string& path, std::size_t tokens_max) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return error(StatusCode::not_found, "file '{}' cannot be opened", path);
  const auto token_count =
      std::min(static_cast<std::size_t>(file.tellg()) / sizeof(TokenId), tokens_max);
  std::vector<TokenId> tokens(token_count);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(tokens.data()),
            static_cast<std::streamsize>(token_count * sizeof(TokenId)));
  PLE_TRY_ASSIGN(const auto hash,
                 Qwen4ExpHash::create({.vocab_size = 248320, .eos_token = 248044}));
  PLE_TRY(hash->check(tokens));
  std::vector<RowId> rows(token_count * kTokenRows);
  hash->row_ids({}, tokens, rows.data());
  return rows;
}

RowStream text_stream(std::string name, std::span<const RowId> ids, std::size_t step_tokens) {
  RowStream stream{.name = std::move(name)};
  while (!ids.empty()) {
    const std::size_t count = std::min(step_tokens * kTokenRows, ids.size());
    append_step(stream, ids.first(count), true);
    ids = ids.subspan(count);
  }
  count_distinct(stream);
  return stream;
}

RowStream scan_stream(std::string name, std::span<const RowId> hot_ids,
                      std::span<const RowId> scan_ids) {
  constexpr std::size_t kHotIds = 16 * kTokenRows;
  constexpr std::size_t kScanIds = 2048 * kTokenRows;
  RowStream stream{.name = std::move(name)};
  std::size_t hot_begin = 0;
  while (scan_ids.size() >= kScanIds) {
    for (std::size_t index = 0; index < kScanIds / 2 / kHotIds; ++index) {
      append_step(stream, hot_ids.subspan(hot_begin, kHotIds), true);
      hot_begin = (hot_begin + kHotIds) % (hot_ids.size() - kHotIds + 1);
    }
    append_step(stream, scan_ids.first(kScanIds), false);
    scan_ids = scan_ids.subspan(kScanIds);
  }
  count_distinct(stream);
  return stream;
}

}  // namespace ple::bench
