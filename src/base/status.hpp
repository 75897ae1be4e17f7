#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ple {

// What kind of thing went wrong; the values are those of ple_status in pleiades.h.
enum class StatusCode : std::int32_t {
  ok = 0,
  invalid_argument = 1,  // the caller's argument, option or file name
  corrupt = 2,           // a file or blob that is not what it claims to be
  not_found = 3,
  io_error = 4,  // the system refused or failed a read or write
  out_of_memory = 5,
  unsupported = 6,   // well-formed, but something this build or device does not do
  wrong_state = 7,   // a call out of order: an unstaged step, a moved sequence
  deadline = 8,      // a read took longer than the deadline
  device_error = 9,  // the accelerator's driver reported a failure
  internal = 10,
};

// The outcome of an operation: ok, or a code with one sentence that names the object and the
// numbers. The sentence is written once, where the cause is known; callers propagate it. Copying
// takes no memory.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(StatusCode code) : code_(code) {}
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  bool is_ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  // Empty where there was no memory for it.
  const std::string& message() const {
    static const std::string kNone;
    return message_ == nullptr ? kNone : *message_;
  }

 private:
  StatusCode code_ = StatusCode::ok;
  std::shared_ptr<const std::string> message_;
};

// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Only after is_ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ple

// Returns the Status of expr from the enclosing function unless it is ok.
#define PLE_TRY(expr)                                                     \
  do {                                                                    \
    if (::ple::Status status_ = (expr); !status_.is_ok()) return status_; \
  } while (false)

#define PLE_CONCAT_(a, b) a##b
#define PLE_CONCAT(a, b) PLE_CONCAT_(a, b)

// PLE_TRY_ASSIGN(auto x, expr): x takes the value of a Result, or its Status is returned.
#define PLE_TRY_ASSIGN(target, expr) PLE_TRY_ASSIGN_(target, expr, PLE_CONCAT(result_, __LINE__))
#define PLE_TRY_ASSIGN_(target, expr, result)  \
  auto result = (expr);                        \
  if (!result.is_ok()) return result.status(); \
  target = std::move(result).value()
