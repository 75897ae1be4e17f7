// Prefix caching: a snapshot at any position, restored into any sequence. Blobs that do not belong
// here are refused by name.

#include <cstddef>

#include "example.hpp"

namespace {

void refused(pleiades::Sequence& sequence, std::span<const std::byte> blob) {
  try {
    sequence.restore(blob);
    expect(false, "a blob that does not belong here is refused");
  } catch (const pleiades::Error& error) {
    std::printf("refused: %s\n", error.what());
  }
}

void run(const pleiades::Model& model) {
  auto engine = pleiades::Engine::open(model, {.cache_bytes = 64 << 10});
  const ple_layer_info layer = model.layers().front();
  const Tokens system_prompt = some_tokens(30);
  const Tokens question = some_tokens(6, 5);
  pleiades::Step step(engine);

  pleiades::Sequence first(engine);
  forward(step, first, layer, system_prompt);
  // compact: ids and scalars, rows are read again on restore. full: rows included, no read.
  const auto compact = first.snapshot(PLE_SNAPSHOT_COMPACT);
  const auto full = first.snapshot(PLE_SNAPSHOT_FULL);
  std::printf("a snapshot has %zu bytes, or %zu with its rows\n", compact.size(), full.size());
  const auto expected = forward(step, first, layer, question);

  for (const auto& blob : {compact, full}) {
    pleiades::Sequence hit(engine);
    hit.restore(blob);
    expect(forward(step, hit, layer, question) == expected, "a restored prefix continues the same");
  }

  pleiades::Sequence untouched(engine);
  refused(untouched, std::span(compact).first(compact.size() - 1));
  auto damaged = compact;
  damaged[damaged.size() / 2] ^= std::byte{1};
  refused(untouched, damaged);
  auto reference = pleiades::Engine::open(model, {.arithmetic = PLE_ARITHMETIC_REFERENCE});
  pleiades::Sequence elsewhere(reference);
  refused(elsewhere, compact);
  expect(untouched.position() == 0, "what was refused changed nothing");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
