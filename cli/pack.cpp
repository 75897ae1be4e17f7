#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "stop_signal.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades pack /data/flash-next -o /data/flash-next-fp8 --format fp8 --interleave
  pleiades pack /data/flash-next -o /data/flash-next-nvfp4 --format nvfp4 --json

The new checkpoint is complete: files without rows are hard links (copies across file systems),
config, tokenizer and the like are copies. It appears when it is whole. A run that was stopped,
killed or short of space goes on in OUT.partial when the same command is given again.)";

constexpr Names<ple_pack_format, 4> kPackFormatNames = {{{"bf16", PLE_PACK_BF16},
                                                         {"fp8", PLE_PACK_FP8},
                                                         {"int8", PLE_PACK_INT8},
                                                         {"nvfp4", PLE_PACK_NVFP4}}};

struct Arguments {
  std::string path;
  std::string out;
  std::optional<ple_pack_format> format;
  std::int32_t thread_count = 0;
  bool interleave = false;
  bool json = false;
};

nlohmann::ordered_json to_json(const Arguments& arguments, const PackResult& result,
                               double seconds) {
  const ple_pack_report& report = result.report;
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  for (const ple_pack_head& head : result.heads) {
    nlohmann::ordered_json entry = {{"layer", head.layer_index},
                                    {"column", head.column},
                                    {"row_begin", head.row_begin},
                                    {"rows", head.row_count},
                                    {"relative_error", head.relative_error},
                                    {"worst_error", head.worst_error}};
    if (head.worst_error > 0) entry["worst_row"] = head.worst_row;
    heads.push_back(std::move(entry));
  }
  return {{"path", arguments.out},
          {"format", name_of(kPackFormatNames, *arguments.format)},
          {"interleaved", arguments.interleave},
          {"rows", report.row_count},
          {"rows_resumed", report.rows_resumed},
          {"old_bytes", report.old_bytes},
          {"new_bytes", report.new_bytes},
          {"seconds", seconds},
          {"heads", std::move(heads)}};
}

void print_text(const Arguments& arguments, const PackResult& result, double seconds) {
  const ple_pack_report& report = result.report;
  fmt::print("layer  head          rows  relative error  worst row\n");
  for (const ple_pack_head& head : result.heads) {
    fmt::print("{:5}  {:4}  {:>12}  {:14.3e}", head.layer_index, head.column,
               count_text(head.row_count), head.relative_error);
    if (head.worst_error > 0) fmt::print("  {:.3e} in row {}", head.worst_error, head.worst_row);
    fmt::print("\n");
  }
  fmt::print("{}: {} rows, {} as {} where they were {}, in {:.1f} s\n", arguments.out,
             count_text(report.row_count), bytes_text(report.new_bytes),
             name_of(kPackFormatNames, *arguments.format), bytes_text(report.old_bytes), seconds);
  if (report.rows_resumed > 0) {
    fmt::print("{} rows were there from a run before\n", count_text(report.rows_resumed));
  }
}

int pack_checkpoint(const Arguments& arguments) {
  const auto started = std::chrono::steady_clock::now();
  if (!arguments.format) refuse("--format is required: bf16, fp8, int8 or nvfp4");
  ple_pack_options options = PLE_PACK_OPTIONS_INIT;
  options.format = *arguments.format;
  options.interleave = arguments.interleave ? 1 : 0;
  options.thread_count = arguments.thread_count;
  catch_stop_signals();
  PackResult result;
  try {
    ProgressBar bar("packing", ProgressBar::Unit::bytes);
    result =
        pack(arguments.path, arguments.out, options, [&](std::uint64_t done, std::uint64_t total) {
          bar.update(done, total);
          return !is_stopped();
        });
  } catch (const Error&) {
    stop_by_signal();  // what is done is kept
    throw;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  if (arguments.json) {
    fmt::print("{}\n", json_text(to_json(arguments, result, elapsed.count())));
  } else {
    print_text(arguments, result, elapsed.count());
  }
  return kOk;
}

}  // namespace

Action make_pack(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint");
  options.required_text("-o,--out", arguments->out, "OUT", "Directory to write; must not exist");
  std::vector<std::string> words;
  for (const auto& [word, format] : kPackFormatNames) words.emplace_back(word);
  options.choice(
      "--format", words,
      [arguments](const std::string& given) {
        for (const auto& [word, format] : kPackFormatNames) {
          if (word == given) arguments->format = format;
        }
      },
      "Of the rows; fp8 and int8 have a scale per row. A table that has it already keeps its "
      "codes");
  options.flag("--interleave", arguments->interleave,
               "A row's codes and scales side by side, so that a row is one read");
  options.number("--threads", arguments->thread_count, 1, 4096, "N",
                 "Threads that convert and write (all)");
  options.json(arguments->json);
  return [arguments] { return pack_checkpoint(*arguments); };
}

}  // namespace pleiades::cli
