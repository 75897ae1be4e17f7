#include "bench/timed_layer.hpp"

#include <cstring>

#include "counter.hpp"
#include "synth/noise.hpp"

namespace pleiades::cli {
namespace {

constexpr std::uint64_t kTextStream = 100;
constexpr std::uint64_t kInputStream = 101;

std::size_t element_bytes(ple_element element) { return element == PLE_F32 ? 4 : 2; }

Products products_of(ple_family family, const ple_layer_info& info) {
  const std::int64_t embedding = std::int64_t{info.column_count} * info.row_dim;
  switch (family) {
    case PLE_FAMILY_LONGCAT:
      return {embedding, info.hidden, 0};
    case PLE_FAMILY_GEMMA:
      return {info.input_elements, info.output_elements, 0};
    default:
      return {embedding, std::int64_t{info.stream_count} * info.hidden, info.hidden};
  }
}

}  // namespace

TimedLayer::TimedLayer(const Model& model, const ple_layer_info& info)
    : model_(model),
      info_(info),
      vocab_size_(model.info().vocab_size),
      products_(products_of(model.info().family, info)) {
  const double bytes_of_weight = model.info().family == PLE_FAMILY_ENGRAM_V41 ? 1 : 2;
  weight_bytes_ = bytes_of_weight * flops(1) / 2;
}

std::vector<std::int32_t> TimedLayer::tokens(std::int64_t begin, std::int32_t count) const {
  std::vector<std::int32_t> text(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t word = counter_word(kTextStream, static_cast<std::uint64_t>(begin) + i);
    text[i] = static_cast<std::int32_t>(word % static_cast<std::uint64_t>(vocab_size_));
  }
  return text;
}

std::vector<std::byte> TimedLayer::input(ple_element element, std::int64_t begin,
                                         std::int32_t count) const {
  std::vector<std::byte> bytes(input_bytes(element, count));
  const std::size_t each = element_bytes(element);
  const auto first = static_cast<std::uint64_t>(begin * info_.input_elements);
  for (std::size_t i = 0; i < bytes.size() / each; ++i) {
    const float value = unit_noise(counter_word(kInputStream, first + i));
    const std::uint16_t rounded = to_bf16(value);
    std::memcpy(bytes.data() + i * each,
                element == PLE_F32 ? static_cast<const void*>(&value) : &rounded, each);
  }
  return bytes;
}

std::size_t TimedLayer::input_bytes(ple_element element, std::int32_t count) const {
  return static_cast<std::size_t>(count * info_.input_elements) * element_bytes(element);
}

std::size_t TimedLayer::output_bytes(ple_element element, std::int32_t count) const {
  return static_cast<std::size_t>(count * info_.output_elements) * element_bytes(element);
}

double TimedLayer::flops(std::int32_t token_count) const {
  return 2.0 * token_count * static_cast<double>(products_.inner) *
         static_cast<double>(products_.key_columns + products_.value_columns);
}

}  // namespace pleiades::cli
