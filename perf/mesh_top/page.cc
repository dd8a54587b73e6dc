#include "perf/mesh_top/page.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace mesh::top {

namespace {

bool holds(const Labels& all, const Labels& some) {
  return std::all_of(some.begin(), some.end(), [&all](const auto& label) {
    const auto found = all.find(label.first);
    return found != all.end() && found->second == label.second;
  });
}

// Takes the text from the quote at `at` on, and moves `at` behind the closing quote. Returns false
// if there is none.
bool take_text(const std::string& line, std::size_t& at, std::string& text) {
  for (++at; at < line.size() && line[at] != '"'; ++at) {
    if (line[at] != '\\') {
      text += line[at];
      continue;
    }
    if (++at == line.size()) return false;
    text += line[at] == 'n' ? '\n' : line[at];
  }
  return at++ < line.size();
}

// Takes the labels from the brace at `at` on, and moves `at` behind the closing brace.
bool take_labels(const std::string& line, std::size_t& at, Labels& labels) {
  ++at;
  while (at < line.size() && line[at] != '}') {
    const std::size_t equals = line.find('=', at);
    if (equals == std::string::npos || equals + 1 >= line.size() || line[equals + 1] != '"')
      return false;
    const std::string name = line.substr(at, equals - at);
    at = equals + 1;
    if (!take_text(line, at, labels[name])) return false;
    if (at < line.size() && line[at] == ',') ++at;
  }
  return at++ < line.size();
}

bool take_sample(const std::string& line, Sample& sample) {
  std::size_t at = line.find_first_of("{ ");
  if (at == std::string::npos || at == 0) return false;
  sample.name = line.substr(0, at);
  if (line[at] == '{' && !take_labels(line, at, sample.labels)) return false;
  if (at >= line.size() || line[at] != ' ') return false;
  const char* const begin = line.c_str() + at + 1;
  char* end = nullptr;
  sample.value = std::strtod(begin, &end);
  return end != begin && *end == '\0';
}

}  // namespace

const Sample* Page::find(const std::string& name, const Labels& labels) const {
  const auto found = std::find_if(samples.begin(), samples.end(), [&](const Sample& sample) {
    return sample.name == name && holds(sample.labels, labels);
  });
  return found == samples.end() ? nullptr : &*found;
}

double Page::value(const std::string& name, const Labels& labels) const {
  const Sample* const sample = find(name, labels);
  return sample == nullptr ? 0 : sample->value;
}

std::vector<const Sample*> Page::all(const std::string& name, const Labels& labels) const {
  std::vector<const Sample*> found;
  for (const Sample& sample : samples) {
    if (sample.name == name && holds(sample.labels, labels)) found.push_back(&sample);
  }
  return found;
}

std::string Page::host() const {
  return samples.empty() ? "" : samples.front().labels.find("host")->second;
}

std::string Page::process() const {
  return samples.empty() ? "" : samples.front().labels.find("process")->second;
}

Result<Page> parse_page(const std::string& text, std::string* why) {
  Page page;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    Sample sample;
    if (!take_sample(line, sample) || !sample.labels.contains("host") ||
        !sample.labels.contains("process")) {
      *why = "no page of nccl-mesh: '" + line.substr(0, 60) + "'";
      return Errc::Protocol;
    }
    page.samples.push_back(std::move(sample));
  }
  if (page.samples.empty()) {
    *why = "no page of nccl-mesh: it is empty";
    return Errc::Protocol;
  }
  return page;
}

}  // namespace mesh::top
