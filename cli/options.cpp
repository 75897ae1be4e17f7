#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <utility>

#include "command.hpp"
#include "names.hpp"

namespace pleiades::cli {
namespace {

void print_warning(void*, ple_log_level level, const char* line) {
  if (level >= PLE_LOG_WARNING) fmt::print(stderr, "pleiades: warning: {}\n", line);
}

CLI::Option* add(CLI::App& command, const std::string& name,
                 const std::function<void(const std::string&)>& set, const std::string& value,
                 const std::string& help) {
  return command.add_option_function<std::string>(name, set, help)->type_name(value);
}

// An empty text is what a shell makes of a variable that is not set: never what was meant.
CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& target,
                      const std::string& value, const std::string& help) {
  const auto set = [name, &target](const std::string& given) {
    if (given.empty()) refuse("{} is empty", name);
    target = given;
  };
  return add(command, name, set, value, help);
}

// The whole of text as a number, if it is one.
template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

std::int64_t parse_number(const std::string& name, std::string_view text, std::int64_t least,
                          std::int64_t most) {
  const std::optional<std::int64_t> number = parse<std::int64_t>(text);
  if (!number || *number < least || *number > most) {
    refuse("{}: '{}' is not a whole number from {} to {}", name, text, least, most);
  }
  return *number;
}

std::uint64_t parse_bytes(const std::string& name, const std::string& text) {
  constexpr std::string_view kPrefixes = "KMGT";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = std::string_view(text).substr(digits);
  const std::size_t prefix = unit.empty() ? kPrefixes.npos : kPrefixes.find(unit.front());
  std::uint64_t factor = 1;
  if (prefix != kPrefixes.npos) {
    for (std::size_t i = 0; i <= prefix; ++i) factor *= unit.substr(1) == "B" ? 1000 : 1024;
  }
  const bool is_unit =
      unit.empty() || (prefix != kPrefixes.npos &&
                       (unit.size() == 1 || unit.substr(1) == "B" || unit.substr(1) == "iB"));
  const auto number = parse<std::uint64_t>(std::string_view(text).substr(0, digits));
  if (!number || !is_unit || *number > std::numeric_limits<std::uint64_t>::max() / factor) {
    refuse("{}: '{}' is not a number of bytes, such as 1048576, 64MiB or 2GB", name, text);
  }
  return *number * factor;
}

// An option whose words are names of an enumeration's values.
template <class Enum, std::size_t kCount>
void add_enum(Options& options, const std::string& name, Enum& target,
              const Names<Enum, kCount>& names, const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, value] : names) words.emplace_back(word);
  options.choice(
      name, words,
      [&names, &target](const std::string& given) {
        for (const auto& [word, value] : names) {
          if (word == given) target = value;
        }
      },
      help);
}

}  // namespace

void Options::examples(const char* text) { command_.footer(text); }

void Options::positional(const std::string& name, std::string& target, const std::string& help) {
  add_text(command_, name, target, "", help)->required();
}

void Options::flag(const std::string& name, bool& target, const std::string& help) {
  command_.add_flag(name, target, help);
}

void Options::text(const std::string& name, std::string& target, const std::string& value,
                   const std::string& help) {
  add_text(command_, name, target, value, help);
}

void Options::required_text(const std::string& name, std::string& target, const std::string& value,
                            const std::string& help) {
  add_text(command_, name, target, value, help)->required();
}

void Options::numbers(const std::string& name, std::vector<std::int32_t>& target,
                      std::int64_t least, std::int64_t most, const std::string& value,
                      const std::string& help) {
  const auto set = [&target, name, least, most](const std::string& text) {
    target.clear();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string_view word = std::string_view(text).substr(begin, end - begin);
      target.push_back(static_cast<std::int32_t>(parse_number(name, word, least, most)));
      begin = end + 1;
    }
  };
  add(command_, name, set, value, help);
}

void Options::choice(const std::string& name, const std::vector<std::string>& words,
                     const std::function<void(const std::string&)>& set, const std::string& help) {
  const std::string choices = fmt::format("{}", fmt::join(words, "|"));
  const auto checked = [name, words, choices, set](const std::string& given) {
    if (std::find(words.begin(), words.end(), given) == words.end()) {
      refuse("{}: '{}' is none of {}", name, given, choices);
    }
    set(given);
  };
  add(command_, name, checked, choices, help);
}

void Options::add_number(const std::string& name, const std::function<void(std::int64_t)>& set,
                         std::int64_t least, std::int64_t most, const std::string& value,
                         const std::string& help) {
  add(
      command_, name, [=](const std::string& text) { set(parse_number(name, text, least, most)); },
      value, help);
}

void Options::add_real(const std::string& name, const std::function<void(double)>& set,
                       double least, double most, const std::string& value,
                       const std::string& help) {
  const auto checked = [=](const std::string& text) {
    const std::optional<double> number = parse<double>(text);
    if (!number || !(*number >= least && *number <= most)) {
      refuse("{}: '{}' is not a number from {} to {}", name, text, least, most);
    }
    set(*number);
  };
  add(command_, name, checked, value, help);
}

void Options::add_bytes(const std::string& name, const std::function<void(std::uint64_t)>& set,
                        const std::string& help) {
  add(
      command_, name, [=](const std::string& text) { set(parse_bytes(name, text)); }, "BYTES",
      help);
}

void Options::json(bool& target) { flag("--json", target, "One JSON object on standard output"); }

void Options::layer(std::optional<std::int32_t>& target) {
  number("--layer", target, 0, kInt32Max, "L", "0-based decoder layer; the only one when left out");
}

void Options::token_map(std::string& file) {
  text("--token-map", file, "FILE",
       "Codes of the token ids, little-endian i32, for the Engram families; the checkpoint's own "
       "when left out");
}

void Options::element(ple_element& target) {
  add_enum(*this, "--element", target, kElementNames, "Type of the highway (f32)");
}

void Options::io(EngineOptions& target) {
  add_enum(*this, "--io", target.io, kIoNames, "Reader of the table's files");
  number("--io-depth", target.io_depth, 1, 4096, "N", "Reads in flight per reader");
  number("--io-threads", target.io_thread_count, 1, 256, "N", "Readers");
  number("--read-deadline-ms", target.read_deadline_ms, 1, kInt32Max, "MS",
         "A read that takes longer fails its step");
}

void Options::engine(EngineOptions& target) {
  text("--device", target.device, "DEVICE", "Where the layer runs: cpu, cuda or cuda:N");
  add_enum(*this, "--arithmetic", target.arithmetic, kArithmeticNames,
           "float32 sums and tensors, bf16 value rows (mixed), or the roundings of the reference; "
           "auto: float32 on a CPU, mixed on a GPU");
  add_enum(*this, "--arena", target.arena, kArenaNames,
           "Rows in memory: a cache, or the whole table; auto: the table when it fits "
           "--cache-bytes");
  bytes("--cache-bytes", target.cache_bytes,
        "Memory for rows (1GiB); 0: every row is read for its step");
  add_enum(*this, "--slots", target.slot_memory, kSlotMemoryNames,
           "Where a GPU's rows lie: its memory, or host memory it reads in place");
  add_enum(*this, "--projection", target.projection, kProjectionNames,
           "Of FP8 weights: activations quantised as the official code does, or weights "
           "dequantised");
  number("--threads", target.thread_count, 1, 4096, "N", "CPU threads that compute (all)");
  text("--warm-start", target.warm_start, "FILE",
       "Read the rows whose ids this file keeps; save the hot ids to it at the end");
  target.log = print_warning;
  io(target);
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
