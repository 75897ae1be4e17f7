#include "capi/handles.hpp"
#include "engine/verify.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::check_struct;
using capi::guarded;

Progress to_progress(ple_progress_fn progress, void* user) {
  return [progress, user](std::uint64_t done, std::uint64_t total) {
    return progress == nullptr || progress(user, done, total) == 0;
  };
}

}  // namespace

ple_status ple_model_verify(const ple_model* model, ple_progress_fn progress, void* user,
                            ple_verify_report* report) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(report, "report"));
    PLE_TRY_ASSIGN(const VerifyReport found, verify(*model->spec, to_progress(progress, user)));
    *report = {.struct_bytes = sizeof(ple_verify_report),
               .reserved = 0,
               .rows_checked = found.rows_checked,
               .rows_not_finite = found.rows_not_finite,
               .first_bad_row = found.first_bad_row,
               .first_bad_layer = found.first_bad_layer,
               .sums_checked = found.sums_checked ? 1 : 0,
               .sample_rows = found.sample_rows,
               .sample_mismatches = found.sample_mismatches};
    return {};
  });
}
