#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <pleiades/pleiades.hpp>

#include "bindings.hpp"
#include "names.hpp"
#include "objects.hpp"
#include "references.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

// The library's log sink: calls the Python callable. A failing callable must not fail a step.
void call_log(void* user, ple_log_level level, const char* line) {
  if (!Py_IsInitialized()) return;
  const nb::gil_scoped_acquire locked;
  // None when the garbage collector took it.
  const nb::object callable = *static_cast<nb::object*>(user);
  if (callable.is_none()) return;
  try {
    callable(static_cast<int>(level), line);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("pleiades log callback");
  }
}

std::string with_index(const std::string& device) { return device == "cuda" ? "cuda:0" : device; }

void construct(PyEngine* self, nb::typed<nb::object, PyModel> model, std::string device,
               const std::string& arithmetic, const std::string& arena,
               const std::string& slot_memory, const std::string& projection,
               std::uint64_t cache_bytes, std::int32_t thread_count, std::int32_t draft_max,
               std::optional<std::vector<std::int32_t>> layers, const std::string& io,
               std::int32_t io_depth, std::int32_t io_thread_count, std::int32_t read_deadline_ms,
               const std::optional<std::string>& warm_start, nb::object log) {
  EngineOptions options;
  options.device = std::move(device);
  options.arithmetic = value_of(kArithmeticNames, "arithmetic", arithmetic);
  options.arena = value_of(kArenaNames, "arena", arena);
  options.slot_memory = value_of(kSlotMemoryNames, "slot_memory", slot_memory);
  options.projection = value_of(kProjectionNames, "projection", projection);
  options.cache_bytes = cache_bytes;
  options.thread_count = thread_count;
  options.draft_max = draft_max;
  if (layers) options.layers = *std::move(layers);
  options.io = value_of(kIoNames, "io", io);
  options.io_depth = io_depth;
  options.io_thread_count = io_thread_count;
  options.read_deadline_ms = read_deadline_ms;
  options.warm_start = warm_start.value_or("");
  new (self) PyEngine(std::move(model), std::move(options), std::move(log));
}

// Its text lives as long as the engine's object, which may be released before.
ple_engine_info info(PyEngine& self) {
  ple_engine_info info = self.handle->get().info();
  info.device_name = self.device_name.c_str();
  return info;
}

nb::object read_rows(PyEngine& self, std::int32_t layer, const HostArray<std::uint32_t>& rows,
                     bool direct) {
  Engine& engine = self.handle->get();
  const auto row_bytes = static_cast<std::size_t>(self.layer(layer).row_bytes);
  std::vector<std::uint8_t> bytes(rows.size() * row_bytes);
  {
    const nb::gil_scoped_release unlocked;
    engine.read_rows(layer, {rows.data(), rows.size()}, direct,
                     reinterpret_cast<std::byte*>(bytes.data()));
  }
  return nb::cast(to_numpy(std::move(bytes), rows.size(), row_bytes));
}

constexpr const char* kClassDoc =
    R"(A model made ready to run on one device: dense weights, caches and readers.

Any number of threads may use one. It costs the dense weights, the arenas and at most 64 MB.)";

constexpr const char* kInitDoc = R"(Open an engine.

Parameters
----------
model : Model
device : str
    ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
arithmetic : {"auto", "float32", "mixed", "reference"}
    ``float32``: sums and tensors in f32, only the result is rounded. ``mixed``: value rows are kept
    in bf16. ``reference``: rounded wherever the public reference rounds. ``auto``: mixed on a GPU,
    float32 on a CPU.
arena : {"auto", "cached", "resident"}
    ``resident`` reads the whole table at open; ``auto`` does when it fits in `cache_bytes`.
slot_memory : {"auto", "device", "pinned"}
    Where the rows lie on a GPU machine.
projection : {"auto", "fp8", "dequantized"}
cache_bytes : int
    Bytes of all arenas together; 0 is valid: every row is then read for its step.
thread_count : int
    CPU threads that compute; 0: all. Beside a GPU, threads that hash long texts; 0: up to 8.
draft_max : int
    Tokens of a step that `Step.commit` may reject, or `Sequence.rewind` take back.
layers : list of int, optional
    Decoder layers to run; all memory layers by default.
io : {"auto", "uring", "pread"}
io_depth, io_thread_count : int
    Reads in flight per reader, and readers; 0: chosen.
read_deadline_ms : int
    A read that takes longer fails its step; 0: 30,000.
warm_start : str, optional
    A file that keeps the hot rows' ids between runs.
log : callable, optional
    Called with (level, line) from any thread; level 0 debug, 1 info, 2 warning.

