#pragma once

#include <nanobind/nanobind.h>

#include "objects.hpp"

namespace pleiades::python {

// A model from a pleiades.Geometry and a sequence of pleiades.LayerWeights. The arrays are checked
// for their sizes and kept.
PyModel* describe_model(nanobind::handle geometry, nanobind::sequence layers);

}  // namespace pleiades::python
