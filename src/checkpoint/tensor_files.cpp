#include "checkpoint/tensor_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/json.hpp"

namespace ple {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kFileSuffix = ".safetensors";
constexpr std::uint64_t kIndexBytesMax = 256 << 20;

// The names in a directory that end in suffix, ascending.
Result<std::vector<std::string>> names_ending(const std::string& directory,
                                              std::string_view suffix) {
  std::error_code failure;
  std::vector<std::string> names;
  std::filesystem::directory_iterator place(directory, failure);
  for (; !failure && place != std::filesystem::directory_iterator(); place.increment(failure)) {
    std::string name = place->path().filename().string();
    if (name.ends_with(suffix)) names.push_back(std::move(name));
  }
  if (failure) {
    return error(StatusCode::not_found, "cannot list '{}': {}", directory, failure.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The index to use, or an empty name.
Result<std::string> choose_index(const std::string& directory) {
  PLE_TRY_ASSIGN(const std::vector<std::string> names, names_ending(directory, kIndexSuffix));
  if (names.empty()) return std::string();
  if (std::find(names.begin(), names.end(), kIndexName) != names.end()) {
    return std::string(kIndexName);
  }
  if (names.size() == 1) return names[0];
  return error(StatusCode::corrupt, "'{}' holds {} indexes, none of them {}", directory,
               names.size(), kIndexName);
}

// A relative name, of which no part leads upwards.
bool stays_inside(std::string_view name) {
  if (name.find('\0') != std::string_view::npos || name.find('\\') != std::string_view::npos) {
    return false;
  }
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<std::vector<TensorInfo>> read_safetensors_header(const InputFile& file) {
  if (file.bytes() < kSafetensorsPrefixBytes) {
    return error(StatusCode::corrupt, "'{}' has {} bytes, too few for a safetensors file",
                 file.path(), file.bytes());
  }
  std::array<std::byte, kSafetensorsPrefixBytes> prefix;
  PLE_TRY(file.read(0, prefix));
  PLE_TRY_ASSIGN(const std::uint64_t bytes,
                 safetensors_header_bytes(prefix, file.bytes(), file.path()));
  std::string header(static_cast<std::size_t>(bytes), '\0');
  PLE_TRY(file.read(kSafetensorsPrefixBytes, std::as_writable_bytes(std::span(header))));
  return parse_safetensors_header(header, file.bytes(), file.path());
}

Result<TensorIndex> parse_tensor_index(std::string_view json, const std::string& name) {
  PLE_TRY_ASSIGN(const Json object, parse_json_object(json, name));
  const auto map = object.find("weight_map");
  if (map == object.end() || !map->is_object()) {
    return error(StatusCode::corrupt, "'{}' has no weight_map", name);
  }
  TensorIndex index;
  std::set<std::string> files;
  for (const auto& [tensor, value] : map->items()) {
    if (!value.is_string()) {
      return error(StatusCode::corrupt, "'{}': the file of tensor '{}' is not a string", name,
                   tensor);
    }
    const auto& file = value.get_ref<const std::string&>();
    if (!stays_inside(file)) {
      return error(StatusCode::corrupt,
                   "'{}': file name '{}' of tensor '{}' leads out of the directory", name, file,
                   tensor);
    }
    index.file_of.emplace(tensor, file);
    files.insert(file);
  }
  index.files.assign(files.begin(), files.end());
  return index;
}

std::string tensor_index_text(const TensorIndex& index, std::uint64_t total_bytes) {
  nlohmann::ordered_json json;
  json["metadata"]["total_size"] = total_bytes;
  json["weight_map"] = index.file_of;
  return json.dump(1) + "\n";
}

Result<TensorFiles> TensorFiles::open(const std::string& directory) {
  TensorFiles files;
  files.directory_ = directory;
  PLE_TRY_ASSIGN(const std::string index, choose_index(directory));
  if (!index.empty()) {
    files.has_index_ = true;
    PLE_TRY(files.add_index(index));
    return files;
  }
  PLE_TRY_ASSIGN(const std::vector<std::string> names, names_ending(directory, kFileSuffix));
  if (names.empty()) {
    return error(StatusCode::not_found, "'{}' holds no safetensors file", directory);
  }
  for (const std::string& name : names) PLE_TRY(files.add_file(name));
  return files;
}

Status TensorFiles::add_file(const std::string& name) {
  PLE_TRY_ASSIGN(InputFile file, InputFile::open(directory_ + "/" + name));
  PLE_TRY_ASSIGN(std::vector<TensorInfo> tensors, read_safetensors_header(file));
  for (TensorInfo& tensor : tensors) {
    tensor.file_index = static_cast<std::uint32_t>(files_.size());
    const auto [place, is_new] = tensors_.emplace(tensor.name, tensor);
    if (!is_new) {
      return error(StatusCode::corrupt, "tensor '{}' is in '{}' and in '{}'", tensor.name,
                   files_[place->second.file_index].path(), file.path());
    }
  }
  files_.push_back(std::move(file));
  return {};
}

Status TensorFiles::add_index(const std::string& name) {
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(directory_ + "/" + name));
  PLE_TRY_ASSIGN(const std::string json, file.read_all(kIndexBytesMax));
  PLE_TRY_ASSIGN(const TensorIndex index, parse_tensor_index(json, file.path()));
  for (const std::string& data_file : index.files) PLE_TRY(add_file(data_file));
  for (const auto& [tensor, data_file] : index.file_of) {
    const TensorInfo* info = find(tensor);
    const std::string path = directory_ + "/" + data_file;
    if (info == nullptr || files_[info->file_index].path() != path) {
      return error(StatusCode::corrupt, "'{}' says that tensor '{}' is in '{}', but it is not",
                   file.path(), tensor, path);
    }
  }
  return {};
}

const TensorInfo* TensorFiles::find(std::string_view name) const {
  const auto place = tensors_.find(name);
  return place == tensors_.end() ? nullptr : &place->second;
}

Result<TensorInfo> TensorFiles::require(std::string_view name) const {
  if (const TensorInfo* tensor = find(name)) return *tensor;
  return error(StatusCode::corrupt, "'{}' lacks tensor '{}'", directory_, name);
}

std::vector<std::string_view> TensorFiles::names(std::string_view prefix) const {
  std::vector<std::string_view> names;
  for (auto place = tensors_.lower_bound(prefix);
       place != tensors_.end() && place->first.starts_with(prefix); ++place) {
    names.push_back(place->first);
  }
  return names;
}

Status TensorFiles::read(const TensorInfo& tensor, std::span<std::byte> out) const {
  const std::size_t bytes = std::min<std::size_t>(out.size(), tensor.bytes);
  return files_[tensor.file_index].read(tensor.offset, out.first(bytes));
}

std::vector<ModelFile> TensorFiles::files() const {
  std::vector<ModelFile> files;
  for (const InputFile& file : files_) files.push_back({file.path(), file.bytes()});
  return files;
}

}  // namespace ple
