#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/ceilings.hpp"
#include "bench/gpu_steps.hpp"
#include "bench/random_layer.hpp"
#include "bench/timed_layer.hpp"
#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades bench layer
  pleiades bench layer --tokens 1,512 --threads 8 --json
  pleiades synth /data/lite --preset longcat-lite && pleiades bench layer --model /data/lite

The PLE layer of the released width with random weights, or a layer of a checkpoint, every row in
memory: whole steps (stage, run, commit), next to what the machine can do: the read bandwidth of all
threads, and the layer's matrix products alone by a matrix library. On a GPU (--device cuda) by
captured graphs. The results are checked before they are timed.)";

using Clock = std::chrono::steady_clock;

// The layer and its ceilings take turns, so that whatever else the machine does hits all of them.
constexpr int kTurns = 12;
constexpr int kReadTurn = 3;  // every third turn also reads memory, which takes longer
constexpr double kTurnSeconds = 0.12;

constexpr std::size_t kGpuEngines = 3;

struct Arguments {
  std::string model;
  std::string token_map;
  std::optional<std::int32_t> layer;
  std::vector<std::int32_t> tokens = {1, 8, 64, 512};
  ple_element element = PLE_F32;
  bool is_decode = false;  // as many sequences as tokens
  EngineOptions engine;
  bool json = false;
};

struct Measured {
  std::int32_t tokens;
  double us;      // a whole step, median
  double run_us;  // its run alone, median
  std::optional<double> products_us;
};

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double microseconds_since(Clock::time_point started) {
  return std::chrono::duration<double, std::micro>(Clock::now() - started).count();
}

// One sequence that goes on from step to step.
class TimedSteps {
 public:
  TimedSteps(Engine& engine, const TimedLayer& layer, ple_element element, std::int32_t tokens)
      : layer_(layer),
        tokens_(tokens),
        sequence_(engine),
        step_(engine, {.tokens_max = tokens, .sequences_max = 1}),
        input_(layer.input(element, 0, tokens)),
        output_(layer.output_bytes(element, tokens)) {
    args_.element = element;
    args_.input = input_.data();
    args_.output = output_.data();
  }

  void run() {
    const std::vector<std::int32_t> text = layer_.tokens(sequence_.position(), tokens_);
    const Clock::time_point begin = Clock::now();
    step_.stage(sequence_, text);
    step_.wait();
    const Clock::time_point run_begin = Clock::now();
    step_.run(layer_.index(), args_);
    run_us_.push_back(microseconds_since(run_begin));
    step_.commit();
    whole_us_.push_back(microseconds_since(begin));
  }

  double whole_us() { return median(whole_us_); }
  double run_us() { return median(run_us_); }

 private:
  const TimedLayer& layer_;
  std::int32_t tokens_;
  Sequence sequence_;
  Step step_;
  std::vector<std::byte> input_, output_;
  ple_run_args args_ = PLE_RUN_ARGS_INIT;
  std::vector<double> whole_us_, run_us_;
};

// Calls run again and again for a turn.
template <class Run>
void take_turn(Run run) {
  const Clock::time_point begin = Clock::now();
  do {
    run();
  } while (microseconds_since(begin) < 1e6 * kTurnSeconds);
}

// read_rates: receives the read bandwidth of some turns, bytes per second.
Measured measure_case(Engine& engine, const TimedLayer& layer, ple_element element,
                      std::int32_t tokens, std::vector<double>& read_rates) {
  TimedSteps steps(engine, layer, element, tokens);
  MatrixProducts products(layer.products(), tokens, engine.info().thread_count);
  std::vector<double> products_us;
  for (int turn = 0; turn < kTurns; ++turn) {
    take_turn([&] { steps.run(); });
    if (turn % kReadTurn == 0) {
      read_rates.push_back(measure_read_bandwidth(engine.info().thread_count));
    }
    if (!products.is_there()) continue;
    take_turn([&] {
      const Clock::time_point begin = Clock::now();
      products.run();
      products_us.push_back(microseconds_since(begin));
    });
  }
  Measured measured{tokens, steps.whole_us(), steps.run_us(), std::nullopt};
  if (products.is_there()) measured.products_us = median(products_us);
  return measured;
}

