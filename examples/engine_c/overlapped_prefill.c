/* A prompt in chunks, two of them under way: the rows of the next chunk are found and read while
 * this one computes. On a CPU, and on a GPU from memory of the device.
 * usage: overlapped_prefill CHECKPOINT */
#include <pleiades/pleiades.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { CHUNK = 32, CHUNKS = 8, TOKENS = CHUNK * CHUNKS };

#define CHECK(call)                                         \
  do {                                                      \
    if ((call) != PLE_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, ple_last_error()); \
      exit(1);                                              \
    }                                                       \
  } while (0)

typedef struct prefill {
  ple_engine* engine;
  ple_layer_info layer;
  int32_t tokens[TOKENS];
  size_t bytes;     /* of a token in the highway */
  char* host_input; /* [TOKENS, input_elements] f32 */
  char* highway;    /* the same on the device */
} prefill;

static ple_step* make_step(const prefill* p, int32_t tokens_max) {
  const ple_step_options sizes = {sizeof(ple_step_options), tokens_max, 1};
  ple_step* step = NULL;
  CHECK(ple_step_create(p->engine, &sizes, &step));
  return step;
}

static void stage(const prefill* p, ple_step* step, ple_sequence* sequence, int32_t begin,
                  int32_t count) {
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = 1;
  batch.sequences = &sequence;
  batch.token_counts = &count;
  batch.tokens = p->tokens + begin;
  CHECK(ple_step_stage(step, &batch));
}

/* On a GPU this only enqueues. */
static void run(const prefill* p, ple_step* step, int32_t begin) {
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.input = p->highway + (size_t)begin * p->bytes;
  args.output = p->highway + (size_t)begin * p->bytes;
  args.stream = device_stream();
  CHECK(ple_step_run(step, p->layer.layer_index, &args));
}

/* The whole prompt through a fresh sequence, in chunks of this size; returns the highway. */
static char* run_prompt(const prefill* p, int32_t chunk) {
  ple_sequence* sequence = NULL;
  CHECK(ple_sequence_create(p->engine, &sequence));
  ple_step* steps[2] = {make_step(p, chunk), make_step(p, chunk)};
  const int runs_aside = device_stream() != NULL;
  device_copy(p->highway, p->host_input, TOKENS * p->bytes);
  stage(p, steps[0], sequence, 0, chunk);
  for (int32_t begin = 0, at = 0; begin < TOKENS; begin += chunk, at = 1 - at) {
    /* A device that runs beside the host computes this chunk while the next one is staged; a CPU
     * computes it here while the next one's rows are read. */
    if (runs_aside) run(p, steps[at], begin);
    if (begin + chunk < TOKENS) stage(p, steps[1 - at], sequence, begin + chunk, chunk);
    if (!runs_aside) run(p, steps[at], begin);
    CHECK(ple_step_commit(steps[at], NULL)); /* does not wait for the device */
  }
  char* output = malloc(TOKENS * p->bytes);
  if (output == NULL) exit(1);
  device_copy(output, p->highway, TOKENS * p->bytes);
  device_wait();
  ple_step_release(&steps[0]);
  ple_step_release(&steps[1]);
  ple_sequence_release(&sequence);
  return output;
}

static void fill(prefill* p) {
  p->bytes = (size_t)p->layer.input_elements * sizeof(float);
  p->host_input = malloc(TOKENS * p->bytes);
  if (p->host_input == NULL) exit(1);
  float* input = (float*)p->host_input;
  for (int64_t i = 0; i < TOKENS * p->layer.input_elements; ++i) {
    input[i] = (float)(i * 7919 % 1009) / 504.5F - 1;
  }
  for (int32_t i = 0; i < TOKENS; ++i) p->tokens[i] = (i * i * 37 + 11) % 500;
  p->highway = device_allocate(TOKENS * p->bytes);
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: overlapped_prefill CHECKPOINT\n"), 2;
  prefill p = {0};
  ple_model* model = NULL;
  CHECK(ple_model_open(argv[1], &model));
  p.layer = (ple_layer_info)PLE_LAYER_INFO_INIT;
  CHECK(ple_model_get_layer(model, 0, &p.layer));
  ple_engine_options options = PLE_ENGINE_OPTIONS_INIT;
  options.device = device_name();
  options.arena = PLE_ARENA_CACHED;
  options.cache_bytes = 64 << 10; /* most rows are read */
  options.layers = &p.layer.layer_index;
  options.layer_count = 1;
  CHECK(ple_engine_open(model, &options, &p.engine));
  fill(&p);

  char* whole = run_prompt(&p, TOKENS);
  char* overlapped = run_prompt(&p, CHUNK);
  const int same = memcmp(whole, overlapped, TOKENS * p.bytes) == 0;
  const int changed = memcmp(whole, p.host_input, TOKENS * p.bytes) != 0;
  printf("%d chunks, two under way, on %s: %s\n", CHUNKS, device_name(),
         same && changed ? "the bits of one step" : "DIFFERENT");

  free(whole);
  free(overlapped);
  free(p.host_input);
  device_free(p.highway);
  ple_engine_release(&p.engine);
  ple_model_release(&model);
  return same && changed ? 0 : 1;
}
