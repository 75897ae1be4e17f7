/* Pleiades: the n-gram memory layers of large language models, at inference.
 *
 * The stable contract of the library, in plain C.
 *
 *   model     what is computed: an opened checkpoint (or a description by the caller)
 *   engine    a model made ready to run: dense weights, caches and readers on one device
 *   sequence  one token timeline and its carried state
 *   step      one batch through the layers: stage (host), run (device), commit (host)
 *
 * Conventions. Every function that can fail returns a ple_status; on failure, output parameters are
 * untouched and ple_last_error() has one sentence that names the object and the numbers. Structs
 * that may grow begin with struct_bytes: fill them with their PLE_..._INIT, or zeros and their
 * size where there is none, and set what differs; another size is refused. Options may be NULL
 * where that is said: the defaults. Handles are opaque; ..._release takes the handle's address,
 * sets it to NULL and accepts NULL, so releasing twice is harmless. Release order is free: whatever
 * still needs an object keeps it.
 *
 * Arrays are dense, in the host's memory unless said otherwise, and given with their shapes: [n, m]
 * is n times m elements, the last index fastest. A count of 0 is valid, and its array may be NULL.
 *
 * Threads. Models (but for ple_model_set_token_map) and engines may be used by several threads at
 * once. A sequence or a step belongs to one thread at a time; different ones are independent.
 */
#ifndef PLEIADES_PLEIADES_H
#define PLEIADES_PLEIADES_H

#include <stddef.h>
#include <stdint.h>

#define PLE_VERSION_MAJOR 0
#define PLE_VERSION_MINOR 1
#define PLE_VERSION_PATCH 0

#if defined(__GNUC__)
#define PLE_API __attribute__((visibility("default")))
#else
#define PLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status -------------------------------------------------------------------------------- */

typedef enum ple_status {
  PLE_OK = 0,
  PLE_INVALID_ARGUMENT = 1, /* the caller's argument, option or file name */
  PLE_CORRUPT = 2,          /* a file or blob that is not what it claims to be */
  PLE_NOT_FOUND = 3,
  PLE_IO_ERROR = 4, /* the system refused or failed a read or write */
  PLE_OUT_OF_MEMORY = 5,
  PLE_UNSUPPORTED = 6,  /* well-formed, but something this build or device does not do */
  PLE_WRONG_STATE = 7,  /* a call out of order: an unstaged step, a sequence that moved */
  PLE_DEADLINE = 8,     /* a read took longer than read_deadline_ms */
  PLE_DEVICE_ERROR = 9, /* the accelerator's driver reported a failure */
  PLE_INTERNAL = 10
} ple_status;

/* The sentence of the last failure on this thread; "" before any. Valid until the next failure on
 * it. */
PLE_API const char* ple_last_error(void);

/* "0.1.0". */
PLE_API const char* ple_version(void);

/* ---- Logging ------------------------------------------------------------------------------- */

typedef enum ple_log_level {
  PLE_LOG_DEBUG = 0,
  PLE_LOG_INFO = 1,
  PLE_LOG_WARNING = 2
} ple_log_level;

/* Called with one line, without a newline, from any thread; the line is valid during the call. */
typedef void (*ple_log_fn)(void* user, ple_log_level level, const char* line);

/* ---- Model --------------------------------------------------------------------------------- */

typedef struct ple_model ple_model;

typedef enum ple_family {
  PLE_FAMILY_QWEN4_EXP = 0,
  PLE_FAMILY_ENGRAM_V41 = 1,
  PLE_FAMILY_ENGRAM_DEMO = 2,
  PLE_FAMILY_LONGCAT = 3,
  PLE_FAMILY_GEMMA = 4
} ple_family;

typedef enum ple_row_format {
  PLE_ROW_BF16 = 0,
  PLE_ROW_F16 = 1,
  PLE_ROW_F32 = 2,
  PLE_ROW_FP8_E4M3 = 3,      /* one scale for the table */
  PLE_ROW_FP8_E4M3_ROW = 4,  /* one f32 scale per row */
  PLE_ROW_FP8_E4M3_E8M0 = 5, /* one E8M0 byte per 32 elements */
  PLE_ROW_INT8_ROW = 6,      /* one f32 scale per row */
  PLE_ROW_NVFP4 = 7          /* E2M1, one E4M3 scale per 16 elements, one f32 scale for the table */
} ple_row_format;

