#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

namespace pleiades::python {

struct ExchangeTable;

// An array of another library as it describes it, without a copy. Read through DLPack's table of C
// functions where its type has one (torch from 2.10 on), because DLPack's other way, which is the
// Python code of `__dlpack__`, takes longer than a small step; through that or the buffer protocol
// otherwise. Valid while the object lives that it was read from.
class ArrayView {
 public:
  enum class Access { read, write };

  // False: not an array, or not with this access. `what` names the argument in refusals.
  bool assign(nanobind::handle object, const char* what, Access access);

  void* data() const { return static_cast<std::byte*>(tensor_.data) + tensor_.byte_offset; }
  std::int64_t size() const;
  nanobind::dlpack::dtype dtype() const { return tensor_.dtype; }
  std::string device_name() const;  // as Engine takes it: "cpu", "cuda:0"
  bool is_on_gpu() const;
  bool is_contiguous() const;
  std::string shape_text() const;  // "[2, 256]"

  // The stream that the array's library queues work of this thread on; null: the default stream.
  void* current_stream() const;

 private:
  void borrow(const char* what);

  nanobind::handle object_;
  const ExchangeTable* table_ = nullptr;
  nanobind::dlpack::dltensor tensor_;
  nanobind::ndarray<nanobind::ro> kept_;  // what tensor_ points into, without a table
};

// A stream as an integer, an object of torch or cupy, or None for the default stream.
void* to_stream(nanobind::handle stream);

}  // namespace pleiades::python
