#pragma once
// The facts that the table of the snapshot's fields (snapshot_fields.h) has about a field: its
// meaning, its metric, and how links add it up. Thread: any (constant). Bound: none.

#include <cstdint>

namespace mesh::fields {

// Tells how a link's field enters the row of all links to its peer.
enum class Sum : std::uint8_t {
  None,     // it is no sum
  Ever,     // it is added, and stays when the link ends
  Now,      // it is added, and leaves with the link
  Highest,  // the highest of all links counts, and leaves with them
};

// A metric of Prometheus' page. Its text is the field's meaning, too.
struct Metric {
  int place;  // on the page, from low to high; a new metric takes a free number
  const char* name;
  const char* type;
  const char* help;
  Sum sum = Sum::None;
  const char *label = "", *value = "";  // of this field's sample, if fields share the metric
  bool from_ns = false;                 // the field has nanoseconds, the page seconds

  constexpr Metric with(const char* label_name, const char* label_value) const {
    Metric one = *this;
    one.label = label_name;
    one.value = label_value;
    return one;
  }
};

constexpr Metric gauge(int place, const char* name, const char* help) {
  return {.place = place, .name = name, .type = "gauge", .help = help, .sum = Sum::Now};
}
constexpr Metric counter(int place, const char* name, const char* help) {
  return {.place = place, .name = name, .type = "counter", .help = help, .sum = Sum::Ever};
}
constexpr Metric highest(Metric metric) {
  metric.sum = Sum::Highest;
  return metric;
}
constexpr Metric from_ns(Metric metric) {
  metric.from_ns = true;
  return metric;
}

struct About {
  constexpr About(const char* text, Sum how = Sum::None) : meaning(text), sum(how) {}
  constexpr About(const Metric& its) : About(its.help, its) {}
  constexpr About(const char* text, const Metric& its) : meaning(text), sum(its.sum), metric(its) {}

  const char* meaning;
  Sum sum;
  Metric metric{};  // without a name: it has none
};

}  // namespace mesh::fields
