#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace ple::test {

// The random numbers of one test. The seed is printed, and PLE_TEST_SEED replays it.
class Random {
 public:
  Random() : Random(choose_seed()) {}
  explicit Random(std::uint64_t seed) : engine_(seed) {
    std::printf("seed %llu (replay with PLE_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  }

  std::uint64_t bits() { return engine_(); }
  // Uniform in [least, most].
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }
  std::mt19937_64& engine() { return engine_; }

 private:
  static std::uint64_t choose_seed() {
    const char* text = std::getenv("PLE_TEST_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  }
  std::mt19937_64 engine_;
};

}  // namespace ple::test
