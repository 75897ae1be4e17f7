#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/input_file.hpp"

namespace ple {
namespace {

constexpr std::uint64_t kSampledRows = 8;
constexpr std::uint64_t kSampledBytes = 4096;  // of a dense tensor

std::vector<TensorSlot> slots_of(LayerSpec& layer) {
  return std::visit([](auto& parts) { return tensor_slots(parts); }, layer.parts);
}

// Bytes [offset, offset + bytes) lie inside the model's file number file_index.
Status check_range(const ModelSpec& model, const std::string& what, std::uint32_t file_index,
                   std::uint64_t offset, std::uint64_t bytes) {
  if (file_index >= model.files.size()) {
    return error(StatusCode::invalid_argument, "{} is in file {}, but the model has {}", what,
                 file_index, model.files.size());
  }
  const ModelFile& file = model.files[file_index];
  if (offset > file.bytes || bytes > file.bytes - offset) {
    return error(StatusCode::corrupt, "{}: {} bytes at {} lie beyond '{}', which has {}", what,
                 bytes, offset, file.path, file.bytes);
  }
  return {};
}

Status check_tensor(const ModelSpec& model, const TensorSlot& slot) {
  TensorRef& tensor = *slot.tensor;
  if (tensor.name.empty()) tensor.name = slot.suffix;
  if (!tensor.is_present()) {
    return error(StatusCode::invalid_argument, "tensor '{}' is missing", tensor.name);
  }
  std::uint64_t bytes = dtype_bits(slot.dtype) / 8;
  for (const std::int64_t extent : slot.shape) bytes *= static_cast<std::uint64_t>(extent);
  if (tensor.dtype != slot.dtype || tensor.shape != slot.shape || tensor.bytes != bytes) {
    return error(StatusCode::corrupt, "tensor '{}' is {} [{}], expected {} [{}]", tensor.name,
                 dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "), dtype_name(slot.dtype),
                 fmt::join(slot.shape, ", "));
  }
  if (tensor.data != nullptr) return {};
  return check_range(model, fmt::format("tensor '{}'", tensor.name), tensor.file_index,
                     tensor.offset, tensor.bytes);
}

// The extents are in order, and each part covers [0, row_count) without gap or overlap.
Status check_table(const ModelSpec& model, const LayerSpec& layer) {
  const TableSpec& table = layer.table;
  const std::string what = fmt::format("the table of layer {}", layer.layer_index);
  if (table.row_count != layer.hash->row_count()) {
    return error(StatusCode::corrupt, "{} has {} rows, its geometry needs {}", what,
                 table.row_count, layer.hash->row_count());
  }
  std::uint64_t row_bytes = 0;
  for (const std::uint32_t bytes : table.part_bytes) row_bytes += bytes;
  const RowEncoding& encoding = table.encoding;
  const std::int32_t expected = encoded_row_bytes(encoding.format, encoding.dim);
  if (expected == 0 || encoding.row_bytes != expected ||
      row_bytes != static_cast<std::uint64_t>(expected)) {
    return error(StatusCode::invalid_argument,
                 "{}: rows of {} bytes in parts of {}, its encoding of {} elements needs {}", what,
                 encoding.row_bytes, row_bytes, encoding.dim, expected);
  }
  auto shard = table.shards.begin();
  for (std::uint32_t part = 0; part < table.part_bytes.size(); ++part) {
    std::uint64_t row = 0;
    for (; shard != table.shards.end() && shard->part == part; ++shard) {
      if (shard->row_begin != row || shard->row_count == 0 ||
          shard->row_count > table.row_count - row) {
        return error(StatusCode::corrupt, "{}: an extent holds {} rows from {}, after row {} of {}",
                     what, shard->row_count, shard->row_begin, row, table.row_count);
      }
      row += shard->row_count;
      if (shard->data != nullptr) continue;
      PLE_TRY(check_range(model, what, shard->file_index, shard->offset,
                          shard->row_count * table.part_bytes[part]));
    }
    if (row != table.row_count) {
      return error(StatusCode::corrupt, "{}: its extents end at row {} of {}", what, row,
                   table.row_count);
    }
  }
  if (shard == table.shards.end()) return {};
  return error(StatusCode::invalid_argument, "{}: an extent of part {} comes out of order", what,
               shard->part);
}

// Reads the bytes of samples, keeping the file of the last one open.
class Sampler {
 public:
  explicit Sampler(const ModelSpec& model) : model_(model) {}

