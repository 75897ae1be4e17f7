/* The contract as a C program sees it: layouts that may not move, refusals that change nothing, and
 * handles that are released in any order, twice. */

#include <pleiades/pleiades.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layouts of 0.1. A field may be added at the end of a struct, with a new minor version. */
_Static_assert(sizeof(ple_model_info) == 48, "ple_model_info");
_Static_assert(offsetof(ple_model_info, table_bytes) == 24, "ple_model_info.table_bytes");
_Static_assert(sizeof(ple_layer_info) == 72, "ple_layer_info");
_Static_assert(sizeof(ple_engine_options) == 104, "ple_engine_options");
_Static_assert(offsetof(ple_engine_options, cache_bytes) == 32, "ple_engine_options.cache_bytes");
_Static_assert(sizeof(ple_batch) == 56, "ple_batch");
_Static_assert(sizeof(ple_run_args) == 40, "ple_run_args");
_Static_assert(PLE_INTERNAL == 10 && PLE_DEADLINE == 8, "ple_status");

static int failures = 0;

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      printf("line %d: %s (%s)\n", __LINE__, #condition, ple_last_error()); \
      ++failures;                                                           \
    }                                                                       \
  } while (0)

/* The call is refused with this status, and the sentence has these words. */
#define REFUSED(call, status, words)                  \
  do {                                                \
    CHECK((call) == (status));                        \
    CHECK(strstr(ple_last_error(), (words)) != NULL); \
  } while (0)

enum { HIDDEN = 8, STREAMS = 2, EMBED = 8, ROWS = 152, ROW_DIM = 2, TOKENS = 5 };

static uint16_t zeros[STREAMS * HIDDEN * EMBED]; /* bf16 zeros serve as every weight */
static uint16_t rows[ROWS * ROW_DIM];

static ple_model_desc description(ple_shard_desc* shard, ple_layer_desc* layer) {
  const ple_shard_desc whole = {NULL, rows, 0, 0, ROWS};
  *shard = whole;
  memset(layer, 0, sizeof *layer);
  layer->struct_bytes = sizeof *layer;
  layer->layer_index = 1;
  layer->shards = shard;
  layer->shard_count = 1;
  layer->key = layer->value = zeros;
  layer->norm_key = layer->norm_query = layer->norm_conv = layer->conv = zeros;
  ple_model_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.struct_bytes = sizeof desc;
  desc.vocab_size = 97;
  desc.eos_token_id = 7;
  desc.hidden = HIDDEN;
  desc.stream_count = STREAMS;
  desc.embed_dim = EMBED;
  desc.ngram_size = 3;
  desc.heads_per_ngram = 2;
  desc.tap_count = 4;
  desc.ngram_vocab_size_base = 31;
  desc.row_count_divisor = 8;
  desc.seed = 1234;
  desc.eps = 1e-6f;
  desc.layers = layer;
  desc.layer_count = 1;
  return desc;
}

static void test_refused_models(void) {
  ple_model* model = NULL;
  REFUSED(ple_model_open(NULL, &model), PLE_INVALID_ARGUMENT, "path is NULL");
  REFUSED(ple_model_open("", &model), PLE_INVALID_ARGUMENT, "is empty");
  REFUSED(ple_model_open("no such place", &model), PLE_NOT_FOUND, "'no such place': No such file");
  CHECK(model == NULL);
  char name[4002] = "x"; /* sentences of any length are kept up to a whole character */
  for (int i = 1; i < 4001; ++i) name[i] = "\xA9\xC3"[i % 2];
  for (int i = 0; i < 2; ++i) {
    CHECK(ple_model_open(name + i, &model) != PLE_OK);
    CHECK(strlen(ple_last_error()) > 2000);
    CHECK(ple_last_error()[strlen(ple_last_error()) - 1] == '\xA9');
  }

  ple_shard_desc shard;
  ple_layer_desc layer;
  ple_model_desc desc = description(&shard, &layer);
  desc.struct_bytes = 4;
  REFUSED(ple_model_describe(&desc, &model), PLE_INVALID_ARGUMENT, "struct_bytes 4");
  desc = description(&shard, &layer);
  shard.row_count = ROWS - 1;
  CHECK(ple_model_describe(&desc, &model) != PLE_OK);
  desc = description(&shard, &layer);
  layer.key = NULL;
  REFUSED(ple_model_describe(&desc, &model), PLE_INVALID_ARGUMENT, "NULL");
  desc = description(&shard, &layer);
  layer.row_format = PLE_ROW_NVFP4;
  REFUSED(ple_model_describe(&desc, &model), PLE_UNSUPPORTED, "row_format");
  desc = description(&shard, &layer);
  layer.row_format = PLE_ROW_FP8_E4M3; /* its scale was forgotten: every row would be zero */
  REFUSED(ple_model_describe(&desc, &model), PLE_INVALID_ARGUMENT, "row_scale is 0");
  desc = description(&shard, &layer);
  desc.embed_dim = 7;
  CHECK(ple_model_describe(&desc, &model) != PLE_OK);
  CHECK(model == NULL);
}

