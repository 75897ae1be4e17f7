#pragma once

#include <nanobind/nanobind.h>

namespace pleiades::python {

// Each adds its part of the module. Errors come first, records before what returns them.
void bind_errors(nanobind::module_& module);
void bind_records(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_pack(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_sequence(nanobind::module_& module);
void bind_step(nanobind::module_& module);

}  // namespace pleiades::python
