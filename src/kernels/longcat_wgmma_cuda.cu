#include "kernels/block_product_few.cuh"
#include "kernels/block_product_many.cuh"
#include "kernels/block_product_some.cuh"
#include "kernels/longcat_product.cuh"

namespace ple::kernels {

Status product_few_cuda(const LongcatProduct& product, const FewPlan& plan, bool is_overlapped,
                        cudaStream_t stream) {
  return block_product_few_cuda(product, plan, is_overlapped, stream);
}

Status product_some_cuda(const LongcatProduct& product, const SomePlan& plan, bool is_overlapped,
                         cudaStream_t stream) {
  return block_product_some_cuda(product, plan, is_overlapped, stream);
}

Status product_many_cuda(const LongcatProduct& product, int multiprocessor_count,
                         bool is_overlapped, cudaStream_t stream) {
  return block_product_many_cuda(product, multiprocessor_count, is_overlapped, stream);
}

}  // namespace ple::kernels
