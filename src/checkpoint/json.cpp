#include "checkpoint/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace ple {
namespace {

constexpr int kDepthMax = 64;

// Watches the parser for what a parsed document no longer shows.
class StrictWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (!problem_.empty()) return false;
    const auto level = static_cast<std::size_t>(depth);
    if (depth > kDepthMax) {
      problem_ = fmt::format("more than {} levels", kDepthMax);
    } else if (event == Json::parse_event_t::object_start) {
      keys_[level + 1].clear();  // its keys are reported one level deeper
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_[level].insert(key).second) problem_ = fmt::format("key '{}' twice", key);
    }
    return problem_.empty();
  }

  const std::string& problem() const { return problem_; }

 private:
  std::array<std::set<std::string>, kDepthMax + 2> keys_;  // of the open object at each depth
  std::string problem_;
};

// "line 2, column 7", both from 1, of the parser's byte, which counts from 1 too.
std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte - 1);
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 on the first line
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     byte - line_begin);
}

// A value for a message, in ASCII, so that it may be cut anywhere.
std::string shown(const Json& value) {
  constexpr std::size_t kShownMax = 40;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kShownMax ? text : text.substr(0, kShownMax) + "...";
}

}  // namespace

std::string json_reason(const Json::exception& failure) {
  std::string_view reason = failure.what();
  for (const std::string_view mark : {"] ", " - "}) {
    const std::size_t at = reason.find(mark);
    if (at != reason.npos) reason.remove_prefix(at + mark.size());
  }
  return std::string(reason.substr(0, reason.find("; last read:")));
}

Result<Json> parse_json_object(std::string_view text, const std::string& name) {
  StrictWatch watch;
  Json json;
  std::string problem;
  try {
    json = Json::parse(text, [&watch](int depth, Json::parse_event_t event, Json& parsed) {
      return watch(depth, event, parsed);
    });
  } catch (const Json::parse_error& failure) {
    problem = fmt::format("{}: {}", place_of(text, failure.byte), json_reason(failure));
  } catch (const Json::exception& failure) {
    problem = json_reason(failure);
  }
  if (!watch.problem().empty()) problem = watch.problem();
  if (problem.empty() && !json.is_object()) problem = "the top level is not an object";
  if (!problem.empty()) {
    return error(StatusCode::corrupt, "'{}' is not valid JSON: {}", name, problem);
  }
  return json;
}

const Json* ConfigReader::find(std::string_view key) const {
  const auto place = object_.find(key);
  return place == object_.end() || place->is_null() ? nullptr : &*place;
}

const Json* ConfigReader::require(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) fail(fmt::format("'{}{}' is missing", path_, key));
  return value;
}

void ConfigReader::fail(const std::string& reason) {
  if (status_.is_ok()) status_ = error(StatusCode::corrupt, "config '{}': {}", name_, reason);
}

std::int64_t ConfigReader::to_integer(std::string_view key, const Json& value, std::int64_t least,
                                      std::int64_t most) {
  // A number_unsigned beyond int64 would wrap in get().
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  if (!fits) {
    fail(fmt::format("'{}{}' is {}, not an integer", path_, key, shown(value)));
    return 0;
  }
  const auto number = value.get<std::int64_t>();
  if (number < least || number > most) {
    fail(fmt::format("'{}{}' is {}, outside [{}, {}]", path_, key, number, least, most));
    return 0;
  }
  return number;
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t least, std::int64_t most,
                                   std::optional<std::int64_t> fallback) {
  const Json* value = fallback ? find(key) : require(key);
  return value == nullptr ? fallback.value_or(0) : to_integer(key, *value, least, most);
}

double ConfigReader::number(std::string_view key, std::optional<double> fallback) {
  const Json* value = fallback ? find(key) : require(key);
  if (value == nullptr) return fallback.value_or(0.0);
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    fail(fmt::format("'{}{}' is {}, not a finite number", path_, key, shown(*value)));
    return 0.0;
  }
  return value->get<double>();
}

std::string ConfigReader::text(std::string_view key, const std::string& fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  fail(fmt::format("'{}{}' is {}, not a string", path_, key, shown(*value)));
  return fallback;
}

bool ConfigReader::boolean(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(fmt::format("'{}{}' is {}, not a truth value", path_, key, shown(*value)));
  return fallback;
}

std::vector<std::int64_t> ConfigReader::integers(std::string_view key, std::int64_t least,
                                                 std::int64_t most) {
  const Json* value = require(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {to_integer(key, *value, least, most)};
  std::vector<std::int64_t> numbers;
  for (const Json& element : *value) numbers.push_back(to_integer(key, element, least, most));
  return numbers;
}

}  // namespace ple
