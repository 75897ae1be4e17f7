// A step that fails leaves its sequences where they were: a read that the drive refuses, a step
// that is given up, calls out of order. Every error is a sentence.

#include <filesystem>

#include "example.hpp"

namespace {

namespace fs = std::filesystem;

template <class Call>
void refused(const Call& call) {
  try {
    call();
    expect(false, "refused");
  } catch (const pleiades::Error& error) {
    std::printf("status %d: %s\n", static_cast<int>(error.status()), error.what());
  }
}

// A copy of the checkpoint whose table is cut short behind the engine's back.
class CutTable {
 public:
  explicit CutTable(const std::string& file) : file_(file), bytes_(fs::file_size(file)) {}
  void cut() { fs::resize_file(file_, 512); }

 private:
  fs::path file_;
  std::uintmax_t bytes_;
};

void run(const pleiades::Model& model) {
  const ple_layer_info layer = model.layers().front();
  const fs::path original = fs::path(model.shards(layer).front().file).parent_path();
  const fs::path copy = fs::temp_directory_path() / "pleiades_recovery_example";
  fs::remove_all(copy);
  fs::copy(original, copy);
  {
    auto copied = pleiades::Model::open(copy.string());
    auto engine = pleiades::Engine::open(copied, {.arena = PLE_ARENA_CACHED, .cache_bytes = 0});
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    forward(step, sequence, layer, some_tokens(10));
    for (const ple_shard_info& shard : copied.shards(layer)) CutTable(shard.file).cut();
    // The read fails: stage, wait or run says so, the sequence stands where it stood.
    refused([&] { forward(step, sequence, layer, some_tokens(10, 4)); });
    step.discard();
    expect(sequence.position() == 10, "a failed step moves no sequence");
  }
  fs::remove_all(copy);

  auto engine = pleiades::Engine::open(model);
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  refused([&] { step.commit(); });                          // nothing staged
  refused([&] { step.stage(sequence, Tokens{1 << 30}); });  // no such token
  refused([&] { pleiades::Model::open("no/such/checkpoint"); });
  step.stage(sequence, some_tokens(4));
  step.discard();  // given up: as if it had not been staged
  expect(sequence.position() == 0, "a discarded step moves no sequence");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
