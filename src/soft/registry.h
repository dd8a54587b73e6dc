#pragma once
// The hosts of software fabrics in this process. Two of them meet here and are joined by memory.
// Thread: any; calls hold one mutex, under which a visitor may take turn locks, never the other way
// round. Bound: the hosts that are open.

#include "src/soft/board.h"
#include "src/soft/nic.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace mesh::soft {

// The part of a host that others in this process may use.
class LocalHost {
 public:
  virtual const std::shared_ptr<Peer>& self() = 0;  // the host as others see it, with its board
  virtual void take_offer(const Offer& offer) = 0;

 protected:
  ~LocalHost() = default;
};

class Registry {
 public:
  static Registry& instance();

  // Claims a host's name. Returns false if the name is taken. The universe separates hosts that
  // must not meet: those of another file or another manual clock.
  bool claim(const std::string& universe, const std::string& host, LocalHost* owner);
  void release(const std::string& universe, const std::string& host);
  // Calls `use` with the host while it cannot go away. Returns false if it is not in this process.
  bool visit(const std::string& universe, const std::string& host,
             const std::function<void(LocalHost&)>& use);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, LocalHost*> hosts_;
};

}  // namespace mesh::soft
