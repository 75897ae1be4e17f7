#pragma once

#include <cstdint>

namespace ple {

// The stream of numpy's default_rng(seed): a PCG64 (XSL-RR) generator seeded by SeedSequence. numpy
// does not promise it for ever, so the tests hold known values.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed);

  std::uint64_t next();

  // What integers(0, bound) draws, for a bound above 2^32 (below, numpy draws 32 bits at a time).
  std::uint64_t below(std::uint64_t bound);

 private:
  using Wide = unsigned __int128;

  void step();

  Wide state_ = 0;
  Wide increment_ = 0;
};

}  // namespace ple
