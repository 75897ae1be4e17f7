#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "counter.hpp"
#include "json_text.hpp"
#include "layer_stream.hpp"
#include "names.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "tensor_file.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades compare /data/demo case.safetensors --layer 1
  pleiades compare /data/demo case.safetensors --layer 1 --arithmetic reference --chunk 7

CASE holds input_ids [B, T], layer{L}.hidden_in [B, T, ...] and layer{L}.out [B, T, ...]: what the
family's reference module is given and returns. Every row of the batch runs as a sequence of its
own. rel is ||ours - theirs|| / ||theirs||; exit status 1 when it is above the tolerance.)";

struct Arguments {
  std::string path;
  std::string case_file;
  std::optional<std::int32_t> layer;
  std::string ids_name = "input_ids";
  std::string input_name;   // empty: layer{L}.hidden_in
  std::string output_name;  // empty: layer{L}.out
  std::string mask_name;
  std::string token_map_name;
  std::optional<double> tolerance;
  std::optional<std::int64_t> chunk;
  EngineOptions engine;
  bool json = false;
};

// The tensors of a case, checked against each other and the layer.
struct Case {
  TensorFile file;
  std::uint64_t batch = 0;
  std::uint64_t length = 0;
  std::vector<std::vector<std::int32_t>> sequences;  // [batch][length], -1 where masked
  const TensorFile::Tensor* input = nullptr;         // [batch, length, input_elements], or none
  const TensorFile::Tensor* output = nullptr;        // [batch, length, output_elements]
};

// A tensor whose first two sizes are the case's and whose others make token_elements.
const TensorFile::Tensor& find_shaped(const Case& loaded, const std::string& name,
                                      std::int64_t token_elements) {
  const TensorFile::Tensor& tensor = loaded.file.find(name);
  const bool is_led = tensor.shape.size() >= 2 && tensor.shape[0] == loaded.batch &&
                      tensor.shape[1] == loaded.length;
  if (!is_led || tensor.element_count !=
                     loaded.batch * loaded.length * static_cast<std::uint64_t>(token_elements)) {
    refuse("{}: tensor '{}' is [{}], where [{}, {}] and {} elements a token were expected",
           loaded.file.path(), name, fmt::join(tensor.shape, ", "), loaded.batch, loaded.length,
           token_elements);
  }
  return tensor;
}

void read_sequences(const Arguments& arguments, std::int32_t vocab_size, Case& loaded) {
  const TensorFile::Tensor& ids = loaded.file.find(arguments.ids_name);
  if (ids.shape.size() != 2 || ids.element_count == 0) {
    refuse("{}: tensor '{}' is [{}], where [B, T] was expected", loaded.file.path(), ids.name,
           fmt::join(ids.shape, ", "));
  }
  loaded.batch = ids.shape[0];
  loaded.length = ids.shape[1];
  const std::vector<std::int64_t> tokens = loaded.file.read_integers(ids, 0, ids.element_count);
  std::vector<std::int64_t> mask(tokens.size(), 1);
  if (!arguments.mask_name.empty()) {
    const TensorFile::Tensor& tensor = find_shaped(loaded, arguments.mask_name, 1);
    mask = loaded.file.read_integers(tensor, 0, tensor.element_count);
  }
  for (std::uint64_t b = 0; b < loaded.batch; ++b) {
    std::vector<std::int32_t>& sequence = loaded.sequences.emplace_back();
    for (std::uint64_t t = 0; t < loaded.length; ++t) {
      const std::size_t i = b * loaded.length + t;
      if (tokens[i] < -1 || tokens[i] >= vocab_size) {
        refuse("{}: tensor '{}' has {} at [{}, {}], outside the vocabulary [0, {})",
               loaded.file.path(), ids.name, tokens[i], b, t, vocab_size);
      }
      sequence.push_back(mask[i] == 0 ? -1 : static_cast<std::int32_t>(tokens[i]));
    }
  }
}

