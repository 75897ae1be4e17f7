#include "capi/handles.hpp"

ple_status ple_model_write_sums(const ple_model* model, ple_progress_fn, void*) {
  return ple::capi::guarded([&]() -> ple::Status {
    PLE_TRY(ple::capi::check_pointer(model, "model"));
    return ple::error(ple::StatusCode::unsupported, "block checksums are not in this version");
  });
}
