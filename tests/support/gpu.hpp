#pragma once

#include <gtest/gtest.h>

#include "device/cuda_device.hpp"

namespace ple::test {

// First in the set-up of a test that needs a GPU; PLE_REQUIRE_GPU=1 makes the skip a failure.
inline void skip_without_gpu() {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
}

}  // namespace ple::test