/* Opens a checkpoint directory: config.json and safetensors, with or without an index. Reads
 * headers and small constants only. A path to a bare config.json gives a model that computes row
 * ids and nothing else. PLE_NOT_FOUND, PLE_CORRUPT, or PLE_UNSUPPORTED for a model of no known
 * family. */
PLE_API ple_status ple_model_open(const char* path, ple_model** model);
PLE_API void ple_model_release(ple_model** model);

typedef struct ple_model_info {
  uint32_t struct_bytes;
  ple_family family;
  int32_t layer_count;  /* layers with a memory */
  int32_t vocab_size;   /* legal token ids are [0, vocab_size) */
  int32_t lookback;     /* tokens before a position that its rows depend on */
  int32_t has_tensors;  /* 0 for a bare config.json */
  uint64_t table_bytes; /* rows of all layers */
  uint64_t dense_bytes; /* weights of all layers, as the checkpoint has them */
  uint64_t identity;    /* a digest of geometry, constants and weights */
} ple_model_info;
#define PLE_MODEL_INFO_INIT \
  { sizeof(ple_model_info), PLE_FAMILY_QWEN4_EXP, 0, 0, 0, 0, 0, 0, 0 }

PLE_API ple_status ple_model_get_info(const ple_model* model, ple_model_info* info);

