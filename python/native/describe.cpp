#include "describe.hpp"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "names.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

template <class Value>
Value get(nb::handle object, const char* name) {
  return nb::cast<Value>(object.attr(name));
}

// Of an encoded row in memory; 0 for a geometry that is refused.
std::uint64_t row_bytes_of(const ple_model_desc& model, ple_row_format format) {
  const std::int64_t columns = (std::int64_t{model.ngram_size} - 1) * model.heads_per_ngram;
  if (columns < 1 || model.embed_dim < 0) return 0;
  return static_cast<std::uint64_t>(model.embed_dim / columns) * (format == PLE_ROW_BF16 ? 2 : 1);
}

// The C description of the layers and what it points into.
class LayerDescriptions {
 public:
  LayerDescriptions(const ple_model_desc& model, nb::handle layers) : model_(model) {
    for (const nb::handle layer : layers) add(layer);
  }

  const std::vector<ple_layer_desc>& layers() const { return layers_; }
  // What the model reads in place later.
  nb::object lent() const { return lent_; }

 private:
  void add(nb::handle from) {
    ple_layer_desc layer{};
    layer.struct_bytes = sizeof(layer);
    layer.layer_index = get<std::int32_t>(from, "layer_index");
    layer.row_format =
        value_of(kRowFormatNames, "row_format", get<std::string>(from, "row_format"));
    layer.row_scale = get<float>(from, "row_scale");
    std::vector<ple_shard_desc>& shards =
        *shards_.emplace_back(std::make_unique<std::vector<ple_shard_desc>>());
    const std::uint64_t row_bytes = row_bytes_of(model_, layer.row_format);
    for (const nb::handle shard : from.attr("shards")) {
      shards.push_back(shard_of(shard, row_bytes));
    }
    layer.shards = shards.data();
    layer.shard_count = static_cast<std::int32_t>(shards.size());
    const std::int64_t channels = std::int64_t{model_.stream_count} * model_.hidden;
    layer.key = weights(from, "key", channels * model_.embed_dim);
    layer.value = weights(from, "value", std::int64_t{model_.hidden} * model_.embed_dim);
    layer.norm_key = weights(from, "norm_key", channels);
    layer.norm_query = weights(from, "norm_query", channels);
    layer.norm_conv = weights(from, "norm_conv", channels);
    layer.conv = weights(from, "conv", channels * model_.tap_count);
    layers_.push_back(layer);
  }

  ple_shard_desc shard_of(nb::handle from, std::uint64_t row_bytes) {
    ple_shard_desc shard{};
    shard.offset = get<std::uint64_t>(from, "offset");
    shard.row_begin = get<std::uint64_t>(from, "row_begin");
    shard.row_count = get<std::uint64_t>(from, "row_count");
    const nb::object data = from.attr("data");
    if (data.is_none()) {
      files_.push_back(std::make_unique<std::string>(path_text(from.attr("file"))));
      shard.file = files_.back()->c_str();
    } else {
      const auto bytes = nb::cast<HostArray<std::uint8_t>>(data);
      if (shard.offset > bytes.size() ||
          (row_bytes != 0 && shard.row_count > (bytes.size() - shard.offset) / row_bytes)) {
        throw Error(PLE_INVALID_ARGUMENT,
                    "data of a shard has " + std::to_string(bytes.size()) + " bytes, too few for " +
                        std::to_string(shard.row_count) + " rows of " + std::to_string(row_bytes) +
                        " bytes from byte " + std::to_string(shard.offset) + " on");
      }
      lent_.append(nb::cast(bytes));
      shard.data = bytes.data();
    }
    return shard;
  }

  // bfloat16 bits, checked for their number.
  const std::uint16_t* weights(nb::handle from, const char* name, std::int64_t element_count) {
    const nb::object object = from.attr(name);
    const Activations array = to_activations(object, name, ArrayView::Access::read);
    if (array.element != PLE_BF16 || array.element_count != element_count ||
        array.view.device_name() != "cpu") {
      throw Error(PLE_INVALID_ARGUMENT,
                  std::string(name) + " must be bfloat16 of " + std::to_string(element_count) +
                      " elements in host memory, but has " + std::to_string(array.element_count));
    }
    lent_.append(object);
    return static_cast<const std::uint16_t*>(array.data);
  }

  const ple_model_desc& model_;
  std::vector<ple_layer_desc> layers_;
  std::vector<std::unique_ptr<std::vector<ple_shard_desc>>> shards_;
  std::vector<std::unique_ptr<std::string>> files_;
  nb::list lent_;
};

}  // namespace

PyModel* describe_model(nb::handle geometry, nb::sequence layers) {
  ple_model_desc desc{};
  desc.struct_bytes = sizeof(desc);
  desc.vocab_size = get<std::int32_t>(geometry, "vocab_size");
  desc.eos_token_id = get<std::int32_t>(geometry, "eos_token_id");
  desc.hidden = get<std::int32_t>(geometry, "hidden");
  desc.stream_count = get<std::int32_t>(geometry, "stream_count");
  desc.embed_dim = get<std::int32_t>(geometry, "embed_dim");
  desc.ngram_size = get<std::int32_t>(geometry, "ngram_size");
  desc.heads_per_ngram = get<std::int32_t>(geometry, "heads_per_ngram");
  desc.tap_count = get<std::int32_t>(geometry, "tap_count");
  desc.ngram_vocab_size_base = get<std::int64_t>(geometry, "ngram_vocab_size_base");
  desc.row_count_divisor = get<std::int32_t>(geometry, "row_count_divisor");
  desc.seed = get<std::int64_t>(geometry, "seed");
  desc.eps = get<float>(geometry, "eps");
  const LayerDescriptions descriptions(desc, layers);
  desc.layers = descriptions.layers().data();
  desc.layer_count = static_cast<std::int32_t>(descriptions.layers().size());
  auto model = std::make_unique<PyModel>(Model::describe(desc));
  model->lent = descriptions.lent();
  return model.release();
}

}  // namespace pleiades::python