static ple_model* open_model(void) {
  ple_shard_desc shard;
  ple_layer_desc layer;
  const ple_model_desc desc = description(&shard, &layer);
  ple_model* model = NULL;
  CHECK(ple_model_describe(&desc, &model) == PLE_OK);
  return model;
}

static void test_engine_options(const ple_model* model) {
  ple_engine_options options = PLE_ENGINE_OPTIONS_INIT;
  ple_engine* engine = NULL;
  options.device = "toaster";
  REFUSED(ple_engine_open(model, &options, &engine), PLE_INVALID_ARGUMENT, "toaster");
  options.device = NULL;
  options.arithmetic = (ple_arithmetic)9;
  REFUSED(ple_engine_open(model, &options, &engine), PLE_INVALID_ARGUMENT, "arithmetic");
  options.arithmetic = PLE_ARITHMETIC_AUTO;
  const int32_t layers[1] = {77};
  options.layers = layers;
  REFUSED(ple_engine_open(model, &options, &engine), PLE_INVALID_ARGUMENT, "0 layers");
  options.layer_count = 1;
  REFUSED(ple_engine_open(model, &options, &engine), PLE_INVALID_ARGUMENT,
          "layer 77 has no n-gram memory; layers with one: 1");
  options.layers = NULL;
  REFUSED(ple_engine_open(model, &options, &engine), PLE_INVALID_ARGUMENT, "1 layers");
  options.layer_count = 0;
  CHECK(engine == NULL);

  options.arena = PLE_ARENA_CACHED; /* of any size: no more than the table has rows */
  options.cache_bytes = UINT64_MAX;
  CHECK(ple_engine_open(model, &options, &engine) == PLE_OK);
  ple_engine_info info = PLE_ENGINE_INFO_INIT;
  CHECK(ple_engine_get_info(engine, &info) == PLE_OK && info.slot_count >= ROWS);
  ple_engine_release(&engine);
}