Raises
------
InvalidArgument, Unsupported, OutOfMemory, IoError, DeviceError)";

constexpr const char* kReadRowsDoc = R"(Encoded rows as the table stores them.

Parameters
----------
layer : int
    0-based decoder layer.
rows : array, uint32 [count]
direct : bool
    Straight from the files instead of through the cache.

Returns
-------
numpy.ndarray, uint8 [count, row_bytes])";

constexpr const char* kInitSignature =
    "def __init__(self, model: Model, *, device: str = 'cpu', "
    "arithmetic: pleiades._types.Arithmetic = 'auto', arena: pleiades._types.Arena = 'auto', "
    "slot_memory: pleiades._types.SlotMemory = 'auto', "
    "projection: pleiades._types.Projection = 'auto', cache_bytes: int = 1073741824, "
    "thread_count: int = 0, draft_max: int = 7, "
    "layers: collections.abc.Sequence[int] | None = None, io: pleiades._types.Io = 'auto', "
    "io_depth: int = 0, io_thread_count: int = 0, read_deadline_ms: int = 0, "
    "warm_start: str | None = None, "
    "log: collections.abc.Callable[[int, str], object] | None = None) -> None";

}  // namespace

PyEngine::PyEngine(nb::object model, EngineOptions options, nb::object log)
    : model(std::move(model)), log(std::move(log)), device(with_index(options.device)) {
  Model& opened = object_cast<PyModel>(this->model).handle.get();
  layers = opened.layers();
  if (!this->log.is_none()) {
    options.log = &call_log;
    options.log_user = &this->log;
  }
  const nb::gil_scoped_release unlocked;
  handle = std::make_unique<Handle<Engine>>("engine", Engine::open(opened, options));
  device_name = handle->get().info().device_name;
}

const ple_layer_info& PyEngine::layer(std::int32_t layer_index) const {
  for (const ple_layer_info& layer : layers) {
    if (layer.layer_index == layer_index) return layer;
  }
  throw Error(PLE_INVALID_ARGUMENT,
              "layer " + std::to_string(layer_index) + " has no memory in this model");
}

void bind_engine(nb::module_& module) {
  nb::class_<PyEngine>(module, "Engine", nb::type_slots(References<PyEngine>::slots), kClassDoc)
      .def("__init__", &construct, nb::arg("model"), nb::kw_only(), nb::arg("device") = "cpu",
           nb::arg("arithmetic") = "auto", nb::arg("arena") = "auto",
           nb::arg("slot_memory") = "auto", nb::arg("projection") = "auto",
           nb::arg("cache_bytes") = std::uint64_t{1} << 30, nb::arg("thread_count") = 0,
           nb::arg("draft_max") = 7, nb::arg("layers") = nb::none(), nb::arg("io") = "auto",
           nb::arg("io_depth") = 0, nb::arg("io_thread_count") = 0, nb::arg("read_deadline_ms") = 0,
           nb::arg("warm_start") = nb::none(), nb::arg("log") = nb::none(), kInitDoc,
           nb::sig(kInitSignature))
      .def_ro("device", &PyEngine::device, "``\"cpu\"`` or ``\"cuda:N\"``.")
      .def_prop_ro("info", &info, nb::keep_alive<0, 1>(), "How the engine runs.")
      .def_prop_ro(
          "metrics", [](PyEngine& self) { return self.handle->get().metrics(); },
          "Counters and latencies since the engine was opened.")
      .def(
          "read_times",
          [](PyEngine& self) {
            nb::list times;
            for (const auto& [us_max, count] : self.handle->get().read_times()) {
              times.append(nb::make_tuple(us_max, count));
            }
            return times;
          },
          "How long disk reads took: pairs of the longest time of a bucket in microseconds and how "
          "many reads fell into it, shortest first.",
          nb::sig("def read_times(self) -> list[tuple[float, int]]"))
      .def(
          "metrics_text", [](PyEngine& self) { return self.handle->get().metrics_text(); },
          "The metrics as a Prometheus text page.")
      .def("read_rows", &read_rows, nb::arg("layer"), nb::arg("rows"), nb::arg("direct") = false,
           kReadRowsDoc,
           nb::sig("def read_rows(self, layer: int, rows: pleiades._types.Array, direct: bool = "
                   "False) -> numpy.typing.NDArray[numpy.uint8]"))
      .def(
          "release", [](PyEngine& self) { self.handle->release(); },
          "Give the memory back now; twice is harmless. What still needs the engine keeps it.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Engine"))
      .def(
          "__exit__", [](PyEngine& self, nb::args) { self.handle->release(); },
          nb::sig("def __exit__(self, *arguments: object) -> None"));
}

}  // namespace pleiades::python
