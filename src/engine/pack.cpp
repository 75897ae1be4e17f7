#include "engine/pack.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/number_formats.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/input_file.hpp"
#include "engine/pack_journal.hpp"
#include "engine/pack_plan.hpp"
#include "engine/pack_rows.hpp"
#include "io/output_file.hpp"
#include "io/partial_directory.hpp"
#include "io/replace_file.hpp"
#include "table/row_encoder.hpp"
#include "table/row_stream.hpp"
#include "table/table.hpp"

namespace ple {

namespace {

constexpr const char* kIndex = "model.safetensors.index.json";
// Between two entries of the journal, each of which waits for the disk.
constexpr std::uint64_t kJournalBytes = std::uint64_t{64} << 20;
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

// A head for each column, or one for a table without columns.
std::vector<HeadError> heads_of(const LayerSpec& layer) {
  const HashConstants constants = layer.hash->constants();
  std::vector<HeadError> heads;
  for (std::size_t i = 0; i < constants.column_sizes.size(); ++i) {
    heads.push_back({.layer_index = layer.layer_index,
                     .column = static_cast<std::int32_t>(i),
                     .row_begin = static_cast<std::uint64_t>(constants.column_offsets[i]),
                     .row_count = static_cast<std::uint64_t>(constants.column_sizes[i])});
  }
  if (heads.empty()) {
    heads.push_back({.layer_index = layer.layer_index, .row_count = layer.table.row_count});
  }
  return heads;
}

class Packer {
 public:
  Packer(const ModelSpec& model, PackPlan plan, const PartialDirectory& directory,
         const PackRequest& request, const Progress& progress)
      : model_(model),
        plan_(std::move(plan)),
        directory_(directory),
        request_(request),
        progress_(progress) {
    for (const LayerSpec& layer : model_.layers) {
      head_begin_.push_back(heads_.size());
      const std::vector<HeadError> heads = heads_of(layer);
      heads_.insert(heads_.end(), heads.begin(), heads.end());
    }
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      total_bytes_ += table_bytes(i) * (needs_measure(i) ? 2 : 1);
    }
  }

  // Whether something is done that a later run need not do again.
  bool is_begun() const { return state_.is_begun(); }

  // Finds what a run before has done; refuses a directory that is not of this work.
  Status resume() {
    remove_partial_files(directory_.journal());
    remove_partial_files(directory_.file(kIndex));
    PLE_TRY_ASSIGN(auto found, load_progress(directory_.journal(), plan_.identity, heads_.size()));
    if (found) {
      state_ = std::move(*found);
      return {};
    }
    std::error_code failure;
    if (!std::filesystem::is_empty(directory_.path(), failure)) {
      return error(StatusCode::wrong_state, "'{}' is there and is no packing's: remove it",
                   directory_.path());
    }
    state_.heads.resize(heads_.size());
    return save_progress(directory_.journal(), plan_.identity, state_);
  }

  Status run() {
    PLE_TRY_ASSIGN(pool_, ThreadPool::create(request_.thread_count));
    for (const PackFile& file : plan_.files) {
      PLE_TRY(make_parent(file.name));
      PLE_TRY_ASSIGN(OutputFile output, OutputFile::open(directory_.file(file.name), file.bytes));
      outputs_.push_back(std::move(output));
    }
    if (!state_.tensors_copied) {
      for (std::size_t i = 0; i < plan_.files.size(); ++i) PLE_TRY(copy_tensors(i));
      state_.tensors_copied = true;
      PLE_TRY(save());
    }
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      if (i < state_.layer) {
        done_bytes_ += table_bytes(i) * (needs_measure(i) ? 2 : 1);
        rows_resumed_ += model_.layers[i].table.row_count;
      } else {
        PLE_TRY(pack_table(i));
      }
    }
    return carry_over();
  }

  PackReport report() const {
    PackReport report{.rows_resumed = rows_resumed_, .heads = heads_};
    for (std::size_t i = 0; i < plan_.tables.size(); ++i) {
      const std::uint64_t rows = model_.layers[i].table.row_count;
      report.row_count += rows;
      report.old_bytes += table_bytes(i);
      report.new_bytes += rows * static_cast<std::uint64_t>(plan_.tables[i].encoding.row_bytes);
    }
    for (std::size_t h = 0; h < heads_.size(); ++h) {
      const PackProgress::Head& sums = state_.heads[h];
      HeadError& head = report.heads[h];
      head.relative = sums.error == 0 ? 0 : std::sqrt(sums.error / sums.norm);
      head.worst = std::sqrt(sums.worst);
      head.worst_row = sums.worst_row;
    }
    return report;
  }

