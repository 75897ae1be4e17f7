#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace pleiades::cli {

// What the machine itself can do, measured without the library.

// Bytes per second at which `threads` threads together read memory that no cache holds: the best of
// several passes.
double measure_read_bandwidth(std::int32_t thread_count);

// Sizes of the products of a layer: [tokens, inner] times [key_columns, inner] and [value_columns,
// inner], both transposed. 0 columns: no such product.
struct Products {
  std::int64_t inner;
  std::int64_t key_columns;
  std::int64_t value_columns;
};

// The two products in bf16 with f32 sums by a matrix library, in the fastest of its layouts.
class MatrixProducts {
 public:
  // Tries the layouts; takes about a second.
  MatrixProducts(const Products& products, std::int64_t token_count, std::int32_t thread_count);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  // False where the tool was built without a matrix library; then run does nothing.
  bool is_there() const { return implementation_ != nullptr; }
  void run();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// "oneDNN 2.6.3", or empty.
std::string matrix_library();

}  // namespace pleiades::cli
