#include "checkpoint/family.hpp"

#include <array>
#include <optional>
#include <span>

#include "base/error.hpp"

namespace ple {

const Json& text_config(const Json& config, std::string_view key) {
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() && text->contains(key) ? *text : config;
}

Result<std::string> find_root(const TensorFiles& files, const std::string& tail) {
  constexpr std::array kRoots = {"model.language_model.", "model.", "language_model.model.", ""};
  std::optional<std::string> found;
  for (const char* root : kRoots) {
    if (files.names(root + tail).empty()) continue;
    if (found) {
      return error(StatusCode::corrupt, "'{}' holds tensors under both '{}{}' and '{}{}'",
                   files.directory(), *found, tail, root, tail);
    }
    found = root;
  }
  if (found) return *found;
  return error(StatusCode::corrupt, "'{}' holds no tensors under 'model.{}'", files.directory(),
               tail);
}

Status bind_tensors(const TensorFiles& files, const std::string& prefix,
                    const std::vector<TensorSlot>& slots) {
  for (const TensorSlot& slot : slots) {
    PLE_TRY_ASSIGN(const TensorInfo info, files.require(prefix + slot.suffix));
    *slot.tensor = {.name = info.name,
                    .dtype = info.dtype,
                    .shape = info.shape,
                    .file_index = info.file_index,
                    .offset = info.offset,
                    .bytes = info.bytes};
  }
  return {};
}

Status compare_constants(const TensorFiles& files, const std::string& name,
                         const std::vector<std::int64_t>& derived) {
  const TensorInfo* tensor = files.find(name);
  if (tensor == nullptr) return {};
  const std::vector<std::int64_t> shape = {std::ssize(derived)};
  if (tensor->dtype != DType::i64 || tensor->shape != shape) {
    return error(StatusCode::corrupt, "tensor '{}' is {} [{}], expected I64 [{}]", name,
                 dtype_name(tensor->dtype), fmt::join(tensor->shape, ", "), derived.size());
  }
  std::vector<std::int64_t> shipped(derived.size());
  PLE_TRY(files.read(*tensor, std::as_writable_bytes(std::span(shipped))));
  for (std::size_t i = 0; i < derived.size(); ++i) {
    if (shipped[i] != derived[i]) {
      return error(StatusCode::corrupt, "tensor '{}' [{}] is {}, but the config gives {}", name, i,
                   shipped[i], derived[i]);
    }
  }
  return {};
}

}  // namespace ple
