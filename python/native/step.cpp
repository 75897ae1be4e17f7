#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <pleiades/pleiades.hpp>

#include "bindings.hpp"
#include "names.hpp"
#include "objects.hpp"
#include "references.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

using Use = Handle<Step>::Use;
using Access = ArrayView::Access;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(PLE_INVALID_ARGUMENT, sentence);
}

template <class Integer>
void to_integers(nb::handle from, const char* what, std::size_t count, std::vector<Integer>& to) {
  to.clear();
  for (const nb::handle value : from) {
    Integer integer = 0;
    if (!nb::try_cast(value, integer)) refuse(std::string(what) + " holds no integer");
    to.push_back(integer);
  }
  if (to.size() != count) {
    refuse(std::string(what) + " has " + std::to_string(to.size()) + " entries for " +
           std::to_string(count) + " sequences");
  }
}

const PyEngine& engine_of(const PyStep& self) { return object_cast<PyEngine>(self.engine); }

void take_sequences(PyStep& self, nb::handle sequences) {
  self.sequences.clear();
  const auto take = [&](nb::handle object) {
    PySequence* sequence = nullptr;
    if (!nb::try_cast(object, sequence) || sequence == nullptr) {
      refuse("sequences is neither a Sequence nor a list of them");
    }
    self.sequences.push_back(sequence->handle.get().get());
  };
  if (nb::isinstance<PySequence>(sequences)) return take(sequences);
  for (const nb::handle sequence : sequences) take(sequence);
}

// None: every sequence takes the same number of tokens.
void take_counts(PyStep& self, nb::handle counts) {
  const std::size_t sequence_count = self.sequences.size();
  const std::int64_t token_count = self.tokens.size();
  if (!counts.is_none()) {
    to_integers(counts, "token_counts", sequence_count, self.token_counts);
    std::int64_t sum = 0;
    for (const std::int32_t count : self.token_counts) sum += count;
    if (sum != token_count) {
      refuse("token_counts adds up to " + std::to_string(sum) + ", but there are " +
             std::to_string(token_count) + " tokens");
    }
    return;
  }
  const auto divisor = static_cast<std::int64_t>(std::max<std::size_t>(sequence_count, 1));
  if (token_count % divisor != 0 || (sequence_count == 0 && token_count != 0)) {
    refuse(std::to_string(token_count) + " tokens do not divide evenly over " +
           std::to_string(sequence_count) + " sequences: give token_counts");
  }
  self.token_counts.assign(sequence_count, static_cast<std::int32_t>(token_count / divisor));
}

void stage(PyStep& self, nb::handle sequences, nb::handle tokens, nb::handle counts,
           nb::handle positions, nb::handle stream) {
  const Use use(self.handle);
  Step& step = self.handle.get();
  take_sequences(self, sequences);
  self.tokens.assign(tokens);
  take_counts(self, counts);
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = static_cast<std::int32_t>(self.sequences.size());
  batch.sequences = self.sequences.data();
  batch.token_counts = self.token_counts.data();
  if (self.tokens.is_on_device()) {
    batch.device_tokens = self.tokens.data();
    batch.stream = stream.is_none() ? self.tokens.current_stream() : to_stream(stream);
  } else {
    batch.tokens = self.tokens.data();
  }
  if (!positions.is_none()) {
    to_integers(positions, "positions", self.sequences.size(), self.positions);
    batch.positions = self.positions.data();
  }
  {
    const nb::gil_scoped_release unlocked;
    check(ple_step_stage(step.get(), &batch));
  }
  self.token_count = self.tokens.size();
  self.sequence_count = self.sequences.size();
}

void check_activations(const PyStep& self, const Activations& array, const char* what,
                       std::int32_t layer, std::int64_t token_elements) {
  const std::string device = array.view.device_name();
  if (device != engine_of(self).device) {
    refuse("layer " + std::to_string(layer) + ": the " + what + " is on " + device +
           ", but the engine runs on " + engine_of(self).device);
  }
  if (array.element_count != self.token_count * token_elements) {
    refuse("layer " + std::to_string(layer) + ": the " + what + " has " +
           std::to_string(array.element_count) + " elements, but a step of " +
           std::to_string(self.token_count) + " tokens needs " +
           std::to_string(self.token_count * token_elements));
  }
}

