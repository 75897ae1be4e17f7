#pragma once

#include <pleiades/pleiades.hpp>

#include <string>

#if defined(PLE_TEST_CUDA)
#include "support/gpu.hpp"
#endif

// The device that a test of engines runs on. The same tests run on a CPU, on a GPU, and on the fake
// CUDA runtime.

namespace ple::test {

// Whether the device adds its sums as the CPU does.
#if defined(PLE_TEST_CUDA) && !defined(PLE_FAKE_CUDA)
inline constexpr bool kHasCpuSums = false;
#else
inline constexpr bool kHasCpuSums = true;
#endif

#if defined(PLE_TEST_CUDA)
inline const char* test_device() { return "cuda"; }
inline void skip_without_device() { skip_without_gpu(); }
#else
inline const char* test_device() { return "cpu"; }
inline void skip_without_device() {}
#endif

// The arithmetic is float32 unless another is asked for.
inline pleiades::Engine open_engine(const pleiades::Model& model,
                                    pleiades::EngineOptions options = {}) {
  options.device = test_device();
  if (options.arithmetic == PLE_ARITHMETIC_AUTO) options.arithmetic = PLE_ARITHMETIC_FLOAT32;
  return pleiades::Engine::open(model, options);
}

}  // namespace ple::test
