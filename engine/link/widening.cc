#include "engine/link/widening.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/peer_words.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <utility>

namespace mesh::engine {

Path& Widening::path() const { return link_.peer_link().paths()[index_]; }

// Returns false if the path was lost since; it may be up again, with all its queue pairs.
bool Widening::is_as_it_was(const Path& path) const noexcept {
  return LateQueuePairs::is_narrow(path) && path.health.epoch == epoch_;
}

bool Widening::may_begin() const noexcept {
  if (!link_.has_peer_link() || link_.state() != LinkState::Up) return false;
  if (step_ != Step::Waiting) return answer_.has_value();
  return asked_ || (link_.connector() && link_.peer_link().late().wanted());
}

void Widening::tend() {
  if (link_.state() != LinkState::Up || link_.failure() != Errc::Ok) return;
  if (step_ == Step::AwaitWidened && !answer_) {
    const std::uint64_t now_ns = link_.host().now_ns();
    if (!link_.conversation().has_released(widen_number_)) until_ns_ = now_ns + kReopenToAnswerNs;
    if (now_ns >= until_ns_) {
      if (asked_again_) return give_up("the peer has not answered WIDEN");
      asked_again_ = true;
      say_widen();
    }
    link_.host().tend_at(until_ns_);
  }
  if (!may_begin()) return;
  if (asked_) return answer();
  if (answer_) return connect();
  begin();
}

// ---- Connector.

void Widening::begin() {
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    LateQueuePairs& late = link_.peer_link().late();
    Path* const narrow = late.next_narrow();
    // A path that is down gets all its queue pairs when it is opened again.
    if (narrow == nullptr) return late.forget_wish();
    index_ = narrow->index;
    epoch_ = narrow->health.epoch;
    late.provide(*narrow);
  }
  step_ = Step::Making;
  link_.host().tend_soon();
  link_.begin_bring_up({.makes = {index_}, .settings = link_.settings(), .widens = true});
}

void Widening::ask() {
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    if (!is_as_it_was(path())) return finish();
  }
  step_ = Step::AwaitWidened;
  psn_ = random_psn();
  asked_again_ = false;
  say_widen();
}

void Widening::say_widen() {
  until_ns_ = link_.host().now_ns() + kReopenToAnswerNs;
  link_.host().tend_at(until_ns_);
  link_.send(Widen{.path = static_cast<std::uint8_t>(index_),
                   .epoch = epoch_,
                   .ends = offer_late(link_.peer_link(), path(), link_.terms.window_words, psn_)});
  widen_number_ = link_.conversation().said();
}

bool Widening::on(const Widened& body) {
  if (link_.state() != LinkState::Up || step_ != Step::AwaitWidened || answer_ ||
      body.path != index_ || body.epoch != epoch_)
    return true;  // answers a try that was given up, or a WIDEN that was said again
  if (body.result == Errc::Ok && body.ends.front().qpn.size() != link_.peer_link().policy().qps)
    return link_.complain(
        fmt::format("widens path {} by {} queue pairs", body.path, body.ends.front().qpn.size()));
  answer_ = body;
  link_.host().tend_soon();
  return true;
}

void Widening::connect() {
  const Widened answer = *std::exchange(answer_, std::nullopt);
  if (answer.result != Errc::Ok) return give_up(answer.text);
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    if (!is_as_it_was(path())) return finish();
  }
  step_ = Step::Rising;
  link_.host().tend_soon();
  link_.begin_bring_up({.peer_rails = link_.terms.peer_rails,
                        .paths = {answer.ends.front()},
                        .indices = {index_},
                        .psn = psn_,
                        .settings = link_.settings(),
                        .widens = true});
}

// A message that waits for queue pairs may not wait for ever, so the path is lost, with all its
// queue pairs anew, or the link has another one.
void Widening::give_up(const std::string& why) {
  const ProgressLoop::Guard guard(link_.context().loop);
  Path& path = this->path();
  if (is_as_it_was(path)) link_.peer_link().quarantine(path, "it got no bulk queue pairs: " + why);
  finish();
}

// ---- Acceptor.

bool Widening::on(const Widen& body) {
  if (link_.state() != LinkState::Up) return true;
  const PeerLink& peer_link = link_.peer_link();
  if (body.path >= peer_link.paths().direct_count() ||
      body.ends.qpn.size() != peer_link.policy().qps) {
    return link_.complain(fmt::format("widens path {} of {} by {} queue pairs", body.path,
                                      peer_link.paths().direct_count(), body.ends.qpn.size()));
  }
  asked_ = body;
  link_.acknowledge();  // the connector's patience begins
  link_.host().tend_soon();
  return true;
}

void Widening::answer() {
  CHECK(!link_.connector() && step_ == Step::Waiting);
  const Widen asked = *std::exchange(asked_, std::nullopt);
  index_ = asked.path;
  epoch_ = asked.epoch;
  psn_ = random_psn();
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    if (!is_as_it_was(path())) return refuse("the path is lost, or has its queue pairs");
    link_.peer_link().late().provide(path());
  }
  step_ = Step::Rising;
  link_.host().tend_soon();
  link_.begin_bring_up({.peer_rails = link_.terms.peer_rails,
                        .makes = {index_},
                        .paths = {asked.ends},
                        .indices = {index_},
                        .psn = psn_,
                        .settings = link_.settings(),
                        .widens = true});
}

void Widening::refuse(const std::string& why) {
  link_.send(Widened{.path = static_cast<std::uint8_t>(index_),
                     .epoch = epoch_,
                     .result = Errc::Unreachable,
                     .text = told_by(link_.host().options().provider->host_name(), why)});
}

void Widening::answer_risen(const BringUp& done) {
  Path& path = this->path();
  Widened said{.path = static_cast<std::uint8_t>(index_), .epoch = epoch_};
  const bool risen = !done.unmade() && done.outcome() == Errc::Ok;
  if (risen) {
    said.ends = {describe_late(path, psn_, path.device->probe_target())};
    set_peer_windows(path.late, done.paths().front());
  }
  const ProgressLoop::Guard guard(link_.context().loop);
  if (risen && is_as_it_was(path)) {
    link_.peer_link().widen(path);
    link_.send(said);
  } else {
    refuse(done.unmade() ? "no queue pairs could be made"
           : risen       ? "the path was lost meanwhile"
                         : "its queue pairs did not come up");
  }
  finish();
}

// ---- Both.

void Widening::risen(const BringUp& done) {
  CHECK(done.widens() && done.over() && done.path() == index_);
  link_.host().tend_soon();
  if (link_.state() != LinkState::Up) {
    const ProgressLoop::Guard guard(link_.context().loop);
    return finish();
  }
  if (!link_.connector()) return answer_risen(done);
  if (done.unmade()) return give_up("no queue pairs could be made");
  if (step_ == Step::Making) return ask();
  if (done.outcome() != Errc::Ok) return give_up("the peer's address does not answer");
  const ProgressLoop::Guard guard(link_.context().loop);
  if (is_as_it_was(path())) {
    link_.peer_link().widen(path());
    LOG_DETAIL("peer {}: path {} has {} bulk queue pairs now", link_.identity().peer_host,
               path().name, link_.peer_link().policy().qps);
  }
  finish();
}

// Begins anew; what has not joined the path is destroyed. The caller holds the progress lock.
void Widening::finish() {
  link_.peer_link().late().drop(path());
  step_ = Step::Waiting;
  answer_.reset();
}

}  // namespace mesh::engine
