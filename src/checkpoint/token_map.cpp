#include "checkpoint/token_map.hpp"

#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/input_file.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_files.hpp"
#include "ngram/engram_hash.hpp"

namespace ple {
namespace {

constexpr std::uint64_t kMapBytesMax = 1ULL << 30;

const EngramHash* engram_hash(const LayerSpec& layer) {
  return dynamic_cast<const EngramHash*>(layer.hash.get());
}

// Where in the file the numbers are.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

Result<Range> find_range(const InputFile& file) {
  if (!file.path().ends_with(".safetensors")) return Range{0, file.bytes()};
  PLE_TRY_ASSIGN(const std::vector<TensorInfo> tensors, read_safetensors_header(file));
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name != "token_map") continue;
    if (tensor.dtype == DType::i32 && tensor.shape.size() == 1) {
      return Range{tensor.offset, tensor.bytes};
    }
    return error(StatusCode::corrupt, "'{}': tensor 'token_map' is {} [{}], expected I32 [vocab]",
                 file.path(), dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "));
  }
  return error(StatusCode::corrupt, "'{}' lacks tensor 'token_map'", file.path());
}

}  // namespace

Result<std::vector<TokenId>> read_token_map(const std::string& path) {
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(path));
  PLE_TRY_ASSIGN(const Range range, find_range(file));
  if (range.bytes % sizeof(TokenId) != 0 || range.bytes > kMapBytesMax) {
    return error(StatusCode::corrupt, "'{}': a token map of {} bytes is not one of 32-bit numbers",
                 path, range.bytes);
  }
  std::vector<TokenId> codes(static_cast<std::size_t>(range.bytes / sizeof(TokenId)));
  PLE_TRY(file.read(range.offset, std::as_writable_bytes(std::span(codes))));
  return codes;
}

Status set_token_map(ModelSpec& model, std::span<const TokenId> codes) {
  std::vector<std::shared_ptr<const RowHash>> mapped;
  for (const LayerSpec& layer : model.layers) {
    const EngramHash* hash = engram_hash(layer);
    if (hash == nullptr) {
      return error(StatusCode::invalid_argument, "the model's hash takes no token map");
    }
    PLE_TRY_ASSIGN(auto with_map, hash->with_token_map(codes));
    mapped.push_back(std::move(with_map));
  }
  for (std::size_t i = 0; i < mapped.size(); ++i) model.layers[i].hash = std::move(mapped[i]);
  set_geometry_identity(model);
  return {};
}

Status find_token_map(const std::string& directory, ModelSpec& model) {
  if (model.layers.empty() || !model.layers[0].hash->needs_token_map()) return {};
  for (const char* name : {"/token_map.safetensors", "/token_map.i32"}) {
    std::error_code ignored;
    const std::string path = directory + name;
    if (!std::filesystem::exists(path, ignored)) continue;
    PLE_TRY_ASSIGN(const std::vector<TokenId> codes, read_token_map(path));
    const Status status = set_token_map(model, codes);
    if (status.is_ok()) return {};
    return error(status.code(), "'{}': {}", path, status.message());
  }
  return {};
}

}  // namespace ple
