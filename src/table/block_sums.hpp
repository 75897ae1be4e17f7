#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// The checksums of a table file's blocks (docs/checksums.md).
class BlockSums {
 public:
  static constexpr std::uint32_t kBlockBytes = 4096;

  // The sums beside a file of file_bytes bytes; none where there is no such file.
  static Result<std::optional<BlockSums>> load(const std::string& path, std::uint64_t file_bytes);

  // The offset of the first block that data, read at offset (of a whole block), holds whole and
  // that does not have its sum.
  std::optional<std::uint64_t> first_bad_block(std::uint64_t offset,
                                               std::span<const std::byte> data) const;

 private:
  std::uint64_t file_bytes_ = 0;
  std::vector<std::uint32_t> sums_;
};

// Writes the sums of every file that holds rows of the model. progress is told how many bytes of
// how many are done; false stops the work.
Status write_block_sums(const ModelSpec& model,
                        const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

}  // namespace ple
