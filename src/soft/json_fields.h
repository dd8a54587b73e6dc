#pragma once
// Typed fields of the objects of a JSON document. What is not as wanted throws BadField, whose text
// names the object, the field, the value and the range. Thread: any (pure). Bounds: as
// parse_document says.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace mesh::soft {

using nlohmann::json;

// Thrown and caught while one file is read: the first contradiction ends the reading.
class BadField : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw BadField(fmt::format(format, std::forward<Args>(args)...));
}

// A document that is destroyed without memory. What a json destroys it first moves into a list of
// its own, so where there is no memory left the destructor of a json that is not empty ends the
// process.
class Document {
 public:
  explicit Document(json root_of) : root_(std::move(root_of)) {}
  ~Document() { take_apart(root_); }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  const json& root() const noexcept { return root_; }

 private:
  static void take_apart(json& value) noexcept;  // as deep as parse_document lets a document be

  json root_;
};

// Also throws json::exception, for what is no JSON. No object of the document has a field twice.
json parse_document(const std::string& text, std::size_t bytes_max);

void check_keys(const json& object, const std::string& what,
                std::initializer_list<const char*> known);
std::string text_of(const json& object, const std::string& what,
                    const char* key);  // not there: empty
std::string name_of(const json& object, const std::string& what);

struct Range {
  double low, high, fallback;
};
double number_of(const json& object, const std::string& what, const char* key, Range range);
std::uint64_t count_of(const json& object, const std::string& what, const char* key,
                       std::uint64_t fallback);
bool flag_of(const json& object, const std::string& what, const char* key);  // not there: false
const json& list_of(const json& object, const std::string& what,
                    const char* key);  // not there: empty

}  // namespace mesh::soft
