#pragma once
// Makes a header of a control message in which every byte tells its place.
// Thread: any.

#include "engine/control/frames.h"

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

inline Id128 id_of(std::uint8_t first) {
  Id128 id{};
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::uint8_t>(first + i);
  return id;
}

inline FrameHeader sample_header() {
  FrameHeader header;
  header.epoch = 0x01020304;
  header.sequence = 0x1122334455667788;
  header.acknowledged = 0x2132435465768798;
  header.link = id_of(0x40);
  return header;
}

}  // namespace mesh::engine