Case load_case(const Arguments& arguments, const Model& model, const ple_layer_info& layer,
               TensorFile file) {
  Case loaded{.file = std::move(file), .sequences = {}};
  read_sequences(arguments, model.info().vocab_size, loaded);
  const auto named = [&](const std::string& name, const char* standard) {
    return name.empty() ? fmt::format("layer{}.{}", layer.layer_index, standard) : name;
  };
  loaded.output = &find_shaped(loaded, named(arguments.output_name, "out"), layer.output_elements);
  if (layer.input_elements > 0) {
    loaded.input =
        &find_shaped(loaded, named(arguments.input_name, "hidden_in"), layer.input_elements);
  }
  return loaded;
}

// How far ours is from theirs.
struct Difference {
  double error_squares = 0;
  double their_squares = 0;
  double max_abs = 0;
  std::uint64_t elements = 0;
  std::uint64_t equal_elements = 0;

  void add(double ours, double theirs) {
    const double error = ours - theirs;
    error_squares += error * error;
    their_squares += theirs * theirs;
    // Also takes NaN, which then stays.
    if (!(std::abs(error) <= max_abs)) max_abs = std::abs(error);
    elements += 1;
    equal_elements += ours == theirs ? 1 : 0;
  }
  double rel() const { return error_squares == 0 ? 0 : std::sqrt(error_squares / their_squares); }
  double equal_share() const {
    return static_cast<double>(equal_elements) / static_cast<double>(elements);
  }
};

// The elements of one sequence's part of a step in a tensor of the case.
struct Slice {
  std::uint64_t begin;
  std::uint64_t count;
};

Slice slice_of(const Case& loaded, std::uint64_t sequence, std::int64_t position,
               std::int64_t token_count, std::int64_t token_elements) {
  const auto elements = static_cast<std::uint64_t>(token_elements);
  return {(sequence * loaded.length + static_cast<std::uint64_t>(position)) * elements,
          static_cast<std::uint64_t>(token_count) * elements};
}

Difference measure(Engine& engine, const ple_layer_info& layer, const Case& loaded,
                   const LayerStream::Options& options) {
  const bool is_f32 = options.element == PLE_F32;
  Difference difference;
  ProgressBar bar("comparing", ProgressBar::Unit::count);
  LayerStream::Callbacks callbacks;
  callbacks.fill = [&](std::int64_t position, std::int64_t token_count, void* input) {
    std::size_t i = 0;
    for (std::uint64_t b = 0; b < loaded.batch; ++b) {
      const Slice slice = slice_of(loaded, b, position, token_count, layer.input_elements);
      for (const double value : loaded.file.read_reals(*loaded.input, slice.begin, slice.count)) {
        const auto rounded = static_cast<float>(value);
        if (is_f32) {
          static_cast<float*>(input)[i++] = rounded;
        } else {
          static_cast<std::uint16_t*>(input)[i++] = to_bf16(rounded);
        }
      }
    }
  };
  callbacks.drain = [&](std::int64_t position, std::int64_t token_count, const void* output) {
    std::size_t i = 0;
    for (std::uint64_t b = 0; b < loaded.batch; ++b) {
      const Slice slice = slice_of(loaded, b, position, token_count, layer.output_elements);
      for (const double theirs : loaded.file.read_reals(*loaded.output, slice.begin, slice.count)) {
        const float ours = is_f32 ? static_cast<const float*>(output)[i]
                                  : from_bf16(static_cast<const std::uint16_t*>(output)[i]);
        difference.add(ours, theirs);
        ++i;
      }
    }
    bar.update(static_cast<std::uint64_t>(position + token_count), loaded.length);
  };
  LayerStream(engine, layer, options).run(loaded.sequences, callbacks);
  return difference;
}