void run(PyStep& self, std::int32_t layer, nb::object input, nb::object output,
         const std::string& mode, nb::handle stream) {
  const Use use(self.handle);
  Step& step = self.handle.get();
  const ple_layer_info& info = engine_of(self).layer(layer);
  const bool in_place = output.is_none();
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.mode = value_of(kModeNames, "mode", mode);
  Activations in;
  if (info.input_elements != 0 || in_place) {
    in = to_activations(input, "input", in_place ? Access::write : Access::read);
    check_activations(self, in, "input", layer, info.input_elements);
    args.input = in.data;
  }
  const Activations out = in_place ? in : to_activations(output, "output", Access::write);
  check_activations(self, out, "output", layer, info.output_elements);
  if (args.input != nullptr && in.element != out.element) {
    refuse("layer " + std::to_string(layer) + ": input and output are of different types");
  }
  args.output = out.data;
  args.element = out.element;
  if (engine_of(self).device != "cpu") {
    args.stream = stream.is_none() ? out.view.current_stream() : to_stream(stream);
  }
  const nb::gil_scoped_release unlocked;
  step.run(layer, args);
}

void commit(PyStep& self, nb::handle accepted) {
  const Use use(self.handle);
  Step& step = self.handle.get();
  std::vector<std::int32_t> counts;
  if (!accepted.is_none()) to_integers(accepted, "accepted", self.sequence_count, counts);
  const nb::gil_scoped_release unlocked;
  check(ple_step_commit(step.get(), accepted.is_none() ? nullptr : counts.data()));
}

constexpr const char* kClassDoc =
    R"(One batch through the layers: stage (host), run (device), commit (host).

Used again for every batch. One thread at a time; two steps may be in flight.)";

constexpr const char* kInitDoc = R"(Take the memory of the largest batch.

Parameters
----------
engine : Engine
tokens_max : int
    Tokens of the largest batch, all sequences together.
sequences_max : int
    Sequences of the largest batch.)";

constexpr const char* kStageDoc =
    R"(Resolve the rows of a ragged batch and start reading what is missing.

Returns before the rows have arrived and changes no sequence.

Parameters
----------
sequences : Sequence or list of Sequence
    Each at most once.
tokens : int, list of int, or array of integers, [token_count]
    The sequences' new ids one after the other; host arrays of contiguous int32 are read in place.
    An int32 array on the engine's GPU is copied back (refused under capture). -1 is a dead token.
token_counts : list of int, optional, [sequence_count]
    Tokens that each sequence takes (0 is valid); by default all take the same number.
positions : list of int, optional, [sequence_count]
    Where each sequence must stand; refused otherwise.
stream : int or stream object, optional
    That device tokens are valid on; by default the current one of their library.

Raises
------
InvalidArgument
    An id outside [0, vocab_size), or a batch larger than the step.
WrongState
    A sequence with two steps staged already, or not at its position.)";

constexpr const char* kWaitDoc = R"(Wait until every row is there. The interpreter lock is released.

Raises
------
IoError, DeadlineExceeded
    A read failed; the sequences stay where they are. Discard and stage again.)";

constexpr const char* kRunDoc = R"(The layer over the staged tokens, in the batch's order.

On a CPU it waits for the rows and returns when the output is written; on a GPU it enqueues, which
is legal under graph capture. Running a staged step again gives the same result. Arrays are used in
place, without copies.

Parameters
----------
layer : int
    0-based decoder layer.
input : array, float32 or bfloat16, [token_count, ..., hidden]
    ``token_count * input_elements`` contiguous elements on the engine's device.
output : array, optional
    ``token_count * output_elements`` elements of the same type; by default `input` itself.
mode : {"update", "delta"}
    ``update``: input plus what the layer adds. ``delta``: only what the layer adds.
stream : int or stream object, optional
    CUDA stream; by default the current one of the array's library.

Raises
------
InvalidArgument
    A shape, type or device that does not fit.
WrongState
    Nothing is staged.
IoError, DeadlineExceeded
    A read of the step's rows failed.)";

constexpr const char* kPrepareDoc = R"(Between stage and the replay of a captured graph.

