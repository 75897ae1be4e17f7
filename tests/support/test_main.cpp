// main() of every GoogleTest executable. A skipped test makes the exit code 77, so that CTest
// reports it; with PLE_REQUIRE_GPU=1 in the environment it is a failure, so that a run meant for a
// GPU cannot pass emptily.

#include <cstdlib>
#include <string_view>

#include "gtest/gtest.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (RUN_ALL_TESTS() != 0) return 1;
  if (testing::UnitTest::GetInstance()->skipped_test_count() == 0) return 0;
  const char* require_gpu = std::getenv("PLE_REQUIRE_GPU");
  return require_gpu != nullptr && std::string_view(require_gpu) == "1" ? 1 : 77;
}
