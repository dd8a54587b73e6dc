#pragma once
// Looks twice a second at the paths that are up, and takes a direct path out of use that owes
// completions and has shown none for too long: a card or driver that hangs reports nothing. A look
// counts only if the loop was turned since the last one, and polls first, and several looks must
// find the path silent: so this process, its poller and its program may stand still. A peer
// that stands still is no reason, because its device acknowledges all the same. Other paths to the
// peer are asked for a sign meanwhile. Relayed paths have a bound of their own (relayed_paths.h). A
// flush of GPU memory that a card holds fails.
// Thread: control mutex; it takes a loop's progress lock for each link. Bound: one pass over all
// queue pairs a look.

#include "engine/data/path_silence.h"
#include "engine/link/context.h"
#include "engine/link/link_host.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mesh::engine {

class SilenceWatch {
 public:
  explicit SilenceWatch(LinkHost& host) : host_(host) {}

  // Called at every pass of the control path. Does nothing until half a second has gone by.
  void look(const std::vector<std::unique_ptr<Context>>& contexts, std::uint64_t now_ns);

 private:
  bool see(Link& link, std::uint64_t elapsed_ns);
  void judge(const Context& context);
  void judge_peer(std::span<Link* const> links);
  std::uint64_t flush_bound_ns() const;
  SilenceTerms terms_of(const Link& link, const Path& path) const;
  static void lose(const Link& link, Path& path, std::uint64_t silent_ns);

  LinkHost& host_;
  std::vector<std::uint64_t> carried_bytes_;  // by rail: under way on it, of the context looked at
  std::uint64_t last_look_ns_ = 0;
};

}  // namespace mesh::engine
