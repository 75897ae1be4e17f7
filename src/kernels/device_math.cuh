#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

// What the CUDA kernels share: number formats, vectors of elements, warps and launches.

namespace ple::kernels {

inline constexpr int kWarpThreads = 32;
inline constexpr unsigned kWholeWarp = 0xFFFFFFFF;

__device__ inline float bf16_value(std::uint16_t bits) {
  return __uint_as_float(std::uint32_t{bits} << 16);
}

// Round to nearest even; NaN keeps the upper bits of its payload, as on the CPU.
__device__ inline std::uint16_t bf16_bits(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

// One instruction; a conversion of one value takes four times as long.
__device__ inline float round_bf16(float value) { return __uint_as_float(pack_bf16(0.0F, value)); }

__device__ inline float low_bf16(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(std::uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000); }

// Four elements at a 4-element boundary.
__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ inline float4 load4(const std::uint16_t* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  return {low_bf16(bits.x), high_bf16(bits.x), low_bf16(bits.y), high_bf16(bits.y)};
}
__device__ inline void store4(float* to, float4 value) { *reinterpret_cast<float4*>(to) = value; }
__device__ inline void store4(std::uint16_t* to, float4 value) {
  *reinterpret_cast<uint2*>(to) = {pack_bf16(value.x, value.y), pack_bf16(value.z, value.w)};
}

// Four elements as they lie in memory.
template <class T>
struct Vector4;
template <>
struct Vector4<std::uint16_t> {
  uint2 bits{};
  __device__ void load(const std::uint16_t* from) { bits = *reinterpret_cast<const uint2*>(from); }
  __device__ float4 value() const {
    return {low_bf16(bits.x), high_bf16(bits.x), low_bf16(bits.y), high_bf16(bits.y)};
  }
};
template <>
struct Vector4<float> {
  float4 bits{};
  __device__ void load(const float* from) { bits = *reinterpret_cast<const float4*>(from); }
  __device__ float4 value() const { return bits; }
};

// Eight elements at an 8-element boundary, as they lie in memory.
template <class T>
struct Vector8;
template <>
struct Vector8<std::uint16_t> {
  uint4 bits;
  __device__ float operator[](int i) const {
    const std::uint32_t pair = i < 2 ? bits.x : i < 4 ? bits.y : i < 6 ? bits.z : bits.w;
    return i % 2 == 0 ? low_bf16(pair) : high_bf16(pair);
  }
  __device__ static Vector8 of(const float (&v)[8]) {
    return {{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]),
             pack_bf16(v[6], v[7])}};
  }
};
template <>
struct Vector8<float> {
  float4 low, high;
  __device__ float operator[](int i) const {
    const float4& half = i < 4 ? low : high;
    return i % 4 == 0 ? half.x : i % 4 == 1 ? half.y : i % 4 == 2 ? half.z : half.w;
  }
  __device__ static Vector8 of(const float (&v)[8]) {
    return {{v[0], v[1], v[2], v[3]}, {v[4], v[5], v[6], v[7]}};
  }
};

__device__ inline void prefetch_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// The sum over a warp, the same bits in every lane.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

// Lets the next kernel of the stream start; it waits by itself for what this one writes.
__device__ inline void start_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernel ahead in the stream has ended and its writes are visible.
__device__ inline void wait_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel take all the shared memory that the current device has for a block. Not what one
// launch takes: another thread may be launching it with more.
inline cudaError_t allow_shared_memory(const void* kernel) {
  int device = 0;
  int block_bytes = 0;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  const int dynamic_bytes = block_bytes - static_cast<int>(attributes.sharedSizeBytes);
  if (error != cudaSuccess || attributes.maxDynamicSharedSizeBytes == dynamic_bytes) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes);
}

struct Launch {
  dim3 grid;
  int block_threads = 0;
  int shared_bytes = 0;
  bool is_overlapped = false;
  int cluster_blocks = 1;  // along x
  // A multiprocessor begins no block while it runs one that wants another split of its memory in L1
  // and shared memory. What runs beside a product, which wants all shared, wants the same.
  bool is_beside_product = false;
};

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Launch& shape, cudaStream_t stream,
                   const Arguments&... arguments) {
  if (shape.shared_bytes > 0) {
    const cudaError_t error = allow_shared_memory(reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) return error;
  }
  if (shape.is_beside_product) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.block_threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (shape.is_overlapped) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster_blocks > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(shape.cluster_blocks), 1, 1};
  }
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace ple::kernels
