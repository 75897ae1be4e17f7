#include <algorithm>

#include "base/error.hpp"
#include "kernels/ple_layer_cpu.hpp"
#include "kernels/ple_value_pass_cpu.hpp"

namespace ple::kernels {

namespace {

ValuePass::Inputs inputs_of(const PleRebuildArgs& args) {
  return {args.shape, args.arithmetic, args.rows, args.slots, args.entry_count};
}

}  // namespace

std::size_t ple_rebuild_scratch_bytes_cpu(const PleShape& shape, Arithmetic arithmetic,
                                          std::int32_t entry_count) {
  ScratchParts parts(nullptr);
  ValuePass({shape, arithmetic, RowView(), nullptr, entry_count}, PleWeightsCpu(), parts);
  return parts.bytes();
}

Status ple_rebuild_ring_cpu(const PleRebuildArgs& args, const PleWeightsCpu& weights,
                            ThreadPool& pool) {
  PLE_TRY(check_ple_shape(args.shape, args.rows, args.ring_length, weights));
  if (args.entry_count < 0 || args.entry_count > args.ring_length || args.entry_begin < 0 ||
      args.entry_begin >= std::max(args.ring_length, 1)) {
    return error(StatusCode::invalid_argument, "{} entries from {} on in a ring of {}",
                 args.entry_count, args.entry_begin, args.ring_length);
  }
  ScratchParts parts(args.scratch);
  const ValuePass pass(inputs_of(args), weights, parts);
  TokenTile::for_each(args.entry_count, [&](TokenTile tile) {
    pass.gather(tile, pool);
    pool.parallel_for(weights.value().panel_count(), [&](std::int64_t panel_index) {
      pass.value_panel(static_cast<std::int32_t>(panel_index), nullptr, tile);
    });
  });
  const std::int32_t stream_count = args.shape.stream_count;
  pool.parallel_for(args.entry_count, [&](std::int64_t index) {
    const auto entry = static_cast<std::int32_t>(index);
    std::copy_n(args.gamma + index * stream_count, stream_count, pass.scalars(entry));
    pass.set_conv_roots(entry);
    pass.write_ring(args.ring, args.ring_length, (args.entry_begin + entry) % args.ring_length,
                    entry);
  });
  return {};
}

}  // namespace ple::kernels