typedef struct ple_layer_info {
  uint32_t struct_bytes;
  int32_t layer_index;  /* 0-based decoder layer */
  int32_t column_count; /* rows a token needs */
  int32_t row_dim;      /* elements of a row */
  ple_row_format row_format;
  int32_t row_bytes;  /* of an encoded row, scales included */
  uint64_t row_count; /* of the table */
  uint64_t table_bytes;
  int32_t shard_count;
  int32_t hidden;          /* channels of a stream */
  int32_t stream_count;    /* streams of the highway; 1 where the residual is one */
  int32_t window;          /* positions of carried float state; 0 for families without */
  int64_t input_elements;  /* of one token in ple_run_args.input; 0: the layer takes no input */
  int64_t output_elements; /* of one token in ple_run_args.output */
} ple_layer_info;
#define PLE_LAYER_INFO_INIT \
  { sizeof(ple_layer_info), 0, 0, 0, PLE_ROW_BF16, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* index counts the model's memory layers, 0 .. layer_count - 1. Other functions take `layer`, the
 * 0-based decoder layer (layer_index), and refuse one without a memory; a model input embedding is
 * layer 0. */
PLE_API ple_status ple_model_get_layer(const ple_model* model, int32_t index, ple_layer_info* info);

typedef struct ple_shard_info {
  uint32_t struct_bytes;
  uint32_t part;    /* 0 codes, 1 scales where a row lies in two tensors */
  const char* file; /* "" for rows in memory; valid while the model is */
  uint64_t offset;  /* of the first row, bytes from the start of the file */
  uint64_t row_begin;
  uint64_t row_count;
} ple_shard_info;
#define PLE_SHARD_INFO_INIT \
  { sizeof(ple_shard_info), 0, NULL, 0, 0, 0 }

/* shard_index: 0 .. shard_count - 1 of the layer. */
PLE_API ple_status ple_model_get_shard(const ple_model* model, int32_t layer, int32_t shard_index,
                                       ple_shard_info* info);

/* Row ids of tokens that start a sequence: row_ids [token_count, column_count], UINT32_MAX for "no
 * row"; tokens [token_count], in [0, vocab_size), or -1 for a dead token where the family has
 * them, else PLE_INVALID_ARGUMENT. PLE_WRONG_STATE where a token map is missing. */
PLE_API ple_status ple_model_row_ids(const ple_model* model, int32_t layer, const int32_t* tokens,
                                     int64_t token_count, uint32_t* row_ids);

/* The numbers behind a layer's row ids, as checkpoints ship them; valid until the model is released
 * or given a token map. A count is 0 where the family has none. */
typedef struct ple_hash_constants {
  uint32_t struct_bytes;
  int32_t multiplier_count;
  int32_t column_count;
  int32_t reserved;
  const int64_t* multipliers;    /* [multiplier_count], by look-back */
  const int64_t* column_sizes;   /* [column_count]: row ids of column i are column_offsets[i] + */
  const int64_t* column_offsets; /* [column_count]   [0, column_sizes[i]) */
} ple_hash_constants;
#define PLE_HASH_CONSTANTS_INIT \
  { sizeof(ple_hash_constants), 0, 0, 0, NULL, NULL, NULL }

PLE_API ple_status ple_model_get_constants(const ple_model* model, int32_t layer,
                                           ple_hash_constants* constants);

/* The map from token id to code that some families hash with: codes [count], count = vocab_size;
 * refused when its size or its number of codes is not the model's. For models whose checkpoint has
 * none. Engines that are open keep the map they have. No other thread may use the model meanwhile,
 * and pointers that were got from it become invalid. */
PLE_API ple_status ple_model_set_token_map(ple_model* model, const int32_t* codes, int64_t count);

/* ---- A model described by the caller ------------------------------------------------------- */

/* Rows [row_begin, row_begin + row_count), one behind the other, in a file or in memory: one of
 * file and data is NULL. data must outlive the model and its engines. */
typedef struct ple_shard_desc {
  const char* file;
  const void* data;
  uint64_t offset; /* of the first row, bytes from the start of file or data */
  uint64_t row_begin;
  uint64_t row_count;
} ple_shard_desc;

/* One qwen4_exp PLE layer. Weights are bf16 bits; they are read while the model is described and
 * when an engine opens, and copied there. */
typedef struct ple_layer_desc {
  uint32_t struct_bytes;
  int32_t layer_index;
  ple_row_format row_format;    /* PLE_ROW_BF16 or PLE_ROW_FP8_E4M3 */
  float row_scale;              /* of FP8 rows; finite, above 0 */
  const ple_shard_desc* shards; /* [shard_count], together every row of the table once */
  int32_t shard_count;
  const uint16_t* key;        /* [stream_count * hidden, embed_dim] */
  const uint16_t* value;      /* [hidden, embed_dim] */
  const uint16_t* norm_key;   /* [stream_count * hidden], zero-centred */
  const uint16_t* norm_query; /* [stream_count * hidden] */
  const uint16_t* norm_conv;  /* [stream_count * hidden] */
  const uint16_t* conv;       /* [stream_count * hidden, tap_count] */
} ple_layer_desc;

typedef struct ple_model_desc {
  uint32_t struct_bytes;
  int32_t vocab_size;
  int32_t eos_token_id;
  int32_t hidden;
  int32_t stream_count;
  int32_t embed_dim;
  int32_t ngram_size; /* also the dilation of the convolution */
  int32_t heads_per_ngram;
  int32_t tap_count;
  int64_t ngram_vocab_size_base;
  int32_t row_count_divisor; /* make_ngram_vocab_size_divisible_by */
  int64_t seed;
  float eps;                    /* of the norms */
  const ple_layer_desc* layers; /* ascending layer_index; all PLE layers of the model */
  int32_t layer_count;
} ple_model_desc;

/* A model as its fields' names in a config.json say. PLE_INVALID_ARGUMENT for numbers that make no
 * model, PLE_CORRUPT for shards that do not tile the table or its files. */
PLE_API ple_status ple_model_describe(const ple_model_desc* desc, ple_model** model);

/* ---- Engine -------------------------------------------------------------------------------- */

typedef struct ple_engine ple_engine;

typedef enum ple_arithmetic {
  PLE_ARITHMETIC_AUTO = 0,     /* mixed for a GPU, float32 for a CPU */
  PLE_ARITHMETIC_FLOAT32 = 1,  /* sums and tensors in f32, only the result is rounded */
  PLE_ARITHMETIC_MIXED = 2,    /* the same, but the value rows are kept in bf16 */
  PLE_ARITHMETIC_REFERENCE = 3 /* rounded to bf16 wherever the public reference rounds */
} ple_arithmetic;

typedef enum ple_arena {
  PLE_ARENA_AUTO = 0, /* resident when the table fits in cache_bytes, else cached */
  PLE_ARENA_CACHED = 1,
  PLE_ARENA_RESIDENT = 2 /* the whole table, read at open */
} ple_arena;

typedef enum ple_slot_memory {
  PLE_SLOTS_AUTO = 0,
  PLE_SLOTS_DEVICE = 1, /* HBM of the device */
  PLE_SLOTS_PINNED = 2  /* host memory that the device reads in place */
} ple_slot_memory;

typedef enum ple_io { PLE_IO_AUTO = 0, PLE_IO_URING = 1, PLE_IO_PREAD = 2 } ple_io;

typedef enum ple_projection {
  PLE_PROJECTION_AUTO = 0, /* as the family's official code */
  PLE_PROJECTION_FP8 = 1,  /* activations quantised per token and 32 channels; engram_v41 alone */
  PLE_PROJECTION_DEQUANTIZED = 2
} ple_projection;

typedef struct ple_engine_options {
  uint32_t struct_bytes;
  const char* device; /* NULL or "cpu"; "cuda" or "cuda:N" */
  ple_arithmetic arithmetic;
  ple_arena arena;
  ple_slot_memory slot_memory;
  ple_projection projection;
  uint64_t cache_bytes;  /* of all arenas together; 0 is valid: every row is read for its step */
  int32_t thread_count;  /* threads that compute on a CPU (0: all), or hash beside a GPU (0: 8) */
  int32_t draft_max;     /* tokens of a step that commit may reject, or a rewind may take back;
                            at most 4096 */
  const int32_t* layers; /* NULL: all memory layers; else [layer_count] decoder layers to run */
  int32_t layer_count;
  ple_io io;
  int32_t io_depth;         /* reads in flight per reader, at most 4096; 0: chosen */
  int32_t io_thread_count;  /* readers, at most 256; 0: chosen */
  int32_t read_deadline_ms; /* a read that takes longer fails its step; 0: 30,000 */
  const char* warm_start;   /* NULL, or a file: hot rows are read back from it at open and their
                               ids saved to it at release */
  ple_log_fn log;           /* NULL: silent */
  void* log_user;
} ple_engine_options;
#define PLE_ENGINE_OPTIONS_INIT                                                                  \
  {                                                                                              \
    sizeof(ple_engine_options), NULL, PLE_ARITHMETIC_AUTO, PLE_ARENA_AUTO, PLE_SLOTS_AUTO,       \
        PLE_PROJECTION_AUTO, (uint64_t)1 << 30, 0, 7, NULL, 0, PLE_IO_AUTO, 0, 0, 0, NULL, NULL, \
        NULL                                                                                     \
  }

/* options may be NULL. Takes memory for the dense weights, the arenas and at most 64 MB.
 * PLE_INVALID_ARGUMENT for a model without tensors; PLE_UNSUPPORTED for what this build or the
 * device does not run. */
PLE_API ple_status ple_engine_open(const ple_model* model, const ple_engine_options* options,
                                   ple_engine** engine);
PLE_API void ple_engine_release(ple_engine** engine);

typedef struct ple_engine_info {
  uint32_t struct_bytes;
  ple_arithmetic arithmetic;
  ple_arena arena;
  ple_slot_memory slot_memory;
  ple_io io;           /* which reader runs */
  int32_t direct_io;   /* 1: past the page cache */
  int32_t block_bytes; /* smallest read */
  int32_t io_depth;    /* reads in flight, all readers together */
  int32_t thread_count;
  int32_t graph_wait; /* 1: a captured step may be launched before its rows arrived */
  uint64_t arena_bytes;
  uint64_t slot_count;     /* rows that the arenas hold */
  uint64_t dense_bytes;    /* weights as this engine keeps them */
  uint64_t sequence_bytes; /* device memory of one sequence */
  const char* device_name; /* valid while the engine is */
} ple_engine_info;
#define PLE_ENGINE_INFO_INIT                                                                      \
  {                                                                                               \
    sizeof(ple_engine_info), PLE_ARITHMETIC_AUTO, PLE_ARENA_AUTO, PLE_SLOTS_AUTO, PLE_IO_AUTO, 0, \
        0, 0, 0, 0, 0, 0, 0, 0, NULL                                                              \
  }

PLE_API ple_status ple_engine_get_info(const ple_engine* engine, ple_engine_info* info);

/* Encoded rows as the table stores them: bytes [count, row_bytes] of rows [count], in any order.
 * Through the cache, or straight from the files when direct is not 0. PLE_INVALID_ARGUMENT for a
 * row beyond the table; else as ple_step_wait. */
PLE_API ple_status ple_engine_read_rows(ple_engine* engine, int32_t layer, const uint32_t* rows,
                                        int64_t count, int32_t direct, void* bytes);

/* Decodes encoded rows: bytes [count, row_bytes] to values [count, row_dim], which are those of
 * bf16 that steps compute with. */
PLE_API ple_status ple_model_decode_rows(const ple_model* model, int32_t layer, const void* bytes,
                                         int64_t count, float* values);

/* ---- Metrics ------------------------------------------------------------------------------- */

/* Of durations, each at most an eighth above the true one. */
typedef struct ple_quantiles {
  double p50_us;
  double p99_us;
  double max_us;
  uint64_t count;
} ple_quantiles;

/* Since the engine was opened, all layers together. A resident table does not look for duplicates:
 * it counts every row asked for as distinct and as a hit. */
typedef struct ple_metrics {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t tokens;        /* committed */
  uint64_t steps;         /* committed */
  uint64_t rows_asked;    /* duplicates included */
  uint64_t rows_distinct; /* summed over steps */
  uint64_t rows_hit;      /* distinct rows of a step that were in the arena */
  uint64_t rows_missed;
  uint64_t rows_prefetched;
  uint64_t disk_reads;
  uint64_t disk_bytes;
  ple_quantiles read;  /* one disk read */
  ple_quantiles stage; /* one call of ple_step_stage */
  ple_quantiles wait;  /* waiting for rows, one step */
  ple_quantiles run;   /* one call of ple_step_run, host time */
} ple_metrics;
#define PLE_METRICS_INIT                                                                           \
  {                                                                                                \
    sizeof(ple_metrics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, { \
      0, 0, 0, 0                                                                                   \
    }                                                                                              \
  }

PLE_API ple_status ple_engine_get_metrics(const ple_engine* engine, ple_metrics* metrics);

#define PLE_TIME_BUCKETS_MAX 496
typedef struct ple_time_bucket {
  double us_max;  /* the longest that it holds; an eighth more than the shortest, at most */
  uint64_t count; /* not 0 */
} ple_time_bucket;

/* How the disk reads of `ple_metrics.read` are spread: *count buckets, shortest first, of buckets
 * [PLE_TIME_BUCKETS_MAX]. */
PLE_API ple_status ple_engine_get_read_times(const ple_engine* engine, ple_time_bucket* buckets,
                                             int32_t* count);

/* The metrics as a Prometheus text page. *bytes receives the length without the final NUL; buffer
 * [capacity] may be NULL to ask for it. PLE_INVALID_ARGUMENT where it is too small. */
PLE_API ple_status ple_engine_metrics_text(const ple_engine* engine, char* buffer, size_t capacity,
                                           size_t* bytes);

/* ---- Sequence ------------------------------------------------------------------------------ */

typedef struct ple_sequence ple_sequence;

/* A fresh timeline at position 0. */
PLE_API ple_status ple_sequence_create(ple_engine* engine, ple_sequence** sequence);
PLE_API void ple_sequence_release(ple_sequence** sequence);

/* Committed tokens. */
PLE_API ple_status ple_sequence_position(const ple_sequence* sequence, int64_t* position);

/* Moves back to an earlier position: 0, or at most draft_max tokens (and what the carried state
 * still holds) before the present one. PLE_WRONG_STATE while a step of the sequence is staged. */
PLE_API ple_status ple_sequence_rewind(ple_sequence* sequence, int64_t position);

typedef enum ple_snapshot_kind {
  PLE_SNAPSHOT_COMPACT = 0, /* token ids and scalars; rows are read again on restore */
  PLE_SNAPSHOT_FULL = 1     /* value rows included */
} ple_snapshot_kind;

/* Bytes that let a sequence go on elsewhere (docs/snapshot-format.md). *bytes receives the size;
 * buffer [capacity] may be NULL to ask for it. PLE_INVALID_ARGUMENT where it is too small,
 * PLE_WRONG_STATE while a step of the sequence is staged. Waits for the device. */
PLE_API ple_status ple_sequence_snapshot(const ple_sequence* sequence, ple_snapshot_kind kind,
                                         void* buffer, size_t capacity, size_t* bytes);

/* Replaces the sequence's state by that of blob [bytes]. One of another model, version, arithmetic
 * or length is refused by name (PLE_INVALID_ARGUMENT; PLE_CORRUPT where it is none at all) and
 * changes nothing, nor does a read that fails. PLE_WRONG_STATE while a step of the sequence is
 * staged. */
PLE_API ple_status ple_sequence_restore(ple_sequence* sequence, const void* blob, size_t bytes);

/* Says that tokens [token_count] will follow what is committed and staged; their rows are fetched
 * in the background. A hint: it cannot evict what a step holds, and it changes no result. */
PLE_API ple_status ple_sequence_announce(ple_sequence* sequence, const int32_t* tokens,
                                         int64_t token_count);

/* ---- Step ---------------------------------------------------------------------------------- */

typedef struct ple_step ple_step;

typedef struct ple_step_options {
  uint32_t struct_bytes;
  int32_t tokens_max;    /* of the largest batch, all sequences together; memory is taken once */
  int32_t sequences_max; /* of the largest batch */
} ple_step_options;
#define PLE_STEP_OPTIONS_INIT \
  { sizeof(ple_step_options), 512, 16 }

/* options may be NULL. */
PLE_API ple_status ple_step_create(ple_engine* engine, const ple_step_options* options,
                                   ple_step** step);
PLE_API void ple_step_release(ple_step** step);

/* A ragged batch: sequence i takes the next token_counts[i] of tokens (0 is valid). A sequence
 * stands in a batch once. */
typedef struct ple_batch {
  uint32_t struct_bytes;
  int32_t sequence_count;
  ple_sequence* const* sequences; /* [sequence_count] */
  const int32_t* token_counts;    /* [sequence_count] */
  const int32_t* tokens;          /* [sum of token_counts], host; -1: a dead token */
  const int32_t* device_tokens;   /* the same instead of tokens, on the device; copied back */
  void* stream;                   /* that device_tokens are valid on */
  const int64_t* positions; /* NULL, or [sequence_count]: where each must stand, else refused */
} ple_batch;
#define PLE_BATCH_INIT \
  { sizeof(ple_batch), 0, NULL, NULL, NULL, NULL, NULL, NULL }

/* Resolves rows and starts reading what is missing; returns before the rows have arrived. Changes
 * no sequence. A sequence may be in a second step that is staged while its first is not yet
 * committed: the second begins where the first ends. PLE_INVALID_ARGUMENT for an id outside the
 * vocabulary or a batch beyond the step's size, with the bytes that it would take; PLE_WRONG_STATE
 * for a step that is staged, or a sequence that is in two steps or not where it must stand. */
PLE_API ple_status ple_step_stage(ple_step* step, const ple_batch* batch);

/* *ready: 1 when ple_step_wait would return at once. */
PLE_API ple_status ple_step_ready(const ple_step* step, int32_t* ready);

/* Until every row is there. A read that failed is reported here (and by run): PLE_IO_ERROR,
 * PLE_DEADLINE, or PLE_CORRUPT for rows that do not have their checksum. Such a step gives the same
 * failure until it is discarded. */
PLE_API ple_status ple_step_wait(ple_step* step);

typedef enum ple_element { PLE_F32 = 0, PLE_BF16 = 1 } ple_element;

typedef enum ple_output_mode {
  PLE_OUTPUT_UPDATE = 0, /* the stream after the layer: input + what the layer adds */
  PLE_OUTPUT_DELTA = 1   /* only what the layer adds */
} ple_output_mode;

typedef struct ple_run_args {
  uint32_t struct_bytes;
  ple_element element; /* of input and output */
  ple_output_mode mode;
  const void* input; /* [token_count, input_elements], in the batch's order, on the engine's device;
                        NULL if it takes none; aligned to 16 bytes on a GPU */
  void* output;      /* [token_count, output_elements] likewise; may be input itself if both have
                        one size, and overlaps it in no other way */
  void* stream;      /* the device's stream (cudaStream_t); not used on a CPU */
} ple_run_args;
#define PLE_RUN_ARGS_INIT \
  { sizeof(ple_run_args), PLE_F32, PLE_OUTPUT_UPDATE, NULL, NULL, NULL }

/* The layer over the staged tokens. On a CPU: waits for the rows and returns when the output is
 * written. On a GPU: enqueues on the stream; legal under capture. Running a staged step again gives
 * the same result. The layers of an engine may run in any order; a sequence's first staged step
 * runs before its second. PLE_WRONG_STATE for a step that is not staged; else as ple_step_wait. */
PLE_API ple_status ple_step_run(ple_step* step, int32_t layer, const ple_run_args* args);

/* Under replay, between stage and the launch of the captured graph: waits on the host for the rows,
 * and makes the stream wait for their placement. Not needed before an eager run.
 *
 * Where ple_engine_info.graph_wait is 1 the graph may be launched first: prepare on a stream that
 * is being captured records a wait there, ahead of the runs; from then on, for every batch: stage,
 * launch, prepare, which lets the graph go on. Should it fail, the graph goes on with an empty
 * batch and the step has failed. */
PLE_API ple_status ple_step_prepare(ple_step* step, void* stream);

/* Each sequence moves forward by accepted[i] of its tokens, accepted [sequence_count of the staged
 * batch] (NULL: all); at most draft_max may be rejected, and none while a later step of the
 * sequence is staged. On a GPU call it after the work was enqueued; it does not wait for the
 * device. A failure moves no sequence. */
PLE_API ple_status ple_step_commit(ple_step* step, const int32_t* accepted);

/* Forgets what was staged; sequences stay where they are. A graph that was launched and waits for
 * its rows goes on with an empty batch, and the step's next stage waits for its end. Harmless when
 * nothing is staged. */
PLE_API ple_status ple_step_discard(ple_step* step);

/* ---- Whole tables, and measurements ---------------------------------------------------------- */

/* Called now and then from the calling thread with what is done and what there is to do, in bytes
 * or, by ple_model_verify, in rows; a value other than 0 stops the work with PLE_WRONG_STATE. */
typedef int32_t (*ple_progress_fn)(void* user, uint64_t done, uint64_t total);

typedef struct ple_verify_report {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t rows_checked;
  uint64_t rows_not_finite;
  uint64_t first_bad_row; /* when rows_not_finite is not 0 */
  int32_t first_bad_layer;
  int32_t sums_checked; /* 1: block checksums were present and hold */
  uint64_t sample_rows; /* read through a cache and directly, and compared */
  uint64_t sample_mismatches;
} ple_verify_report;
#define PLE_VERIFY_REPORT_INIT \
  { sizeof(ple_verify_report), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Reads every row of every layer once: all values finite, checksums (where present) right, and a
 * sample equal through a small cache and directly. A bad row is reported, not an error. */
PLE_API ple_status ple_model_verify(const ple_model* model, ple_progress_fn progress, void* user,
                                    ple_verify_report* report);

/* Writes the block checksums of the model's table files beside them (docs/checksums.md). */
PLE_API ple_status ple_model_write_sums(const ple_model* model, ple_progress_fn progress,
                                        void* user);

typedef enum ple_pack_format {
  PLE_PACK_BF16 = 0,
  PLE_PACK_FP8 = 1,  /* E4M3, one f32 scale per row; FP8 tables of any kind keep their codes */
  PLE_PACK_INT8 = 2, /* one f32 scale per row */
  PLE_PACK_NVFP4 = 3 /* needs the table's largest value: the table is read twice */
} ple_pack_format;

typedef struct ple_pack_options {
  uint32_t struct_bytes;
  ple_pack_format format;
  int32_t interleave;   /* 1: a row's codes and scales side by side, so that a row is one read */
  int32_t thread_count; /* 0: all */
} ple_pack_options;
#define PLE_PACK_OPTIONS_INIT \
  { sizeof(ple_pack_options), PLE_PACK_BF16, 0, 0 }

/* What a head lost: ||new - old|| / ||old|| over all its rows, and that of its worst row. A head is
 * a column's rows, or the whole table of a family without columns. */
typedef struct ple_pack_head {
  int32_t layer_index;
  int32_t column;
  uint64_t row_begin;
  uint64_t row_count;
  double relative_error;
  double worst_error;
  uint64_t worst_row; /* when worst_error is not 0 */
} ple_pack_head;

typedef void (*ple_pack_head_fn)(void* user, const ple_pack_head* head);

typedef struct ple_pack_report {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t row_count;
  uint64_t rows_resumed; /* of these, done by a run before */
  uint64_t old_bytes;    /* of the tables */
  uint64_t new_bytes;
} ple_pack_report;
#define PLE_PACK_REPORT_INIT \
  { sizeof(ple_pack_report), 0, 0, 0, 0, 0 }

/* Writes the checkpoint of `directory` to `out`, its tables in another row format, without ever
 * holding one in memory. Rows become what decoding them gives, encoded anew, so packing as bf16
 * changes no output bit; a table that has the format already keeps its codes and scales. Files
 * without rows become hard links (copies where that cannot be), files beside the weights copies.
 * `out` appears when it is whole; until then the work is in `out`.partial, and a run that was
 * stopped or killed goes on there when the same is asked for again, to the same bytes. A row that
 * is not finite is PLE_CORRUPT. head (may be NULL) is called for each head at the end. */
PLE_API ple_status ple_pack(const char* directory, const char* out, const ple_pack_options* options,
                            ple_progress_fn progress, ple_pack_head_fn head, void* user,
                            ple_pack_report* report);

typedef struct ple_io_measurement {
  uint32_t struct_bytes;
  ple_io io;
  int32_t block_bytes;
  int32_t depth;
  double reads_per_s;
  double bytes_per_s;
  ple_quantiles read;
} ple_io_measurement;
#define PLE_IO_MEASUREMENT_INIT                                         \
  {                                                                     \
    sizeof(ple_io_measurement), PLE_IO_AUTO, 0, 0, 0, 0, { 0, 0, 0, 0 } \
  }

/* Distinct random rows of a layer's table, read as a step reads them, for about `seconds`. */
PLE_API ple_status ple_measure_io(const ple_model* model, int32_t layer,
                                  const ple_engine_options* options, double seconds,
                                  ple_io_measurement* measurement);

typedef struct ple_cache_measurement {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t arena_bytes;
  double hit_ids_per_s; /* one thread, lease included */
  double stage_16_us;   /* one decode step, ids hashed, all rows hit */
  double stage_1024_us;
  double stage_131072_us;
  double two_thread_scale;
  double bytes_per_slot;
} ple_cache_measurement;
#define PLE_CACHE_MEASUREMENT_INIT \
  { sizeof(ple_cache_measurement), 0, 0, 0, 0, 0, 0, 0, 0 }

/* The hit path on an arena of arena_bytes filled with made-up rows. */
PLE_API ple_status ple_measure_cache(uint64_t arena_bytes, ple_cache_measurement* measurement);

#ifdef __cplusplus
}
#endif

#endif /* PLEIADES_PLEIADES_H */
