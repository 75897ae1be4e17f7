#include "highway.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

static int is_host(const char* device) { return strcmp(device, "cpu") == 0; }

float* make_highway(const char* device, size_t bytes) {
  if (is_host(device)) return calloc(1, bytes);
  void* highway = NULL;
  if (cudaMalloc(&highway, bytes) != cudaSuccess) return NULL;
  return cudaMemset(highway, 0, bytes) == cudaSuccess ? highway : NULL;
}

void free_highway(const char* device, float* highway) {
  if (is_host(device)) {
    free(highway);
  } else {
    (void)cudaFree(highway);
  }
}

void wait_for_device(const char* device) {
  if (!is_host(device)) (void)cudaDeviceSynchronize();
}
