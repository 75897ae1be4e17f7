#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/json.hpp"

namespace ple {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kDimensionsMax = 32;

// Bytes of a dense tensor; nothing where they exceed 63 bits or end within a byte.
std::optional<std::uint64_t> tensor_bytes(const std::vector<std::int64_t>& shape, DType dtype) {
  std::uint64_t bits = dtype_bits(dtype);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (extent != 0 && __builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits)) {
      return std::nullopt;
    }
  }
  if (empty) return 0;
  if (bits % 8 != 0 || bits / 8 > kMax) return std::nullopt;
  return bits / 8;
}

// Builds the tensors while the parser reads, so that a header of 100 MB costs no document.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  std::vector<TensorInfo> take() { return std::move(tensors_); }
  const std::string& problem() const { return problem_; }

  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == 1) return true;
    if (depth_ > 2 || list_ != nullptr) return fail("objects are nested too deep");
    fields_.clear();
    return true;
  }

  bool end_object() override {
    --depth_;
    if (depth_ == 1 && !in_metadata_ && fields_.size() != 3) {
      return fail("it lacks one of dtype, shape and data_offsets");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (depth_ == 2) {
      if (!fields_.insert(key).second) return fail(fmt::format("field '{}' twice", key));
      field_ = key;
      return in_metadata_ || key == "dtype" || key == "shape" || key == "data_offsets" ||
             fail(fmt::format("unknown field '{}'", key));
    }
    subject_ = key;
    if (!names_.insert(key).second) return fail("it is there twice");
    in_metadata_ = key == "__metadata__";
    if (!in_metadata_) tensors_.push_back({.name = key});
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || list_ != nullptr || field_ != "dtype") return fail("a string out of place");
    const auto dtype = dtype_of(value);
    if (!dtype) return fail(fmt::format("unknown dtype '{}'", value));
    tensors_.back().dtype = *dtype;
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || field_ == "dtype") {
      return fail("a list out of place");
    }
    list_ = field_ == "shape" ? &tensors_.back().shape : &offsets_;
    list_->clear();
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) return fail("a number out of place");
    if (value > kMax) return fail(fmt::format("number {} exceeds 63 bits", value));
    if (list_->size() == kDimensionsMax) {
      return fail(fmt::format("a list of more than {} numbers", kDimensionsMax));
    }
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool end_array() override {
    if (std::exchange(list_, nullptr) != &offsets_) return true;
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      return fail("data_offsets are not a begin and an end");
    }
    tensors_.back().offset = static_cast<std::uint64_t>(offsets_[0]);
    tensors_.back().bytes = static_cast<std::uint64_t>(offsets_[1] - offsets_[0]);
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return fail(fmt::format("negative number {}", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return fail(fmt::format("number {} is not an integer", text));
  }
  bool null() override { return fail("a null out of place"); }
  bool boolean(bool) override { return fail("a truth value out of place"); }
  bool binary(binary_t&) override { return fail("binary data out of place"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& failure) override {
    subject_.clear();
    return fail(fmt::format("not valid JSON at byte {}: {}", kSafetensorsPrefixBytes + position - 1,
                            json_reason(failure)));
  }

 private:
  bool fail(const std::string& reason) {
    problem_ = subject_.empty() ? reason : fmt::format("tensor '{}': {}", subject_, reason);
    return false;
  }

  std::vector<TensorInfo> tensors_;
  std::unordered_set<std::string> names_;
  std::set<std::string> fields_;  // of the open entry
  std::string subject_;           // the open entry
  std::string field_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t>* list_ = nullptr;  // the open list
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string problem_;
};

// Checks sizes and coverage, and turns offsets in the data into offsets in the file.
Status place_tensors(std::vector<TensorInfo>& tensors, std::uint64_t data_begin,
                     std::uint64_t file_bytes, const std::string& name) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  std::uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    const auto bytes = tensor_bytes(tensor.shape, tensor.dtype);
    if (bytes != tensor.bytes) {
      return error(StatusCode::corrupt,
                   "'{}': tensor '{}' has {} bytes, its {} shape [{}] needs {}", name, tensor.name,
                   tensor.bytes, dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "),
                   bytes ? fmt::to_string(*bytes) : "more than 63 bits or a part of a byte");
    }
    if (tensor.offset != end) {
      return error(StatusCode::corrupt,
                   "'{}': tensor '{}' starts at {} of the data, the one before ends at {}", name,
                   tensor.name, tensor.offset, end);
    }
    end += tensor.bytes;
    tensor.offset += data_begin;
  }
  if (end != file_bytes - data_begin) {
    return error(StatusCode::corrupt,
                 "'{}': the tensors take {} bytes, the file has {} behind its header", name, end,
                 file_bytes - data_begin);
  }
  return {};
}

}  // namespace

Result<std::uint64_t> safetensors_header_bytes(
    std::span<const std::byte, kSafetensorsPrefixBytes> prefix, std::uint64_t file_bytes,
    const std::string& name) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, prefix.data(), sizeof bytes);
  if (bytes > kSafetensorsHeaderBytesMax) {
    return error(StatusCode::corrupt, "'{}': a header of {} bytes is beyond the bound of {}", name,
                 bytes, kSafetensorsHeaderBytesMax);
  }
  if (bytes + kSafetensorsPrefixBytes > file_bytes) {
    return error(StatusCode::corrupt, "'{}': a header of {} bytes does not fit the file of {}",
                 name, bytes, file_bytes);
  }
  return bytes;
}

Result<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header,
                                                         std::uint64_t file_bytes,
                                                         const std::string& name) {
  const std::uint64_t data_begin = kSafetensorsPrefixBytes + header.size();
  if (data_begin > file_bytes || file_bytes > kMax) {
    return error(StatusCode::corrupt, "'{}': a header of {} bytes does not fit the file of {}",
                 name, header.size(), file_bytes);
  }
  if (!header.starts_with('{')) {
    return error(StatusCode::corrupt, "'{}': the header does not start with '{{'", name);
  }
  HeaderReader reader;
  if (!Json::sax_parse(header, &reader)) {
    return error(StatusCode::corrupt, "'{}': {}", name, reader.problem());
  }
  std::vector<TensorInfo> tensors = reader.take();
  PLE_TRY(place_tensors(tensors, data_begin, file_bytes, name));
  return tensors;
}

std::string place_safetensors(std::vector<TensorInfo>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    tensor.offset = end;
    tensor.bytes = tensor_bytes(tensor.shape, tensor.dtype).value_or(0);
    end += tensor.bytes;
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.offset, end}}};
  }
  std::string json = header.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  for (TensorInfo& tensor : tensors) tensor.offset += kSafetensorsPrefixBytes + length;
  std::string text(kSafetensorsPrefixBytes, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + json;
}

}  // namespace ple
