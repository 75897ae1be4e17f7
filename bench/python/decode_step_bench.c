/* One decode step through C: stage, run at each memory layer, commit. Prints the median and the
 * 90th percentile of the host's microseconds; a GPU is waited for between steps.
 * usage: decode_step_bench CHECKPOINT [STEPS [DEVICE]] */
#include <pleiades/pleiades.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "highway.h"

#define CHECK(call)                                         \
  do {                                                      \
    if ((call) != PLE_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, ple_last_error()); \
      exit(1);                                              \
    }                                                       \
  } while (0)

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int by_value(const void* one, const void* other) {
  const double a = *(const double*)one;
  const double b = *(const double*)other;
  return (a > b) - (a < b);
}

static void decode_step(ple_step* step, ple_sequence* sequence, int32_t token,
                        const ple_layer_info* layers, int32_t layer_count, float* highway) {
  const int32_t count = 1;
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = 1;
  batch.sequences = &sequence;
  batch.token_counts = &count;
  batch.tokens = &token;
  CHECK(ple_step_stage(step, &batch));
  for (int32_t i = 0; i < layer_count; ++i) {
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.input = highway;
    args.output = highway;
    CHECK(ple_step_run(step, layers[i].layer_index, &args));
  }
  CHECK(ple_step_commit(step, NULL));
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: decode_step_bench CHECKPOINT [STEPS [DEVICE]]\n"), 2;
  const int32_t steps = argc > 2 ? atoi(argv[2]) : 3000;
  const char* const device = argc > 3 ? argv[3] : "cpu";
  ple_model* model = NULL;
  ple_engine* engine = NULL;
  ple_sequence* sequence = NULL;
  ple_step* step = NULL;
  CHECK(ple_model_open(argv[1], &model));
  ple_model_info info = PLE_MODEL_INFO_INIT;
  CHECK(ple_model_get_info(model, &info));
  ple_layer_info layers[8];
  const int32_t layer_count = info.layer_count < 8 ? info.layer_count : 8;
  for (int32_t i = 0; i < layer_count; ++i) {
    layers[i] = (ple_layer_info)PLE_LAYER_INFO_INIT;
    CHECK(ple_model_get_layer(model, i, &layers[i]));
  }
  ple_engine_options options = PLE_ENGINE_OPTIONS_INIT;
  options.device = device;
  options.arena = PLE_ARENA_RESIDENT;
  options.thread_count = 1;
  CHECK(ple_engine_open(model, &options, &engine));
  CHECK(ple_sequence_create(engine, &sequence));
  CHECK(ple_step_create(engine, NULL, &step));
  float* highway = make_highway(device, (size_t)layers[0].input_elements * sizeof(float));
  double* times = calloc((size_t)steps, sizeof(double));
  if (highway == NULL || times == NULL) return 1;

  for (int32_t i = 0; i < steps; ++i) {
    const double begin = now_us();
    decode_step(step, sequence, i * 37 % info.vocab_size, layers, layer_count, highway);
    times[i] = now_us() - begin;
    wait_for_device(device);
  }
  qsort(times, (size_t)steps, sizeof(double), by_value);
  printf("%.3f %.3f\n", times[steps / 2], times[steps * 9 / 10]);

  free(times);
  free_highway(device, highway);
  ple_step_release(&step);
  ple_sequence_release(&sequence);
  ple_engine_release(&engine);
  ple_model_release(&model);
  return 0;
}
