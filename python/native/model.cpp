#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <pleiades/pleiades.hpp>

#include "bindings.hpp"
#include "describe.hpp"
#include "names.hpp"
#include "objects.hpp"
#include "progress.hpp"
#include "references.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

const ple_layer_info& find_layer(const std::vector<ple_layer_info>& layers, std::int32_t index) {
  for (const ple_layer_info& layer : layers) {
    if (layer.layer_index == index) return layer;
  }
  throw Error(PLE_INVALID_ARGUMENT,
              "layer " + std::to_string(index) + " has no memory in this model");
}

std::size_t column_count(const Model& model, std::int32_t layer) {
  return static_cast<std::size_t>(find_layer(model.layers(), layer).column_count);
}

nb::object row_ids(PyModel& self, std::int32_t layer, nb::handle tokens) {
  Model& model = self.handle.get();
  const std::size_t columns = column_count(model, layer);
  TokenArray ids;
  ids.assign(tokens);
  if (ids.is_on_device()) throw Error(PLE_INVALID_ARGUMENT, "row_ids takes tokens on the host");
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(ids.size()) * columns);
  {
    const nb::gil_scoped_release unlocked;
    model.row_ids(layer, {ids.data(), static_cast<std::size_t>(ids.size())}, rows.data());
  }
  const auto count = static_cast<std::size_t>(ids.size());
  return nb::cast(to_numpy(std::move(rows), count, columns));
}

nb::object decode_rows(PyModel& self, std::int32_t layer, const HostArray<std::uint8_t>& bytes) {
  Model& model = self.handle.get();
  const ple_layer_info info = find_layer(model.layers(), layer);
  if (bytes.size() % static_cast<std::size_t>(info.row_bytes) != 0) {
    throw Error(PLE_INVALID_ARGUMENT, "decode_rows: " + std::to_string(bytes.size()) +
                                          " bytes are no whole number of rows of " +
                                          std::to_string(info.row_bytes) + " bytes");
  }
  const std::size_t count = bytes.size() / static_cast<std::size_t>(info.row_bytes);
  const auto row_dim = static_cast<std::size_t>(info.row_dim);
  std::vector<float> values(count * row_dim);
  {
    const nb::gil_scoped_release unlocked;
    model.decode_rows(layer, {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
                      static_cast<std::int64_t>(count), values.data());
  }
  return nb::cast(to_numpy(std::move(values), count, row_dim));
}

nb::dict constants(PyModel& self, std::int32_t layer) {
  const ple_hash_constants from = self.handle.get().constants(layer);
  const auto list = [](const std::int64_t* values, std::int32_t count) {
    nb::list numbers;
    for (std::int32_t i = 0; i < count; ++i) numbers.append(values[i]);
    return numbers;
  };
  nb::dict result;
  result["multipliers"] = list(from.multipliers, from.multiplier_count);
  result["column_sizes"] = list(from.column_sizes, from.column_count);
  result["column_offsets"] = list(from.column_offsets, from.column_count);
  return result;
}

std::vector<ShardRecord> shards(PyModel& self, std::int32_t layer) {
  const Model& model = self.handle.get();
  std::vector<ShardRecord> records;
  for (const ple_shard_info& shard : model.shards(find_layer(model.layers(), layer))) {
    records.push_back({.part = shard.part,
                       .file = shard.file == nullptr ? "" : shard.file,
                       .offset = shard.offset,
                       .row_begin = shard.row_begin,
                       .row_count = shard.row_count});
  }
  return records;
}

constexpr const char* kClassDoc =
    R"(What is computed: an opened checkpoint, or a description by the caller.

Any number of threads and engines may use one.)";

constexpr const char* kOpenDoc = R"(Open a checkpoint directory, or a bare ``config.json``.

Reads headers and small constants only, never the tables.

Parameters
----------
path : str
    A directory with ``config.json`` and safetensors, with or without an index. A ``config.json``
    alone gives a model that computes row ids and nothing else.

Raises
------
NotFound
    No such file.
Corrupt
    A file that is not what it claims to be; the sentence names file and tensor.
Unsupported
    A model without n-gram memory layers, or of an unknown family.)";

constexpr const char* kDescribeDoc =
    R"(A qwen4_exp model whose geometry, shards and weights the caller holds.

For an engine with a loader of its own. Arrays are read in place when an engine opens and are kept
until the model goes.

Parameters
----------
geometry : pleiades.Geometry
    The numbers of the configuration.
layers : list of pleiades.LayerWeights
    All PLE layers, by ascending ``layer_index``.

