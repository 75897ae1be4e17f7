#pragma once

#include <nanobind/nanobind.h>

namespace pleiades::python {

// Shows the garbage collector the Python objects that a T holds: T::references() gives pointers to
// them. Library objects that use them go first when a cycle is taken apart.
template <class T>
struct References {
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nanobind::inst_ready(self)) return 0;
    for (nanobind::object* held : nanobind::inst_ptr<T>(self)->references()) Py_VISIT(held->ptr());
    return 0;
  }

  static int clear(PyObject* self) {
    T* object = nanobind::inst_ptr<T>(self);
    object->release();
    for (nanobind::object* held : object->references()) *held = nanobind::none();
    return 0;
  }

  static inline PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                       {0, nullptr}};
};

}  // namespace pleiades::python