// The output bits of `tokens` tokens in steps of `chunk`.
std::vector<std::byte> run_in_chunks(Engine& engine, const TimedLayer& layer, ple_element element,
                                     std::int32_t tokens, std::int32_t chunk) {
  Sequence sequence(engine);
  Step step(engine, {.tokens_max = chunk, .sequences_max = 1});
  std::vector<std::byte> all;
  for (std::int32_t begin = 0; begin < tokens; begin += chunk) {
    const std::int32_t count = std::min(chunk, tokens - begin);
    const std::vector<std::byte> input = layer.input(element, begin, count);
    std::vector<std::byte> output(layer.output_bytes(element, count));
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.element = element;
    args.input = input.data();
    args.output = output.data();
    step.stage(sequence, layer.tokens(begin, count));
    step.run(layer.index(), args);
    step.commit();
    all.insert(all.end(), output.begin(), output.end());
  }
  return all;
}

// Before anything is timed: the same bits whatever the chunks, and none of them empty.
void check_results(Engine& engine, const TimedLayer& layer, ple_element element) {
  constexpr std::int32_t kTokens = 40;
  const std::vector<std::byte> whole = run_in_chunks(engine, layer, element, kTokens, kTokens);
  for (const std::int32_t chunk : {1, 7, 16}) {
    if (run_in_chunks(engine, layer, element, kTokens, chunk) != whole) {
      refuse("bench layer: steps of {} tokens give other bits than one of {}", chunk, kTokens);
    }
  }
  const bool is_empty = std::ranges::all_of(whole, [](std::byte b) { return b == std::byte{0}; });
  if (is_empty || whole == layer.input(element, 0, kTokens)) {
    refuse("bench layer: the layer adds nothing");
  }
}

nlohmann::ordered_json to_json(const std::vector<Measured>& cases, const TimedLayer& layer,
                               double read_bytes_per_s, const ple_engine_info& engine) {
  nlohmann::ordered_json json;
  json["ceilings"]["read_gb_per_s"] = read_bytes_per_s * 1e-9;
  json["ceilings"]["products"] = nlohmann::ordered_json::array();
  json["layer"] = nlohmann::ordered_json::array();
  for (const Measured& measured : cases) {
    if (measured.products_us) {
      json["ceilings"]["products"].push_back(
          {{"tokens", measured.tokens}, {"us", *measured.products_us}});
    }
    json["layer"].push_back({{"tokens", measured.tokens},
                             {"us", measured.us},
                             {"run_us", measured.run_us},
                             {"gb_per_s", layer.weight_bytes() / measured.us * 1e-3},
                             {"gflop_per_s", layer.flops(measured.tokens) / measured.us * 1e-3}});
  }
  json["ceilings"]["products_by"] = matrix_library().empty() ? "not built in" : matrix_library();
  json["threads"] = engine.thread_count;
  json["arithmetic"] = name_of(kArithmeticNames, engine.arithmetic);
  return json;
}

void print_text(const std::vector<Measured>& cases, const TimedLayer& layer,
                double read_bytes_per_s, const ple_engine_info& engine) {
  fmt::print("{} threads, {}; memory reads at {:.1f} GB/s; products by {}\n\n", engine.thread_count,
             name_of(kArithmeticNames, engine.arithmetic), read_bytes_per_s * 1e-9,
             matrix_library().empty() ? "no library (not built in)" : matrix_library());
  fmt::print("{:>7} {:>12} {:>12} {:>14} {:>10} {:>12}\n", "tokens", "a step", "its run",
             "products", "weights", "arithmetic");
  for (const Measured& measured : cases) {
    const std::string products =
        measured.products_us ? fmt::format("{:.1f} us", *measured.products_us) : "-";
    fmt::print("{:>7} {:>9.1f} us {:>9.1f} us {:>14} {:>5.1f} GB/s {:>6.0f} GFLOP/s\n",
               measured.tokens, measured.us, measured.run_us, products,
               layer.weight_bytes() / measured.us * 1e-3,
               layer.flops(measured.tokens) / measured.us * 1e-3);
  }
}

