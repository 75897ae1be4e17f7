#include "arrays.hpp"

#include <limits>

namespace nb = nanobind;

namespace pleiades::python {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(PLE_INVALID_ARGUMENT, sentence);
}

std::int32_t to_token(std::int64_t id) {
  if (id < std::numeric_limits<std::int32_t>::min() ||
      id > std::numeric_limits<std::int32_t>::max()) {
    refuse("token id " + std::to_string(id) + " does not fit in 32 bits");
  }
  return static_cast<std::int32_t>(id);
}

template <class Id>
void copy_tokens(const ArrayView& array, std::vector<std::int32_t>& tokens) {
  const auto* ids = static_cast<const Id*>(array.data());
  tokens.resize(static_cast<std::size_t>(array.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = to_token(static_cast<std::int64_t>(ids[i]));
  }
}

}  // namespace

void TokenArray::assign(nb::handle tokens) {
  on_device_ = false;
  array_ = {};
  copied_.clear();
  if (nb::isinstance<nb::int_>(tokens)) {
    copied_.push_back(to_token(nb::cast<std::int64_t>(tokens)));
  } else if (nb::isinstance<nb::list>(tokens) || nb::isinstance<nb::tuple>(tokens)) {
    for (const nb::handle token : nb::borrow<nb::sequence>(tokens)) {
      std::int64_t id = 0;
      if (!nb::try_cast(token, id)) refuse("tokens holds something that is not an integer");
      copied_.push_back(to_token(id));
    }
  } else {
    if (!array_.assign(tokens, "tokens", ArrayView::Access::read)) {
      refuse("tokens is neither an integer, a list of integers nor an array of integers");
    }
    return assign_array();
  }
  data_ = copied_.data();
  size_ = static_cast<std::int64_t>(copied_.size());
}

void TokenArray::assign_array() {
  const nb::dlpack::dtype type = array_.dtype();
  if (!array_.is_contiguous()) {
    refuse("tokens of shape " + array_.shape_text() + " is not contiguous");
  }
  size_ = array_.size();
  on_device_ = array_.is_on_gpu();
  if (type == nb::dtype<std::int32_t>()) {
    data_ = static_cast<const std::int32_t*>(array_.data());
    return;
  }
  if (on_device_) refuse("tokens on a GPU must be int32");
  if (type == nb::dtype<std::int64_t>()) {
    copy_tokens<std::int64_t>(array_, copied_);
  } else if (type == nb::dtype<std::uint32_t>()) {
    copy_tokens<std::uint32_t>(array_, copied_);
  } else if (type == nb::dtype<std::uint16_t>()) {
    copy_tokens<std::uint16_t>(array_, copied_);
  } else {
    refuse("tokens must be int32, int64, uint32 or uint16");
  }
  data_ = copied_.data();
}

Activations to_activations(nb::handle object, const char* what, ArrayView::Access access) {
  Activations result;
  ArrayView& array = result.view;
  if (!array.assign(object, what, access)) {
    const bool is_array = array.assign(object, what, ArrayView::Access::read);
    refuse(std::string(what) + (is_array ? " cannot be written: give a writable output"
                                         : " is not an array of numpy, torch, cupy or jax"));
  }
  if (!array.is_contiguous()) {
    refuse(std::string(what) + " of shape " + array.shape_text() + " is not contiguous");
  }
  const nb::dlpack::dtype type = array.dtype();
  const bool is_bf16 = type.lanes == 1 && type.bits == 16 &&
                       (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) ||
                        type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt));
  if (!is_bf16 && !(type == nb::dtype<float>())) {
    refuse(std::string(what) + " must be float32 or bfloat16 (or uint16 with bfloat16's bits)");
  }
  result.data = array.data();
  result.element = is_bf16 ? PLE_BF16 : PLE_F32;
  result.element_count = array.size();
  return result;
}

}  // namespace pleiades::python
