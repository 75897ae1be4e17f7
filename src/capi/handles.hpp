#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/engine.hpp"
#include "engine/sequence.hpp"
#include "engine/step.hpp"
#include "pleiades/pleiades.h"

// The opaque types of pleiades.h, and the one place where exceptions end.

struct ple_model {
  explicit ple_model(std::shared_ptr<const ple::ModelSpec> opened) : spec(std::move(opened)) {
    for (const ple::LayerSpec& layer : spec->layers) constants.push_back(layer.hash->constants());
  }

  std::shared_ptr<const ple::ModelSpec> spec;
  std::vector<ple::HashConstants> constants;  // by layer: what ple_model_get_constants points into
};
struct ple_engine {
  std::shared_ptr<ple::Engine> engine;
};
struct ple_sequence {
  std::shared_ptr<ple::Sequence> sequence;
};
struct ple_step {
  std::unique_ptr<ple::Step> step;
  std::vector<std::shared_ptr<ple::Sequence>> batch_sequences;
};

namespace ple::capi {

// Keeps the sentence for ple_last_error.
void remember_error(const Status& status) noexcept;

// Runs body and turns its Status, and whatever the standard library throws, into a code.
template <class Body>
ple_status guarded(Body&& body) noexcept {
  Status status;
  try {
    status = body();
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::out_of_memory);
  } catch (...) {
    status = Status(StatusCode::internal);
  }
  if (!status.is_ok()) remember_error(status);
  return static_cast<ple_status>(status.code());
}

// A struct of the caller's is usable when it is there and at least as large as in version 0.1.
template <class Struct>
Status check_struct(const Struct* value, const char* name) {
  if (value == nullptr) return error(StatusCode::invalid_argument, "{} is NULL", name);
  if (value->struct_bytes != sizeof(Struct)) {
    return error(StatusCode::invalid_argument, "{}: struct_bytes {} where this library has {}",
                 name, value->struct_bytes, sizeof(Struct));
  }
  return {};
}

inline Status check_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) return error(StatusCode::invalid_argument, "{} is NULL", name);
  return {};
}

// An enumerator of the caller's may hold any number, and reading such a one as the enumeration it
// is not would be undefined: its bytes are read.
template <class Enum>
Status check_enum(const Enum& value, Enum last, const char* name) {
  std::int32_t number = 0;
  static_assert(sizeof(Enum) == sizeof(number));
  std::memcpy(&number, &value, sizeof(number));
  if (number >= 0 && number <= static_cast<std::int32_t>(last)) return {};
  return error(StatusCode::invalid_argument, "{}: no such value: {}", name, number);
}

// Copies bytes out in the two-call manner of pleiades.h.
Status copy_out(const void* data, std::size_t data_bytes, void* buffer, std::size_t capacity,
                std::size_t* bytes);

// ple_engine_options in the library's own types; NULL gives the defaults.
Result<EngineOptions> engine_options(const ple_engine_options* options);

ple_quantiles to_c(const Quantiles& quantiles);

}  // namespace ple::capi
