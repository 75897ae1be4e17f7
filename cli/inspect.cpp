#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades inspect /data/demo
  pleiades inspect config.json --json
  pleiades inspect /data/demo --cache-bytes 8GiB      what a cache of that size would hold)";

// Cache sizes that are shown when none is asked for, as far as the tables are not whole in them.
constexpr std::array<std::uint64_t, 5> kUsualCaches = {10'000'000, 100'000'000, 1'000'000'000,
                                                       10'000'000'000, 100'000'000'000};

struct Arguments {
  std::string path;
  std::optional<std::uint64_t> cache_bytes;
  bool json = false;
};

struct Holding {
  std::uint64_t cache_bytes;
  std::uint64_t rows;
  double share;
};

// What caches hold of all tables together.
std::vector<Holding> holdings(const std::vector<ple_layer_info>& layers,
                              const Arguments& arguments) {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  for (const ple_layer_info& layer : layers) {
    rows += layer.row_count;
    bytes += layer.row_count * static_cast<std::uint64_t>(layer.row_bytes);
  }
  std::vector<Holding> held;
  for (const std::uint64_t usual : kUsualCaches) {
    const std::uint64_t cache_bytes = arguments.cache_bytes.value_or(usual);
    const double share =
        bytes == 0 ? 0
                   : std::min(1.0, static_cast<double>(cache_bytes) / static_cast<double>(bytes));
    held.push_back(
        {cache_bytes, static_cast<std::uint64_t>(share * static_cast<double>(rows)), share});
    if (arguments.cache_bytes || share == 1) break;
  }
  return held;
}

std::vector<std::int64_t> list(const std::int64_t* values, std::int32_t count) {
  return count == 0 ? std::vector<std::int64_t>()
                    : std::vector<std::int64_t>(values, values + count);
}

nlohmann::ordered_json layer_json(const Model& model, const ple_layer_info& layer) {
  const ple_hash_constants constants = model.constants(layer.layer_index);
  nlohmann::ordered_json json = {
      {"layer", layer.layer_index},
      {"columns", layer.column_count},
      {"row_dim", layer.row_dim},
      {"row_format", name_of(kRowFormatNames, layer.row_format)},
      {"row_bytes", layer.row_bytes},
      {"rows", layer.row_count},
      {"table_bytes", layer.table_bytes},
      {"hidden", layer.hidden},
      {"streams", layer.stream_count},
      {"window", layer.window},
      {"multipliers", list(constants.multipliers, constants.multiplier_count)},
      {"column_sizes", list(constants.column_sizes, constants.column_count)},
      {"column_offsets", list(constants.column_offsets, constants.column_count)},
      {"shards", nlohmann::ordered_json::array()}};
  for (const ple_shard_info& shard : model.shards(layer)) {
    json["shards"].push_back({{"file", shard.file == nullptr ? "" : shard.file},
                              {"offset", shard.offset},
                              {"part", shard.part},
                              {"row_begin", shard.row_begin},
                              {"rows", shard.row_count}});
  }
  return json;
}

void print_json(const Model& model, const Arguments& arguments) {
  const ple_model_info info = model.info();
  const std::vector<ple_layer_info> layers = model.layers();
  nlohmann::ordered_json json = {{"family", name_of(kFamilyNames, info.family)},
                                 {"vocab_size", info.vocab_size},
                                 {"lookback", info.lookback},
                                 {"has_tensors", info.has_tensors != 0},
                                 {"table_bytes", info.table_bytes},
                                 {"dense_bytes", info.dense_bytes},
                                 {"identity", fmt::format("{:016x}", info.identity)},
                                 {"layers", nlohmann::ordered_json::array()},
                                 {"caches", nlohmann::ordered_json::array()}};
  for (const ple_layer_info& layer : layers) json["layers"].push_back(layer_json(model, layer));
  for (const Holding& held : holdings(layers, arguments)) {
    json["caches"].push_back(
        {{"cache_bytes", held.cache_bytes}, {"rows", held.rows}, {"share", held.share}});
  }
  fmt::print("{}\n", json_text(json));
}

void print_layer(const Model& model, const ple_layer_info& layer) {
  fmt::print("\nlayer {}\n", layer.layer_index);
  fmt::print("  rows       {} of {} {} elements, {} B each: {}\n", count_text(layer.row_count),
             layer.row_dim, name_of(kRowFormatNames, layer.row_format), layer.row_bytes,
             bytes_text(layer.table_bytes));
  fmt::print("  a token    {} rows, {} B\n", layer.column_count,
             layer.column_count * layer.row_bytes);
  fmt::print("  highway    {} x {}\n", std::max(layer.stream_count, 1), layer.hidden);
  const ple_hash_constants constants = model.constants(layer.layer_index);
  if (constants.multiplier_count > 0) {
    fmt::print("  multiply   {}\n",
               fmt::join(list(constants.multipliers, constants.multiplier_count), ", "));
  }
  if (constants.column_count > 0) {
    const auto sizes = list(constants.column_sizes, constants.column_count);
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    fmt::print("  columns    {} of {} to {} rows\n", sizes.size(),
               count_text(static_cast<std::uint64_t>(*least)),
               count_text(static_cast<std::uint64_t>(*most)));
  }
  std::set<std::string> files;
  for (const ple_shard_info& shard : model.shards(layer)) {
    if (shard.file != nullptr) files.insert(shard.file);
  }
  if (!files.empty()) fmt::print("  shards     {} in {} files\n", layer.shard_count, files.size());
}

void print_text(const Model& model, const Arguments& arguments) {
  const ple_model_info info = model.info();
  const std::vector<ple_layer_info> layers = model.layers();
  fmt::print("{}: {}, {} tokens in the vocabulary{}\n", arguments.path,
             name_of(kFamilyNames, info.family),
             count_text(static_cast<std::uint64_t>(info.vocab_size)),
             info.has_tensors != 0 ? "" : " (a config alone: no tables)");
  fmt::print("  tables     {} in {} layers\n", bytes_text(info.table_bytes), layers.size());
  if (info.has_tensors != 0) fmt::print("  weights    {}\n", bytes_text(info.dense_bytes));
  for (const ple_layer_info& layer : layers) print_layer(model, layer);
  fmt::print("\n");
  for (const Holding& held : holdings(layers, arguments)) {
    fmt::print("a cache of {} holds {:.1f} % of the rows\n", bytes_text(held.cache_bytes),
               100 * held.share);
  }
}

}  // namespace

Action make_inspect(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint, or a bare config.json");
  options.bytes("--cache-bytes", arguments->cache_bytes,
                "Show what a cache of this size would hold");
  options.json(arguments->json);
  return [arguments] {
    const Model model = Model::open(arguments->path);
    arguments->json ? print_json(model, *arguments) : print_text(model, *arguments);
    return kOk;
  };
}

}  // namespace pleiades::cli
