#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades verify /data/demo
  pleiades verify /data/demo --write-sums      keep block checksums beside the table's files

Opening checks the constants and that the shards cover every row; then every row is read once and
must be finite, block checksums must hold where they are present, and a sample must be the same
through a cache and directly. Exit status 1 when it is not.)";

struct Arguments {
  std::string path;
  bool write_sums = false;
  bool json = false;
};

int verify(const Arguments& arguments) {
  const Model model = open_checkpoint(arguments.path);
  if (arguments.write_sums) {
    ProgressBar bar("checksums", ProgressBar::Unit::bytes);
    model.write_sums([&](std::uint64_t done, std::uint64_t total) {
      bar.update(done, total);
      return true;
    });
  }
  ple_verify_report report;
  {
    ProgressBar bar("verifying", ProgressBar::Unit::count);
    report = model.verify([&](std::uint64_t done, std::uint64_t total) {
      bar.update(done, total);
      return true;
    });
  }
  const bool is_good = report.rows_not_finite == 0 && report.sample_mismatches == 0;
  if (arguments.json) {
    nlohmann::ordered_json json = {{"ok", is_good},
                                   {"rows_checked", report.rows_checked},
                                   {"rows_not_finite", report.rows_not_finite},
                                   {"sample_rows", report.sample_rows},
                                   {"sample_mismatches", report.sample_mismatches},
                                   {"sums_checked", report.sums_checked != 0}};
    if (report.rows_not_finite > 0) {
      json["first_bad"] = {{"layer", report.first_bad_layer}, {"row", report.first_bad_row}};
    }
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print("{}: {} rows, {} not finite; {} rows through a cache, {} differ; checksums {}\n",
               arguments.path, count_text(report.rows_checked), report.rows_not_finite,
               count_text(report.sample_rows), report.sample_mismatches,
               report.sums_checked != 0 ? "hold" : "are not there");
    if (report.rows_not_finite > 0) {
      fmt::print("the first such row is {} of layer {}\n", report.first_bad_row,
                 report.first_bad_layer);
    }
    fmt::print("{}\n", is_good ? "verified" : "NOT verified");
  }
  return is_good ? kOk : kFailed;
}

}  // namespace

Action make_verify(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint");
  options.flag("--write-sums", arguments->write_sums,
               "Write block checksums beside the table's files first");
  options.json(arguments->json);
  return [arguments] { return verify(*arguments); };
}

}  // namespace pleiades::cli
