#include "arrays.hpp"

#include <limits>

namespace nb = nanobind;

namespace pleiades::python {
namespace {

using Array = nb::ndarray<nb::ro>;

bool is_contiguous(const Array& array) {
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != stride) return false;
    stride *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(PLE_INVALID_ARGUMENT, sentence);
}

std::string shape_text(const Array& array) {
  std::string text = "[";
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(array.shape(i));
  }
  return text + "]";
}

bool is_on_gpu(int device_type) {
  return device_type == nb::device::cuda::value || device_type == nb::device::cuda_managed::value;
}

std::int32_t to_token(std::int64_t id) {
  if (id < std::numeric_limits<std::int32_t>::min() ||
      id > std::numeric_limits<std::int32_t>::max()) {
    refuse("token id " + std::to_string(id) + " does not fit in 32 bits");
  }
  return static_cast<std::int32_t>(id);
}

// What is known of torch once a tensor of it was seen; it is never unloaded.
struct Torch {
  nb::handle tensor;
  nb::handle float32;
  nb::handle bfloat16;
};

const Torch* torch_of(nb::handle type) {
  static Torch torch;
  if (torch.tensor.is(type)) return &torch;
  if (nb::cast<std::string>(type.attr("__name__")) != "Tensor" ||
      nb::cast<std::string>(type.attr("__module__")) != "torch") {
    return nullptr;
  }
  const nb::module_ module = nb::module_::import_("torch");
  torch = {.tensor = type,
           .float32 = nb::object(module.attr("float32")).release(),
           .bfloat16 = nb::object(module.attr("bfloat16")).release()};
  return &torch;
}

// A plain, contiguous tensor of torch by its own methods, because its DLPack is Python code that
// takes longer than a small step; false: anything else, and what is to be refused.
bool read_torch(nb::handle object, Activations& result) try {
  const Torch* const torch = torch_of(object.type());
  if (torch == nullptr || nb::cast<bool>(object.attr("requires_grad"))) return false;
  const nb::object dtype = object.attr("dtype");
  const bool is_cuda = nb::cast<bool>(object.attr("is_cuda"));
  if (!dtype.is(torch->float32) && !dtype.is(torch->bfloat16)) return false;
  if (!is_cuda && !nb::cast<bool>(object.attr("is_cpu"))) return false;
  if (!nb::cast<bool>(object.attr("is_contiguous")())) return false;
  result.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(object.attr("data_ptr")()));
  result.element = dtype.is(torch->float32) ? PLE_F32 : PLE_BF16;
  result.element_count = nb::cast<std::int64_t>(object.attr("numel")());
  result.device_type = is_cuda ? nb::device::cuda::value : nb::device::cpu::value;
  result.device_id = is_cuda ? nb::cast<std::int32_t>(object.attr("get_device")()) : 0;
  return true;
} catch (const nb::python_error&) {
  return false;
}

template <class Id>
void copy_tokens(const Array& array, std::vector<std::int32_t>& tokens) {
  const auto* ids = static_cast<const Id*>(array.data());
  tokens.resize(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    tokens[i] = to_token(static_cast<std::int64_t>(ids[i]));
  }
}

}  // namespace

std::string device_name(int device_type, int device_id) {
  if (is_on_gpu(device_type)) return "cuda:" + std::to_string(device_id);
  if (device_type == nb::device::cpu::value || device_type == nb::device::cuda_host::value) {
    return "cpu";
  }
  return "device type " + std::to_string(device_type);
}

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
    Array array;
    if (!nb::try_cast(tokens, array)) {
      refuse("tokens is neither an integer, a list of integers nor an array of integers");
    }
    return assign_array(array);
  }
  data_ = copied_.data();
  size_ = static_cast<std::int64_t>(copied_.size());
}

void TokenArray::assign_array(const Array& array) {
  const nb::dlpack::dtype type = array.dtype();
  if (!is_contiguous(array)) refuse("tokens of shape " + shape_text(array) + " is not contiguous");
  array_ = array;
  size_ = static_cast<std::int64_t>(array.size());
  on_device_ = is_on_gpu(array.device_type());
  if (type == nb::dtype<std::int32_t>()) {
    data_ = static_cast<const std::int32_t*>(array.data());
    return;
  }
  if (on_device_) refuse("tokens on a GPU must be int32");
  if (type == nb::dtype<std::int64_t>()) {
    copy_tokens<std::int64_t>(array, copied_);
  } else if (type == nb::dtype<std::uint32_t>()) {
    copy_tokens<std::uint32_t>(array, copied_);
  } else if (type == nb::dtype<std::uint16_t>()) {
    copy_tokens<std::uint16_t>(array, copied_);
  } else {
    refuse("tokens must be int32, int64, uint32 or uint16");
  }
  data_ = copied_.data();
}

Activations to_activations(nb::handle object, const char* what, bool writable) {
  Activations result;
  if (read_torch(object, result)) return result;
  nb::ndarray<> written;
  if (writable && nb::try_cast(object, written)) {
    result.array = Array(written.handle());
  } else if (!nb::try_cast(object, result.array)) {
    refuse(std::string(what) + " is not an array of numpy, torch, cupy or jax");
  } else if (writable) {
    refuse(std::string(what) + " cannot be written: give a writable output");
  }
  const Array& array = result.array;
  if (!is_contiguous(array)) {
    refuse(std::string(what) + " of shape " + shape_text(array) + " is not contiguous");
  }
  const nb::dlpack::dtype type = array.dtype();
  const bool is_bf16 = type.lanes == 1 && type.bits == 16 &&
                       (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) ||
                        type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt));
  if (!is_bf16 && !(type == nb::dtype<float>())) {
    refuse(std::string(what) + " must be float32 or bfloat16 (or uint16 with bfloat16's bits)");
  }
  result.data = const_cast<void*>(array.data());
  result.element = is_bf16 ? PLE_BF16 : PLE_F32;
  result.element_count = static_cast<std::int64_t>(array.size());
  result.device_type = array.device_type();
  result.device_id = is_on_gpu(array.device_type()) ? array.device_id() : 0;
  return result;
}

}  // namespace pleiades::python
