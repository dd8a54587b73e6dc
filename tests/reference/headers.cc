// The tables that headers have in their comments: control frames and time-outs.
#include "src/base/clock.h"
#include "tests/reference/tables.h"

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

namespace {

using Values = std::map<std::string, double>;  // by name

// Returns the value of a number or a known name.
double value_of(std::string text, const Values& known) {
  if (const auto found = known.find(text); found != known.end()) return found->second;
  text.erase(std::remove(text.begin(), text.end(), '\''), text.end());
  std::size_t read = 0;
  const double value = std::stod(text, &read);
  if (read != text.size()) throw std::runtime_error(text + " is no number");
  return value;
}

// Returns the value of A, A * B or A / B.
double result_of(const std::string& text, const Values& known) {
  static const std::regex form(R"(([\w']+)(?: ([*/]) ([\w']+))?)");
  std::smatch found;
  if (!std::regex_match(text, found, form)) throw std::runtime_error("cannot read " + text);
  const double first = value_of(found[1], known);
  if (!found[2].matched) return first;
  const double second = value_of(found[3], known);
  return found[2] == "*" ? first * second : first / second;
}

struct Unit {
  const char* name;
  double ns;
};

// Returns a time in the largest unit that leaves one or more. The name ends with its own unit.
std::string time_text(const std::string& name, double value) {
  constexpr std::array kNames{Unit{"Seconds", 1e9}, Unit{"Ms", 1e6}, Unit{"Us", 1e3},
                              Unit{"Ns", 1}};
  constexpr std::array kUnits{Unit{"s", 1e9}, Unit{"ms", 1e6}, Unit{"us", 1e3}, Unit{"ns", 1}};
  const auto* const own = std::find_if(kNames.begin(), kNames.end(),
                                       [&](const Unit& each) { return name.ends_with(each.name); });
  if (own == kNames.end()) throw std::runtime_error(name + " ends with no unit");
  const double ns = value * own->ns;
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end() - 1,
                                        [&](const Unit& each) { return ns >= each.ns; });
  return fmt::format("{:.15g} {}", ns / unit->ns, unit->name);
}

}  // namespace

std::string time_outs() {
  const std::string header = text_of("src/base/timeouts.h");
  std::string table = head({"name", "value", "from", "to", "then", "why so long"});
  Values known{{"kNsPerMs", kNsPerMs}, {"kNsPerSecond", kNsPerSecond}};
  static const std::regex constant(R"(((?:// .*\n)*)inline constexpr [\w: ]+ (k\w+) = ([^;]+);)");
  static const std::regex form(R"(From: (.+?)\. To: (.+?)\. Then: (.+?)\.(?: (.+))?)");
  each_match(header, constant, [&](const auto& found) {
    const std::string name = found[2], comment = joined(found[1]);
    known[name] = result_of(found[3], known);
    std::smatch parts;
    if (name.ends_with("UnitNs")) return;  // no wait
    if (!std::regex_match(comment, parts, form))
      throw std::runtime_error(name + " is not 'From: ... To: ... Then: ...': " + comment);
    table += row(
        {"`" + name + "`", time_text(name, known[name]), parts[1], parts[2], parts[3], parts[4]});
  });
  return table;
}

}  // namespace mesh::reference
