#include "src/base/json_fields.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

// Reads {"name", "parts": [{"gbps"}]} and returns what is wrong with the text.
std::string wrong_with(const std::string& text) {
  return read_json(text, {.bytes = 200, .depth = 4}, [](const Json& root) {
    check_keys(root, "the file", {"name", "parts"});
    static_cast<void>(name_of(root, "the file"));
    for (const Json& entry : list_of(root, "the file", "parts")) {
      read_object(entry, [](const Json& object) {
        check_keys(object, "a part", {"gbps"});
        if (number_of(object, "a part", "gbps", {0, 9, 0}) == 0) fail("a part does nothing");
      });
    }
  });
}

TEST(JsonFields, ARefusalNamesPlaceKeyValueAndRange) {
  for (const auto& [text, says] : {
           std::pair("{\"name\": \"a\", \"parts\": [{\"gbps\": 1.5}]}", ""),
           std::pair("", "line 1, column 1: it is not JSON"),
           std::pair("{\"name\":\n1e999}", "line 2, column 1: it is not JSON"),
           std::pair("\xef\xbb\xbf[7]", "line 1, column 4: the file is [7]; wanted: an object"),
           std::pair("{\n \"parts\": []}", "line 1, column 1: the file: name is missing"),
           std::pair("{\"name\": \"a \\\" b\"}",
                     "line 1, column 10: the file: name is \"a \\\" b\"; wanted: 1 to 32 letters, "
                     "digits, '_', '-' or '.'"),
           std::pair("{\"name\": \"a\",\n  \"parts\": {}}",
                     "line 2, column 12: the file: parts is {}; wanted: a list"),
           std::pair("{\"name\": \"a\",\n\"parts\": [{}, [{\"\":-1}]]}",
                     "line 2, column 11: a part does nothing"),
           std::pair("{\"parts\": [{\"gbps\": 1},\n\n {\"gbps\" : 10}], \"name\": \"a\"}",
                     "line 3, column 12: a part: gbps is 10; wanted: 0..9"),
           std::pair(
               "{\"name\": \"a\", \"more\":\t[1, 2]}",
               "line 1, column 23: the file has the unknown key \"more\"; wanted: name, parts"),
           std::pair("{\"name\": \"a\",\n\n  \"name\": 1}",
                     "line 3, column 3: the key \"name\" stands twice in one object"),
           std::pair("{\"name\": [[[[\n[]]]]]}",
                     "line 2, column 1: it is nested deeper than 4 levels"),
       }) {
    EXPECT_EQ(wrong_with(text), says);
  }
  EXPECT_EQ(wrong_with(std::string(201, ' ')), "it has 201 bytes; wanted: up to 200");
}

}  // namespace
}  // namespace mesh
