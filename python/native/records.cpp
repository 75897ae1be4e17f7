// What the library reports, as read-only Python objects.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <pleiades/pleiades.hpp>
#include <string>

#include "bindings.hpp"
#include "names.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

// A class whose repr lists its attributes.
template <class Record>
class RecordClass {
 public:
  RecordClass(nb::module_& module, const char* name, const char* doc)
      : class_(module, name, doc), name_(name) {
    class_.def("__repr__", [name](nb::handle self) {
      std::string text;
      for (const nb::handle field : self.type().attr("_fields")) {
        text += text.empty() ? "" : ", ";
        text += nb::cast<std::string>(field) + "=";
        text += nb::cast<std::string>(nb::repr(self.attr(field)));
      }
      return std::string(name) + "(" + text + ")";
    });
  }
  ~RecordClass() { class_.attr("_fields") = nb::tuple(fields_); }

  template <class Member>
  RecordClass& field(const char* name, Member Record::*member, const char* doc) {
    class_.def_prop_ro(
        name, [member](const Record& record) -> const Member& { return record.*member; }, doc);
    fields_.append(name);
    return *this;
  }
  RecordClass& flag(const char* name, std::int32_t Record::*member, const char* doc) {
    class_.def_prop_ro(
        name, [member](const Record& record) { return record.*member != 0; }, doc);
    fields_.append(name);
    return *this;
  }
  template <class Enum, std::size_t kCount>
  RecordClass& word(const char* name, Enum Record::*member, const Names<Enum, kCount>& names,
                    const char* doc) {
    class_.def_prop_ro(
        name, [member, &names](const Record& record) { return name_of(names, record.*member); },
        doc);
    fields_.append(name);
    return *this;
  }
  RecordClass& text(const char* name, const char* Record::*member, const char* doc) {
    class_.def_prop_ro(
        name,
        [member](const Record& record) {
          return std::string(record.*member == nullptr ? "" : record.*member);
        },
        doc);
    fields_.append(name);
    return *this;
  }

 private:
  nb::class_<Record> class_;
  const char* name_;
  nb::list fields_;
};

void bind_model_records(nb::module_& module) {
  using Info = ple_model_info;
  RecordClass<Info>(module, "ModelInfo", "What a model is.")
      .word("family", &Info::family, kFamilyNames, "The model family.")
      .field("layer_count", &Info::layer_count, "Layers with a memory.")
      .field("vocab_size", &Info::vocab_size, "Legal token ids are [0, vocab_size).")
      .field("lookback", &Info::lookback, "Tokens before a position that its rows depend on.")
      .flag("has_tensors", &Info::has_tensors, "False for a bare config.json.")
      .field("table_bytes", &Info::table_bytes, "Bytes of the rows of all layers.")
      .field("dense_bytes", &Info::dense_bytes, "Bytes of weights that an engine keeps in memory.")
      .field("identity", &Info::identity, "Binds snapshots to a model.");
  using Layer = ple_layer_info;
  RecordClass<Layer>(module, "LayerInfo", "One memory layer of a model.")
      .field("layer_index", &Layer::layer_index, "0-based decoder layer.")
      .field("column_count", &Layer::column_count, "Rows that a token needs.")
      .field("row_dim", &Layer::row_dim, "Elements of a row.")
      .word("row_format", &Layer::row_format, kRowFormatNames, "How a row is encoded.")
      .field("row_bytes", &Layer::row_bytes, "Bytes of an encoded row.")
      .field("row_count", &Layer::row_count, "Rows of the table.")
      .field("table_bytes", &Layer::table_bytes, "Bytes of the table.")
      .field("shard_count", &Layer::shard_count, "Stretches of the table in files.")
      .field("hidden", &Layer::hidden, "Width of one residual stream.")
      .field("stream_count", &Layer::stream_count, "Residual streams.")
      .field("window", &Layer::window, "Positions of carried float state.")
      .field("input_elements", &Layer::input_elements,
             "Elements of one token in a run's input; 0: the layer takes no input.")
      .field("output_elements", &Layer::output_elements,
             "Elements of one token in a run's output.");
  RecordClass<ShardRecord>(module, "ShardInfo", "Where rows of a layer lie.")
      .field("part", &ShardRecord::part, "0 codes, 1 scales where a row lies in two tensors.")
      .field("file", &ShardRecord::file, "The file.")
      .field("offset", &ShardRecord::offset, "Of the first row, bytes from the file's start.")
      .field("row_begin", &ShardRecord::row_begin, "The first row.")
      .field("row_count", &ShardRecord::row_count, "Rows.");
  using Report = ple_verify_report;
  RecordClass<Report>(module, "VerifyReport", "What Model.verify found.")
      .field("rows_checked", &Report::rows_checked, "Rows read.")
      .field("rows_not_finite", &Report::rows_not_finite, "Rows with an infinity or a NaN.")
      .field("first_bad_row", &Report::first_bad_row, "When rows_not_finite is not 0.")
      .field("first_bad_layer", &Report::first_bad_layer, "The layer of that row.")
      .flag("sums_checked", &Report::sums_checked, "Block checksums were present and hold.")
      .field("sample_rows", &Report::sample_rows, "Rows read through a cache and directly.")
      .field("sample_mismatches", &Report::sample_mismatches, "Of these, the different ones.");
}

