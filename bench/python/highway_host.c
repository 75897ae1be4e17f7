#include "highway.h"

#include <stdlib.h>
#include <string.h>

float* make_highway(const char* device, size_t bytes) {
  return strcmp(device, "cpu") == 0 ? calloc(1, bytes) : NULL;
}

void free_highway(const char* device, float* highway) {
  (void)device;
  free(highway);
}

void wait_for_device(const char* device) { (void)device; }
