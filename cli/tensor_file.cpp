#include "tensor_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "command.hpp"
#include "counter.hpp"

namespace pleiades::cli {
namespace {

using Tensor = TensorFile::Tensor;

constexpr std::uint64_t kPrefixBytes = 8;  // the header's length
constexpr std::uint64_t kHeaderBytesMax = std::uint64_t{100} << 20;

std::uint64_t bytes_of(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  const bool is_byte = dtype == "U8" || dtype == "I8" || dtype == "BOOL" || dtype == "F8_E4M3" ||
                       dtype == "F8_E5M2" || dtype == "F8_E8M0";
  return is_byte ? 1 : 0;
}

// The header's JSON, in which no name may stand twice.
nlohmann::json parse_header(const std::string& path, const std::string& text) {
  std::set<std::string> names;
  const auto refuse_twice = [&](int depth, nlohmann::json::parse_event_t event,
                                nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second) {
      refuse("{}: tensor '{}' stands twice in the header", path, value.get<std::string>());
    }
    return true;
  };
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(text, refuse_twice);
  } catch (const nlohmann::json::parse_error& failure) {
    refuse("{}: its safetensors header is not valid JSON at byte {}", path,
           kPrefixBytes + failure.byte - 1);
  } catch (const nlohmann::json::out_of_range&) {
    refuse("{}: its safetensors header holds a number beyond all bounds", path);
  }
  if (!header.is_object()) refuse("{}: its safetensors header is no JSON object", path);
  return header;
}

// An entry of the header, and where its bytes end after the header.
std::pair<Tensor, std::uint64_t> parse_tensor(const std::string& path, const std::string& name,
                                              const nlohmann::json& entry,
                                              std::uint64_t data_offset) {
  std::vector<std::uint64_t> offsets;
  Tensor tensor{.name = name, .dtype = {}, .shape = {}};
  try {
    tensor.dtype = entry.at("dtype").get<std::string>();
    for (const nlohmann::json& size : entry.at("shape")) {
      if (!size.is_number_unsigned())
        refuse("{}: tensor '{}': a size that is no number", path, name);
      tensor.shape.push_back(size.get<std::uint64_t>());
    }
    for (const nlohmann::json& offset : entry.at("data_offsets")) {
      if (!offset.is_number_unsigned())
        refuse("{}: tensor '{}': an offset that is no number", path, name);
      offsets.push_back(offset.get<std::uint64_t>());
    }
  } catch (const nlohmann::json::exception&) {
    refuse("{}: tensor '{}' lacks dtype, shape or data_offsets", path, name);
  }
  const std::uint64_t element_bytes = bytes_of(tensor.dtype);
  if (element_bytes == 0)
    refuse("{}: tensor '{}' has the unknown type {}", path, name, tensor.dtype);
  if (offsets.size() != 2 || offsets[1] < offsets[0]) {
    refuse("{}: tensor '{}': its data_offsets are not [begin, end]", path, name);
  }
  tensor.element_count = 1;
  for (const std::uint64_t size : tensor.shape) {
    if (size != 0 && tensor.element_count > std::numeric_limits<std::uint64_t>::max() / 8 / size) {
      refuse("{}: tensor '{}': the shape [{}] overflows", path, name,
             fmt::join(tensor.shape, ", "));
    }
    tensor.element_count *= size;
  }
  if (offsets[1] - offsets[0] != tensor.element_count * element_bytes) {
    refuse("{}: tensor '{}' of shape [{}] and type {} takes {} bytes, but its data_offsets hold {}",
           path, name, fmt::join(tensor.shape, ", "), tensor.dtype,
           tensor.element_count * element_bytes, offsets[1] - offsets[0]);
  }
  tensor.offset = data_offset + offsets[0];
  return {std::move(tensor), data_offset + offsets[1]};
}

template <class Element>
std::vector<Element> read_elements(const File& file, const Tensor& tensor, std::uint64_t begin,
                                   std::uint64_t count) {
  std::vector<Element> elements(count);
  file.read_at(tensor.offset + begin * sizeof(Element), elements.data(), count * sizeof(Element));
  return elements;
}

