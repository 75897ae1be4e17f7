#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>

#include "command.hpp"
#include "file.hpp"
#include "options.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades ids config.json --layer 1 --tokens text.u32
  pleiades ids /data/demo --tokens text.u32 --out rows.u32

Prints {"layer":L,"ids":[[...]]}, a list of row ids for each token; 4294967295 stands for "no row".)";

constexpr std::size_t kBlockTokens = 16384;

struct Arguments {
  std::string path;
  std::optional<std::int32_t> layer;
  std::string tokens;
  std::string token_map;
  std::string out;
  bool json = false;
};

// Calls emit(row ids [n, column_count]) for the tokens block by block. Each block is hashed behind
// the tokens that its ids look back on, whose own ids are dropped.
template <class Emit>
void for_each_block(const Model& model, const ple_layer_info& layer,
                    std::span<const std::int32_t> tokens, Emit emit) {
  const auto lookback = static_cast<std::size_t>(model.info().lookback);
  const auto columns = static_cast<std::size_t>(layer.column_count);
  std::vector<std::uint32_t> ids((kBlockTokens + lookback) * columns);
  for (std::size_t begin = 0; begin < tokens.size(); begin += kBlockTokens) {
    const std::size_t history = std::min(begin, lookback);
    const std::size_t count = std::min(kBlockTokens, tokens.size() - begin);
    model.row_ids(layer.layer_index, tokens.subspan(begin - history, history + count), ids.data());
    emit(std::span<const std::uint32_t>(ids).subspan(history * columns, count * columns));
  }
}

void print_json(const Model& model, const ple_layer_info& layer,
                std::span<const std::int32_t> tokens) {
  const auto columns = static_cast<std::size_t>(layer.column_count);
  fmt::print("{{\"layer\":{},\"ids\":[", layer.layer_index);
  const char* separator = "";
  for_each_block(model, layer, tokens, [&](std::span<const std::uint32_t> ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % columns == 0) fmt::print("{}[", separator);
      fmt::print("{}{}", ids[i], (i + 1) % columns == 0 ? "]" : ",");
      separator = ",";
    }
  });
  fmt::print("]}}\n");
}

void write_binary(const Model& model, const ple_layer_info& layer,
                  std::span<const std::int32_t> tokens, const Arguments& arguments) {
  std::vector<std::uint32_t> all;
  for_each_block(model, layer, tokens, [&](std::span<const std::uint32_t> ids) {
    all.insert(all.end(), ids.begin(), ids.end());
  });
  replace_file(arguments.out, all.data(), all.size() * sizeof all[0]);
  if (arguments.json) {
    fmt::print("{{\"layer\":{},\"tokens\":{},\"columns\":{}}}\n", layer.layer_index, tokens.size(),
               layer.column_count);
  }
}

int ids(const Arguments& arguments) {
  const Model model = open_model(arguments.path, arguments.token_map);
  const ple_layer_info layer = choose_layer(model, arguments.path, arguments.layer);
  const std::vector<std::int32_t> tokens = read_tokens(arguments.tokens, model.info().vocab_size);
  if (arguments.out.empty()) {
    print_json(model, layer, tokens);
  } else {
    write_binary(model, layer, tokens, arguments);
  }
  return kOk;
}

}  // namespace

Action make_ids(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("CONFIG_OR_DIR", arguments->path, "A checkpoint, or a bare config.json");
  options.layer(arguments->layer);
  options.required_text("--tokens", arguments->tokens, "FILE", "Little-endian u32 token ids");
  options.text("--out", arguments->out, "FILE", "Write raw little-endian u32 here instead of JSON");
  options.token_map(arguments->token_map);
  options.json(arguments->json);
  return [arguments] { return ids(*arguments); };
}

}  // namespace pleiades::cli
