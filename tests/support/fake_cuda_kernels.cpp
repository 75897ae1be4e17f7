// The launchers of src/kernels on the fake CUDA runtime: the CPU's operators, in the stream's turn.

#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/number_formats.hpp"
#include "kernels/engram_layer_cpu.hpp"
#include "kernels/engram_layer_cuda.hpp"
#include "kernels/ple_layer_cpu.hpp"
#include "kernels/ple_layer_cuda.hpp"
#include "kernels/stream_flag_cuda.hpp"
#include "support/fake_cuda_launch.hpp"

namespace ple::kernels {

namespace {

using ple::test::launch;
using ple::test::pool;
using ple::test::require;

// Weights by the address that they were packed to; touched in a stream's turn alone, as the pool.
template <class Weights>
std::map<const void*, Weights>& packed_weights() {
  static auto& weights = *new std::map<const void*, Weights>;  // outlives every thread
  return weights;
}

void run_layer(const PleLayerCudaArgs& cuda) {
  if (cuda.pinned_step != nullptr) {
    std::memcpy(cuda.step, cuda.pinned_step,
                PleStepBlock::bytes(cuda.shape, cuda.token_capacity, cuda.span_capacity));
  }
  const PleStepView step =
      PleStepBlock::view(cuda.step, cuda.shape, cuda.token_capacity, cuda.span_capacity);
  if (step.counts->token_count > cuda.token_capacity) std::abort();
  if (step.counts->token_count == 0) return;
  PleLayerArgs args;
  args.shape = cuda.shape;
  args.arithmetic = cuda.arithmetic;
  args.highway_type = cuda.highway_type;
  args.output_mode = cuda.output_mode;
  args.rows = cuda.rows;
  args.slots = step.slots;
  args.highway = cuda.highway;
  args.output = cuda.output;
  args.spans = step.spans;
  args.span_count = step.counts->span_count;
  args.token_count = step.counts->token_count;
  args.ring_length = cuda.ring_length;
  AlignedBuffer scratch =
      AlignedBuffer::allocate(
          ple_layer_scratch_bytes_cpu(args.shape, args.arithmetic, args.token_count))
          .value();
  args.scratch = scratch.data();
  require(ple_layer_cpu(args, packed_weights<PleWeightsCpu>().at(cuda.weights.projection), pool()));
}

void rebuild_ring(const PleRebuildCudaArgs& cuda) {
  const PleStepView step = PleStepBlock::view(cuda.step, cuda.shape, cuda.token_capacity, 0);
  PleRebuildArgs args;
  args.shape = cuda.shape;
  args.arithmetic = cuda.arithmetic;
  args.rows = cuda.rows;
  args.slots = step.slots;
  args.gamma = cuda.gamma;
  args.ring = cuda.ring;
  args.ring_length = cuda.ring_length;
  args.entry_begin = cuda.entry_begin;
  args.entry_count = step.counts->token_count;
  AlignedBuffer scratch =
      AlignedBuffer::allocate(
          ple_rebuild_scratch_bytes_cpu(args.shape, args.arithmetic, args.entry_count))
          .value();
  args.scratch = scratch.data();
  require(ple_rebuild_ring_cpu(args, packed_weights<PleWeightsCpu>().at(cuda.weights.projection),
                               pool()));
}

EngramWeightsCpu unpacked(const PackEngramWeightsArgs& args) {
  constexpr std::int64_t kBlock = 32;
  const EngramShape& shape = args.shape;
  const auto channels =
      static_cast<std::size_t>(shape.stream_count) * static_cast<std::size_t>(shape.hidden);
  // Sums by blocks, as FP8 products have them; they are right for other roundings, too.
  Result<EngramWeightsCpu> weights = EngramWeightsCpu::create(
      shape, {.rounds_product = true}, {args.query_weight, channels}, {args.key_weight, channels});
  require(weights.status());
  const std::int64_t width = shape.embed_dim;
  std::vector<std::uint16_t> row(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < weights.value().key_value().row_count(); ++r) {
    for (std::int64_t k = 0; k < width; ++k) {
      const float scale = e8m0_to_f32(args.scales[r / kBlock * (width / kBlock) + k / kBlock]);
      row[static_cast<std::size_t>(k)] =
          f32_to_bf16(e4m3_to_f32(args.codes[r * width + k]) * scale);
    }
    require(weights.value().key_value().pack_rows(r, 1, row.data()));
  }
  return std::move(weights).value();
}

void run_engram(const EngramLayerCudaArgs& cuda) {
  if (cuda.pinned_step != nullptr) {
    std::memcpy(cuda.step, cuda.pinned_step,
                EngramStepBlock::bytes(cuda.shape, cuda.token_capacity));
  }
  const EngramStepView step = EngramStepBlock::view(cuda.step, cuda.shape, cuda.token_capacity);
  if (step.counts->token_count > cuda.token_capacity) std::abort();
  if (step.counts->token_count == 0) return;
  EngramLayerArgs args;
  args.shape = cuda.shape;
  args.rounding = cuda.rounding;
  args.highway_type = cuda.highway_type;
  args.output_mode = cuda.output_mode;
  args.rows = cuda.rows;
  args.slots = step.slots;
  args.dead = step.dead;
  args.highway = cuda.highway;
  args.output = cuda.output;
  args.token_count = step.counts->token_count;
  AlignedBuffer scratch =
      AlignedBuffer::allocate(engram_layer_scratch_bytes_cpu(args.shape, args.token_count)).value();
  args.scratch = scratch.data();
  require(engram_layer_cpu(args, packed_weights<EngramWeightsCpu>().at(cuda.weights.gate_scale),
                           pool()));
}

void place_rows(const PlaceRowsArgs& args) {
  for (std::int64_t row = 0; row < args.row_count; ++row) {
    const SlotId slot = args.slots[row];
    if (slot == kZeroSlot) continue;
    std::byte* const to =
        slot < args.arena_slot_count
            ? args.arena + std::size_t{slot} * args.slot_bytes
            : args.staging + std::size_t{slot - args.arena_slot_count} * args.slot_bytes;
    std::memcpy(to, args.rows + static_cast<std::size_t>(row) * args.slot_bytes, args.slot_bytes);
  }
}

}  // namespace

Status pack_ple_weights_cuda(const PackPleWeightsArgs& args, cudaStream_t stream) {
  return launch(stream, [args] {
    Result<PleWeightsCpu> weights = PleWeightsCpu::create(args.shape, args.vectors);
    require(weights.status());
    require(
        weights.value().key().pack_rows(0, args.shape.stream_count * args.shape.hidden, args.key));
    require(weights.value().value().pack_rows(0, args.shape.hidden, args.value));
    packed_weights<PleWeightsCpu>().insert_or_assign(args.memory, std::move(weights).value());
    return true;
  });
}

std::size_t ple_layer_scratch_bytes_cuda(const PleShape&, Arithmetic, std::int32_t) { return 64; }

Status ple_layer_cuda(const PleLayerCudaArgs& args, cudaStream_t stream) {
  return launch(stream, [args] { return run_layer(args), true; });
}

Status ple_rebuild_ring_cuda(const PleRebuildCudaArgs& args, cudaStream_t stream) {
  return launch(stream, [args] { return rebuild_ring(args), true; });
}

Status pack_engram_weights_cuda(const PackEngramWeightsArgs& args, cudaStream_t stream) {
  return launch(stream, [args] {
    const auto view = EngramWeightsCuda::view(args.memory, args.shape, args.form);
    packed_weights<EngramWeightsCpu>().insert_or_assign(view.gate_scale, unpacked(args));
    return true;
  });
}

std::size_t engram_layer_scratch_bytes_cuda(const EngramShape&, EngramRounding, std::int32_t) {
  return 64;
}

Status engram_layer_cuda(const EngramLayerCudaArgs& args, cudaStream_t stream) {
  return launch(stream, [args] { return run_engram(args), true; });
}

Status place_rows_cuda(const PlaceRowsArgs& args, cudaStream_t stream) {
  return launch(stream, [args] { return place_rows(args), true; });
}

Status wait_flag_cuda(const std::uint32_t* flag, cudaStream_t stream) {
  return launch(stream, [flag] {
    return std::atomic_ref<std::uint32_t>(*const_cast<std::uint32_t*>(flag)).load() != 0;
  });
}

Status raise_flag_cuda(std::uint32_t* flag, cudaStream_t stream) {
  return launch(stream, [flag] { return std::atomic_ref<std::uint32_t>(*flag).store(1), true; });
}

}  // namespace ple::kernels