static void test_refused_calls(ple_model* model, ple_engine* engine) {
  ple_layer_info info = PLE_LAYER_INFO_INIT;
  CHECK(ple_model_get_layer(model, 0, &info) == PLE_OK && info.column_count == 4);
  REFUSED(ple_model_get_layer(model, 1, &info), PLE_INVALID_ARGUMENT, "1 of 1");
  const int32_t beyond[1] = {97};
  uint32_t ids[4];
  REFUSED(ple_model_row_ids(model, 1, beyond, 1, ids), PLE_INVALID_ARGUMENT, "97");
  REFUSED(ple_model_row_ids(model, 2, beyond, 1, ids), PLE_INVALID_ARGUMENT, "layer 2");

  float values[ROW_DIM];
  REFUSED(ple_model_decode_rows(model, 1, rows, -1, values), PLE_INVALID_ARGUMENT, "-1 rows");
  ple_cache_measurement measurement = PLE_CACHE_MEASUREMENT_INIT;
  REFUSED(ple_measure_cache(0, &measurement), PLE_INVALID_ARGUMENT, "an arena of 0 bytes");
  REFUSED(ple_measure_cache(UINT64_MAX, &measurement), PLE_INVALID_ARGUMENT, "an arena of");

  ple_sequence* sequence = NULL;
  ple_step* step = NULL;
  const ple_step_options step_options = {sizeof step_options, TOKENS, 1};
  CHECK(ple_sequence_create(engine, &sequence) == PLE_OK);
  CHECK(ple_step_create(engine, &step_options, &step) == PLE_OK);
  REFUSED(ple_step_wait(step), PLE_WRONG_STATE, "not staged");
  REFUSED(ple_step_commit(step, NULL), PLE_WRONG_STATE, "not staged");

  const int32_t tokens[TOKENS + 1] = {1, 2, 3, 4, 5, 6};
  int32_t count = TOKENS + 1;
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = 1;
  batch.sequences = &sequence;
  batch.token_counts = &count;
  batch.tokens = tokens;
  REFUSED(ple_step_stage(step, &batch), PLE_INVALID_ARGUMENT, "bytes");
  count = TOKENS;
  const int64_t elsewhere = 3;
  batch.positions = &elsewhere;
  REFUSED(ple_step_stage(step, &batch), PLE_WRONG_STATE, "expected 3");
  batch.positions = NULL;
  CHECK(ple_step_stage(step, &batch) == PLE_OK);
  REFUSED(ple_step_stage(step, &batch), PLE_WRONG_STATE, "staged already");
  REFUSED(ple_sequence_rewind(sequence, 0), PLE_WRONG_STATE, "staged");
  size_t bytes = 77;
  REFUSED(ple_sequence_snapshot(sequence, PLE_SNAPSHOT_FULL, NULL, 0, &bytes), PLE_WRONG_STATE,
          "staged");
  CHECK(bytes == 77);

  float highway[TOKENS * STREAMS * HIDDEN] = {0};
  ple_run_args args = PLE_RUN_ARGS_INIT;
  REFUSED(ple_step_run(step, 1, &args), PLE_INVALID_ARGUMENT, "NULL");
  args.input = args.output = highway;
  REFUSED(ple_step_run(step, 0, &args), PLE_INVALID_ARGUMENT, "layer 0");
  CHECK(ple_step_run(step, 1, &args) == PLE_OK);
  const int32_t too_many = TOKENS + 1;
  REFUSED(ple_step_commit(step, &too_many), PLE_INVALID_ARGUMENT, "6 of 5");
  CHECK(ple_step_commit(step, NULL) == PLE_OK);
  int64_t position = 0;
  CHECK(ple_sequence_position(sequence, &position) == PLE_OK && position == TOKENS);
  REFUSED(ple_sequence_restore(sequence, "short", 5), PLE_CORRUPT, "truncated");
  CHECK(ple_sequence_position(sequence, &position) == PLE_OK && position == TOKENS);

  /* A step keeps what it has staged, whatever is released first. */
  CHECK(ple_step_stage(step, &batch) == PLE_OK);
  ple_sequence_release(&sequence);
  ple_sequence_release(&sequence);
  CHECK(sequence == NULL);
  CHECK(ple_step_run(step, 1, &args) == PLE_OK);
  ple_step_release(&step);
  ple_step_release(&step);
}

static void test_metrics(ple_engine* engine) {
  ple_metrics metrics = PLE_METRICS_INIT;
  CHECK(ple_engine_get_metrics(engine, &metrics) == PLE_OK);
  CHECK(metrics.tokens == TOKENS && metrics.steps == 1);
  CHECK(metrics.rows_asked == 2 * 4 * TOKENS);
  ple_time_bucket buckets[PLE_TIME_BUCKETS_MAX];
  int32_t bucket_count = -1;
  REFUSED(ple_engine_get_read_times(engine, NULL, &bucket_count), PLE_INVALID_ARGUMENT, "buckets");
  CHECK(ple_engine_get_read_times(engine, buckets, &bucket_count) == PLE_OK);
  uint64_t read_count = 0;
  for (int32_t i = 0; i < bucket_count; ++i) {
    CHECK(i == 0 || buckets[i].us_max > buckets[i - 1].us_max);
    read_count += buckets[i].count;
  }
  CHECK(bucket_count >= 0 && read_count == metrics.read.count);
  size_t bytes = 0;
  CHECK(ple_engine_metrics_text(engine, NULL, 0, &bytes) == PLE_OK && bytes > 0);
  char* page = malloc(bytes + 1);
  REFUSED(ple_engine_metrics_text(engine, page, bytes, &bytes), PLE_INVALID_ARGUMENT, "buffer");
  CHECK(ple_engine_metrics_text(engine, page, bytes + 1, &bytes) == PLE_OK);
  CHECK(strstr(page, "pleiades_tokens_total 5\n") != NULL);
  free(page);
}

int main(void) {
  CHECK(strcmp(ple_version(), "0.1.0") == 0);
  test_refused_models();
  ple_model* model = open_model();
  test_engine_options(model);
  ple_engine* engine = NULL;
  CHECK(ple_engine_open(model, NULL, &engine) == PLE_OK);
  if (engine != NULL) {
    test_refused_calls(model, engine);
    test_metrics(engine);
  }
  ple_model_release(&model);
  ple_model_release(&model);
  ple_engine_release(&engine);
  ple_engine_release(NULL);
  if (failures == 0) printf("ok\n");
  return failures == 0 ? 0 : 1;
}