void bind_pack_records(nb::module_& module) {
  using Head = ple_pack_head;
  RecordClass<Head>(module, "PackHead", "What the rows of one column, or of a whole table, lost.")
      .field("layer_index", &Head::layer_index, "0-based decoder layer.")
      .field("column", &Head::column, "Of the layer's columns.")
      .field("row_begin", &Head::row_begin, "The first row.")
      .field("row_count", &Head::row_count, "Rows.")
      .field("relative_error", &Head::relative_error, "||new - old|| / ||old|| over all rows.")
      .field("worst_error", &Head::worst_error, "The same of the worst row.")
      .field("worst_row", &Head::worst_row, "When worst_error is not 0.");
  RecordClass<PackRecord>(module, "PackReport", "What pack did.")
      .field("row_count", &PackRecord::row_count, "Rows of all tables.")
      .field("rows_resumed", &PackRecord::rows_resumed, "Of these, done by a run before.")
      .field("old_bytes", &PackRecord::old_bytes, "Bytes of the tables before.")
      .field("new_bytes", &PackRecord::new_bytes, "Bytes of the tables now.")
      .field("heads", &PackRecord::heads, "By layer and column.");
}

void bind_engine_records(nb::module_& module) {
  using Info = ple_engine_info;
  RecordClass<Info>(module, "EngineInfo", "How an engine runs.")
      .word("arithmetic", &Info::arithmetic, kArithmeticNames, "The arithmetic in use.")
      .word("arena", &Info::arena, kArenaNames, "'cached' or 'resident'.")
      .word("slot_memory", &Info::slot_memory, kSlotMemoryNames, "Where the arenas lie.")
      .word("io", &Info::io, kIoNames, "Which reader runs.")
      .flag("direct_io", &Info::direct_io, "Whether reads go past the page cache.")
      .field("block_bytes", &Info::block_bytes, "The smallest read.")
      .field("io_depth", &Info::io_depth, "Reads in flight per reader.")
      .field("thread_count", &Info::thread_count, "CPU threads that compute.")
      .flag("graph_wait", &Info::graph_wait,
            "Whether a captured step may be launched before its rows arrived.")
      .field("arena_bytes", &Info::arena_bytes, "Bytes of the arenas.")
      .field("slot_count", &Info::slot_count, "Rows that the arenas hold.")
      .field("dense_bytes", &Info::dense_bytes, "Bytes of weights in memory.")
      .field("sequence_bytes", &Info::sequence_bytes, "Device memory of one sequence.")
      .text("device_name", &Info::device_name, "The device's own name.");
  using Quantiles = ple_quantiles;
  RecordClass<Quantiles>(module, "Quantiles", "A distribution of times.")
      .field("p50_us", &Quantiles::p50_us, "The median, in microseconds.")
      .field("p99_us", &Quantiles::p99_us, "The 99th percentile, in microseconds.")
      .field("max_us", &Quantiles::max_us, "The longest, in microseconds.")
      .field("count", &Quantiles::count, "How many were measured.");
  using Metrics = ple_metrics;
  RecordClass<Metrics>(module, "Metrics",
                       "Counters since an engine was opened, all layers. A resident "
                       "table counts every row asked for as distinct and as a hit.")
      .field("tokens", &Metrics::tokens, "Committed tokens.")
      .field("steps", &Metrics::steps, "Committed steps.")
      .field("rows_asked", &Metrics::rows_asked, "Rows asked for, duplicates included.")
      .field("rows_distinct", &Metrics::rows_distinct, "Distinct rows, summed over steps.")
      .field("rows_hit", &Metrics::rows_hit, "Distinct rows of a step that were in the arena.")
      .field("rows_missed", &Metrics::rows_missed, "Distinct rows that had to be read.")
      .field("rows_prefetched", &Metrics::rows_prefetched, "Rows read ahead of their step.")
      .field("disk_reads", &Metrics::disk_reads, "Reads of the table's files.")
      .field("disk_bytes", &Metrics::disk_bytes, "Bytes of these reads.")
      .field("read", &Metrics::read, "One disk read.")
      .field("stage", &Metrics::stage, "One Step.stage.")
      .field("wait", &Metrics::wait, "Waiting for the rows of one step.")
      .field("run", &Metrics::run, "One Step.run, host time.");
}

}  // namespace

void bind_records(nb::module_& module) {
  bind_model_records(module);
  bind_pack_records(module);
  bind_engine_records(module);
}

}  // namespace pleiades::python
