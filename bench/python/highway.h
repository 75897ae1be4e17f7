#pragma once

#include <stddef.h>

/* Zeros on the device of an engine, and waiting for what was enqueued there. NULL where this build
 * has no such device. */
float* make_highway(const char* device, size_t bytes);
void free_highway(const char* device, float* highway);
void wait_for_device(const char* device);
