#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "names.hpp"
#include "options.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades bench io /data/demo
  pleiades bench io /data/demo --io pread --io-depth 32 --json

Reads distinct random rows of the table, as a step reads them, for some seconds.)";

struct Arguments {
  std::string path;
  std::optional<std::int32_t> layer;
  double seconds = 3;
  EngineOptions engine;
  bool json = false;
};

int bench_io(const Arguments& arguments) {
  const Model model = open_checkpoint(arguments.path);
  const ple_layer_info layer = choose_layer(model, arguments.path, arguments.layer);
  const ple_engine_options options = arguments.engine.to_c();
  ple_io_measurement measured = PLE_IO_MEASUREMENT_INIT;
  check(ple_measure_io(model.get(), layer.layer_index, &options, arguments.seconds, &measured));
  if (arguments.json) {
    const nlohmann::ordered_json json = {
        {"backend", name_of(kIoNames, measured.io)},
        {"reads_per_s", measured.reads_per_s},
        {"bytes_per_s", measured.bytes_per_s},
        {"block_bytes", measured.block_bytes},
        {"depth", measured.depth},
        {"read_us", {{"p50", measured.read.p50_us}, {"p99", measured.read.p99_us}}}};
    fmt::print("{}\n", json.dump());
    return kOk;
  }
  fmt::print("{} reads/s of {} B by {}, {} in flight: {}/s; one read {:.0f} us, p99 {:.0f} us\n",
             count_text(static_cast<std::uint64_t>(measured.reads_per_s)), measured.block_bytes,
             name_of(kIoNames, measured.io), measured.depth,
             bytes_text(static_cast<std::uint64_t>(measured.bytes_per_s)), measured.read.p50_us,
             measured.read.p99_us);
  return kOk;
}

}  // namespace

Action make_bench_io(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint");
  options.layer(arguments->layer);
  options.real("--seconds", arguments->seconds, 0.01, 3600, "S", "How long to read (3)");
  options.io(arguments->engine);
  options.json(arguments->json);
  return [arguments] { return bench_io(*arguments); };
}

}  // namespace pleiades::cli
