#include <utility>
#include <vector>

#include "capi/handles.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::guarded;

}  // namespace

ple_status ple_sequence_create(ple_engine* engine, ple_sequence** sequence) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY(check_pointer(sequence, "sequence"));
    PLE_TRY_ASSIGN(std::shared_ptr<Sequence> created, Sequence::create(engine->engine));
    *sequence = new ple_sequence{std::move(created)};
    return {};
  });
}

void ple_sequence_release(ple_sequence** sequence) {
  if (sequence == nullptr) return;
  delete *sequence;
  *sequence = nullptr;
}

ple_status ple_sequence_position(const ple_sequence* sequence, int64_t* position) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(sequence, "sequence"));
    PLE_TRY(check_pointer(position, "position"));
    *position = sequence->sequence->timeline().position();
    return {};
  });
}

ple_status ple_sequence_rewind(ple_sequence* sequence, int64_t position) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(sequence, "sequence"));
    return sequence->sequence->timeline().rewind(position);
  });
}

ple_status ple_sequence_snapshot(const ple_sequence* sequence, ple_snapshot_kind kind, void* buffer,
                                 size_t capacity, size_t* bytes) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(sequence, "sequence"));
    PLE_TRY(check_pointer(bytes, "bytes"));
    PLE_TRY(capi::check_enum(kind, PLE_SNAPSHOT_FULL, "kind"));
    PLE_TRY_ASSIGN(const std::vector<std::byte> blob,
                   sequence->sequence->snapshot(static_cast<SnapshotKind>(kind)));
    return capi::copy_out(blob.data(), blob.size(), buffer, capacity, bytes);
  });
}

ple_status ple_sequence_restore(ple_sequence* sequence, const void* blob, size_t bytes) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(sequence, "sequence"));
    PLE_TRY(check_pointer(blob, "blob"));
    return sequence->sequence->restore({static_cast<const std::byte*>(blob), bytes});
  });
}

ple_status ple_sequence_announce(ple_sequence* sequence, const int32_t* tokens,
                                 int64_t token_count) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(sequence, "sequence"));
    if (token_count < 0) {
      return error(StatusCode::invalid_argument, "token_count {}", token_count);
    }
    if (token_count == 0) return {};
    PLE_TRY(check_pointer(tokens, "tokens"));
    return sequence->sequence->announce({tokens, static_cast<std::size_t>(token_count)});
  });
}
