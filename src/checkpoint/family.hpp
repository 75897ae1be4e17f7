#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "base/status.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_spec.hpp"
#include "checkpoint/tensor_files.hpp"

// What a model family brings to the checkpoint room: one file that implements a FamilyReader, and
// the two functions below for its layer struct. Everything else is common.

namespace ple {

struct FamilyReader {
  // Whether a config is of this family.
  bool (*matches)(const Json& config, std::string_view model_type);
  // Geometry and hashes from a config; name stands for it in messages.
  Result<ModelSpec> (*parse)(const Json& config, const std::string& name);
  // Finds the table and the dense tensors of one parsed layer.
  Status (*bind)(const TensorFiles& files, LayerSpec& layer);
};

extern const FamilyReader kQwen4ExpReader;
extern const FamilyReader kEngramV41Reader;
extern const FamilyReader kEngramDemoReader;
extern const FamilyReader kLongcatReader;
extern const FamilyReader kGemmaReader;

// A dense tensor of a layer: where it goes, its name below the layer's prefix, and what it must be.
struct TensorSlot {
  TensorRef* tensor;
  std::string suffix;
  DType dtype;
  std::vector<std::int64_t> shape;
};

// The dense tensors of a layer, in a fixed order.
std::vector<TensorSlot> tensor_slots(Qwen4ExpLayer& layer);
std::vector<TensorSlot> tensor_slots(EngramLayer& layer);
std::vector<TensorSlot> tensor_slots(EngramDemoLayer& layer);
std::vector<TensorSlot> tensor_slots(LongcatLayer& layer);
std::vector<TensorSlot> tensor_slots(GemmaLayer& layer);

// Adds what the shapes of the slots leave open.
void add_constants(Digest& digest, const Qwen4ExpLayer& layer);
void add_constants(Digest& digest, const EngramLayer& layer);
void add_constants(Digest& digest, const EngramDemoLayer& layer);
void add_constants(Digest& digest, const LongcatLayer& layer);
void add_constants(Digest& digest, const GemmaLayer& layer);

// The bounds of the sizes that a config gives, so that products of two fit 63 bits and products
// of streams and hidden fit 31.
inline constexpr std::int64_t kDimMax = 1 << 20;
inline constexpr std::int64_t kStreamMax = 64;
inline constexpr std::int64_t kTapMax = 64;
inline constexpr std::int64_t kLayerMax = 4096;
inline constexpr std::int64_t kTokenMax = 0x7FFFFFFF;

// The object that holds a model's text keys: config.text_config if it is there and has key, else
// the config itself.
const Json& text_config(const Json& config, std::string_view key);

// Puts the config's name before a failure.
template <class T>
Result<T> with_name(const std::string& name, Result<T> result) {
  if (result.is_ok()) return result;
  return Status(result.status().code(), "config '" + name + "': " + result.status().message());
}

// What stands before `tail` in the names of tensors: "model.", or what wrappers for several
// modalities put there. Refused where tensors are found under none or under two.
Result<std::string> find_root(const TensorFiles& files, const std::string& tail);

// Fills every slot from prefix + suffix.
Status bind_tensors(const TensorFiles& files, const std::string& prefix,
                    const std::vector<TensorSlot>& slots);

// A shipped I64 buffer must equal what the config gives; its absence is fine.
Status compare_constants(const TensorFiles& files, const std::string& name,
                         const std::vector<std::int64_t>& derived);

}  // namespace ple
