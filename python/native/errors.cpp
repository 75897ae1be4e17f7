#include <array>
#include <exception>
#include <pleiades/pleiades.hpp>

#include "bindings.hpp"

namespace nb = nanobind;

namespace pleiades::python {
namespace {

// Their classes in pleiades.errors, by status.
constexpr std::array<const char*, PLE_INTERNAL + 1> kClassNames = {
    "Error",        "InvalidArgument", "Corrupt",    "NotFound",         "IoError",
    "OutOfMemory",  "Unsupported",     "WrongState", "DeadlineExceeded", "DeviceError",
    "InternalError"};

void raise(const Error& error) {
  const auto status = static_cast<std::size_t>(error.status());
  const char* name = status < kClassNames.size() ? kClassNames[status] : kClassNames[0];
  try {
    const nb::object type = nb::module_::import_("pleiades.errors").attr(name);
    PyErr_SetString(type.ptr(), error.what());
  } catch (nb::python_error& failure) {
    failure.restore();
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          raise(error);
        }
      },
      nullptr);
}

}  // namespace pleiades::python
