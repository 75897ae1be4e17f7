// Prefill, chunked prefill, decode, and mixed batches of them; sequences that come and go; a step
// larger than it was sized for.

#include "example.hpp"

namespace {

void run(const pleiades::Model& model) {
  auto engine = pleiades::Engine::open(model);
  const ple_layer_info layer = model.layers().front();
  const Tokens text = some_tokens(40);
  const std::span<const std::int32_t> tokens(text);

  // All at once, and in chunks with one token at a time at the end.
  pleiades::Step step(engine, {.tokens_max = 64, .sequences_max = 8});
  pleiades::Sequence whole(engine);
  const auto at_once = forward(step, whole, layer, tokens);
  pleiades::Sequence chunked(engine);
  for (std::size_t begin = 0; begin < 32; begin += 16) {
    forward(step, chunked, layer, tokens.subspan(begin, 16));
  }
  std::vector<float> last;
  for (std::size_t at = 32; at < 40; ++at)
    last = forward(step, chunked, layer, tokens.subspan(at, 1));
  expect(last == tail(at_once, layer, 1), "chunked prefill and decode give the bits of one step");

  // Continuous batching: one step carries the prefill of a new sequence and the decode of an old
  // one.
  pleiades::Sequence arriving(engine);
  const Tokens prompt = some_tokens(20, 3);
  auto highway = highway_of(prompt, 0, layer.input_elements);
  const auto decode = highway_of(tokens.first(1), whole.position(), layer.input_elements);
  highway.insert(highway.end(), decode.begin(), decode.end());
  step.stage({{arriving, prompt}, {whole, tokens.first(1)}});
  step.run(layer.layer_index, highway);
  step.commit();
  const auto alone = forward(step, chunked, layer, tokens.first(1));
  expect(tail(highway, layer, 1) == alone, "company in a batch changes nothing");

  // Refused, with the bytes that it would cost; nothing moved.
  try {
    step.stage(whole, some_tokens(100));
  } catch (const pleiades::Error& error) {
    std::printf("%s\n", error.what());
  }
  expect(whole.position() == 41, "the sequence is where it was");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
