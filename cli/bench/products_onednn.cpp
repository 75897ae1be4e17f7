#include <omp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/ceilings.hpp"

namespace pleiades::cli {
namespace {

using dnnl::memory;
using Clock = std::chrono::steady_clock;

constexpr double kProbeSeconds = 0.25;
constexpr int kProbesMin = 3;
constexpr int kProbesMax = 50;

// One product, ready to run: activations [tokens, inner] bf16 times weights [inner, columns] bf16
// to [tokens, columns] f32.
class Product {
 public:
  // is_packed: the library chooses the layout of the weights; else they lie as a checkpoint has
  // them, [columns, inner].
  Product(const dnnl::engine& engine, dnnl::stream& stream, std::int64_t token_count,
          std::int64_t inner, std::int64_t columns, bool is_packed)
      : stream_(&stream) {
    const memory::desc source({token_count, inner}, memory::data_type::bf16,
                              memory::format_tag::ab);
    const memory::desc plain({inner, columns}, memory::data_type::bf16, memory::format_tag::ba);
    const memory::desc any({inner, columns}, memory::data_type::bf16, memory::format_tag::any);
    const memory::desc target({token_count, columns}, memory::data_type::f32,
                              memory::format_tag::ab);
    const dnnl::matmul::primitive_desc primitive(
        dnnl::matmul::desc(source, is_packed ? any : plain, target), engine);
    matmul_ = dnnl::matmul(primitive);
    arguments_ = {{DNNL_ARG_SRC, filled(source, engine)},
                  {DNNL_ARG_WEIGHTS, filled(primitive.weights_desc(), engine)},
                  {DNNL_ARG_DST, memory(target, engine)}};
  }

  void run() { matmul_.execute(*stream_, arguments_); }

 private:
  // Small numbers everywhere: denormals would slow the products down.
  static memory filled(const memory::desc& desc, const dnnl::engine& engine) {
    memory filled(desc, engine);
    auto* bits = static_cast<std::uint16_t*>(filled.get_data_handle());
    std::fill_n(bits, desc.get_size() / sizeof *bits, std::uint16_t{0x3C00});
    return filled;
  }

  dnnl::stream* stream_;
  dnnl::matmul matmul_;
  std::unordered_map<int, memory> arguments_;
};

// The products of a layer in one layout, one after the other.
using Layout = std::vector<Product>;

Layout lay_out(const dnnl::engine& engine, dnnl::stream& stream, const Products& products,
               std::int64_t token_count, bool is_packed, bool is_merged) {
  std::vector<std::int64_t> columns = {products.key_columns, products.value_columns};
  if (is_merged) columns = {products.key_columns + products.value_columns};
  Layout layout;
  for (const std::int64_t count : columns) {
    if (count == 0) continue;
    layout.emplace_back(engine, stream, token_count, products.inner, count, is_packed);
  }
  return layout;
}

void run_layout(Layout& layout, dnnl::stream& stream) {
  for (Product& product : layout) product.run();
  stream.wait();
}

// The fastest of a few runs.
double probe_seconds(Layout& layout, dnnl::stream& stream) {
  double best = 0;
  double total = 0;
  for (int i = 0; i < kProbesMin || (total < kProbeSeconds && i < kProbesMax); ++i) {
    const Clock::time_point begin = Clock::now();
    run_layout(layout, stream);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = i == 0 ? seconds : std::min(best, seconds);
    total += seconds;
  }
  return best;
}

}  // namespace

struct MatrixProducts::Implementation {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  Layout fastest;
};

MatrixProducts::MatrixProducts(const Products& products, std::int64_t token_count,
                               std::int32_t thread_count)
    : implementation_(std::make_unique<Implementation>()) {
  omp_set_num_threads(std::max(thread_count, 1));
  double least_seconds = 0;
  for (const bool is_packed : {true, false}) {
    for (const bool is_merged : {true, false}) {
      Layout layout = lay_out(implementation_->engine, implementation_->stream, products,
                              token_count, is_packed, is_merged);
      const double seconds = probe_seconds(layout, implementation_->stream);
      if (!implementation_->fastest.empty() && seconds >= least_seconds) continue;
      least_seconds = seconds;
      implementation_->fastest = std::move(layout);
    }
  }
}

MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::run() { run_layout(implementation_->fastest, implementation_->stream); }

std::string matrix_library() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace pleiades::cli
