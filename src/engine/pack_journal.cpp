#include "engine/pack_journal.hpp"

#include <bit>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "checkpoint/input_file.hpp"
#include "io/replace_file.hpp"

namespace ple {

namespace {

// "PLEPACK1", little-endian.
constexpr std::uint64_t kMagic = 0x314B434150454C50;
constexpr std::size_t kWordsPerHead = 4;
constexpr std::size_t kWordsBefore = 7;  // the heads; one word follows them, a digest of all

std::uint64_t digest_of(std::span<const std::uint64_t> words) {
  return Digest().add(std::as_bytes(words)).value();
}

}  // namespace

Status save_progress(const std::string& path, std::uint64_t identity,
                     const PackProgress& progress) {
  std::vector<std::uint64_t> words = {kMagic,
                                      identity,
                                      progress.tensors_copied,
                                      progress.layer,
                                      progress.rows_measured,
                                      progress.rows_done,
                                      progress.largest};
  for (const PackProgress::Head& head : progress.heads) {
    for (const double sum : {head.error, head.norm, head.worst}) {
      words.push_back(std::bit_cast<std::uint64_t>(sum));
    }
    words.push_back(head.worst_row);
  }
  words.push_back(digest_of(words));
  return replace_file(path, std::as_bytes(std::span(words)));
}

Result<std::optional<PackProgress>> load_progress(const std::string& path, std::uint64_t identity,
                                                  std::size_t head_count) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<PackProgress>();
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(path));
  std::vector<std::uint64_t> words(kWordsBefore + head_count * kWordsPerHead + 1);
  const std::span<const std::uint64_t> body = std::span(words).first(words.size() - 1);
  if (file.bytes() == words.size() * sizeof words[0]) {
    PLE_TRY(file.read(0, std::as_writable_bytes(std::span(words))));
  }
  if (words[0] != kMagic || words[1] != identity) {
    return error(StatusCode::wrong_state,
                 "'{}' is of another request, or its checkpoint has changed: remove that directory "
                 "or choose another name",
                 path);
  }
  if (words.back() != digest_of(body)) {
    return error(StatusCode::corrupt, "'{}' is damaged: remove that directory", path);
  }
  PackProgress progress{.tensors_copied = words[2] != 0,
                        .layer = static_cast<std::uint32_t>(words[3]),
                        .rows_measured = words[4],
                        .rows_done = words[5],
                        .largest = static_cast<std::uint16_t>(words[6]),
                        .heads = {}};
  for (auto at = body.begin() + kWordsBefore; at != body.end(); at += kWordsPerHead) {
    progress.heads.push_back({.error = std::bit_cast<double>(at[0]),
                              .norm = std::bit_cast<double>(at[1]),
                              .worst = std::bit_cast<double>(at[2]),
                              .worst_row = at[3]});
  }
  return std::optional(std::move(progress));
}

}  // namespace ple
