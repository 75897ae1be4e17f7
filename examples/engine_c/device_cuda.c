#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

static cudaStream_t stream;

static void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  exit(1);
}

const char* device_name(void) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    printf("skipped: no GPU here\n");
    exit(77);
  }
  return "cuda";
}
void* device_stream(void) {
  if (stream == NULL) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  return stream;
}
void* device_allocate(size_t bytes) {
  void* memory = NULL;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(cudaMemsetAsync(memory, 0, bytes, device_stream()), "cudaMemset");
  return memory;
}
void device_free(void* memory) { check(cudaFree(memory), "cudaFree"); }
void device_copy(void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device_stream()), "cudaMemcpy");
}
void device_wait(void) { check(cudaStreamSynchronize(device_stream()), "cudaStreamSynchronize"); }
