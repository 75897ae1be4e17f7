// Pleiades in C++: owners for the handles of pleiades.h, and exceptions for its status codes.
//
// Header-only and without dependencies. Each class owns one handle, moves and does not copy, and
// releases it at the end; release order is free, because whatever still needs an object keeps it.
// What the functions do, cost and refuse stands in pleiades.h, under the same names. Structs and
// enumerations are those of pleiades.h.
//
//   auto model = pleiades::Model::open("checkpoint");
//   auto engine = pleiades::Engine::open(model, {.cache_bytes = std::uint64_t{8} << 30});
//   pleiades::Sequence sequence(engine);
//   pleiades::Step step(engine, {.tokens_max = 512});
//
//   step.stage(sequence, tokens);  // row ids; reads begin
//   step.run(1, highway);          // decoder layer 1 adds into the highway
//   step.commit();                 // the sequence moves forward
#pragma once

#include <pleiades/pleiades.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pleiades {

// Thrown by everything below when the library refuses or fails: its status code, and in what() one
// sentence that names the object and the numbers.
class Error : public std::runtime_error {
 public:
  Error(ple_status status, const std::string& sentence)
      : std::runtime_error(sentence), status_(status) {}

  ple_status status() const noexcept { return status_; }

 private:
  ple_status status_;
};

// Throws the last failure of this thread unless status is PLE_OK.
inline void check(ple_status status) {
  if (status != PLE_OK) throw Error(status, ple_last_error());
}

// Called with (done, total) from the thread that does the work; false stops it. Must not throw.
using Progress = std::function<bool(std::uint64_t, std::uint64_t)>;

namespace detail {

template <auto kRelease>
struct Releaser {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    kRelease(&handle);
  }
};

template <class Handle, auto kRelease>
using Owner = std::unique_ptr<Handle, Releaser<kRelease>>;

// The C callback behind a Progress; user is the Progress itself.
inline std::int32_t call_progress(void* user, std::uint64_t done, std::uint64_t total) {
  return (*static_cast<Progress*>(user))(done, total) ? 0 : 1;
}

inline ple_progress_fn progress_function(const Progress& progress) {
  return progress ? &call_progress : nullptr;
}

}  // namespace detail

// What is computed: an opened checkpoint, or a description by the caller. Any number of threads and
// engines may use one.
class Model {
 public:
  // A checkpoint directory; or a bare config.json, which computes row ids and nothing else.
  static Model open(const std::string& path) {
    ple_model* handle = nullptr;
    check(ple_model_open(path.c_str(), &handle));
    return Model(handle);
  }

  // A model whose geometry, shards and weights the caller holds.
  static Model describe(const ple_model_desc& desc) {
    ple_model* handle = nullptr;
    check(ple_model_describe(&desc, &handle));
    return Model(handle);
  }

  // The map from token id to code that some families hash with. Before an engine opens.
  void set_token_map(std::span<const std::int32_t> codes) {
    check(ple_model_set_token_map(get(), codes.data(), std::ssize(codes)));
  }

  ple_model_info info() const {
    ple_model_info info = PLE_MODEL_INFO_INIT;
    check(ple_model_get_info(get(), &info));
    return info;
  }