 private:
  std::uint64_t table_bytes(std::size_t layer) const {
    const TableSpec& table = model_.layers[layer].table;
    return table.row_count * static_cast<std::uint64_t>(table.encoding.row_bytes);
  }
  // New NVFP4 codes need the table's largest magnitude first.
  bool needs_measure(std::size_t layer) const {
    const PackTable& table = plan_.tables[layer];
    return table.encoding.format == RowFormat::nvfp4 && !table.keeps_codes;
  }

  Status save() {
    for (const OutputFile& output : outputs_) PLE_TRY(output.sync());
    return save_progress(directory_.journal(), plan_.identity, state_);
  }

  Status make_parent(const std::string& name) const {
    std::error_code failure;
    const auto parent = std::filesystem::path(directory_.file(name)).parent_path();
    std::filesystem::create_directories(parent, failure);
    if (!failure) return {};
    return error(StatusCode::io_error, "directory '{}' cannot be made: {}", parent.string(),
                 failure.message());
  }

  Status copy_tensors(std::size_t file_index) {
    const PackFile& file = plan_.files[file_index];
    const OutputFile& output = outputs_[file_index];
    PLE_TRY(output.write(0, std::as_bytes(std::span(file.header))));
    std::vector<std::byte> buffer;
    for (const PackCopy& copy : file.copies) {
      PLE_TRY_ASSIGN(const InputFile input, InputFile::open(model_.files[copy.source_file].path));
      for (std::uint64_t done = 0; done < copy.bytes; done += buffer.size()) {
        buffer.resize(std::min<std::uint64_t>(kCopyBytes, copy.bytes - done));
        PLE_TRY(input.read(copy.source_offset + done, buffer));
        PLE_TRY(output.write(copy.offset + done, buffer));
        PLE_TRY(tell_progress(0));
      }
    }
    return {};
  }

  Status pack_table(std::size_t layer) {
    const TableSpec& spec = model_.layers[layer].table;
    PLE_TRY_ASSIGN(const auto rows, Table::open(spec, model_.files, {}));
    PackTable& table = plan_.tables[layer];
    done_bytes_ += state_.rows_measured * row_bytes(layer);
    if (needs_measure(layer)) {
      PLE_TRY(measure(layer, *rows));
      table.encoding.scale = nvfp4_table_scale(bf16_to_f32(state_.largest));
    }
    for (const PackTable::Scale& scale : table.scales) {
      PLE_TRY(outputs_[scale.file_index].write(scale.offset,
                                               std::as_bytes(std::span(&table.encoding.scale, 1))));
    }
    rows_resumed_ += state_.rows_done;
    done_bytes_ += state_.rows_done * row_bytes(layer);
    PLE_TRY(convert(layer, *rows));
    state_.layer = static_cast<std::uint32_t>(layer) + 1;
    state_.rows_measured = 0;
    state_.rows_done = 0;
    state_.largest = 0;
    return save();
  }

  std::uint64_t row_bytes(std::size_t layer) const {
    return static_cast<std::uint64_t>(model_.layers[layer].table.encoding.row_bytes);
  }

  Status measure(std::size_t layer, RowSource& rows) {
    return for_each_batch(layer, rows, state_.rows_measured,
                          [&](RowPacker& packer, const RowStream::Rows& batch) -> Status {
                            const std::uint16_t largest = packer.measure(batch);
                            PLE_TRY(check_finite(layer, packer));
                            state_.largest = std::max(state_.largest, largest);
                            return {};
                          });
  }

  Status convert(std::size_t layer, RowSource& rows) {
    return for_each_batch(layer, rows, state_.rows_done,
                          [&](RowPacker& packer, const RowStream::Rows& batch) -> Status {
                            PLE_TRY_ASSIGN(const PackedRows packed, packer.convert(batch));
                            PLE_TRY(check_finite(layer, packer));
                            add_errors(layer, batch.begin, packed);
                            return {};
                          });
  }