Uploads the batch and makes the stream wait for the rows' placement. Not needed before an eager run.

Parameters
----------
stream : int or stream object
    That the graph will be launched on.)";

constexpr const char* kCommitDoc = R"(Move each sequence forward.

Parameters
----------
accepted : list of int, optional, [sequence_count]
    Tokens of each sequence to keep; all by default. At most ``draft_max`` may be rejected.)";

void bind_phases(nb::class_<PyStep>& cls) {
  cls.def(
      "stage", &stage, nb::arg("sequences"), nb::arg("tokens"),
      nb::arg("token_counts") = nb::none(), nb::kw_only(), nb::arg("positions") = nb::none(),
      nb::arg("stream") = nb::none(), kStageDoc,
      nb::sig("def stage(self, sequences: Sequence | collections.abc.Sequence[Sequence], tokens: "
              "pleiades._types.Tokens, token_counts: collections.abc.Sequence[int] | None = "
              "None, *, positions: collections.abc.Sequence[int] | None = None, stream: "
              "pleiades._types.Stream | None = None) -> None"));
  cls.def("run", &run, nb::arg("layer"), nb::arg("input").none(), nb::arg("output") = nb::none(),
          nb::kw_only(), nb::arg("mode") = "update", nb::arg("stream") = nb::none(), kRunDoc,
          nb::sig("def run(self, layer: int, input: pleiades._types.Array | None, output: "
                  "pleiades._types.Array | None = None, *, mode: pleiades._types.Mode = 'update', "
                  "stream: pleiades._types.Stream | None = None) -> None"));
  cls.def(
      "prepare",
      [](PyStep& self, nb::handle stream) {
        const Use use(self.handle);
        void* const address = to_stream(stream);
        const nb::gil_scoped_release unlocked;
        self.handle.get().prepare(address);
      },
      nb::arg("stream").none(), kPrepareDoc,
      nb::sig("def prepare(self, stream: pleiades._types.Stream | None) -> None"));
  cls.def(
      "commit", &commit, nb::arg("accepted") = nb::none(), kCommitDoc,
      nb::sig("def commit(self, accepted: collections.abc.Sequence[int] | None = None) -> None"));
  cls.def(
      "discard",
      [](PyStep& self) {
        const Use use(self.handle);
        const nb::gil_scoped_release unlocked;
        self.handle.get().discard();
      },
      "Forget what was staged; the sequences stay where they are. Harmless when nothing is.");
}

}  // namespace

PyStep::PyStep(nb::object engine, std::int32_t tokens_max, std::int32_t sequences_max)
    : engine(std::move(engine)),
      handle("step", Step(object_cast<PyEngine>(this->engine).handle->get(),
                          {.tokens_max = tokens_max, .sequences_max = sequences_max})) {}

void bind_step(nb::module_& module) {
  nb::class_<PyStep> cls(module, "Step", nb::is_weak_referenceable(),
                         nb::type_slots(References<PyStep>::slots), kClassDoc);
  cls.def(nb::init<nb::typed<nb::object, PyEngine>, std::int32_t, std::int32_t>(),
          nb::arg("engine"), nb::arg("tokens_max") = 512, nb::arg("sequences_max") = 16, kInitDoc);
  bind_phases(cls);
  cls.def_prop_ro(
         "ready", [](PyStep& self) { return self.handle.get().ready(); },
         "Whether `wait` would return at once.")
      .def(
          "wait",
          [](PyStep& self) {
            const Use use(self.handle);
            Step& step = self.handle.get();
            const nb::gil_scoped_release unlocked;
            step.wait();
          },
          kWaitDoc)
      .def_ro("token_count", &PyStep::token_count, "Tokens of the staged batch.")
      .def_prop_ro(
          "engine", [](const PyStep& self) { return self.engine; }, "The engine.",
          nb::sig("def engine(self) -> Engine"))
      .def(
          "release", [](PyStep& self) { self.handle.release(); },
          "Give the memory back now; twice is harmless.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Step"))
      .def(
          "__exit__", [](PyStep& self, nb::args) { self.handle.release(); },
          nb::sig("def __exit__(self, *arguments: object) -> None"));
}

}  // namespace pleiades::python
