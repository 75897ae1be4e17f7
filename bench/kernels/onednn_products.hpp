#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ple::bench {

// The layer's two products by oneDNN, bf16 x bf16 -> f32, weights reordered for it beforehand: the
// ceiling that a matrix library alone sets.
class OneDnnProducts {
 public:
  // weights: one matrix [row_count, inner_count] for each product, bf16 bits.
  struct Weights {
    const std::uint16_t* rows = nullptr;
    std::int64_t row_count = 0;
  };

  OneDnnProducts(const std::vector<Weights>& weights, std::int64_t inner_count,
                 std::int64_t token_count);
  ~OneDnnProducts();

  // y[i]: [token_count, row_count] of product i. x: [token_count, inner_count] bf16 bits.
  void run(const std::uint16_t* x, const std::vector<float*>& y);

 private:
  struct Product;
  std::vector<Product> products_;
};

}  // namespace ple::bench
