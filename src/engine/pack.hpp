#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "engine/verify.hpp"

// A checkpoint's tables, rewritten in another row format.
//
// The new checkpoint has the files of the old one under their names. Files that hold rows are
// written anew, with the new tensors where the old ones were; other safetensors files become hard
// links (copies across file systems), all else beside them is copied. Rows are converted from the
// bf16 values that decoding yields, so packing as bf16 changes no output bit. A table that has the
// format already keeps its codes and scales bit for bit.
//
// All of it goes to OUT.partial first, with a journal of what is on the disk, so that a run that
// was stopped, killed or short of space goes on when it is asked for again, to the same bytes. OUT
// appears when it is whole. Memory is bounded, whatever the table's size.

namespace ple {

enum class PackFormat : std::int32_t {
  bf16 = 0,
  fp8 = 1,  // E4M3 with a scale per row; FP8 tables of any kind stay as they are
  int8 = 2,
  nvfp4 = 3,
};

struct PackRequest {
  std::string directory;
  std::string out;
  PackFormat format = PackFormat::bf16;
  bool interleave = false;        // a row's codes and scales side by side
  std::int32_t thread_count = 0;  // 0: all
};

// What a head (a column's rows; or the whole table of a family without columns) lost, relative to
// the values before: ||new - old|| / ||old|| over all its rows, and that of its worst row.
struct HeadError {
  std::int32_t layer_index = 0;
  std::int32_t column = 0;
  std::uint64_t row_begin = 0;
  std::uint64_t row_count = 0;
  double relative = 0;
  double worst = 0;
  std::uint64_t worst_row = 0;  // where worst is not 0
};

struct PackReport {
  std::uint64_t row_count = 0;
  std::uint64_t rows_resumed = 0;  // of these, done by a run before
  std::uint64_t old_bytes = 0;     // of the tables
  std::uint64_t new_bytes = 0;
  std::vector<HeadError> heads;
};

// progress is told bytes of rows read.
Result<PackReport> pack(const PackRequest& request, const Progress& progress);

}  // namespace ple