template <class To, class From>
std::vector<To> widen(const std::vector<From>& elements) {
  return std::vector<To>(elements.begin(), elements.end());
}

double from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

TensorFile::TensorFile(const std::string& path) : file_(File::open_readonly(path)) {
  const std::uint64_t file_bytes = file_.size();
  std::uint64_t header_bytes = 0;
  if (file_bytes < kPrefixBytes) refuse("{}: {} bytes are no safetensors file", path, file_bytes);
  file_.read_at(0, &header_bytes, sizeof header_bytes);
  if (header_bytes > kHeaderBytesMax || header_bytes > file_bytes - kPrefixBytes) {
    refuse("{}: no safetensors file: a header of {} bytes in a file of {}", path, header_bytes,
           file_bytes);
  }
  std::string text(header_bytes, '\0');
  file_.read_at(kPrefixBytes, text.data(), header_bytes);
  const nlohmann::json header = parse_header(path, text);

  std::map<std::uint64_t, std::pair<std::uint64_t, std::string>> ranges;  // begin: end, name
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    auto [tensor, end] = parse_tensor(path, name, entry, kPrefixBytes + header_bytes);
    if (tensor.element_count > 0 && !ranges.try_emplace(tensor.offset, end, name).second) {
      refuse("{}: tensor '{}' overlaps another", path, name);
    }
    tensors_.emplace(name, std::move(tensor));
  }
  std::uint64_t expected = kPrefixBytes + header_bytes;
  for (const auto& [begin, range] : ranges) {
    if (begin != expected) {
      refuse("{}: tensor '{}' begins at byte {}, where {} was expected", path, range.second, begin,
             expected);
    }
    expected = range.first;
  }
  if (expected != file_bytes) {
    refuse("{}: the tensors end at byte {}, the file at {}", path, expected, file_bytes);
  }
}

const Tensor& TensorFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, tensor] : tensors_) names.push_back(known);
  if (names.size() > 12) names.resize(12);
  refuse("{}: has no tensor '{}'; it has {}{}", path(), name, fmt::join(names, ", "),
         tensors_.size() > names.size() ? ", ..." : "");
}

std::vector<std::int64_t> TensorFile::read_integers(const Tensor& tensor, std::uint64_t begin,
                                                    std::uint64_t count) const {
  if (tensor.dtype == "I64") return read_elements<std::int64_t>(file_, tensor, begin, count);
  if (tensor.dtype == "I32") {
    return widen<std::int64_t>(read_elements<std::int32_t>(file_, tensor, begin, count));
  }
  if (tensor.dtype == "U8" || tensor.dtype == "BOOL") {
    return widen<std::int64_t>(read_elements<std::uint8_t>(file_, tensor, begin, count));
  }
  refuse("{}: tensor '{}' is {}, where I64, I32, U8 or BOOL was expected", path(), tensor.name,
         tensor.dtype);
}

std::vector<double> TensorFile::read_reals(const Tensor& tensor, std::uint64_t begin,
                                           std::uint64_t count) const {
  if (tensor.dtype == "F64") return read_elements<double>(file_, tensor, begin, count);
  if (tensor.dtype == "F32")
    return widen<double>(read_elements<float>(file_, tensor, begin, count));
  const bool is_bf16 = tensor.dtype == "BF16";
  if (!is_bf16 && tensor.dtype != "F16") {
    refuse("{}: tensor '{}' is {}, where F64, F32, F16 or BF16 was expected", path(), tensor.name,
           tensor.dtype);
  }
  std::vector<double> reals(count);
  std::ranges::transform(read_elements<std::uint16_t>(file_, tensor, begin, count), reals.begin(),
                         [&](std::uint16_t bits) {
                           return is_bf16 ? static_cast<double>(from_bf16(bits)) : from_f16(bits);
                         });
  return reals;
}

}  // namespace pleiades::cli