// How far each arithmetic may be from the reference that it follows.
double usual_tolerance(ple_arithmetic arithmetic) {
  switch (arithmetic) {
    case PLE_ARITHMETIC_MIXED:
      return 2e-3;
    case PLE_ARITHMETIC_REFERENCE:
      return 3e-4;
    default:
      return 1e-5;
  }
}

int report(const Arguments& arguments, const Case& loaded, const Difference& difference,
           ple_arithmetic arithmetic) {
  const double tolerance = arguments.tolerance.value_or(usual_tolerance(arithmetic));
  const bool is_within = difference.rel() <= tolerance;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"rel", difference.rel()},
                                         {"max_abs", difference.max_abs},
                                         {"elements", difference.elements},
                                         {"bit_equal", difference.equal_share()},
                                         {"tolerance", tolerance},
                                         {"ok", is_within},
                                         {"arithmetic", name_of(kArithmeticNames, arithmetic)},
                                         {"sequences", loaded.batch},
                                         {"tokens", loaded.batch * loaded.length}};
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print("rel {:.3e}, max_abs {:.3e} over {} elements ({:.2f} % equal); {} {:.1e}: {}\n",
               difference.rel(), difference.max_abs, count_text(difference.elements),
               100 * difference.equal_share(), is_within ? "within" : "ABOVE", tolerance,
               name_of(kArithmeticNames, arithmetic));
  }
  return is_within ? kOk : kFailed;
}

int compare(Arguments arguments) {
  TensorFile file(arguments.case_file);
  Model model = open_checkpoint(arguments.path);
  if (!arguments.token_map_name.empty()) {
    const TensorFile::Tensor& map = file.find(arguments.token_map_name);
    const std::vector<std::int64_t> codes = file.read_integers(map, 0, map.element_count);
    model.set_token_map(std::vector<std::int32_t>(codes.begin(), codes.end()));
  }
  const ple_layer_info layer = choose_layer(model, arguments.path, arguments.layer);
  const Case loaded = load_case(arguments, model, layer, std::move(file));

  arguments.engine.layers = {layer.layer_index};
  Engine engine = Engine::open(model, arguments.engine);
  const ple_arithmetic arithmetic = engine.info().arithmetic;
  LayerStream::Options options;
  options.element = arithmetic == PLE_ARITHMETIC_REFERENCE ? PLE_BF16 : PLE_F32;
  // DeepSeek's module returns the updated stream, the others what they add.
  options.mode =
      model.info().family == PLE_FAMILY_ENGRAM_V41 ? PLE_OUTPUT_UPDATE : PLE_OUTPUT_DELTA;
  options.chunk = arguments.chunk.value_or(static_cast<std::int64_t>(loaded.length));
  return report(arguments, loaded, measure(engine, layer, loaded, options), arithmetic);
}

}  // namespace

Action make_compare(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint");
  options.positional("CASE", arguments->case_file, "A safetensors file");
  options.layer(arguments->layer);
  options.real("--tolerance", arguments->tolerance, 0, 1e30, "T",
               "Largest rel (float32 1e-5, mixed 2e-3, reference 3e-4)");
  options.number("--chunk", arguments->chunk, 1, 1 << 20, "C",
                 "Tokens of a sequence in one step (all)");
  options.text("--ids-name", arguments->ids_name, "NAME", "Tensor of token ids (input_ids)");
  options.text("--input-name", arguments->input_name, "NAME",
               "Tensor of inputs (layer{L}.hidden_in)");
  options.text("--output-name", arguments->output_name, "NAME",
               "Tensor of expected outputs (layer{L}.out)");
  options.text("--mask-name", arguments->mask_name, "NAME", "Tensor in which 0 marks a dead token");
  options.text("--token-map-name", arguments->token_map_name, "NAME",
               "Tensor of the codes of token ids");
  options.engine(arguments->engine);
  options.json(arguments->json);
  return [arguments] { return compare(*arguments); };
}

}  // namespace pleiades::cli
