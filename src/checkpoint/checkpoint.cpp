#include "checkpoint/checkpoint.hpp"

#include <array>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/input_file.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_files.hpp"
#include "checkpoint/token_map.hpp"

namespace ple {
namespace {

constexpr std::uint64_t kConfigBytesMax = 64 << 20;

constexpr std::array kReaders = {&kQwen4ExpReader, &kEngramV41Reader, &kEngramDemoReader,
                                 &kLongcatReader, &kGemmaReader};

std::string model_type_of(const Json& config) {
  const auto place = config.find("model_type");
  return place != config.end() && place->is_string() ? place->get<std::string>() : "";
}

Result<const FamilyReader*> choose_reader(const Json& config, const std::string& name) {
  const std::string model_type = model_type_of(config);
  for (const FamilyReader* reader : kReaders) {
    if (reader->matches(config, model_type)) return reader;
  }
  return error(StatusCode::unsupported, "config '{}': model_type '{}' is of no family known here",
               name, model_type);
}

Status check_directory(const std::string& path) {
  if (path.empty()) return error(StatusCode::invalid_argument, "the checkpoint's path is empty");
  std::error_code failure;
  const bool is_directory = std::filesystem::is_directory(path, failure);
  if (failure) {
    const bool is_absent = failure == std::errc::no_such_file_or_directory;
    return error(is_absent ? StatusCode::not_found : StatusCode::io_error, "'{}': {}", path,
                 failure.message());
  }
  if (is_directory) return {};
  return error(StatusCode::invalid_argument, "'{}' is no directory", path);
}

Result<Json> read_config(const std::string& path) {
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(path));
  PLE_TRY_ASSIGN(const std::string text, file.read_all(kConfigBytesMax));
  return parse_json_object(text, path);
}

}  // namespace

Result<ModelSpec> parse_config(std::string_view json, const std::string& name) {
  PLE_TRY_ASSIGN(const Json config, parse_json_object(json, name));
  PLE_TRY_ASSIGN(const FamilyReader* reader, choose_reader(config, name));
  PLE_TRY_ASSIGN(ModelSpec model, reader->parse(config, name));
  set_geometry_identity(model);
  return model;
}

Result<ModelSpec> open_config(const std::string& path) {
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  const std::string name = is_directory ? path + "/config.json" : path;
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(name));
  PLE_TRY_ASSIGN(const std::string text, file.read_all(kConfigBytesMax));
  PLE_TRY_ASSIGN(ModelSpec model, parse_config(text, name));
  const std::string directory = std::filesystem::path(name).parent_path().string();
  PLE_TRY(find_token_map(directory.empty() ? "." : directory, model));
  return model;
}

Result<ModelSpec> open_checkpoint(const std::string& directory) {
  PLE_TRY(check_directory(directory));
  const std::string path = directory + "/config.json";
  PLE_TRY_ASSIGN(const Json config, read_config(path));
  PLE_TRY_ASSIGN(const FamilyReader* reader, choose_reader(config, path));
  PLE_TRY_ASSIGN(ModelSpec model, reader->parse(config, path));

  PLE_TRY(find_token_map(directory, model));
  PLE_TRY_ASSIGN(const TensorFiles files, TensorFiles::open(directory));
  model.files = files.files();
  for (LayerSpec& layer : model.layers) PLE_TRY(reader->bind(files, layer));
  PLE_TRY(finish_model(model));
  return model;
}

}  // namespace ple
