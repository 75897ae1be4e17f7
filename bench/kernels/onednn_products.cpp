#include "kernels/onednn_products.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace ple::bench {

namespace {

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// oneDNN takes no pointers to const.
void* handle(const void* data) { return const_cast<void*>(data); }

}  // namespace

struct OneDnnProducts::Product {
  dnnl::matmul matmul;
  dnnl::memory x, w, y;
};

OneDnnProducts::OneDnnProducts(const std::vector<Weights>& weights, std::int64_t inner_count,
                               std::int64_t token_count) {
  using dnnl::memory;
  using Type = memory::data_type;
  using Tag = memory::format_tag;
  dnnl::stream stream(engine());
  for (const Weights& matrix : weights) {
    const memory::desc x({token_count, inner_count}, Type::bf16, Tag::ab);
    const memory::desc any({inner_count, matrix.row_count}, Type::bf16, Tag::any);
    const memory::desc y({token_count, matrix.row_count}, Type::f32, Tag::ab);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, any, y), engine());
    memory rows({{inner_count, matrix.row_count}, Type::bf16, Tag::ba}, engine(),
                handle(matrix.rows));
    Product product{dnnl::matmul(description), memory(x, engine(), nullptr),
                    memory(description.weights_desc(), engine()), memory(y, engine(), nullptr)};
    dnnl::reorder(rows, product.w).execute(stream, rows, product.w);
    products_.push_back(std::move(product));
  }
  stream.wait();
}

OneDnnProducts::~OneDnnProducts() = default;

void OneDnnProducts::run(const std::uint16_t* x, const std::vector<float*>& y) {
  dnnl::stream stream(engine());
  for (std::size_t i = 0; i < products_.size(); ++i) {
    Product& product = products_[i];
    product.x.set_data_handle(handle(x));
    product.y.set_data_handle(y[i]);
    product.matmul.execute(
        stream,
        {{DNNL_ARG_SRC, product.x}, {DNNL_ARG_WEIGHTS, product.w}, {DNNL_ARG_DST, product.y}});
  }
  stream.wait();
}

}  // namespace ple::bench
