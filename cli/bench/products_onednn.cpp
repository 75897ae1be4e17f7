#include <omp.h>

#include <algorithm>
#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include <fmt/core.h>

#include "bench/ceilings.hpp"

namespace pleiades::cli {
namespace {

using dnnl::memory;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerLayout = 1.0;
constexpr std::size_t kRunsMax = 200;

// One product, ready to run: activations [tokens, inner] bf16 times weights [inner, columns] bf16
// to [tokens, columns] f32.
class Product {
 public:
  // is_packed: the library chooses the layout of the weights; else they lie as a checkpoint has
  // them, [columns, inner].
  Product(const dnnl::engine& engine, dnnl::stream& stream, std::int64_t token_count,
          std::int64_t inner, std::int64_t columns, bool is_packed)
      : stream_(stream) {
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

  void run() { matmul_.execute(stream_, arguments_); }

 private:
  // Small numbers everywhere: denormals would slow the products down.
  static memory filled(const memory::desc& desc, const dnnl::engine& engine) {
    memory filled(desc, engine);
    auto* bits = static_cast<std::uint16_t*>(filled.get_data_handle());
    std::fill_n(bits, desc.get_size() / sizeof *bits, std::uint16_t{0x3C00});
    return filled;
  }

  dnnl::stream& stream_;
  dnnl::matmul matmul_;
  std::unordered_map<int, memory> arguments_;
};

// The median of runs for about kSecondsPerLayout.
double median_us(std::vector<Product>& products, dnnl::stream& stream) {
  std::vector<double> times;
  const Clock::time_point started = Clock::now();
  while (times.size() < 3 ||
         (times.size() < kRunsMax &&
          std::chrono::duration<double>(Clock::now() - started).count() < kSecondsPerLayout)) {
    const Clock::time_point begin = Clock::now();
    for (Product& product : products) product.run();
    stream.wait();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace

std::optional<double> measure_products(const Products& products, std::int64_t token_count,
                                       std::int32_t thread_count) {
  omp_set_num_threads(std::max(thread_count, 1));
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  double best = 0;
  for (const bool is_packed : {true, false}) {
    for (const bool is_merged : {true, false}) {
      std::vector<Product> runs;
      if (is_merged) {
        runs.emplace_back(engine, stream, token_count, products.inner,
                          products.key_columns + products.value_columns, is_packed);
      } else {
        runs.emplace_back(engine, stream, token_count, products.inner, products.key_columns,
                          is_packed);
        runs.emplace_back(engine, stream, token_count, products.inner, products.value_columns,
                          is_packed);
      }
      const double us = median_us(runs, stream);
      best = best == 0 ? us : std::min(best, us);
    }
  }
  return best;
}

std::string matrix_library() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace pleiades::cli