Raises
------
InvalidArgument
    A shape that does not fit, or shards that do not cover the table.)";

constexpr const char* kRowIdsDoc = R"(Row ids of tokens that start a sequence.

Parameters
----------
layer : int
    0-based decoder layer.
tokens : list of int or array of integers, [token_count]

Returns
-------
numpy.ndarray, uint32 [token_count, column_count])";

constexpr const char* kDecodeRowsDoc = R"(Decode encoded rows.

Parameters
----------
layer : int
    0-based decoder layer.
rows : array, uint8 [count, row_bytes]
    As the table stores them.

Returns
-------
numpy.ndarray, float32 [count, row_dim])";

constexpr const char* kVerifyDoc = R"(Read every row of every layer once.

All values finite, checksums (where present) right, and a sample equal through a small cache and
directly. A bad row is in the report, not an error. The interpreter lock is released; Ctrl-C stops.

Parameters
----------
progress : callable, optional
    Called with (done, total) now and then; returning False stops with WrongState.)";

constexpr const char* kTokenMapDoc =
    R"(Set the map from token id to code that some families hash with.

Parameters
----------
codes : array, int32 [vocab_size]

Raises
------
InvalidArgument
    Its size or its number of codes is not the model's, or the model has one.)";

void bind_reading(nb::class_<PyModel>& cls) {
  cls.def("row_ids", &row_ids, nb::arg("layer"), nb::arg("tokens"), kRowIdsDoc,
          nb::sig("def row_ids(self, layer: int, tokens: pleiades._types.Tokens) -> "
                  "numpy.typing.NDArray[numpy.uint32]"));
  cls.def("decode_rows", &decode_rows, nb::arg("layer"), nb::arg("rows"), kDecodeRowsDoc,
          nb::sig("def decode_rows(self, layer: int, rows: pleiades._types.Array) -> "
                  "numpy.typing.NDArray[numpy.float32]"));
  cls.def(
      "verify",
      [](PyModel& self, const nb::object& progress) {
        Model& model = self.handle.get();
        return with_progress(progress, [&](const Progress& p) { return model.verify(p); });
      },
      nb::arg("progress") = nb::none(), kVerifyDoc,
      nb::sig("def verify(self, progress: collections.abc.Callable[[int, int], bool | None] | None "
              "= None) -> VerifyReport"));
  cls.def(
      "write_sums",
      [](PyModel& self, const nb::object& progress) {
        Model& model = self.handle.get();
        with_progress(progress, [&](const Progress& p) {
          model.write_sums(p);
          return 0;
        });
      },
      nb::arg("progress") = nb::none(), "Write block checksums beside the table's files.",
      nb::sig("def write_sums(self, progress: collections.abc.Callable[[int, int], bool | None] | "
              "None = None) -> None"));
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<PyModel> cls(module, "Model", nb::type_slots(References<PyModel>::slots), kClassDoc);
  cls.def_static(
      "open",
      [](const nb::object& path) {
        const std::string name = path_text(path);
        const nb::gil_scoped_release unlocked;
        return new PyModel(Model::open(name));
      },
      nb::arg("path"), kOpenDoc, nb::sig("def open(path: str | os.PathLike[str]) -> Model"));
  cls.def_static("describe", &describe_model, nb::arg("geometry"), nb::arg("layers"), kDescribeDoc,
                 nb::sig("def describe(geometry: pleiades.description.Geometry, layers: "
                         "collections.abc.Sequence[pleiades.description.LayerWeights]) -> Model"));
  cls.def_prop_ro(
      "info", [](PyModel& self) { return self.handle.get().info(); }, "What the model is.");
  cls.def_prop_ro(
      "layers", [](PyModel& self) { return self.handle.get().layers(); },
      "All memory layers, by ascending ``layer_index``.");
  cls.def("shards", &shards, nb::arg("layer"), "Where the rows of a layer lie.");
  cls.def(
      "constants", &constants, nb::arg("layer"),
      "The numbers behind a layer's row ids: ``multipliers`` by look-back, ``column_sizes`` and "
      "``column_offsets``.",
      nb::sig("def constants(self, layer: int) -> dict[str, list[int]]"));
  cls.def(
      "set_token_map",
      [](PyModel& self, const HostArray<std::int32_t>& codes) {
        self.handle.get().set_token_map({codes.data(), codes.size()});
      },
      nb::arg("codes"), kTokenMapDoc,
      nb::sig("def set_token_map(self, codes: pleiades._types.Array) -> None"));
  bind_reading(cls);
}

}  // namespace pleiades::python
