#pragma once
// The rules by which NCCL takes names that a user may have written wrong: names of variables and of
// interfaces. Thread: any (pure). Bound: the texts'.

#include <string>
#include <string_view>

namespace mesh {

// Returns why a variable has no effect, as a clause with the nearest name: there is no setting
// NCCL_MESH_* of that name, or it is a misspelt name of NCCL's networks. Returns an empty text for
// a name that is known, and for one that a newer NCCL may know.
std::string why_unknown(const std::string& name);

// Returns what NCCL_SOCKET_IFNAME names. NCCL takes a text of one character for none.
std::string_view socket_names(std::string_view text) noexcept;

}  // namespace mesh
