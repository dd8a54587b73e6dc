// The tables that headers have in their comments: control frames.
#include "tests/reference/tables.h"

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <stdexcept>

namespace mesh::reference {

namespace {

std::string text_of(const std::string& header) {
  std::ifstream file(MESH_SOURCE_DIR "/" + header);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) throw std::runtime_error(header + " cannot be read");
  return text;
}

// Returns the sentences of a comment's lines.
std::string joined(const std::string& comment) {
  static const std::regex mark(R"(\n?// )");
  std::string text = std::regex_replace(comment, mark, " ");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? text : text.substr(1);
}

template <typename Visit>
void each_match(const std::string& text, const std::regex& pattern, const Visit& visit) {
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) visit(*at);
}

// Returns the comment of each enumerator.
std::map<std::string, std::string> comments_of(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("enum class " + name + " ");
  const std::string body = text.substr(begin, text.find("};", begin) - begin);
  std::map<std::string, std::string> comments;
  each_match(body, std::regex(R"((\w+), +// (.*)\n)"),
             [&](const auto& found) { comments[found[1]] = found[2]; });
  return comments;
}

}  // namespace

std::string frames() {
  const std::string link = text_of("engine/control/frames.h");
  std::map<std::string, std::string> when = comments_of(link, "When");
  std::string table = head({"frame", "sent by", "a link takes it", "meaning"});
  static const std::regex frame(
      R"re(((?:// .*\n)+)struct \w+[^{]*\{\n  static constexpr FrameKind kKind\{)re"
      R"re(MessageType::\w+, "([A-Z ]+)", By::(\w+),\s+When::(\w+)\};)re");
  each_match(link + text_of("engine/control/relay_frames.h"), frame, [&](const auto& found) {
    const std::string by = found[3];
    table += row({found[2],
                  by == "Connector"  ? "connector"
                  : by == "Acceptor" ? "acceptor"
                                     : "either side",
                  when.at(found[4]), joined(found[1])});
  });
  return table;
}

}  // namespace mesh::reference
