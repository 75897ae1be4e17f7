#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <pleiades/pleiades.hpp>

#include "bindings.hpp"
#include "names.hpp"
#include "objects.hpp"
#include "references.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

using Use = Handle<Sequence>::Use;

nb::bytes snapshot(PySequence& self, const std::string& kind) {
  const Use use(self.handle);
  Sequence& sequence = self.handle.get();
  const ple_snapshot_kind value = value_of(kSnapshotNames, "kind", kind);
  std::vector<std::byte> blob;
  {
    const nb::gil_scoped_release unlocked;
    blob = sequence.snapshot(value);
  }
  return nb::bytes(blob.data(), blob.size());
}

void restore(PySequence& self, const nb::bytes& blob) {
  const Use use(self.handle);
  Sequence& sequence = self.handle.get();
  const std::span bytes(static_cast<const std::byte*>(blob.data()), blob.size());
  const nb::gil_scoped_release unlocked;
  sequence.restore(bytes);
}

void announce(PySequence& self, nb::handle tokens) {
  const Use use(self.handle);
  TokenArray ids;
  ids.assign(tokens);
  if (ids.is_on_device()) throw Error(PLE_INVALID_ARGUMENT, "announce takes tokens on the host");
  Sequence& sequence = self.handle.get();
  const nb::gil_scoped_release unlocked;
  sequence.announce({ids.data(), static_cast<std::size_t>(ids.size())});
}

constexpr const char* kClassDoc = R"(One token timeline and its carried state; begins at position 0.

One thread at a time.)";

constexpr const char* kRewindDoc = R"(Move back to an earlier position.

Parameters
----------
position : int
    0, or at most ``draft_max`` tokens before the present one.

Raises
------
InvalidArgument
    Further back than the carried state reaches.
WrongState
    A step of the sequence is staged.)";

constexpr const char* kSnapshotDoc = R"(Bytes that let a sequence go on elsewhere.

Parameters
----------
kind : {"compact", "full"}
    ``compact``: token ids and scalars, a few hundred bytes; rows are read again on restore.
    ``full``: value rows included.

Returns
-------
bytes)";

constexpr const char* kRestoreDoc = R"(Replace the sequence's state by a snapshot.

Raises
------
Corrupt, InvalidArgument
    A blob of another model, version, arithmetic or length is refused by name and changes nothing.)";

constexpr const char* kAnnounceDoc =
    R"(Say that these tokens will follow: their rows are fetched in the background.

A hint: it changes no result.

Parameters
----------
tokens : list of int or array of integers, [token_count])";

}  // namespace

PySequence::PySequence(nb::object engine)
    : engine(std::move(engine)),
      handle("sequence", Sequence(object_cast<PyEngine>(this->engine).handle->get())) {}

void bind_sequence(nb::module_& module) {
  nb::class_<PySequence>(module, "Sequence", nb::is_weak_referenceable(),
                         nb::type_slots(References<PySequence>::slots), kClassDoc)
      .def(nb::init<nb::typed<nb::object, PyEngine>>(), nb::arg("engine"),
           "A fresh timeline on an engine.")
      .def_prop_ro(
          "position", [](PySequence& self) { return self.handle.get().position(); },
          "Committed tokens.")
      .def(
          "rewind",
          [](PySequence& self, std::int64_t position) {
            const Use use(self.handle);
            self.handle.get().rewind(position);
          },
          nb::arg("position"), kRewindDoc)
      .def("snapshot", &snapshot, nb::arg("kind") = "compact", kSnapshotDoc,
           nb::sig("def snapshot(self, kind: pleiades._types.SnapshotKind = 'compact') -> bytes"))
      .def("restore", &restore, nb::arg("blob"), kRestoreDoc)
      .def("announce", &announce, nb::arg("tokens"), kAnnounceDoc,
           nb::sig("def announce(self, tokens: pleiades._types.Tokens) -> None"))
      .def(
          "release", [](PySequence& self) { self.handle.release(); },
          "Give the state back now; twice is harmless.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Sequence"))
      .def(
          "__exit__", [](PySequence& self, nb::args) { self.handle.release(); },
          nb::sig("def __exit__(self, *arguments: object) -> None"));
}

}  // namespace pleiades::python
