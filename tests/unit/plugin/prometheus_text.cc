#include "tests/unit/plugin/prometheus_text.h"

#include <cctype>

namespace mesh::testkit {
namespace {

class Reader {
 public:
  MetricsPage read(const std::string& text) {
    if (text.empty() || text.back() != '\n') fail("the page does not end with a newline");
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      ++number_;
      rest_ = std::string_view(text).substr(at, end - at);
      rest_.starts_with('#') ? comment() : sample();
      at = end + 1;
    }
    for (const auto& [name, family] : page_) {
      if (family.type.empty()) fail(name + " has no TYPE");
    }
    std::erase_if(page_, [](const auto& each) {
      return each.second.type == "histogram" && each.second.samples.empty();
    });
    return std::move(page_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("line " + std::to_string(number_) + ": " + what);
  }
  void expect(std::string_view text) {
    if (!rest_.starts_with(text))
      fail("'" + std::string(text) + "' wanted at '" + std::string(rest_) + "'");
    rest_.remove_prefix(text.size());
  }
  std::string name() {
    const auto fits = [](char each) {
      return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_';
    };
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), fits);
    std::string found(rest_.begin(), end);
    if (found.empty() || std::isdigit(static_cast<unsigned char>(found[0])) != 0)
      fail("no name at '" + std::string(rest_) + "'");
    rest_.remove_prefix(found.size());
    return found;
  }

  void comment() {
    if (rest_.starts_with("# HELP ")) {
      expect("# HELP ");
      current_ = name();
      expect(" ");
      if (rest_.empty()) fail("an empty HELP");
      if (!page_
               .emplace(current_,
                        MetricFamily{.help = std::string(rest_), .type = {}, .samples = {}})
               .second) {
        fail(current_ + " comes twice");
      }
      return;
    }
    expect("# TYPE ");
    const std::string typed = name();
    if (typed != current_ || !page_[current_].type.empty())
      fail("TYPE of " + typed + " behind HELP of " + current_);
    expect(" ");
    page_[current_].type = rest_;
    if (rest_ != "counter" && rest_ != "gauge" && rest_ != "histogram") fail("an unknown type");
    if ((rest_ == "counter") != current_.ends_with("_total"))
      fail(current_ + " is a " + std::string(rest_));
  }

  std::string quoted() {
    expect("\"");
    std::string value;
    for (;;) {
      if (rest_.empty()) fail("a label without its end");
      char each = rest_[0];
      rest_.remove_prefix(1);
      if (each == '"') return value;
      if (each == '\\') {
        if (rest_.empty() || std::string_view("\\\"n").find(rest_[0]) == std::string_view::npos)
          fail("an unknown escape");
        each = rest_[0] == 'n' ? '\n' : rest_[0];
        rest_.remove_prefix(1);
      }
      value += each;
    }
  }

  // Returns true for a sample of the family that is being read. A histogram has three kinds, which
  // become families of their own on the page that is returned.
  bool belongs(const std::string& named) {
    const auto family = page_.find(current_);
    if (family == page_.end() || family->second.type.empty()) return false;
    if (family->second.type != "histogram") return named == current_;
    if (named != current_ + "_bucket" && named != current_ + "_sum" && named != current_ + "_count")
      return false;
    page_[named].type = "histogram";
    return true;
  }

  // A histogram's buckets come in the order of their bounds, its counts grow, and its last bucket
  // holds all of them.
  void bucket(const std::string& named, const MetricSample& read) {
    if (named.ends_with("_sum") || page_[named].type != "histogram") return;
    if (named.ends_with("_count")) {
      if (bound_ != HUGE_VAL || read.value != below_) fail("a count that no last bucket has");
      bound_ = below_ = 0;
      return;
    }
    const auto bound = read.labels.find("le");
    if (bound == read.labels.end()) fail("a bucket without a bound");
    const double up_to = std::strtod(bound->second.c_str(), nullptr);
    if (up_to <= bound_ || read.value < below_) fail("buckets out of order");
    bound_ = up_to;
    below_ = read.value;
  }

  void sample() {
    const std::string named = name();
    if (!belongs(named)) fail("a sample of " + named + " outside its family");
    MetricSample read;
    if (rest_.starts_with('{')) {
      for (expect("{"); !rest_.starts_with('}'); rest_.starts_with(',') ? expect(",") : void()) {
        const std::string label = name();
        expect("=");
        if (!read.labels.emplace(label, quoted()).second) fail("label " + label + " comes twice");
      }
      expect("}");
    }
    expect(" ");
    const std::string text(rest_);
    char* end = nullptr;
    read.value = std::strtod(text.c_str(), &end);
    if (text.empty() || text[0] == ' ' || *end != '\0') fail("'" + text + "' is no number");
    if (!seen_.emplace(named, read.labels).second) fail("this sample comes twice");
    bucket(named, read);
    page_[named].samples.push_back(std::move(read));
  }

  std::size_t number_ = 0;
  std::string_view rest_;
  std::string current_;
  double bound_ = 0, below_ = 0;  // of a histogram: the last bucket's bound, and its count
  MetricsPage page_;
  std::set<std::pair<std::string, MetricLabels>> seen_;
};

}  // namespace

MetricsPage parse_metrics(const std::string& text) { return Reader().read(text); }

double metric(const MetricsPage& page, const std::string& name, const MetricLabels& with) {
  const auto family = page.find(name);
  if (family == page.end()) throw std::runtime_error("no metric " + name);
  double sum = 0;
  bool found = false;
  for (const MetricSample& sample : family->second.samples) {
    const bool fits = std::all_of(with.begin(), with.end(), [&sample](const auto& label) {
      const auto own = sample.labels.find(label.first);
      return own != sample.labels.end() && own->second == label.second;
    });
    if (!fits) continue;
    found = true;
    sum += sample.value;
  }
  if (!found) throw std::runtime_error("no such sample of " + name);
  return sum;
}

}  // namespace mesh::testkit
