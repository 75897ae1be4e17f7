// The launchers of layers without carried state on the fake CUDA runtime: the CPU's operators, in
// the stream's turn. Packed weights are the plain matrices, block after block.

#include <algorithm>
#include <cstring>
#include <span>

#include "base/aligned_buffer.hpp"
#include "kernels/block_weights_cuda.hpp"
#include "kernels/gemma_layer_cpu.hpp"
#include "kernels/gemma_layer_cuda.hpp"
#include "kernels/longcat_layer_cpu.hpp"
#include "kernels/longcat_layer_cuda.hpp"
#include "kernels/token_step_cuda.hpp"
#include "support/fake_cuda_launch.hpp"

namespace ple::kernels {

namespace {

using ple::test::launch;
using ple::test::pool;
using ple::test::require;

std::int64_t block_length(const BlockTiles& tiles) {
  return std::int64_t{tiles.column_count} * tiles.block_dim;
}

// The block of a step, copied to the device as the kernels do.
TokenStepView step_of(std::byte* step, const std::byte* pinned_step, std::int32_t column_count,
                      std::int32_t token_capacity) {
  std::memcpy(step, pinned_step, TokenStepBlock::bytes(column_count, token_capacity));
  const TokenStepView view = TokenStepBlock::view(step, column_count, token_capacity);
  if (view.counts->token_count > token_capacity) std::abort();
  return view;
}

void run_longcat(const LongcatLayerCudaArgs& cuda) {
  const LongcatShape& shape = cuda.shape;
  const TokenStepView step =
      step_of(cuda.step, cuda.pinned_step, shape.table_count, cuda.token_capacity);
  if (step.counts->token_count == 0) return;
  LongcatWeightsCpu weights = LongcatWeightsCpu::create(shape, cuda.rounds_each).value();
  std::memcpy(weights.words().data(), cuda.words, weights.words().bytes());
  const std::int64_t length = block_length(longcat_tiles(shape));
  for (std::int32_t table = 0; table < shape.table_count; ++table) {
    require(weights.projections()[static_cast<std::size_t>(table)].pack_rows(
        0, shape.hidden, cuda.weights + table * length));
  }
  LongcatLayerArgs args;
  args.shape = shape;
  args.rounds_each = cuda.rounds_each;
  args.output_type = cuda.output_type;
  args.rows = cuda.rows;
  args.slots = step.slots;
  args.tokens = step.tokens;
  args.ignored = step.flags;
  args.output = cuda.output;
  args.token_count = step.counts->token_count;
  AlignedBuffer scratch =
      AlignedBuffer::allocate(longcat_layer_scratch_bytes_cpu(shape, args.token_count)).value();
  args.scratch = scratch.data();
  require(longcat_layer_cpu(args, weights, pool()));
}

// The rows of the projection, put together from its blocks.
void pack_projection(const GemmaLayerCudaArgs& cuda, PackedMatrix& projection) {
  const BlockTiles tiles = gemma_tiles(cuda.shape, HighwayType::bf16);
  std::vector<std::uint16_t> rows(static_cast<std::size_t>(tiles.column_count) *
                                  static_cast<std::size_t>(cuda.shape.hidden));
  for (std::int32_t block = 0; block < tiles.weight_block_count; ++block) {
    const std::int32_t begin = block * tiles.block_dim;
    const std::int32_t count = std::min(tiles.block_dim, cuda.shape.hidden - begin);
    const std::uint16_t* from = cuda.weights + block * block_length(tiles);
    for (std::int64_t row = 0; row < tiles.column_count; ++row) {
      std::copy_n(from + row * tiles.block_dim, count,
                  rows.begin() + row * cuda.shape.hidden + begin);
    }
  }
  require(projection.pack_rows(0, tiles.column_count, rows.data()));
}

void run_gemma(const GemmaLayerCudaArgs& cuda) {
  const TokenStepView step = step_of(cuda.step, cuda.pinned_step, 1, cuda.token_capacity);
  if (step.counts->token_count == 0) return;
  const std::span norm(cuda.norm_weight, static_cast<std::size_t>(cuda.shape.layer_dim));
  GemmaWeightsCpu weights = GemmaWeightsCpu::create(cuda.shape, cuda.rounds_each, norm).value();
  pack_projection(cuda, weights.projection());
  GemmaLayerArgs args;
  args.shape = cuda.shape;
  args.scales = cuda.scales;
  args.rounds_each = cuda.rounds_each;
  args.type = cuda.type;
  args.rows = cuda.rows;
  args.slots = step.slots;
  args.input = cuda.input;
  args.output = cuda.output;
  args.token_count = step.counts->token_count;
  AlignedBuffer scratch =
      AlignedBuffer::allocate(gemma_layer_scratch_bytes_cpu(args.shape, args.token_count)).value();
  args.scratch = scratch.data();
  require(gemma_layer_cpu(args, weights, pool()));
}

}  // namespace

Status pack_block_cuda(const PackBlockArgs& args, cudaStream_t stream) {
  return launch(stream, [args] {
    std::uint16_t* to = args.weights + args.block_index * block_length(args.tiles);
    for (std::int64_t row = 0; row < args.tiles.column_count; ++row) {
      std::copy_n(args.from + row * args.stride, args.element_count,
                  to + row * args.tiles.block_dim);
    }
    return true;
  });
}

std::size_t longcat_layer_scratch_bytes_cuda(const LongcatShape&, std::int32_t) { return 64; }

Status longcat_layer_cuda(const LongcatLayerCudaArgs& args, cudaStream_t stream) {
  return launch(stream, [args] { return run_longcat(args), true; });
}

std::size_t gemma_layer_scratch_bytes_cuda(const GemmaShape&, std::int32_t) { return 64; }

Status gemma_layer_cuda(const GemmaLayerCudaArgs& args, cudaStream_t stream) {
  return launch(stream, [args] { return run_gemma(args), true; });
}

}  // namespace ple::kernels
