// Rows are known as soon as token ids are: the next chunk of a prefill is staged while this one
// runs, and a scheduler may announce what waits in its queue.

#include "example.hpp"

namespace {

constexpr std::size_t kChunk = 16;

void run(const pleiades::Model& model) {
  auto engine = pleiades::Engine::open(model, {.arena = PLE_ARENA_CACHED, .cache_bytes = 32 << 10});
  const ple_layer_info layer = model.layers().front();
  const Tokens text = some_tokens(6 * kChunk);
  const std::span<const std::int32_t> tokens(text);

  pleiades::Sequence sequence(engine);
  pleiades::Step steps[] = {pleiades::Step(engine), pleiades::Step(engine)};
  std::vector<float> piped;
  steps[0].stage(sequence, tokens.first(kChunk));
  for (std::size_t begin = 0; begin < tokens.size(); begin += kChunk) {
    pleiades::Step& now = steps[begin / kChunk % 2];
    pleiades::Step& next = steps[1 - begin / kChunk % 2];
    // Its reads are in flight while the layers of this chunk compute.
    if (begin + kChunk < tokens.size())
      next.stage(sequence, tokens.subspan(begin + kChunk, kChunk));
    auto highway = highway_of(tokens.subspan(begin, kChunk), static_cast<std::int64_t>(begin),
                              layer.input_elements);
    now.run(layer.layer_index, highway);
    now.commit();
    piped.insert(piped.end(), highway.begin(), highway.end());
  }

  pleiades::Sequence announced(engine);
  announced.announce(tokens);  // a hint: it changes no result and evicts nothing that is in use
  pleiades::Step whole(engine);
  expect(forward(whole, announced, layer, tokens) == piped,
         "overlapped reading gives the same bits");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