  // All memory layers, by ascending layer_index.
  std::vector<ple_layer_info> layers() const {
    std::vector<ple_layer_info> layers(static_cast<std::size_t>(info().layer_count));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i] = PLE_LAYER_INFO_INIT;
      check(ple_model_get_layer(get(), static_cast<std::int32_t>(i), &layers[i]));
    }
    return layers;
  }

  // Where the rows of a layer lie; the file names are valid while the model is.
  std::vector<ple_shard_info> shards(const ple_layer_info& layer) const {
    std::vector<ple_shard_info> shards(static_cast<std::size_t>(layer.shard_count));
    for (std::size_t i = 0; i < shards.size(); ++i) {
      shards[i] = PLE_SHARD_INFO_INIT;
      check(
          ple_model_get_shard(get(), layer.layer_index, static_cast<std::int32_t>(i), &shards[i]));
    }
    return shards;
  }

  // The numbers behind a layer's row ids; valid while the model is.
  ple_hash_constants constants(std::int32_t layer) const {
    ple_hash_constants constants = PLE_HASH_CONSTANTS_INIT;
    check(ple_model_get_constants(get(), layer, &constants));
    return constants;
  }

  // Row ids of tokens that start a sequence: row_ids [tokens.size(), column_count of the layer].
  void row_ids(std::int32_t layer, std::span<const std::int32_t> tokens,
               std::uint32_t* row_ids) const {
    check(ple_model_row_ids(get(), layer, tokens.data(), std::ssize(tokens), row_ids));
  }

  // Encoded rows, bytes [count, row_bytes], to values [count, row_dim].
  void decode_rows(std::int32_t layer, std::span<const std::byte> bytes, std::int64_t count,
                   float* values) const {
    for (const ple_layer_info& info : layers()) {
      const auto row_bytes = static_cast<std::size_t>(info.row_bytes);
      if (info.layer_index != layer ||
          bytes.size() == static_cast<std::size_t>(count) * row_bytes) {
        continue;
      }
      throw Error(PLE_INVALID_ARGUMENT, "layer " + std::to_string(layer) + ": " +
                                            std::to_string(bytes.size()) + " bytes are not " +
                                            std::to_string(count) + " rows of " +
                                            std::to_string(row_bytes));
    }
    check(ple_model_decode_rows(get(), layer, bytes.data(), count, values));
  }

  // Reads every row once. A bad row is in the report, not an error.
  ple_verify_report verify(Progress progress = {}) const {
    ple_verify_report report = PLE_VERIFY_REPORT_INIT;
    check(ple_model_verify(get(), detail::progress_function(progress), &progress, &report));
    return report;
  }

  // Writes block checksums beside the table's files.
  void write_sums(Progress progress = {}) const {
    check(ple_model_write_sums(get(), detail::progress_function(progress), &progress));
  }

  ple_model* get() const noexcept { return handle_.get(); }

 private:
  explicit Model(ple_model* handle) : handle_(handle) {}

  detail::Owner<ple_model, &ple_model_release> handle_;
};

// What pack() did.
struct PackResult {
  ple_pack_report report = PLE_PACK_REPORT_INIT;
  std::vector<ple_pack_head> heads;  // by layer and column
};

// A checkpoint's tables in another row format, in a new directory.
inline PackResult pack(const std::string& directory, const std::string& out,
                       const ple_pack_options& options, const Progress& progress = {}) {
  struct User {
    const Progress& progress;
    PackResult result;
  } user{progress, {}};
  const ple_progress_fn on_progress = [](void* self, std::uint64_t done, std::uint64_t total) {
    const Progress& asked = static_cast<User*>(self)->progress;
    return !asked || asked(done, total) ? 0 : 1;
  };
  const ple_pack_head_fn on_head = [](void* self, const ple_pack_head* head) {
    static_cast<User*>(self)->result.heads.push_back(*head);
  };
  check(ple_pack(directory.c_str(), out.c_str(), &options, on_progress, on_head, &user,
                 &user.result.report));
  return std::move(user.result);
}

// How an engine runs a model; the members are those of ple_engine_options.
struct EngineOptions {
  std::string device = "cpu";  // "cpu", "cuda" or "cuda:N"
  ple_arithmetic arithmetic = PLE_ARITHMETIC_AUTO;
  ple_arena arena = PLE_ARENA_AUTO;
  ple_slot_memory slot_memory = PLE_SLOTS_AUTO;
  ple_projection projection = PLE_PROJECTION_AUTO;
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;
  std::int32_t thread_count = 0;          // 0: all
  std::int32_t draft_max = 7;             // tokens that a commit may reject
  std::vector<std::int32_t> layers = {};  // empty: all
  ple_io io = PLE_IO_AUTO;
  std::int32_t io_depth = 0;          // 0: chosen
  std::int32_t io_thread_count = 0;   // 0: chosen
  std::int32_t read_deadline_ms = 0;  // 0: 30,000
  std::string warm_start = {};        // empty, or the file that keeps the hot rows' ids
  ple_log_fn log = nullptr;
  void* log_user = nullptr;

  // The same for C; points into this object.
  ple_engine_options to_c() const {
    ple_engine_options options = PLE_ENGINE_OPTIONS_INIT;
    options.device = device.c_str();
    options.arithmetic = arithmetic;
    options.arena = arena;
    options.slot_memory = slot_memory;
    options.projection = projection;
    options.cache_bytes = cache_bytes;
    options.thread_count = thread_count;
    options.draft_max = draft_max;
    options.layers = layers.empty() ? nullptr : layers.data();
    options.layer_count = static_cast<std::int32_t>(layers.size());
    options.io = io;
    options.io_depth = io_depth;
    options.io_thread_count = io_thread_count;
    options.read_deadline_ms = read_deadline_ms;
    options.warm_start = warm_start.empty() ? nullptr : warm_start.c_str();
    options.log = log;
    options.log_user = log_user;
    return options;
  }
};

