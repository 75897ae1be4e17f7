#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "names.hpp"
#include "objects.hpp"
#include "progress.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

PackRecord pack_checkpoint(const nb::object& directory, const nb::object& out,
                           const std::string& format, bool interleave, std::int32_t thread_count,
                           const nb::object& progress) {
  ple_pack_options options = PLE_PACK_OPTIONS_INIT;
  options.format = value_of(kPackFormatNames, "format", format);
  options.interleave = interleave ? 1 : 0;
  options.thread_count = thread_count;
  const std::string from = path_text(directory);
  const std::string to = path_text(out);
  PackResult result =
      with_progress(progress, [&](const Progress& p) { return pack(from, to, options, p); });
  return {.row_count = result.report.row_count,
          .rows_resumed = result.report.rows_resumed,
          .old_bytes = result.report.old_bytes,
          .new_bytes = result.report.new_bytes,
          .heads = std::move(result.heads)};
}

constexpr const char* kPackDoc =
    R"(Write a checkpoint anew, its tables in another row format.

Never holds a table in memory. `out` appears when it is whole; until then the work is in
``out.partial``, and what was stopped goes on there when the same is asked for again. The interpreter
lock is released; Ctrl-C stops.

Parameters
----------
directory : str or path
    A checkpoint.
out : str or path
    Directory to write; must not exist.
format : {"bf16", "fp8", "int8", "nvfp4"}
    Of the rows; fp8 and int8 have a scale per row. A table that has it already keeps its codes, and
    bf16 changes no output bit.
interleave : bool
    A row's codes and scales side by side, so that a row is one read.
thread_count : int
    0: all.
progress : callable, optional
    Called with (bytes done, total) now and then; returning False stops with WrongState.

Returns
-------
PackReport
    What each head lost.

Raises
------
InvalidArgument
    `out` exists, or rows that do not fill the format's blocks.
Corrupt
    A row that is not finite.)";

}  // namespace

void bind_pack(nb::module_& module) {
  module.def(
      "pack", &pack_checkpoint, nb::arg("directory"), nb::arg("out"), nb::arg("format"),
      nb::kw_only(), nb::arg("interleave") = false, nb::arg("thread_count") = 0,
      nb::arg("progress") = nb::none(), kPackDoc,
      nb::sig("def pack(directory: str | os.PathLike[str], out: str | os.PathLike[str], format: "
              "pleiades._types.PackFormat, *, interleave: bool = False, thread_count: int = 0, "
              "progress: collections.abc.Callable[[int, int], bool | None] | None = None) -> "
              "PackReport"));
}

}  // namespace pleiades::python
