/* An inference engine's life with the library, in C: open, chunked prefill, decode, a prefix cache,
 * speculative decoding. usage: engine CHECKPOINT
 *
 * The model around the memory layers is made up (`attention_and_mlp`); everything else is what an
 * engine does. captured_decode.c beside this file is the decode loop as a CUDA graph. */
#include <pleiades/pleiades.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 8, DRAFTS = 3, TOKENS_MAX = 64 };

/* Every call may refuse; the sentence says what and why. */
#define CHECK(call)                                         \
  do {                                                      \
    if ((call) != PLE_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, ple_last_error()); \
      exit(1);                                              \
    }                                                       \
  } while (0)

typedef struct engine {
  ple_model* model;
  ple_engine* engine;
  ple_step* step;
  int32_t layer_count;
  ple_layer_info layers[8];
  float* highway; /* [TOKENS_MAX, input_elements] */
} engine;

/* What stands for the rest of the model: the same for the same token at the same position. */
static void attention_and_mlp(const engine* e, int32_t layer, const int32_t* tokens,
                              int64_t position, int32_t count) {
  const int64_t width = e->layers[layer].input_elements;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t mixed = (tokens[t] * 31 + position + t) * 7919 + i * 104729 + layer;
      e->highway[t * width + i] = (float)(mixed % 1009) / 504.5F - 1;
    }
  }
}

/* One step of one sequence through all layers; returns a digest of what the last layer left. */
static double forward(engine* e, ple_sequence* sequence, const int32_t* tokens, int32_t count,
                      const int32_t* accepted) {
  int64_t position = 0;
  CHECK(ple_sequence_position(sequence, &position));
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = 1;
  batch.sequences = &sequence;
  batch.token_counts = &count;
  batch.tokens = tokens;
  CHECK(ple_step_stage(e->step, &batch)); /* reads begin; the layers before compute meanwhile */
  for (int32_t layer = 0; layer < e->layer_count; ++layer) {
    attention_and_mlp(e, layer, tokens, position, count);
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.input = e->highway;
    args.output = e->highway;
    CHECK(ple_step_run(e->step, e->layers[layer].layer_index, &args));
  }
  CHECK(ple_step_commit(e->step, accepted));
  const int64_t kept = accepted == NULL ? count : *accepted;
  const int64_t width = e->layers[e->layer_count - 1].output_elements;
  double digest = 0;
  for (int64_t i = 0; i < kept * width; ++i) digest += e->highway[i] * (double)(i % 13 + 1);
  return digest;
}

static void open_engine(engine* e, const char* path) {
  CHECK(ple_model_open(path, &e->model));
  ple_model_info info = PLE_MODEL_INFO_INIT;
  CHECK(ple_model_get_info(e->model, &info));
  e->layer_count = info.layer_count < 8 ? info.layer_count : 8;
  int64_t width = 0;
  for (int32_t i = 0; i < e->layer_count; ++i) {
    e->layers[i] = (ple_layer_info)PLE_LAYER_INFO_INIT;
    CHECK(ple_model_get_layer(e->model, i, &e->layers[i]));
    if (e->layers[i].output_elements > width) width = e->layers[i].output_elements;
  }
  ple_engine_options options = PLE_ENGINE_OPTIONS_INIT;
  options.cache_bytes = info.table_bytes / 10;
  options.draft_max = DRAFTS;
  CHECK(ple_engine_open(e->model, &options, &e->engine));
  ple_step_options sizes = PLE_STEP_OPTIONS_INIT;
  sizes.tokens_max = TOKENS_MAX;
  CHECK(ple_step_create(e->engine, &sizes, &e->step));
  e->highway = malloc((size_t)(TOKENS_MAX * width) * sizeof(float));
  if (e->highway == NULL) exit(1);
}

static void close_engine(engine* e) {
  free(e->highway);
  ple_step_release(&e->step);
  ple_engine_release(&e->engine);
  ple_model_release(&e->model);
}

/* The state at a prefix's end, to lie beside the prefix's KV blocks. */
static void* save_prefix(const ple_sequence* sequence, size_t* bytes) {
  CHECK(ple_sequence_snapshot(sequence, PLE_SNAPSHOT_COMPACT, NULL, 0, bytes));
  void* blob = malloc(*bytes);
  if (blob == NULL) exit(1);
  CHECK(ple_sequence_snapshot(sequence, PLE_SNAPSHOT_COMPACT, blob, *bytes, bytes));
  return blob;
}

static void expect(const char* what, double one, double other) {
  printf("%-46s %s\n", what, one == other ? "the same bits" : "DIFFERENT");
  if (one != other) exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: engine CHECKPOINT\n"), 2;
  engine e = {0};
  open_engine(&e, argv[1]);
  int32_t prompt[24];
  for (int32_t i = 0; i < 24; ++i) prompt[i] = (i * 37 + 11) % 500;
  const int32_t next[4] = {3, 14, 15, 92};

  /* Chunked prefill, then a snapshot where the prompt ends, then decode token by token. */
  ple_sequence* first = NULL;
  CHECK(ple_sequence_create(e.engine, &first));
  for (int32_t at = 0; at < 24; at += CHUNK) forward(&e, first, prompt + at, CHUNK, NULL);
  size_t prefix_bytes = 0;
  void* prefix = save_prefix(first, &prefix_bytes);
  double decoded = 0;
  for (int32_t i = 0; i < 4; ++i) decoded = forward(&e, first, next + i, 1, NULL);

  /* A second request with the same prompt skips its prefill. */
  ple_sequence* second = NULL;
  CHECK(ple_sequence_create(e.engine, &second));
  CHECK(ple_sequence_restore(second, prefix, prefix_bytes));
  printf("a prefix of 24 tokens is a snapshot of %zu bytes\n", prefix_bytes);

  /* Speculative decoding: one token and three drafts in a step; two of the drafts are right. */
  const int32_t drafts[4] = {3, 14, 15, 400};
  const int32_t accepted = 3;
  forward(&e, second, drafts, 4, &accepted);
  expect("speculated after the prefix, then decoded:", forward(&e, second, next + 3, 1, NULL),
         decoded);

  ple_sequence_release(&first);
  ple_sequence_release(&first); /* twice is harmless */
  ple_sequence_release(&second);
  free(prefix);
  close_engine(&e);
  return 0;
}
