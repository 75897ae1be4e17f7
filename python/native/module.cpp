#include <nanobind/nanobind.h>

#include <pleiades/pleiades.h>
#include "bindings.hpp"

NB_MODULE(_native, module) {
  namespace python = pleiades::python;
  module.doc() = "The classes of the package, over pleiades.h.";
  module.attr("version") = ple_version();
  python::bind_errors(module);
  python::bind_records(module);
  python::bind_model(module);
  python::bind_pack(module);
  python::bind_engine(module);
  python::bind_sequence(module);
  python::bind_step(module);
}
