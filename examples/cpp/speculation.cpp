// Speculative decoding: a step verifies a token and its drafts; commit keeps those that were right.
// Nothing has to be undone, any number of times.

#include <algorithm>

#include "example.hpp"

namespace {

constexpr std::int32_t kDrafts = 4;

void run(const pleiades::Model& model) {
  auto engine = pleiades::Engine::open(model, {.draft_max = kDrafts});
  const ple_layer_info layer = model.layers().front();
  const Tokens truth = some_tokens(64);
  pleiades::Step step(engine);

  pleiades::Sequence plain(engine);
  const auto expected = forward(step, plain, layer, truth);

  pleiades::Sequence sequence(engine);
  std::vector<float> accepted_parts;
  std::int32_t steps = 0;
  while (sequence.position() + kDrafts < std::ssize(truth)) {
    const std::int64_t position = sequence.position();
    // The drafter is right about the first `right` tokens.
    const std::int32_t right = 1 + steps++ % (kDrafts + 1);
    Tokens drafts(truth.begin() + position, truth.begin() + position + kDrafts + 1);
    std::fill(drafts.begin() + right, drafts.end(), 499);

    auto highway = highway_of(drafts, position, layer.input_elements);
    step.stage(sequence, drafts);
    step.run(layer.layer_index, highway);
    const std::int32_t accepted[] = {right};
    step.commit(accepted);
    accepted_parts.insert(accepted_parts.end(), highway.begin(),
                          highway.begin() + right * layer.output_elements);
  }
  std::printf("%d steps for %d tokens\n", steps, static_cast<int>(sequence.position()));
  expect(std::equal(accepted_parts.begin(), accepted_parts.end(), expected.begin()),
         "what was accepted has the bits of plain decoding");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
