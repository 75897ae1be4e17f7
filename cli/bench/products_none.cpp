#include "bench/ceilings.hpp"

namespace pleiades::cli {

struct MatrixProducts::Implementation {};

MatrixProducts::MatrixProducts(const Products&, std::int64_t, std::int32_t) {}

MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::run() {}

std::string matrix_library() { return {}; }

}  // namespace pleiades::cli