// A model made ready to run on one device: dense weights, caches and readers. Any number of threads
// may use one.
class Engine {
 public:
  static Engine open(const Model& model, const EngineOptions& options = {}) {
    const ple_engine_options c_options = options.to_c();
    ple_engine* handle = nullptr;
    check(ple_engine_open(model.get(), &c_options, &handle));
    return Engine(handle, std::make_shared<const std::vector<ple_layer_info>>(model.layers()));
  }

  ple_engine_info info() const {
    ple_engine_info info = PLE_ENGINE_INFO_INIT;
    check(ple_engine_get_info(get(), &info));
    return info;
  }

  // Counters and latencies since the engine was opened.
  ple_metrics metrics() const {
    ple_metrics metrics = PLE_METRICS_INIT;
    check(ple_engine_get_metrics(get(), &metrics));
    return metrics;
  }

  // How long disk reads took, shortest first.
  std::vector<ple_time_bucket> read_times() const {
    std::vector<ple_time_bucket> buckets(PLE_TIME_BUCKETS_MAX);
    std::int32_t count = 0;
    check(ple_engine_get_read_times(get(), buckets.data(), &count));
    buckets.resize(static_cast<std::size_t>(count));
    return buckets;
  }

  // The metrics as a Prometheus text page.
  std::string metrics_text() const {
    std::size_t bytes = 0;
    check(ple_engine_metrics_text(get(), nullptr, 0, &bytes));
    // Counters grow while they are printed: some room, and the size that was written counts.
    std::string text(bytes + 1024, '\0');
    check(ple_engine_metrics_text(get(), text.data(), text.size(), &bytes));
    text.resize(bytes);
    return text;
  }

  // Encoded rows as the table stores them, through the cache or straight from the files: bytes
  // [rows.size(), row_bytes of the layer].
  void read_rows(std::int32_t layer, std::span<const std::uint32_t> rows, bool direct,
                 std::byte* bytes) {
    check(ple_engine_read_rows(get(), layer, rows.data(), std::ssize(rows), direct ? 1 : 0, bytes));
  }

  ple_engine* get() const noexcept { return handle_.get(); }

 private:
  friend class Step;

  using Layers = std::shared_ptr<const std::vector<ple_layer_info>>;
  Engine(ple_engine* handle, Layers layers) : handle_(handle), layers_(std::move(layers)) {}

  detail::Owner<ple_engine, &ple_engine_release> handle_;
  Layers layers_;
};

// One token timeline and its carried state; begins at position 0. One thread at a time.
class Sequence {
 public:
  explicit Sequence(Engine& engine) {
    ple_sequence* handle = nullptr;
    check(ple_sequence_create(engine.get(), &handle));
    handle_.reset(handle);
  }

  // Committed tokens.
  std::int64_t position() const {
    std::int64_t position = 0;
    check(ple_sequence_position(get(), &position));
    return position;
  }

  void rewind(std::int64_t position) { check(ple_sequence_rewind(get(), position)); }

  // Bytes that let a sequence go on elsewhere.
  std::vector<std::byte> snapshot(ple_snapshot_kind kind = PLE_SNAPSHOT_COMPACT) const {
    std::size_t bytes = 0;
    check(ple_sequence_snapshot(get(), kind, nullptr, 0, &bytes));
    std::vector<std::byte> blob(bytes);
    check(ple_sequence_snapshot(get(), kind, blob.data(), blob.size(), &bytes));
    return blob;
  }

  void restore(std::span<const std::byte> blob) {
    check(ple_sequence_restore(get(), blob.data(), blob.size()));
  }

  // A hint that these tokens will follow: their rows are fetched in the background.
  void announce(std::span<const std::int32_t> tokens) {
    check(ple_sequence_announce(get(), tokens.data(), std::ssize(tokens)));
  }

  ple_sequence* get() const noexcept { return handle_.get(); }

 private:
  detail::Owner<ple_sequence, &ple_sequence_release> handle_;
};

// The largest batch of a Step.
struct StepOptions {
  std::int32_t tokens_max = 512;
  std::int32_t sequences_max = 16;
};

// What one sequence takes in a step.
struct Part {
  const Sequence& sequence;
  std::span<const std::int32_t> tokens;
};

// One batch through the layers: stage (host), run (device), commit (host). One thread at a time.
class Step {
 public:
  explicit Step(Engine& engine, const StepOptions& options = {}) : layers_(engine.layers_) {
    ple_step_options c_options = PLE_STEP_OPTIONS_INIT;
    c_options.tokens_max = options.tokens_max;
    c_options.sequences_max = options.sequences_max;
    ple_step* handle = nullptr;
    check(ple_step_create(engine.get(), &c_options, &handle));
    handle_.reset(handle);
  }

