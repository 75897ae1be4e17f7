// Two engines in one process, each used by several threads with sequences of their own.

#include <thread>

#include "example.hpp"

namespace {

void run(const pleiades::Model& model) {
  auto roomy = pleiades::Engine::open(model);
  auto tight = pleiades::Engine::open(model, {.arena = PLE_ARENA_CACHED, .cache_bytes = 16 << 10});
  const ple_layer_info layer = model.layers().front();
  std::vector<std::vector<float>> outputs(6);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&, i] {
      // A sequence and a step belong to one thread at a time; models and engines to all.
      pleiades::Engine& engine = i % 2 == 0 ? roomy : tight;
      pleiades::Sequence sequence(engine);
      pleiades::Step step(engine);
      for (int chunk = 0; chunk < 5; ++chunk) {
        outputs[i] = forward(step, sequence, layer, some_tokens(12, chunk));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& output : outputs) expect(output == outputs[0], "the same bits on every thread");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
