#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <pleiades/pleiades.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pleiades::cli {

namespace detail {

template <class T>
struct Unwrapped {
  using Type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using Type = T;
};

}  // namespace detail

// Declares the options of one command. The targets are filled while the command line is parsed and
// must outlive that; a value that does not fit its option is refused by the option's name. Keeps
// the parsing library, which is costly to compile, out of the commands.
class Options {
 public:
  explicit Options(CLI::App& command) : command_(command) {}

  // Largest number of an option that has no limit of its own.
  static constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

  // The text below the options in --help.
  void examples(const char* text);

  // A word without a name before it; required.
  void positional(const std::string& name, std::string& target, const std::string& help);
  void flag(const std::string& name, bool& target, const std::string& help);
  // value: what stands for the value in --help.
  void text(const std::string& name, std::string& target, const std::string& value,
            const std::string& help);
  void required_text(const std::string& name, std::string& target, const std::string& value,
                     const std::string& help);

  // A whole number in [least, most].
  template <class Number>
  void number(const std::string& name, Number& target, std::int64_t least, std::int64_t most,
              const std::string& value, const std::string& help) {
    add_number(
        name, [&target](std::int64_t given) { target = narrow<Number>(given); }, least, most, value,
        help);
  }
  // The same, several by commas.
  void numbers(const std::string& name, std::vector<std::int32_t>& target, std::int64_t least,
               std::int64_t most, const std::string& value, const std::string& help);
  // A number in [least, most].
  template <class Real>
  void real(const std::string& name, Real& target, double least, double most,
            const std::string& value, const std::string& help) {
    add_real(
        name, [&target](double given) { target = given; }, least, most, value, help);
  }
  // A number of bytes, which may end in K, M, G, T (KiB or K: 1024; KB: 1000).
  template <class Bytes>
  void bytes(const std::string& name, Bytes& target, const std::string& help) {
    add_bytes(
        name, [&target](std::uint64_t given) { target = given; }, help);
  }
  // One of some words, which are handed to `set`.
  void choice(const std::string& name, const std::vector<std::string>& words,
              const std::function<void(const std::string&)>& set, const std::string& help);

  // What several commands share.
  void json(bool& target);
  void layer(std::optional<std::int32_t>& target);  // the 0-based decoder layer
  void token_map(std::string& file);
  void element(ple_element& target);   // the highway's type
  void io(EngineOptions& target);      // the readers
  void engine(EngineOptions& target);  // io, and all else of an engine

 private:
  template <class Number>
  static Number narrow(std::int64_t given) {
    return static_cast<typename detail::Unwrapped<Number>::Type>(given);
  }
  void add_number(const std::string& name, const std::function<void(std::int64_t)>& set,
                  std::int64_t least, std::int64_t most, const std::string& value,
                  const std::string& help);
  void add_real(const std::string& name, const std::function<void(double)>& set, double least,
                double most, const std::string& value, const std::string& help);
  void add_bytes(const std::string& name, const std::function<void(std::uint64_t)>& set,
                 const std::string& help);

  CLI::App& command_;
};

// The layer that was asked for, or the only one; refuses by naming those there are.
ple_layer_info choose_layer(const Model& model, const std::string& path,
                            std::optional<std::int32_t> layer);

}  // namespace pleiades::cli