  // From row `done` on, which it moves; the journal follows.
  template <class Work>
  Status for_each_batch(std::size_t layer, RowSource& rows, std::uint64_t& done, Work work) {
    PLE_TRY_ASSIGN(const auto stream, RowStream::open(rows, done));
    RowPacker packer(rows.encoding(), plan_.tables[layer], outputs_, stream->batch_rows(), *pool_);
    std::uint64_t unsaved_bytes = 0;
    while (true) {
      PLE_TRY_ASSIGN(const RowStream::Rows batch, stream->next());
      if (batch.count == 0) return {};
      PLE_TRY(work(packer, batch));
      done += batch.count;
      unsaved_bytes += batch.count * row_bytes(layer);
      if (unsaved_bytes >= kJournalBytes) {
        PLE_TRY(save());
        unsaved_bytes = 0;
      }
      PLE_TRY(tell_progress(batch.count * row_bytes(layer)));
    }
  }

  Status check_finite(std::size_t layer, const RowPacker& packer) const {
    const std::optional<std::uint64_t> row = packer.first_bad_row();
    if (!row) return {};
    const LayerSpec& spec = model_.layers[layer];
    const auto shard = std::find_if(
        spec.table.shards.begin(), spec.table.shards.end(), [&](const ShardExtent& candidate) {
          return *row - candidate.row_begin < candidate.row_count && *row >= candidate.row_begin;
        });
    return error(StatusCode::corrupt,
                 "file '{}': row {} of layer {} holds a value that is not a number or infinite",
                 model_.files[shard->file_index].path, *row, spec.layer_index);
  }

  void add_errors(std::size_t layer, std::uint64_t row, const PackedRows& packed) {
    const std::size_t head_end =
        layer + 1 < head_begin_.size() ? head_begin_[layer + 1] : heads_.size();
    std::size_t h = head_begin_[layer];
    for (std::size_t i = 0; i < packed.errors.size(); ++i, ++row) {
      while (h < head_end && row >= heads_[h].row_begin + heads_[h].row_count) ++h;
      if (h == head_end) return;  // rows that fill the table up
      PackProgress::Head& head = state_.heads[h];
      head.error += packed.errors[i];
      head.norm += packed.norms[i];
      if (packed.errors[i] > head.worst * packed.norms[i]) {
        head.worst = packed.errors[i] / packed.norms[i];
        head.worst_row = row;
      }
    }
  }

  Status tell_progress(std::uint64_t bytes) {
    done_bytes_ += bytes;
    if (progress_(done_bytes_, total_bytes_)) return {};
    return error(StatusCode::wrong_state, "stopped after {} of {} bytes", done_bytes_,
                 total_bytes_);
  }

  // The files that stay as they are, and the index.
  Status carry_over() {
    for (const std::string& name : plan_.linked) {
      PLE_TRY(make_parent(name));
      PLE_TRY(link_or_copy_file(request_.directory + "/" + name, directory_.file(name)));
    }
    for (const std::string& name : plan_.small_files) {
      PLE_TRY(copy_file(request_.directory + "/" + name, directory_.file(name)));
    }
    if (plan_.index.empty()) return {};
    return replace_file(directory_.file(kIndex), std::as_bytes(std::span(plan_.index)));
  }

  const ModelSpec& model_;
  PackPlan plan_;
  const PartialDirectory& directory_;
  const PackRequest& request_;
  const Progress& progress_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<OutputFile> outputs_;      // of the plan's files
  std::vector<HeadError> heads_;         // of all layers, without their errors
  std::vector<std::size_t> head_begin_;  // by layer
  PackProgress state_;
  std::uint64_t rows_resumed_ = 0;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace

Result<PackReport> pack(const PackRequest& request, const Progress& progress) {
  PackRequest own = request;
  while (own.directory.size() > 1 && own.directory.back() == '/') own.directory.pop_back();
  PLE_TRY_ASSIGN(const ModelSpec model, open_checkpoint(own.directory));
  PLE_TRY_ASSIGN(const TensorFiles files, TensorFiles::open(own.directory));
  PLE_TRY_ASSIGN(PackPlan plan, plan_pack(model, files, own));
  PLE_TRY_ASSIGN(PartialDirectory directory, PartialDirectory::open(own.out, kPackJournal));
  Packer packer(model, std::move(plan), directory, own, progress);
  PLE_TRY(packer.resume());
  const Status status = packer.run();
  if (status.is_ok()) {
    PLE_TRY(directory.publish());
    return packer.report();
  }
  const bool is_done_for = status.code() == StatusCode::corrupt;
  if (packer.is_begun() && !is_done_for) {
    return error(status.code(), "{}; '{}' keeps what is done, and the same request goes on there",
                 status.message(), directory.path());
  }
  directory.remove();
  return status;
}

}  // namespace ple
