#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <string>
#include <vector>

#include "array_view.hpp"

// What the library takes of arrays of other libraries.

namespace pleiades::python {

// Token ids as C takes them. Host ids are read in place when they are contiguous int32 and copied
// otherwise; ids on a GPU must be contiguous int32.
class TokenArray {
 public:
  // An int, an iterable of ints, or an array of integers; flattened.
  void assign(nanobind::handle tokens);

  const std::int32_t* data() const { return data_; }
  std::int64_t size() const { return size_; }
  bool is_on_device() const { return on_device_; }
  // Of ids on a device: the stream that they are valid on.
  void* current_stream() const { return array_.current_stream(); }

 private:
  void assign_array();

  std::vector<std::int32_t> copied_;
  ArrayView array_;
  const std::int32_t* data_ = nullptr;
  std::int64_t size_ = 0;
  bool on_device_ = false;
};

// Activations: contiguous float32 or bfloat16 (or uint16 holding bfloat16 bits).
struct Activations {
  ArrayView view;
  void* data = nullptr;
  ple_element element = PLE_F32;
  std::int64_t element_count = 0;
};

// `what` names the argument in refusals.
Activations to_activations(nanobind::handle object, const char* what, ArrayView::Access access);

// Contiguous values of one type, for example the rows' bytes.
template <class Value>
using HostArray = nanobind::ndarray<const Value, nanobind::c_contig, nanobind::device::cpu>;

// A new numpy array that owns the values.
template <class Value>
nanobind::ndarray<nanobind::numpy, Value, nanobind::ndim<2>> to_numpy(std::vector<Value>&& values,
                                                                      std::size_t rows,
                                                                      std::size_t columns) {
  auto* owned = new std::vector<Value>(std::move(values));
  const nanobind::capsule owner(
      owned, [](void* pointer) noexcept { delete static_cast<std::vector<Value>*>(pointer); });
  return {owned->data(), {rows, columns}, owner};
}

}  // namespace pleiades::python
