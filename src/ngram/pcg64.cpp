#include "ngram/pcg64.hpp"

#include <array>
#include <bit>
#include <cstddef>

namespace ple {
namespace {

using Pool = std::array<std::uint32_t, 4>;

// numpy's SeedSequence: the seed's words hashed into a pool, which is then hashed into as many
// words as are wanted. The constant of the hash moves on with every word.
class SeedHash {
 public:
  explicit SeedHash(std::uint32_t constant, std::uint32_t multiplier)
      : constant_(constant), multiplier_(multiplier) {}

  std::uint32_t operator()(std::uint32_t word) {
    word ^= constant_;
    constant_ *= multiplier_;
    word *= constant_;
    return word ^ (word >> 16);
  }

 private:
  std::uint32_t constant_;
  std::uint32_t multiplier_;
};

std::uint32_t mix(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mixed = 0xCA01F9DD * a - 0x4973F715 * b;
  return mixed ^ (mixed >> 16);
}

Pool make_pool(std::uint64_t seed) {
  SeedHash hash(0x43B0D7E5, 0x931E8875);
  Pool pool = {hash(static_cast<std::uint32_t>(seed)), hash(static_cast<std::uint32_t>(seed >> 32)),
               hash(0), hash(0)};
  for (std::size_t source = 0; source < pool.size(); ++source) {
    for (std::size_t target = 0; target < pool.size(); ++target) {
      if (source != target) pool[target] = mix(pool[target], hash(pool[source]));
    }
  }
  return pool;
}

}  // namespace

Pcg64::Pcg64(std::uint64_t seed) {
  const Pool pool = make_pool(seed);
  SeedHash hash(0x8B51F9DD, 0x58F38DED);
  std::array<std::uint64_t, 4> words;
  std::size_t source = 0;
  for (std::uint64_t& word : words) {
    const std::uint64_t low = hash(pool[source++ % pool.size()]);
    word = low | std::uint64_t{hash(pool[source++ % pool.size()])} << 32;
  }
  increment_ = ((Wide{words[2]} << 64 | words[3]) << 1) | 1;
  step();
  state_ += Wide{words[0]} << 64 | words[1];
  step();
}

void Pcg64::step() {
  constexpr Wide kMultiplier = Wide{0x2360ED051FC65DA4} << 64 | 0x4385DF649FCCF645;
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t Pcg64::next() {
  step();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint64_t Pcg64::below(std::uint64_t bound) {
  // Lemire's method: the upper half of a product is uniform unless its lower half falls into the
  // part that does not divide evenly.
  Wide product = Wide{next()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = Wide{next()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace ple
