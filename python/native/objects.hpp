#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <memory>
#include <pleiades/pleiades.hpp>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "handle.hpp"

// What the Python classes hold. A PySequence or PyStep holds its engine's object and a PyEngine its
// model's, so that what Python lent to the library outlives the library's use of it.

namespace pleiades::python {

// A ple_shard_info that outlives its model.
struct ShardRecord {
  std::uint32_t part = 0;
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t row_begin = 0;
  std::uint64_t row_count = 0;
};

// A PackResult as one object.
struct PackRecord {
  std::uint64_t row_count = 0;
  std::uint64_t rows_resumed = 0;
  std::uint64_t old_bytes = 0;
  std::uint64_t new_bytes = 0;
  std::vector<ple_pack_head> heads;
};

struct PyModel {
  explicit PyModel(Model&& model) : handle("model", std::move(model)) {}
  void release() { handle.release(); }
  std::array<nanobind::object*, 1> references() { return {&lent}; }

  nanobind::object lent;  // arrays that a described model reads in place
  Handle<Model> handle;
};

struct PyEngine {
  PyEngine(nanobind::object model, EngineOptions options, nanobind::object log);
  void release() { handle->release(); }
  std::array<nanobind::object*, 2> references() { return {&model, &log}; }

  const ple_layer_info& layer(std::int32_t layer_index) const;

  nanobind::object model;
  nanobind::object log;     // called with (level, line)
  std::string device;       // as given, with the index spelled out
  std::string device_name;  // the device's own, for infos that outlive the library's engine
  std::vector<ple_layer_info> layers;
  std::unique_ptr<Handle<Engine>> handle;
};

struct PySequence {
  explicit PySequence(nanobind::object engine);
  void release() { handle.release(); }
  std::array<nanobind::object*, 1> references() { return {&engine}; }

  nanobind::object engine;
  Handle<Sequence> handle;
};

struct PyStep {
  PyStep(nanobind::object engine, std::int32_t tokens_max, std::int32_t sequences_max);
  void release() { handle.release(); }
  std::array<nanobind::object*, 1> references() { return {&engine}; }

  nanobind::object engine;
  Handle<Step> handle;
  std::int64_t token_count = 0;  // of the staged batch
  std::size_t sequence_count = 0;
  // What stage hands over. The tokens are read in place until it returns.
  std::vector<ple_sequence*> sequences;
  std::vector<std::int32_t> token_counts;
  std::vector<std::int64_t> positions;
  TokenArray tokens;
};

// A str or path of Python as text.
inline std::string path_text(nanobind::handle path) {
  return nanobind::cast<std::string>(nanobind::module_::import_("os").attr("fspath")(path));
}

// A Python object as a class of the package; refused by TypeError otherwise.
template <class T>
T& object_cast(const nanobind::object& object) {
  return nanobind::cast<T&>(object);
}

}  // namespace pleiades::python