  // A ragged batch. Returns before the rows have arrived.
  void stage(std::span<const Part> parts) {
    sequences_.clear();
    token_counts_.clear();
    tokens_.clear();
    for (const Part& part : parts) {
      sequences_.push_back(part.sequence.get());
      token_counts_.push_back(static_cast<std::int32_t>(part.tokens.size()));
      tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
    }
    ple_batch batch = PLE_BATCH_INIT;
    batch.sequence_count = static_cast<std::int32_t>(sequences_.size());
    batch.sequences = sequences_.data();
    batch.token_counts = token_counts_.data();
    batch.tokens = tokens_.data();
    check(ple_step_stage(get(), &batch));
    token_count_ = std::ssize(tokens_);
    sequence_count_ = sequences_.size();
  }
  void stage(std::initializer_list<Part> parts) {
    stage(std::span<const Part>(parts.begin(), parts.size()));
  }
  void stage(const Sequence& sequence, std::span<const std::int32_t> tokens) {
    stage({Part{sequence, tokens}});
  }

  // Whether wait() would return at once.
  bool ready() const {
    std::int32_t ready = 0;
    check(ple_step_ready(get(), &ready));
    return ready != 0;
  }

  void wait() { check(ple_step_wait(get())); }

  // The layer adds into the highway, in place, on a CPU: float [token_count, input_elements of the
  // layer], or bf16 bits as std::uint16_t.
  template <class Element>
  void run(std::int32_t layer, std::span<Element> highway) {
    run(layer, std::span<const Element>(highway), highway, PLE_OUTPUT_UPDATE);
  }
  void run(std::int32_t layer, std::vector<float>& highway) { run(layer, std::span(highway)); }
  void run(std::int32_t layer, std::vector<std::uint16_t>& highway) {
    run(layer, std::span(highway));
  }

  // From input [token_count, input_elements] to output [token_count, output_elements], on a CPU.
  template <class Element>
  void run(std::int32_t layer, std::span<const std::type_identity_t<Element>> input,
           std::span<Element> output, ple_output_mode mode) {
    static_assert(std::is_same_v<Element, float> || std::is_same_v<Element, std::uint16_t>,
                  "f32, or bf16 bits");
    check_sizes(layer, input.size(), output.size());
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.element = std::is_same_v<Element, float> ? PLE_F32 : PLE_BF16;
    args.mode = mode;
    args.input = input.data();
    args.output = output.data();
    run(layer, args);
  }

  // With pointers of the engine's device. On a GPU it enqueues on args.stream.
  void run(std::int32_t layer, const ple_run_args& args) {
    check(ple_step_run(get(), layer, &args));
  }

  // Between stage and the launch of a captured graph.
  void prepare(void* stream) { check(ple_step_prepare(get(), stream)); }

  // Every sequence moves forward by all of its tokens, or by accepted[i] of them.
  void commit() { check(ple_step_commit(get(), nullptr)); }
  void commit(std::span<const std::int32_t> accepted) {
    if (accepted.size() != sequence_count_) {
      throw Error(PLE_INVALID_ARGUMENT, "commit: " + std::to_string(accepted.size()) +
                                            " accepted counts for a step of " +
                                            std::to_string(sequence_count_) + " sequences");
    }
    check(ple_step_commit(get(), accepted.data()));
  }

  void discard() { check(ple_step_discard(get())); }

  // Tokens of the staged batch.
  std::int64_t token_count() const noexcept { return token_count_; }

  ple_step* get() const noexcept { return handle_.get(); }

 private:
  // C takes bare pointers; the spans' lengths are checked here.
  void check_sizes(std::int32_t layer, std::size_t input, std::size_t output) const {
    for (const ple_layer_info& info : *layers_) {
      if (info.layer_index != layer) continue;
      check_size(layer, "input", input, info.input_elements);
      check_size(layer, "output", output, info.output_elements);
    }
  }
  void check_size(std::int32_t layer, const char* name, std::size_t size,
                  std::int64_t token_elements) const {
    const auto expected = static_cast<std::size_t>(token_count_ * token_elements);
    if (size == expected) return;
    throw Error(PLE_INVALID_ARGUMENT, "layer " + std::to_string(layer) + ": the " + name + " has " +
                                          std::to_string(size) + " elements, but a step of " +
                                          std::to_string(token_count_) + " tokens needs " +
                                          std::to_string(expected));
  }

  Engine::Layers layers_;
  detail::Owner<ple_step, &ple_step_release> handle_;
  std::int64_t token_count_ = 0;  // of the staged batch
  std::size_t sequence_count_ = 0;
  // What stage hands over, kept so that it allocates nothing after the first time.
  std::vector<ple_sequence*> sequences_;
  std::vector<std::int32_t> token_counts_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace pleiades
