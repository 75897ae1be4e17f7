#include "options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <vector>

#include "command.hpp"
#include "names.hpp"

namespace pleiades::cli {
namespace {

// NAME WORD, where WORD is one of the names.
template <class Enum, std::size_t kCount>
void add_choice(CLI::App& command, const std::string& name, Enum& target,
                const Names<Enum, kCount>& names, const std::string& help) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : names) words.push_back(word);
  const std::string choices = fmt::format("{}", fmt::join(words, "|"));
  command
      .add_option_function<std::string>(
          name,
          [&names, &target, name, choices](const std::string& given) {
            for (const auto& [word, value] : names) {
              if (word == given) {
                target = value;
                return;
              }
            }
            refuse("{}: '{}' is none of {}", name, given, choices);
          },
          help)
      ->type_name(choices);
}

std::uint64_t parse_bytes(const std::string& name, const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  constexpr std::string_view kPrefixes = "KMGT";
  std::uint64_t factor = 1;
  bool is_known = unit.empty();
  if (!is_known && kPrefixes.find(unit.front()) != std::string_view::npos) {
    const std::string_view suffix = unit.substr(1);
    const std::uint64_t base = suffix == "B" ? 1000 : 1024;
    is_known = suffix.empty() || suffix == "B" || suffix == "iB";
    for (std::size_t i = 0; i <= kPrefixes.find(unit.front()); ++i) factor *= base;
  }
  if (failure != std::errc{} || !is_known ||
      number > std::numeric_limits<std::uint64_t>::max() / factor) {
    refuse("{}: '{}' is not a number of bytes, such as 1048576, 64MiB or 2GB", name, text);
  }
  return number * factor;
}

}  // namespace

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "One JSON object on standard output");
}

void add_bytes(CLI::App& command, const std::string& name, std::uint64_t& bytes,
               const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&bytes, name](const std::string& text) { bytes = parse_bytes(name, text); }, help)
      ->type_name("BYTES");
}

void add_optional_bytes(CLI::App& command, const std::string& name,
                        std::optional<std::uint64_t>& bytes, const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&bytes, name](const std::string& text) { bytes = parse_bytes(name, text); }, help)
      ->type_name("BYTES");
}

void add_layer(CLI::App& command, std::optional<std::int32_t>& layer) {
  command.add_option("--layer", layer, "0-based decoder layer; the only one when left out")
      ->type_name("L");
}

void add_token_map(CLI::App& command, std::string& file) {
  command
      .add_option("--token-map", file,
                  "Codes of the token ids, little-endian i32, for the Engram families; the "
                  "checkpoint's own when left out")
      ->type_name("FILE");
}

void add_element(CLI::App& command, ple_element& element) {
  add_choice(command, "--element", element, kElementNames, "Type of the highway (f32)");
}

void add_io_options(CLI::App& command, EngineOptions& options) {
  const CLI::Range positive(1, std::numeric_limits<std::int32_t>::max());
  add_choice(command, "--io", options.io, kIoNames, "Reader of the table's files");
  command.add_option("--io-depth", options.io_depth, "Reads in flight per reader")
      ->check(positive)
      ->type_name("N");
  command.add_option("--io-threads", options.io_thread_count, "Readers")
      ->check(positive)
      ->type_name("N");
  command
      .add_option("--read-deadline-ms", options.read_deadline_ms,
                  "A read that takes longer fails its step")
      ->check(positive)
      ->type_name("MS");
}

void add_engine_options(CLI::App& command, EngineOptions& options) {
  const CLI::Range positive(1, std::numeric_limits<std::int32_t>::max());
  command.add_option("--device", options.device, "Where the layer runs: cpu, cuda or cuda:N")
      ->type_name("DEVICE");
  add_choice(command, "--arithmetic", options.arithmetic, kArithmeticNames,
             "float32 sums and tensors, bf16 value rows (mixed), or the roundings of the "
             "reference; auto: float32 on a CPU, mixed on a GPU");
  add_choice(command, "--arena", options.arena, kArenaNames,
             "Rows in memory: a cache, or the whole table; auto: the table when it fits "
             "--cache-bytes");
  add_bytes(command, "--cache-bytes", options.cache_bytes,
            "Memory for rows (1GiB); 0: every row is read for its step");
  add_choice(command, "--slots", options.slot_memory, kSlotMemoryNames,
             "Where a GPU's rows lie: its memory, or host memory it reads in place");
  add_choice(command, "--projection", options.projection, kProjectionNames,
             "Of FP8 weights: activations quantised as the official code does, or weights "
             "dequantised");
  command.add_option("--threads", options.thread_count, "CPU threads that compute (all)")
      ->check(positive)
      ->type_name("N");
  command
      .add_option("--warm-start", options.warm_start,
                  "Read the rows whose ids this file keeps; save the hot ids to it at the end")
      ->type_name("FILE");
  add_io_options(command, options);
}

ple_layer_info choose_layer(const Model& model, const std::string& path,
                            std::optional<std::int32_t> layer) {
  const std::vector<ple_layer_info> layers = model.layers();
  if (!layer && layers.size() == 1) return layers.front();
  std::vector<std::int32_t> indices;
  for (const ple_layer_info& info : layers) {
    if (layer == info.layer_index) return info;
    indices.push_back(info.layer_index);
  }
  if (!layer) {
    refuse("{}: --layer must say which of the memory layers {}", path, fmt::join(indices, ", "));
  }
  refuse("{}: decoder layer {} has no memory; those that have one: {}", path, *layer,
         fmt::join(indices, ", "));
}

}  // namespace pleiades::cli
