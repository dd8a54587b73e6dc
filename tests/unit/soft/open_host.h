#pragma once
// Opens hosts of a software fabric for a test. Thread: any. Bound: the fabric's hosts.

#include "src/soft/soft_provider.h"
#include "tests/standard.h"

namespace mesh::testkit {

// Throws std::runtime_error if the text is no fabric file.
inline soft::FabricFile parsed(const std::string& text) {
  Result<soft::FabricFile> file = soft::parse(text);
  if (!file.ok()) throw std::runtime_error("the fabric does not parse");
  return std::move(*file);
}

// Throws std::runtime_error if the host does not open.
inline std::unique_ptr<soft::SoftProvider> open_host(soft::SoftOptions options) {
  const std::string name = options.host;
  auto opened = soft::SoftProvider::open(std::move(options));
  if (!opened.ok()) throw std::runtime_error("host " + name + ": " + errc_name(opened.code()));
  return std::move(*opened);
}

}  // namespace mesh::testkit
