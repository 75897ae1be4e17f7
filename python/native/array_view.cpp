#include "array_view.hpp"

#include <nanobind/stl/string.h>

#include <pleiades/pleiades.hpp>

namespace nb = nanobind;

namespace pleiades::python {

// DLPackExchangeAPI of DLPack 1; functions that are not called here are void*.
struct ExchangeTable {
  std::uint32_t major;
  std::uint32_t minor;
  const ExchangeTable* older;
  void* managed_tensor_allocator;
  void* managed_tensor_from_py_object_no_sync;
  void* managed_tensor_to_py_object_no_sync;
  int (*dltensor_from_py_object_no_sync)(void* object, nb::dlpack::dltensor* out);
  int (*current_work_stream)(int device_type, std::int32_t device_id, void** stream);
};

namespace {

constexpr std::uint32_t kExchangeMajor = 1;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(PLE_INVALID_ARGUMENT, sentence);
}

// Null: the object's type has none of this version, or speaks the buffer protocol, which is as
// fast.
const ExchangeTable* exchange_table(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) return nullptr;
  static const nb::handle name =  // never freed: outlives the interpreter's shutdown
      nb::object(nb::str("__dlpack_c_exchange_api__")).release();
  const nb::object capsule = nb::steal(PyObject_GetAttr(object.type().ptr(), name.ptr()));
  if (!capsule.is_valid() || !PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) {
    PyErr_Clear();
    return nullptr;
  }
  const void* const pointer = PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
  const auto* table = static_cast<const ExchangeTable*>(pointer);
  while (table != nullptr && table->major > kExchangeMajor) table = table->older;
  const bool is_known = table != nullptr && table->major == kExchangeMajor &&
                        table->dltensor_from_py_object_no_sync != nullptr;
  return is_known ? table : nullptr;
}

}  // namespace

bool ArrayView::assign(nb::handle object, const char* what, Access access) {
  object_ = object;
  kept_ = {};
  table_ = exchange_table(object);
  if (table_ != nullptr) {
    borrow(what);
    return true;
  }
  nb::ndarray<> written;
  if (access == Access::write) {
    if (!nb::try_cast(object, written)) return false;
    kept_ = nb::ndarray<nb::ro>(written.handle());
  } else if (!nb::try_cast(object, kept_)) {
    return false;
  }
  tensor_ = {.data = const_cast<void*>(kept_.data()),
             .device = {kept_.device_type(), kept_.device_id()},
             .ndim = static_cast<std::int32_t>(kept_.ndim()),
             .dtype = kept_.dtype(),
             .shape = const_cast<std::int64_t*>(kept_.shape_ptr()),
             .strides = const_cast<std::int64_t*>(kept_.stride_ptr())};
  return true;
}

void ArrayView::borrow(const char* what) {
  if (table_->dltensor_from_py_object_no_sync(object_.ptr(), &tensor_) != 0) {
    const nb::python_error error;
    const std::string reason = nb::cast<std::string>(nb::str(error.value()));
    refuse(std::string(what) + " cannot be used in place: " + reason.substr(0, reason.find('\n')));
  }
  if (nb::getattr(object_, "requires_grad", nb::none()).is(Py_True)) {
    refuse(std::string(what) + " requires gradients: give its detach()");
  }
  if (tensor_.data == nullptr && size() != 0) refuse(std::string(what) + " has no memory");
}

std::int64_t ArrayView::size() const {
  std::int64_t size = 1;
  for (std::int32_t i = 0; i < tensor_.ndim; ++i) size *= tensor_.shape[i];
  return size;
}

std::string ArrayView::device_name() const {
  const auto [type, id] = tensor_.device;
  if (is_on_gpu()) return "cuda:" + std::to_string(id);
  if (type == nb::device::cpu::value || type == nb::device::cuda_host::value) return "cpu";
  return "device type " + std::to_string(type);
}

bool ArrayView::is_on_gpu() const {
  const std::int32_t type = tensor_.device.device_type;
  return type == nb::device::cuda::value || type == nb::device::cuda_managed::value;
}

bool ArrayView::is_contiguous() const {
  if (tensor_.strides == nullptr) return true;
  std::int64_t stride = 1;
  for (std::int32_t i = tensor_.ndim; i-- > 0;) {
    if (tensor_.shape[i] != 1 && tensor_.strides[i] != stride) return false;
    stride *= tensor_.shape[i];
  }
  return true;
}

std::string ArrayView::shape_text() const {
  std::string text = "[";
  for (std::int32_t i = 0; i < tensor_.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor_.shape[i]);
  }
  return text + "]";
}

void* ArrayView::current_stream() const {
  if (table_ == nullptr) {
    static const nb::handle current =  // never freed, as above
        nb::object(nb::module_::import_("pleiades._streams").attr("current")).release();
    return to_stream(current(object_));
  }
  const auto [type, id] = tensor_.device;
  void* stream = nullptr;
  if (table_->current_work_stream(type, id, &stream) != 0) {
    throw nb::python_error();
  }
  return stream;
}

void* to_stream(nb::handle stream) {
  if (stream.is_none()) return nullptr;
  std::uintptr_t address = 0;
  if (nb::try_cast(stream, address)) return reinterpret_cast<void*>(address);
  for (const char* name : {"cuda_stream", "ptr"}) {
    if (nb::hasattr(stream, name)) {
      return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(stream.attr(name)));
    }
  }
  refuse("stream is neither an address nor a stream of torch or cupy");
}

}  // namespace pleiades::python
