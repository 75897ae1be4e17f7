#include <stdlib.h>
#include <string.h>

#include "device.h"

const char* device_name(void) { return "cpu"; }
void* device_stream(void) { return NULL; }
void* device_allocate(size_t bytes) {
  void* memory = calloc(1, bytes);
  if (memory == NULL) exit(1);
  return memory;
}
void device_free(void* memory) { free(memory); }
void device_copy(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
void device_wait(void) {}
