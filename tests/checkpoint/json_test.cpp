#include "checkpoint/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ple {
namespace {

using testing::HasSubstr;

std::string problem_of(const std::string& text) {
  const auto json = parse_json_object(text, "config.json");
  return json.is_ok() ? "" : json.status().message();
}

TEST(Json, RefusesRepeatedKeysAtEveryDepth) {
  EXPECT_EQ(problem_of(R"({"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1}]})"), "");
  EXPECT_THAT(problem_of(R"({"a":1,"a":2})"),
              HasSubstr("'config.json' is not valid JSON: key 'a' twice"));
  EXPECT_THAT(problem_of(R"({"a":{"x":1,"y":{"z":2},"x":1}})"), HasSubstr("key 'x' twice"));
  EXPECT_THAT(problem_of(R"({"a":[[{"x":1,"x":1}]]})"), HasSubstr("key 'x' twice"));
}

TEST(Json, RefusesDeepNestingWithoutOverflowingTheStack) {
  const auto nested = [](std::size_t depth) {
    return R"({"a":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_EQ(problem_of(nested(60)), "");
  EXPECT_THAT(problem_of(nested(70)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(problem_of(nested(2'000'000)), HasSubstr("more than 64 levels"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_THAT(problem_of(objects), HasSubstr("more than 64 levels"));
}

TEST(Json, RefusesWhatIsNotOneObject) {
  for (const std::string text :
       {"", "[]", "3", "{", "{}x", "{\"a\":\"\xff\"}", "{'a':1}", "{\"a\":1,}"}) {
    EXPECT_NE(problem_of(text), "") << text;
  }
}

// Where, what and what instead; of the parser's own names and of bytes that are no text, nothing.
TEST(Json, SaysWhereASyntaxErrorIsAndWhatWasExpected) {
  const auto expect = [](const std::string& text, const std::string& problem) {
    EXPECT_EQ(problem_of(text), "'config.json' is not valid JSON: " + problem);
  };
  expect("", "line 1, column 1: unexpected end of input; expected '[', '{', or a literal");
  expect("{", "line 1, column 2: unexpected end of input; expected string literal");
  expect("{\n \"a\": 1\n \"b\"", "line 3, column 4: unexpected string literal; expected '}'");
  expect("{\"a\":1,}", "line 1, column 8: unexpected '}'; expected string literal");
  expect("{}x", "line 1, column 3: invalid literal");
  expect("{\"a\":\"\xff\"}", "line 1, column 7: invalid string: ill-formed UTF-8 byte");
  expect("{\"a\":1e999}", "number overflow parsing '1e999'");
}

TEST(ConfigReader, KeepsTheFirstFailureWithFileKeyAndValue) {
  const Json json = Json::parse(R"({"n":7,"f":1.5,"s":"x","b":true,"l":[1,2],"z":null,
                                    "big":18446744073709551615})");
  ConfigReader reader(json, "config.json", "text_config.");
  EXPECT_EQ(reader.integer("n", 0, 10), 7);
  EXPECT_EQ(reader.integer("gone", 0, 10, 3), 3);
  EXPECT_EQ(reader.integer("z", 0, 10, 4), 4);
  EXPECT_EQ(reader.number("f"), 1.5);
  EXPECT_EQ(reader.number("n"), 7.0);
  EXPECT_EQ(reader.text("s", ""), "x");
  EXPECT_TRUE(reader.boolean("b", false));
  EXPECT_EQ(reader.integers("l", 0, 10), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(reader.integers("n", 0, 10), (std::vector<std::int64_t>{7}));
  ASSERT_TRUE(reader.status().is_ok());
  EXPECT_EQ(reader.integer("n", 0, 6), 0);
  EXPECT_EQ(reader.integer("f", 0, 6), 0);
  EXPECT_EQ(reader.status().message(),
            "config 'config.json': 'text_config.n' is 7, outside [0, 6]");
}

TEST(ConfigReader, RefusesOtherTypesAndMissingKeys) {
  const Json json = Json::parse(R"({"f":1.5,"s":"x","l":[1,"a"],"o":{},"z":null,
                                    "big":18446744073709551615,
                                    "long":"0123456789012345678901234567890123456é"})");
  const auto failure = [&json](auto&& read) {
    ConfigReader reader(json, "c");
    read(reader);
    return reader.status().message();
  };
  EXPECT_EQ(failure([](auto& r) { r.integer("f", 0, 9); }),
            "config 'c': 'f' is 1.5, not an integer");
  EXPECT_EQ(failure([](auto& r) { r.integer("big", 0, INT64_MAX); }),
            "config 'c': 'big' is 18446744073709551615, not an integer");
  EXPECT_EQ(failure([](auto& r) { r.integer("gone", 0, 9); }), "config 'c': 'gone' is missing");
  EXPECT_EQ(failure([](auto& r) { r.integer("z", 0, 9); }), "config 'c': 'z' is missing");
  EXPECT_EQ(failure([](auto& r) { r.integer("o", 0, 9, 1); }),
            "config 'c': 'o' is an object, not an integer");
  EXPECT_EQ(failure([](auto& r) { r.number("s"); }),
            "config 'c': 's' is \"x\", not a finite number");
  EXPECT_EQ(
      failure([](auto& r) { r.number("long"); }),
      "config 'c': 'long' is \"0123456789012345678901234567890123456\\u..., not a finite number");
  EXPECT_EQ(failure([](auto& r) { r.integers("l", 0, 9); }),
            "config 'c': 'l' is \"a\", not an integer");
  EXPECT_EQ(failure([](auto& r) { r.text("f", ""); }), "config 'c': 'f' is 1.5, not a string");
  EXPECT_EQ(failure([](auto& r) { r.boolean("f", false); }),
            "config 'c': 'f' is 1.5, not a truth value");
}

}  // namespace
}  // namespace ple