  Status add(Digest& digest, const std::byte* data, std::uint64_t bytes) {
    digest.add(std::span(data, static_cast<std::size_t>(bytes)));
    return {};
  }

  Status add(Digest& digest, std::uint32_t file_index, std::uint64_t offset, std::uint64_t bytes) {
    if (!file_ || file_index_ != file_index) {
      PLE_TRY_ASSIGN(file_, InputFile::open(model_.files[file_index].path));
      file_index_ = file_index;
    }
    buffer_.resize(static_cast<std::size_t>(bytes));
    PLE_TRY(file_->read(offset, buffer_));
    digest.add(std::span<const std::byte>(buffer_));
    return {};
  }

 private:
  const ModelSpec& model_;
  std::optional<InputFile> file_;
  std::uint32_t file_index_ = 0;
  std::vector<std::byte> buffer_;
};

// Rows spread evenly over the table, the first and last among them.
Status sample_table(Sampler& sampler, Digest& digest, const TableSpec& table) {
  digest.add(static_cast<std::int32_t>(table.encoding.format));
  digest.add(std::bit_cast<std::uint32_t>(table.encoding.scale));
  for (const ShardExtent& shard : table.shards) {
    const std::uint64_t row_bytes = table.part_bytes[shard.part];
    for (std::uint64_t i = 0; i < kSampledRows; ++i) {
      const std::uint64_t row = i * (table.row_count - 1) / (kSampledRows - 1);
      if (row < shard.row_begin || row - shard.row_begin >= shard.row_count) continue;
      const std::uint64_t offset = (row - shard.row_begin) * row_bytes;
      PLE_TRY(shard.data != nullptr
                  ? sampler.add(digest, shard.data + offset, row_bytes)
                  : sampler.add(digest, shard.file_index, shard.offset + offset, row_bytes));
    }
  }
  return {};
}

Status set_weights_identity(ModelSpec& model) {
  Sampler sampler(model);
  Digest weights;
  for (LayerSpec& layer : model.layers) {
    for (const TensorSlot& slot : slots_of(layer)) {
      const TensorRef& tensor = *slot.tensor;
      const std::uint64_t bytes = std::min(tensor.bytes, kSampledBytes);
      PLE_TRY(tensor.data != nullptr
                  ? sampler.add(weights, tensor.data, bytes)
                  : sampler.add(weights, tensor.file_index, tensor.offset, bytes));
    }
    PLE_TRY(sample_table(sampler, weights, layer.table));
  }
  model.weights_identity = weights.value();
  return {};
}

}  // namespace

Status finish_model(ModelSpec& model) {
  for (ModelFile& file : model.files) {
    if (file.bytes != 0) continue;
    PLE_TRY_ASSIGN(const InputFile opened, InputFile::open(file.path));
    file.bytes = opened.bytes();
  }
  for (LayerSpec& layer : model.layers) {
    for (const TensorSlot& slot : slots_of(layer)) PLE_TRY(check_tensor(model, slot));
    PLE_TRY(check_table(model, layer));
  }
  set_geometry_identity(model);
  return set_weights_identity(model);
}

void set_geometry_identity(ModelSpec& model) {
  Digest geometry;
  geometry.add(static_cast<std::int32_t>(model.family)).add(model.vocab_size);
  for (LayerSpec& layer : model.layers) {
    geometry.add(layer.layer_index).add(layer.hash->identity());
    std::visit([&geometry](const auto& parts) { add_constants(geometry, parts); }, layer.parts);
    for (const TensorSlot& slot : slots_of(layer)) geometry.add_all<std::int64_t>(slot.shape);
  }
  model.geometry_identity = geometry.value();
}

std::vector<TensorRef> dense_tensors(const LayerSpec& layer) {
  LayerSpec copy = layer;
  std::vector<TensorRef> tensors;
  for (const TensorSlot& slot : slots_of(copy)) tensors.push_back(*slot.tensor);
  return tensors;
}

Result<const LayerSpec*> find_layer(const ModelSpec& model, std::int32_t layer_index) {
  std::vector<std::int32_t> known;
  for (const LayerSpec& layer : model.layers) {
    if (layer.layer_index == layer_index) return &layer;
    known.push_back(layer.layer_index);
  }
  return error(StatusCode::invalid_argument, "layer {} has no n-gram memory; layers with one: {}",
               layer_index, fmt::join(known, ", "));
}

}  // namespace ple
