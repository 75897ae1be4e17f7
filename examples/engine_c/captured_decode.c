/* The decode step of an engine as a CUDA graph: captured once, replayed for every token and for any
 * batch up to its size. usage: captured_decode CHECKPOINT (needs a GPU; 77 without one) */
#include <cuda_runtime_api.h>
#include <pleiades/pleiades.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 4, TOKENS = 24, SKIPPED = 77 };

#define CHECK(call)                                         \
  do {                                                      \
    if ((call) != PLE_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, ple_last_error()); \
      exit(1);                                              \
    }                                                       \
  } while (0)

#define CUDA_CHECK(call)                                             \
  do {                                                               \
    const cudaError_t error = (call);                                \
    if (error != cudaSuccess) {                                      \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
      exit(1);                                                       \
    }                                                                \
  } while (0)

typedef struct decoder {
  ple_engine* engine;
  ple_step* step;
  ple_sequence* sequences[SEQUENCES];
  ple_layer_info layer;
  cudaStream_t stream;
  float* highway; /* device, [SEQUENCES, input_elements] */
} decoder;

static void stage(decoder* d, int32_t sequence_count, int32_t at) {
  int32_t tokens[SEQUENCES];
  int32_t counts[SEQUENCES];
  for (int32_t i = 0; i < sequence_count; ++i) {
    tokens[i] = (at * 37 + i * 101) % 500;
    counts[i] = 1;
  }
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = sequence_count;
  batch.sequences = d->sequences;
  batch.token_counts = counts;
  batch.tokens = tokens;
  CHECK(ple_step_stage(d->step, &batch));
}

/* What the engine captures: here the memory layer alone, in an engine the whole model. */
static void enqueue(decoder* d) {
  const size_t bytes = (size_t)(SEQUENCES * d->layer.input_elements) * sizeof(float);
  CUDA_CHECK(cudaMemsetAsync(d->highway, 0x3E, bytes, d->stream));
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.input = d->highway;
  args.output = d->highway;
  args.stream = d->stream;
  CHECK(ple_step_run(d->step, d->layer.layer_index, &args));
}

static void read_back(const decoder* d, float* host) {
  const size_t bytes = (size_t)(SEQUENCES * d->layer.output_elements) * sizeof(float);
  CUDA_CHECK(cudaMemcpyAsync(host, d->highway, bytes, cudaMemcpyDeviceToHost, d->stream));
  CUDA_CHECK(cudaStreamSynchronize(d->stream));
}

static void fresh_sequences(decoder* d) {
  for (int32_t i = 0; i < SEQUENCES; ++i) {
    ple_sequence_release(&d->sequences[i]);
    CHECK(ple_sequence_create(d->engine, &d->sequences[i]));
  }
}

static cudaGraphExec_t capture(decoder* d) {
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  stage(d, SEQUENCES, 0); /* a step is captured staged, at the batch it was sized for */
  CUDA_CHECK(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal));
  enqueue(d);
  CUDA_CHECK(cudaStreamEndCapture(d->stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaGraphDestroy(graph));
  CHECK(ple_step_discard(d->step));
  return exec;
}

/* Decodes TOKENS tokens of 4, 3, 2, 1, 4, ... sequences; with a graph or eagerly. */
static void decode(decoder* d, cudaGraphExec_t exec, float* host) {
  const int64_t width = d->layer.output_elements;
  fresh_sequences(d);
  for (int32_t at = 0; at < TOKENS; ++at) {
    const int32_t sequence_count = SEQUENCES - at % SEQUENCES;
    stage(d, sequence_count, at);
    if (exec != NULL) {
      CHECK(ple_step_prepare(d->step, d->stream));
      CUDA_CHECK(cudaGraphLaunch(exec, d->stream));
    } else {
      enqueue(d);
    }
    CHECK(ple_step_commit(d->step, NULL));
    read_back(d, host + at * SEQUENCES * width);
    /* Rows behind the batch are nobody's. */
    memset(host + (at * SEQUENCES + sequence_count) * width, 0,
           (size_t)((SEQUENCES - sequence_count) * width) * sizeof(float));
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: captured_decode CHECKPOINT\n"), 2;
  int device_count = 0;
  if (cudaGetDeviceCount(&device_count) != cudaSuccess || device_count == 0) {
    return printf("skipped: no GPU here\n"), SKIPPED;
  }
  decoder d = {0};
  ple_model* model = NULL;
  CHECK(ple_model_open(argv[1], &model));
  d.layer = (ple_layer_info)PLE_LAYER_INFO_INIT;
  CHECK(ple_model_get_layer(model, 0, &d.layer));
  ple_engine_options options = PLE_ENGINE_OPTIONS_INIT;
  options.device = "cuda";
  options.layers = &d.layer.layer_index;
  options.layer_count = 1;
  CHECK(ple_engine_open(model, &options, &d.engine));
  ple_step_options sizes = {sizeof(ple_step_options), SEQUENCES, SEQUENCES};
  CHECK(ple_step_create(d.engine, &sizes, &d.step));
  CUDA_CHECK(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
  const size_t width = (size_t)d.layer.output_elements;
  CUDA_CHECK(cudaMalloc((void**)&d.highway, SEQUENCES * width * sizeof(float)));

  float* eager = calloc(TOKENS * SEQUENCES * width, sizeof(float));
  float* replayed = calloc(TOKENS * SEQUENCES * width, sizeof(float));
  decode(&d, NULL, eager);
  fresh_sequences(&d);
  cudaGraphExec_t exec = capture(&d);
  decode(&d, exec, replayed);
  const int same = memcmp(eager, replayed, TOKENS * SEQUENCES * width * sizeof(float)) == 0;
  printf("%d tokens replayed from one graph: %s\n", TOKENS, same ? "the same bits" : "DIFFERENT");

  CUDA_CHECK(cudaGraphExecDestroy(exec));
  for (int32_t i = 0; i < SEQUENCES; ++i) ple_sequence_release(&d.sequences[i]);
  ple_step_release(&d.step);
  ple_engine_release(&d.engine);
  ple_model_release(&model);
  CUDA_CHECK(cudaFree(d.highway));
  CUDA_CHECK(cudaStreamDestroy(d.stream));
  free(eager);
  free(replayed);
  return same ? 0 : 1;
}