int bench_on_gpu(const Arguments& arguments, const TimedLayer& layer, Engine& first) {
  // Their weights together are several times the L2.
  std::vector<Engine> engines;
  engines.push_back(std::move(first));
  while (engines.size() < kGpuEngines) {
    engines.push_back(Engine::open(layer.model(), arguments.engine));
  }
  const ple_engine_info info = engines[0].info();
  nlohmann::ordered_json json;
  json["layer"] = nlohmann::ordered_json::array();
  if (!arguments.json) {
    fmt::print("{}, {}; {} engines take turns\n\n{:>7} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
               info.device_name, name_of(kArithmeticNames, info.arithmetic), kGpuEngines, "tokens",
               "a step", "its run", "host", "empty launch", "weights", "memory");
  }
  for (const std::int32_t tokens : arguments.tokens) {
    const GpuStepCosts costs =
        time_gpu_steps(engines, layer, arguments.element, tokens, arguments.is_decode);
    const double gb_per_s = layer.weight_bytes() / costs.run_us * 1e-3;
    json["layer"].push_back({{"tokens", tokens},
                             {"us", costs.step_us},
                             {"run_us", costs.run_us},
                             {"gb_per_s", gb_per_s},
                             {"gflop_per_s", layer.flops(tokens) / costs.run_us * 1e-3},
                             {"host_us", costs.host_us},
                             {"empty_launch_us", costs.empty_launch_us},
                             {"step_bytes", costs.step_bytes}});
    if (arguments.json) continue;
    fmt::print("{:>7} {:>9.1f} us {:>9.1f} us {:>9.2f} us {:>9.2f} us {:>7.0f} GB/s {:>9.2f} MB\n",
               tokens, costs.step_us, costs.run_us, costs.host_us, costs.empty_launch_us, gb_per_s,
               static_cast<double>(costs.step_bytes) * 1e-6);
  }
  json["device"] = info.device_name;
  json["sequences"] = arguments.is_decode ? "one a token" : "one";
  json["arithmetic"] = name_of(kArithmeticNames, info.arithmetic);
  if (arguments.json) fmt::print("{}\n", json_text(json));
  return kOk;
}

int bench_layer(const Arguments& arguments) {
  std::optional<RandomLayer> random;
  std::optional<Model> opened;
  if (arguments.model.empty()) {
    random.emplace();
  } else {
    opened.emplace(open_checkpoint(arguments.model, arguments.token_map));
  }
  const Model& model = random ? random->model() : *opened;
  const TimedLayer layer(model, choose_layer(model, arguments.model, arguments.layer));
  Engine engine = Engine::open(model, arguments.engine);
  check_results(engine, layer, arguments.element);
  const ple_engine_info info = engine.info();
  if (arguments.engine.device != "cpu") return bench_on_gpu(arguments, layer, engine);
  std::vector<double> read_rates;
  std::vector<Measured> cases;
  for (const std::int32_t tokens : arguments.tokens) {
    cases.push_back(measure_case(engine, layer, arguments.element, tokens, read_rates));
  }
  const double read_bytes_per_s = median(read_rates);
  if (arguments.json) {
    fmt::print("{}\n", json_text(to_json(cases, layer, read_bytes_per_s, info)));
  } else {
    print_text(cases, layer, read_bytes_per_s, info);
  }
  return kOk;
}

}  // namespace

Action make_bench_layer(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  arguments->engine.arena = PLE_ARENA_RESIDENT;
  options.examples(kExamples);
  options.text("--model", arguments->model, "DIR",
               "A checkpoint of any family, instead of random weights");
  options.layer(arguments->layer);
  options.token_map(arguments->token_map);
  options.numbers("--tokens", arguments->tokens, 1, 1 << 16, "N",
                  "Tokens of a step, several by commas (1,8,64,512)");
  options.flag("--decode", arguments->is_decode,
               "On a GPU: every token is of a sequence of its own");
  options.element(arguments->element);
  options.engine(arguments->engine);
  options.json(arguments->json);
  return [arguments] { return bench_layer(*arguments); };
}

}  // namespace pleiades::cli
