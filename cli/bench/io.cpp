#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cold_chunk.hpp"
#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades bench io /data/demo
  pleiades bench io /data/demo --io pread --io-depth 32 --json
  pleiades bench io /data/demo --tokens text.u32

Reads distinct random rows of the table, as a step reads them, for some seconds. With tokens, also
stages chunks of 8,192 of them by engines that hold no row yet: from token ids to rows in memory.)";

struct Arguments {
  std::string path;
  std::optional<std::int32_t> layer;
  double seconds = 3;
  std::string tokens;
  EngineOptions engine;
  bool json = false;
};

void print_json(const ple_io_measurement& measured, const std::optional<ColdChunk>& cold) {
  nlohmann::ordered_json json = {
      {"backend", name_of(kIoNames, measured.io)},
      {"reads_per_s", measured.reads_per_s},
      {"bytes_per_s", measured.bytes_per_s},
      {"block_bytes", measured.block_bytes},
      {"depth", measured.depth},
      {"read_us", {{"p50", measured.read.p50_us}, {"p99", measured.read.p99_us}}}};
  if (cold) {
    const auto block_bytes = static_cast<std::uint64_t>(measured.block_bytes);
    json["cold_chunk"] = {{"rows", cold->rows},
                          {"reads", cold->reads},
                          {"seconds", cold->seconds},
                          {"reads_per_s", cold->per_second(cold->reads)},
                          {"blocks_per_s", cold->per_second(cold->bytes / block_bytes)}};
  }
  fmt::print("{}\n", json_text(json));
}

void print_text(const ple_io_measurement& measured, const std::optional<ColdChunk>& cold) {
  fmt::print("{} reads/s of {} B by {}, {} in flight: {}/s; one read {:.0f} us, p99 {:.0f} us\n",
             count_text(static_cast<std::uint64_t>(measured.reads_per_s)), measured.block_bytes,
             name_of(kIoNames, measured.io), measured.depth,
             bytes_text(static_cast<std::uint64_t>(measured.bytes_per_s)), measured.read.p50_us,
             measured.read.p99_us);
  if (!cold) return;
  fmt::print("a cold chunk: {} distinct rows by {} reads in {:.0f} ms, {} reads/s\n",
             count_text(cold->rows), count_text(cold->reads), 1e3 * cold->seconds,
             count_text(static_cast<std::uint64_t>(cold->per_second(cold->reads))));
}

int bench_io(const Arguments& arguments) {
  const Model model = open_checkpoint(arguments.path);
  const ple_layer_info layer = choose_layer(model, arguments.path, arguments.layer);
  const ple_engine_options options = arguments.engine.to_c();
  ple_io_measurement measured = PLE_IO_MEASUREMENT_INIT;
  check(ple_measure_io(model.get(), layer.layer_index, &options, arguments.seconds, &measured));
  std::optional<ColdChunk> cold;
  if (!arguments.tokens.empty()) {
    cold = measure_cold_chunk(model, layer, arguments.engine,
                              read_tokens(arguments.tokens, model.info().vocab_size));
  }
  arguments.json ? print_json(measured, cold) : print_text(measured, cold);
  return kOk;
}

}  // namespace

Action make_bench_io(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint");
  options.layer(arguments->layer);
  options.real("--seconds", arguments->seconds, 0.01, 3600, "S", "How long to read (3)");
  options.text("--tokens", arguments->tokens, "FILE", "Little-endian u32 token ids");
  options.io(arguments->engine);
  options.json(arguments->json);
  return [arguments] { return bench_io(*arguments); };
}

}  // namespace pleiades::cli
