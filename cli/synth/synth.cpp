#include <thread>

#include <fmt/format.h>

#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "stop_signal.hpp"
#include "synth/families.hpp"
#include "synth/writer.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades synth /data/demo --rows-base 200000 --files 5
  pleiades synth /data/full                        (102.4 GB)
  pleiades synth /data/tiny --preset tiny --dtype fp8

Each row is a pure function of the seed and the row's number, so that any row can be checked.
The directory appears when it is complete; a stopped run leaves nothing that opens.)";

constexpr const char* kDraftConfig = "config.json.draft";

constexpr Names<RowDtype, 8> kRowDtypeNames = {{{"bf16", RowDtype::bf16},
                                                {"f16", RowDtype::f16},
                                                {"f32", RowDtype::f32},
                                                {"fp8", RowDtype::fp8},
                                                {"fp8-row", RowDtype::fp8_row},
                                                {"fp8-e8m0", RowDtype::fp8_e8m0},
                                                {"int8", RowDtype::int8},
                                                {"nvfp4", RowDtype::nvfp4}}};

struct Arguments {
  SynthOptions options;
  std::string path;
  std::uint32_t thread_count = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

const Preset& find_preset(const std::string& name) {
  std::vector<std::string> known;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    known.emplace_back(preset.name);
  }
  refuse("--preset: '{}' is none of {}", name, fmt::join(known, ", "));
}

void print_result(const std::string& path, const CheckpointPlan& plan, double seconds, bool json) {
  if (json) {
    const nlohmann::ordered_json report = {{"path", path},
                                           {"bytes", plan.bytes()},
                                           {"tensors", plan.tensors.size()},
                                           {"files", plan.file_count},
                                           {"seconds", seconds}};
    fmt::print("{}\n", json_text(report));
    return;
  }
  fmt::print("{}: {} in {} tensors and {} files, written in {:.1f} s\n", path,
             bytes_text(plan.bytes()), plan.tensors.size(), plan.file_count, seconds);
}

int synth(const Arguments& arguments) {
  const auto& [options, path, thread_count, json] = arguments;
  const auto started = std::chrono::steady_clock::now();
  const Preset& preset = find_preset(options.preset);
  CheckpointPlan plan = preset.plan_config(options);

  catch_stop_signals();
  {
    PartialDirectory directory(path);
    for (const CheckpointPlan::SmallFile& file : plan.small_files) {
      write_file(directory.file(file.name), file.bytes.data(), file.bytes.size());
    }
    const std::string config = plan.config.dump(2) + "\n";
    write_file(directory.file(kDraftConfig), config.data(), config.size());
    const Model model = Model::open(directory.file(kDraftConfig));
    preset.plan_tensors(options, model, plan);

    if (plan.bytes() > directory.free_bytes()) {
      refuse("{}: the checkpoint takes {} ({} bytes), but only {} are free there", path,
             bytes_text(plan.bytes()), plan.bytes(), bytes_text(directory.free_bytes()));
    }
    if (!json) fmt::print("{}: {} to write\n", path, bytes_text(plan.bytes()));
    std::fflush(stdout);
    ProgressBar bar("writing", ProgressBar::Unit::bytes);
    const bool is_whole =
        write_tensors(plan, directory, thread_count, [&](std::uint64_t done, std::uint64_t total) {
          bar.update(done, total);
          return !is_stopped();
        });
    if (is_whole) directory.publish(kDraftConfig);
  }
  stop_by_signal();  // nothing is left behind
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  print_result(path, plan, elapsed.count(), json);
  return kOk;
}

}  // namespace

Action make_synth(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  SynthOptions& synth_options = arguments->options;
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "Directory to write; must not exist");
  std::string help = "One of:";
  for (const Preset& preset : presets()) {
    help += fmt::format("\n    {}: {}", preset.name, preset.help);
  }
  options.text("--preset", synth_options.preset, "NAME", help);
  options.number("--rows-base", synth_options.rows_base, 2, std::int64_t{1} << 31, "N",
                 "Size of the table: about N rows for each of a token's columns");
  options.number("--shards", synth_options.shards, 1, 100'000, "N",
                 "Tensors the table is cut into");
  options.number("--files", synth_options.files, 1, 100'000, "N",
                 "Files the shards are spread over");
  std::vector<std::string> dtypes;
  for (const auto& [name, dtype] : kRowDtypeNames) dtypes.emplace_back(name);
  options.choice(
      "--dtype", dtypes,
      [&synth_options](const std::string& given) {
        for (const auto& [name, dtype] : kRowDtypeNames) {
          if (name == given) synth_options.dtype = dtype;
        }
      },
      "Of the rows; fp8 has one scale for the table, fp8-row and int8 one for each row, fp8-e8m0 "
      "one "
      "for 32 elements, nvfp4 one for 16 and one for the table");
  options.number("--seed", synth_options.seed, 0, std::int64_t{1} << 40, "S", "Of every value");
  options.number("--threads", arguments->thread_count, 1, 1024, "N",
                 "Threads that make and write (all)");
  options.json(arguments->json);
  return [arguments] { return synth(*arguments); };
}

}  // namespace pleiades::cli
