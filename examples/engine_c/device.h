/* What an engine has of its own for its device: memory, a stream. One program is linked with
 * device_cpu.c and with device_cuda.c. */
#pragma once
#include <stddef.h>

/* As ple_engine_options takes it. Ends the program with 77 where there is no such device. */
const char* device_name(void);
void* device_stream(void);           /* NULL on a CPU */
void* device_allocate(size_t bytes); /* zeros */
void device_free(void* memory);
void device_copy(void* to, const void* from, size_t bytes); /* in the stream's order */
void device_wait(void);                                     /* for all that is on the stream */
