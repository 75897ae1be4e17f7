#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace pleiades::cli {

// On one line. Names of files are any bytes; those that are no UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace pleiades::cli
