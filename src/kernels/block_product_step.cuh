#pragma once

#include "device/cuda_device.hpp"
#include "kernels/block_few_plan.hpp"
#include "kernels/block_product_mma.cuh"

namespace ple::kernels {

struct BlockProductStep {
  CudaTraits traits;
  std::byte* step = nullptr;  // TokenStepBlock in device memory
  const std::byte* pinned_step = nullptr;
  std::int32_t column_count = 0;
};

// From the step's block to the finished totals, in the form that suits the device and the number of
// tokens; product_few_cuda and product_many_cuda are the family's. Sets where product finds the
// step, for kernels that come after.
template <class Family>
Status block_product_step_cuda(Family& product, const BlockProductStep& at, cudaStream_t stream) {
  const std::int32_t capacity = product.token_capacity;
  if (capacity == 0) return {};
  const FewPlan few(product.tiles, capacity, at.traits.multiprocessor_count);
  const SomePlan some(product.tiles, capacity, at.traits.multiprocessor_count);
  const bool is_overlapped = at.traits.has_overlapped_launch();
  const std::size_t bytes = TokenStepBlock::bytes(at.column_count, capacity);
  product.step = TokenStepBlock::view(at.step, at.column_count, capacity);
  auto* pinned = const_cast<std::byte*>(at.pinned_step);  // only read
  PLE_TRY(
      gather_blocks_cuda(product,
                         {.slots = TokenStepBlock::view(pinned, at.column_count, capacity).slots,
                          .column_count = at.column_count,
                          .copy = {.from = reinterpret_cast<const uint4*>(at.pinned_step),
                                   .to = reinterpret_cast<uint4*>(at.step),
                                   .count = static_cast<std::int32_t>(bytes / sizeof(uint4))}},
                         stream));
  if (!at.traits.has_wgmma()) return block_product_mma_cuda(product, is_overlapped, stream);
  if (takes_few(few, some)) return product_few_cuda(product, few, is_overlapped, stream);
  if (some.fits()) return product_some_cuda(product, some, is_overlapped, stream);
  return product_many_cuda(product, at.traits.multiprocessor_count, is_overlapped, stream);
}

}  // namespace ple::kernels
