#pragma once
// A page of metrics as NCCL_MESH_STATS writes it, in Prometheus' text format. Thread: any.

#include <mesh/status.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mesh::top {

using Labels = std::map<std::string, std::string>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

struct Page {
  std::vector<Sample> samples;  // in the order of the page

  // Returns the first sample of that name whose labels hold these, or null.
  const Sample* find(const std::string& name, const Labels& labels = {}) const;
  double value(const std::string& name, const Labels& labels = {}) const;  // 0: there is none
  std::vector<const Sample*> all(const std::string& name, const Labels& labels = {}) const;
  std::string host() const;
  std::string process() const;
};

// Returns Protocol if a line is neither a comment nor a sample; `why` names it.
Result<Page> parse_page(const std::string& text, std::string* why);

}  // namespace mesh::top
