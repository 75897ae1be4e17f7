#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ple {

using Json = nlohmann::json;

// Parses one JSON object, strictly: UTF-8, no repeated keys, at most 64 levels. name stands for the
// file in messages. Never throws on bad input.
Result<Json> parse_json_object(std::string_view text, const std::string& name);

// What a parser found wrong, without its own names and without what it read last, which may be of
// any bytes: "unexpected '}'; expected string literal".
std::string json_reason(const Json::exception& failure);

// Reads typed values out of an object of a config. The first failure sticks and is what status()
// returns; later reads then give their fallback or zero, so a family reads all its keys and
// checks once. A key whose value is null counts as absent.
class ConfigReader {
 public:
  // object must outlive the reader; name is the file, and path the object in it ("text_config.").
  ConfigReader(const Json& object, std::string name, std::string path = "")
      : object_(object), name_(std::move(name)), path_(std::move(path)) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }

  // An integer in [least, most]; without a fallback the key is required.
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most,
                       std::optional<std::int64_t> fallback = std::nullopt);
  // A finite number, also an integer.
  double number(std::string_view key, std::optional<double> fallback = std::nullopt);
  std::string text(std::string_view key, const std::string& fallback);
  bool boolean(std::string_view key, bool fallback);
  // A list of integers in [least, most]; one integer alone counts as a list of one.
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t least, std::int64_t most);

  // Records a failure that the caller found; "config 'x': " is put before.
  void fail(const std::string& reason);

  const Status& status() const { return status_; }
  const std::string& name() const { return name_; }

 private:
  const Json* find(std::string_view key) const;
  const Json* require(std::string_view key);
  std::int64_t to_integer(std::string_view key, const Json& value, std::int64_t least,
                          std::int64_t most);

  const Json& object_;
  std::string name_;
  std::string path_;
  Status status_;
};

}  // namespace ple
