#pragma once
// Reads what a library says of itself in its texts, without loading it. Thread: any. Bound: the
// file is mapped and searched once.

#include <string>

namespace mesh::doctor {

std::string nccl_version(const std::string& file);  // "2.28.9"; empty: it does not tell
bool is_our_plugin(const std::string& file);

}  // namespace mesh::doctor
