#include "token_file.hpp"

#include <bit>

#include "command.hpp"
#include "file.hpp"
#include "names.hpp"

namespace pleiades::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

std::vector<std::int32_t> read_integers(const std::string& path) {
  const File file = File::open_readonly(path);
  const std::uint64_t bytes = file.size();
  if (bytes % sizeof(std::int32_t) != 0) {
    refuse("{}: its {} bytes are no whole number of 4-byte integers", path, bytes);
  }
  std::vector<std::int32_t> integers(bytes / sizeof(std::int32_t));
  file.read_at(0, integers.data(), bytes);
  return integers;
}

}  // namespace

Model open_checkpoint(const std::string& path, const std::string& token_map_file) {
  Model model = open_model(path, token_map_file);
  if (model.info().has_tensors == 0) {
    refuse("{}: a config alone, where a checkpoint with its tables was expected", path);
  }
  return model;
}

Model open_model(const std::string& path, const std::string& token_map_file) {
  Model model = Model::open(path);
  if (!token_map_file.empty()) model.set_token_map(read_integers(token_map_file));
  return model;
}

std::vector<std::int32_t> read_tokens(const std::string& path, std::int32_t vocab_size) {
  std::vector<std::int32_t> tokens = read_integers(path);
  if (tokens.empty()) refuse("{}: holds no tokens", path);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < -1 || tokens[i] >= vocab_size) {
      refuse("{}: token {} is {}, outside the vocabulary [0, {})", path, i,
             static_cast<std::uint32_t>(tokens[i]), vocab_size);
    }
  }
  return tokens;
}

}  // namespace pleiades::cli
