#include "src/base/json_fields.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace mesh {

namespace {

// A document whose destruction needs no memory. The destructor of a json that is not empty first
// moves its contents into a list, and ends the process if there is no memory for that.
class Document {
 public:
  explicit Document(Json root_of) : root(std::move(root_of)) {}
  ~Document() { take_apart(root); }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  Json root;

 private:
  static void take_apart(Json& value) noexcept {  // recurses as deep as JsonBounds allow
    if (!value.is_structured()) return;
    for (Json& inner : value) take_apart(inner);
    value.clear();  // its elements are empty by now
  }
};

constexpr std::size_t kShownTextMax = 400;  // of a log line

// Returns the text with \xNN for every byte that is not a printable ASCII character, and "..." for
// the rest beyond kShownTextMax bytes.
std::string shown_text(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShownTextMax)) {
    if (c >= ' ' && c <= '~') {
      shown += c;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > kShownTextMax ? shown + "..." : shown;
}

// Counts the keys and values before `at` in the order of the text. Returns true if it was found.
bool count_to(const Json& value, const Json* at, std::size_t& tokens) {
  if (&value == at) return true;
  ++tokens;
  if (!value.is_structured()) return false;
  for (const Json& inner : value) {
    if (value.is_object()) ++tokens;  // the key
    if (count_to(inner, at, tokens)) return true;
  }
  return false;
}

// Returns where the key or value with that number begins. The text is JSON up to there.
std::size_t offset_of(std::string_view text, std::size_t token) {
  constexpr std::string_view kBetween = " \t\r\n,:]}";
  std::size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0;  // a byte order mark
  while ((at = text.find_first_not_of(kBetween, at)) < text.size() && token-- != 0) {
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
      ++at;
    } else if (text[at] == '{' || text[at] == '[') {
      ++at;
    } else {
      at = text.find_first_of(kBetween, at);
    }
  }
  return std::min(at, text.size());
}

std::string placed(std::string_view text, std::size_t offset, const char* what) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = before.size() - (before.rfind('\n') + 1);  // npos + 1 is 0
  return shown_text(fmt::format("line {}, column {}: {}", line, 1 + column, what));
}

// Parses the text and counts the keys and values that it has seen. see() refuses the last of them,
// the parser the one behind it.
class Parser {
 public:
  explicit Parser(int depth_max) : depth_max_(depth_max) {}

  Json parse(std::string_view text) {
    return Json::parse(text, [this](int depth, Json::parse_event_t event, Json& parsed) {
      see(depth, event, parsed);
      return true;
    });
  }
  std::size_t seen() const noexcept { return tokens_; }

 private:
  // A key that stands twice is refused: only one of the two would count, and a reader cannot know
  // which.
  void see(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_end || event == Event::array_end) return;
    ++tokens_;
    if (depth > depth_max_) fail("it is nested deeper than {} levels", depth_max_);
    const auto level = static_cast<std::size_t>(depth);
    if (keys_.size() < level + 2) keys_.resize(level + 2);
    if (event == Event::object_start) keys_[level + 1].clear();  // its keys lie one level deeper
    if (event == Event::key && !keys_[level].insert(parsed.get_ref<const std::string&>()).second)
      fail("the key {} stands twice in one object", shown(parsed));
  }

  const int depth_max_;
  std::size_t tokens_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the open objects, by depth
};

}  // namespace

std::string read_json(std::string_view text, const JsonBounds& bounds,
                      const std::function<void(const Json&)>& read) {
  if (text.size() > bounds.bytes)
    return fmt::format("it has {} bytes; wanted: up to {}", text.size(), bounds.bytes);
  Parser parser(bounds.depth);
  try {
    const Document document(parser.parse(text));
    try {
      read_object(document.root, read);
    } catch (const BadField& bad) {
      std::size_t token = 0;
      count_to(document.root, bad.at(), token);
      return placed(text, offset_of(text, token), bad.what());
    }
  } catch (const BadField& bad) {
    return placed(text, offset_of(text, parser.seen() - 1), bad.what());
  } catch (const Json::parse_error& error) {
    return placed(text, std::max<std::size_t>(error.byte, 1) - 1, "it is not JSON");
  } catch (const Json::exception&) {
    return placed(text, offset_of(text, parser.seen()), "it is not JSON");
  }
  return {};
}

std::string shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

void refuse(const Json& object, const std::string& what, const char* key,
            const std::string& wanted) {
  const Json& value = member_of(object, what, key);
  throw BadField(fmt::format("{}: {} is {}; wanted: {}", what, key, shown(value), wanted), &value);
}

void check_keys(const Json& object, const std::string& what,
                const std::vector<const char*>& known) {
  if (!object.is_object())
    throw BadField(fmt::format("{} is {}; wanted: an object", what, shown(object)), &object);
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw BadField(fmt::format("{} has the unknown key {}; wanted: {}", what, shown(key),
                               fmt::join(known, ", ")),
                   &value);
  }
}

const Json& member_of(const Json& object, const std::string& what, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw BadField(fmt::format("{}: {} is missing", what, key), &object);
  return *found;
}

std::string text_of(const Json& object, const std::string& what, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return {};
  if (!it->is_string()) refuse(object, what, key, "a text");
  return it->get<std::string>();
}

std::string name_of(const Json& object, const std::string& what) {
  const std::string name = text_of(object, what, "name");
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (name.empty() || name.size() > 32 || !std::all_of(name.begin(), name.end(), good))
    refuse(object, what, "name", "1 to 32 letters, digits, '_', '-' or '.'");
  return name;
}

double number_of(const Json& object, const std::string& what, const char* key, Range range) {
  const auto it = object.find(key);
  if (it == object.end()) return range.fallback;
  const double value = it->is_number() ? it->get<double>() : range.low - 1;
  if (!(value >= range.low && value <= range.high))
    refuse(object, what, key, fmt::format("{}..{}", range.low, range.high));
  return value;
}

std::uint64_t count_of(const Json& object, const std::string& what, const char* key,
                       std::uint64_t fallback) {
  return static_cast<std::uint64_t>(
      number_of(object, what, key, {0, 1e15, static_cast<double>(fallback)}));
}

bool flag_of(const Json& object, const std::string& what, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return false;
  if (!it->is_boolean()) refuse(object, what, key, "true or false");
  return it->get<bool>();
}

const Json& list_of(const Json& object, const std::string& what, const char* key) {
  static const Json kEmpty = Json::array();
  const auto it = object.find(key);
  if (it == object.end()) return kEmpty;
  if (!it->is_array()) refuse(object, what, key, "a list");
  return *it;
}

}  // namespace mesh
