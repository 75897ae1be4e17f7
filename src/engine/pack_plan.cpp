#include "engine/pack_plan.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "checkpoint/table_reader.hpp"
#include "engine/pack_journal.hpp"

namespace ple {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kPlanVersion = 1;
constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kTensorsEnding = ".safetensors";
constexpr std::string_view kSumsEnding = ".crc32c";

// What stands before a name below the directory.
std::string name_below(const std::string& directory, const std::string& path) {
  return path.substr(directory.size() + 1);
}

RowFormat wanted_format(PackFormat format, RowFormat old) {
  switch (format) {
    case PackFormat::bf16:
      return RowFormat::bf16;
    case PackFormat::fp8:
      return old == RowFormat::fp8_e4m3 || old == RowFormat::fp8_e4m3_e8m0
                 ? old
                 : RowFormat::fp8_e4m3_row;
    case PackFormat::int8:
      return RowFormat::int8_row;
    case PackFormat::nvfp4:
      return RowFormat::nvfp4;
  }
  return RowFormat::bf16;
}

bool is_interleaved(const TableSpec& table) {
  return has_row_scales(table.encoding.format) && table.part_bytes.size() == 1;
}

// The encoding of a table, without its places.
Result<PackTable> choose_encoding(const LayerSpec& layer, const PackRequest& request) {
  const RowEncoding& old = layer.table.encoding;
  const RowFormat format = wanted_format(request.format, old.format);
  const std::int32_t row_bytes = encoded_row_bytes(format, old.dim);
  if (row_bytes == 0) {
    return error(StatusCode::unsupported,
                 "layer {}: rows of {} elements do not fill the blocks of {}", layer.layer_index,
                 old.dim, row_format_name(format));
  }
  if (request.interleave && !has_row_scales(format)) {
    return error(StatusCode::unsupported,
                 "layer {}: {} rows have no scales of their own to be interleaved; a row is one "
                 "read already",
                 layer.layer_index, row_format_name(format));
  }
  PackTable table;
  table.keeps_codes = format == old.format;
  table.encoding = {.format = format,
                    .dim = old.dim,
                    .row_bytes = row_bytes,
                    .scale = table.keeps_codes ? old.scale : 1.0F};
  return table;
}

// Tensors of the checkpoint by file, in the order of the file.
std::vector<std::vector<TensorInfo>> tensors_by_file(const TensorFiles& files,
                                                     std::size_t file_count) {
  std::vector<std::vector<TensorInfo>> by_file(file_count);
  for (const std::string_view name : files.names("")) {
    const TensorInfo& tensor = *files.find(name);
    by_file[tensor.file_index].push_back(tensor);
  }
  for (auto& tensors : by_file) {
    std::sort(tensors.begin(), tensors.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
  }
  return by_file;
}

class Planner {
 public:
  Planner(const ModelSpec& model, const TensorFiles& files, const PackRequest& request)
      : model_(model), request_(request), tensors_(tensors_by_file(files, model.files.size())) {}

  Status choose_encodings() {
    bool changes = false;
    for (const LayerSpec& layer : model_.layers) {
      PLE_TRY_ASSIGN(PackTable table, choose_encoding(layer, request_));
      changes = changes || !table.keeps_codes || is_interleaved(layer.table) != request_.interleave;
      plan_.tables.push_back(std::move(table));
    }
    if (changes) return {};
    return error(StatusCode::invalid_argument, "'{}' has such rows already: nothing would change",
                 request_.directory);
  }

  // Which tables there are, and the first row of each of their row tensors.
  Status find_tables() {
    std::map<std::pair<std::uint32_t, std::uint64_t>, const TensorInfo*> by_place;
    for (const auto& tensors : tensors_) {
      for (const TensorInfo& tensor : tensors) {
        if (tensor.bytes != 0) by_place[{tensor.file_index, tensor.offset}] = &tensor;
      }
    }
    for (std::size_t layer = 0; layer < model_.layers.size(); ++layer) {
      for (const ShardExtent& shard : model_.layers[layer].table.shards) {
        if (shard.part != 0) continue;
        const auto found = by_place.find({shard.file_index, shard.offset});
        const auto name =
            found == by_place.end() ? std::nullopt : parse_table_tensor(found->second->name);
        if (!name) {
          return error(StatusCode::internal, "layer {}: no tensor begins with row {}",
                       model_.layers[layer].layer_index, shard.row_begin);
        }
        layer_of_[name->table] = layer;
        row_begin_[found->second->name] = shard.row_begin;
      }
    }
    return {};
  }

  void plan_files() {
    for (std::uint32_t f = 0; f < tensors_.size(); ++f) {
      const std::string name = name_below(request_.directory, model_.files[f].path);
      if (std::any_of(tensors_[f].begin(), tensors_[f].end(),
                      [&](const TensorInfo& tensor) { return table_of(tensor) != nullptr; })) {
        plan_file(f, name);
      } else {
        plan_.linked.push_back(name);
        for (const TensorInfo& tensor : tensors_[f]) list(tensor, name);
      }
    }
    for (PackTable& table : plan_.tables) {
      std::stable_sort(table.shards.begin(), table.shards.end(), [](const auto& a, const auto& b) {
        return std::pair(a.part, a.row_begin) < std::pair(b.part, b.row_begin);
      });
    }
  }

  // Files beside those that the checkpoint's tensors are in.
  Status find_other_files() {
    const std::set<std::string> linked(plan_.linked.begin(), plan_.linked.end());
    std::error_code failure;
    fs::directory_iterator place(request_.directory, failure);
    for (; !failure && place != fs::directory_iterator(); place.increment(failure)) {
      const std::string name = place->path().filename().string();
      std::error_code ignored;
      if (name.starts_with('.') || name == kPackJournal || name.ends_with(kIndexEnding) ||
          is_written(name) || linked.contains(name) ||
          !fs::is_regular_file(place->path(), ignored)) {
        continue;
      }
      (name.ends_with(kTensorsEnding) ? plan_.linked : plan_.small_files).push_back(name);
    }
    if (!failure) return {};
    return error(StatusCode::io_error, "cannot list '{}': {}", request_.directory,
                 failure.message());
  }

  Result<PackPlan> finish(bool has_index) {
    if (has_index) plan_.index = tensor_index_text(index_, total_bytes_);
    Digest digest;
    digest.add(kPlanVersion).add(model_.geometry_identity).add(model_.weights_identity);
    digest.add(static_cast<std::int32_t>(request_.format)).add(request_.interleave);
    for (const ModelFile& file : model_.files) {
      std::error_code failure;
      const fs::file_time_type modified = fs::last_write_time(file.path, failure);
      if (failure) {
        return error(StatusCode::io_error, "file '{}': {}", file.path, failure.message());
      }
      digest.add(name_below(request_.directory, file.path)).add(file.bytes);
      digest.add(modified.time_since_epoch().count());
    }
    plan_.identity = digest.value();
    return std::move(plan_);
  }

 private:
  // The table that a tensor belongs to, if it does.
  PackTable* table_of(const TensorInfo& tensor) {
    const auto name = parse_table_tensor(tensor.name);
    if (!name) return nullptr;
    const auto found = layer_of_.find(name->table);
    return found == layer_of_.end() ? nullptr : &plan_.tables[found->second];
  }

  // A file with new tensors in the place of a table's.
  void plan_file(std::uint32_t file_index, const std::string& name) {
    std::vector<TensorInfo> placed;
    std::vector<const TensorInfo*> sources;  // [placed]: null where it is new
    for (const TensorInfo& tensor : tensors_[file_index]) {
      if (table_of(tensor) == nullptr) {
        placed.push_back(tensor);
        sources.push_back(&tensor);
        continue;
      }
      for (TensorInfo& fresh : replacements(tensor)) placed.push_back(std::move(fresh));
      sources.resize(placed.size());
    }
    written_.insert(name);
    if (placed.empty()) return;
    PackFile file{.name = name, .header = place_safetensors(placed)};
    file.bytes = placed.back().offset + placed.back().bytes;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      list(placed[i], name);
      if (sources[i] != nullptr) {
        file.copies.push_back(
            {file_index, sources[i]->offset, placed[i].offset, sources[i]->bytes});
      } else {
        place(placed[i]);
      }
    }
    plan_.files.push_back(std::move(file));
  }

  // What stands in the place of a table's tensor: nothing for scales and for no rows.
  std::vector<TensorInfo> replacements(const TensorInfo& tensor) {
    const auto name = *parse_table_tensor(tensor.name);
    const auto row_begin = row_begin_.find(tensor.name);
    if (!name.holds_rows || row_begin == row_begin_.end()) return {};
    const RowEncoding& encoding = table_of(tensor)->encoding;
    std::vector<TensorInfo> tensors = row_tensors(
        name.stem, encoding, static_cast<std::uint64_t>(tensor.shape[0]), request_.interleave);
    for (std::uint32_t part = 0; part < tensors.size(); ++part) {
      fresh_rows_[tensors[part].name] = {part, row_begin->second};
    }
    if (scaled_tables_.insert(name.table).second) {
      if (auto scale = table_scale_tensor(name.table, encoding.format)) {
        tensors.push_back(std::move(*scale));
      }
    }
    return tensors;
  }

  // Notes where a new tensor, the next file's, went.
  void place(const TensorInfo& tensor) {
    PackTable& table = *table_of(tensor);
    const auto file_index = static_cast<std::uint32_t>(plan_.files.size());
    const auto rows = fresh_rows_.find(tensor.name);
    if (rows == fresh_rows_.end()) {
      table.scales.push_back({file_index, tensor.offset});
      return;
    }
    const auto [part, row_begin] = rows->second;
    const auto row_count = static_cast<std::uint64_t>(tensor.shape[0]);
    table.part_bytes.resize(std::max<std::size_t>(table.part_bytes.size(), part + 1));
    table.part_bytes[part] = static_cast<std::uint32_t>(tensor.bytes / row_count);
    table.shards.push_back({.file_index = file_index,
                            .part = part,
                            .offset = tensor.offset,
                            .row_begin = row_begin,
                            .row_count = row_count});
  }

  void list(const TensorInfo& tensor, const std::string& file_name) {
    index_.file_of.emplace(tensor.name, file_name);
    total_bytes_ += tensor.bytes;
  }

  // Whether a file is one of those written anew, or the checksums of one.
  bool is_written(const std::string& name) const {
    const std::string base =
        name.ends_with(kSumsEnding) ? name.substr(0, name.size() - kSumsEnding.size()) : name;
    return written_.contains(base);
  }

  const ModelSpec& model_;
  const PackRequest& request_;
  const std::vector<std::vector<TensorInfo>> tensors_;                         // by file
  std::map<std::string, std::size_t> layer_of_;                                // by table
  std::map<std::string, std::uint64_t> row_begin_;                             // by old tensor
  std::map<std::string, std::pair<std::uint32_t, std::uint64_t>> fresh_rows_;  // part, first row
  std::set<std::string> scaled_tables_;
  std::set<std::string> written_;
  TensorIndex index_;
  std::uint64_t total_bytes_ = 0;
  PackPlan plan_;
};

}  // namespace

Result<PackPlan> plan_pack(const ModelSpec& model, const TensorFiles& files,
                           const PackRequest& request) {
  Planner planner(model, files, request);
  PLE_TRY(planner.choose_encodings());
  PLE_TRY(planner.find_tables());
  planner.plan_files();
  PLE_TRY(planner.find_other_files());
  return planner.finish(files.has_index());
}

}  // namespace ple
