#include "plugin/oneshot/group.h"

#include "plugin/oneshot/sums.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace mesh::oneshot {

namespace {

constexpr std::uint64_t pieces_of(std::size_t bytes) noexcept {
  return (bytes + kPieceBytes - 1) / kPieceBytes;
}

}  // namespace

Group::Group(Parts parts) noexcept : parts_(std::move(parts)) {
  CHECK(parts_.members.size() >= 2 && parts_.members.size() <= kMembersMax);
}

template <typename Each>
void Group::for_members(Each&& each) noexcept {
  for (std::size_t rank = 0; rank < parts_.members.size(); ++rank) {
    if (rank != parts_.rank) each(rank, parts_.members[rank]);
  }
}

Result<Job*> Group::all_reduce(const Work& work) noexcept {
  if (failed_ != Errc::Ok) return failed_;
  Job& job = jobs_[jobs_begun_ % kJobs];
  if (job.group != nullptr) return Errc::WouldBlock;
  planned_ += pieces_of(work.bytes());
  job = {.group = this, .work = work, .pieces_end = planned_};
  ++jobs_begun_;
  stage();
  post();
  return &job;
}

Status Group::test(Job& job) noexcept {
  if (failed_ == Errc::Ok && pieces_done() < job.pieces_end) {
    turn_engine();
    reap();
    reduce_ready();
    stage();
    post();
  }
  if (failed_ != Errc::Ok) return failed_;
  if (pieces_done() < job.pieces_end) return Errc::WouldBlock;
  job.group = nullptr;
  return {};
}

// A place in our ring is free when its piece has been reduced here and sent to every member.
void Group::stage() noexcept {
  while (jobs_staged_ < jobs_begun_) {
    Job& job = jobs_[jobs_staged_ % kJobs];
    while (staged_bytes_ < job.work.bytes()) {
      if (staged_ - pieces_done() == kPieces) return;
      stage_piece(job);
    }
    ++jobs_staged_;
    staged_bytes_ = 0;
  }
}

void Group::stage_piece(Job& job) noexcept {
  const std::size_t bytes = std::min(kPieceBytes, job.work.bytes() - staged_bytes_);
  std::memcpy(parts_.memory->piece(parts_.rank, staged_), job.work.from + staged_bytes_, bytes);
  pieces_[staged_ % kPieces] = {.to = job.work.to + staged_bytes_,
                                .count = bytes / element_bytes(job.work.reduction.element),
                                .reduction = job.work.reduction};
  staged_bytes_ += bytes;
  ++staged_;
}

void Group::post() noexcept {
  for_members([&](std::size_t rank, Member& member) { post(rank, member); });
}

// Receives come first: the peer's message needs ours to be posted.
void Group::post(std::size_t rank, Member& member) noexcept {
  while (failed_ == Errc::Ok && member.receives.begun() < staged_) {
    const std::uint64_t piece = member.receives.begun();
    const Result<Request*> request =
        member.receive_side.receive(parts_.memory->piece(rank, piece), kPieceBytes);
    if (request.code() == Errc::WouldBlock) break;
    if (!request.ok()) return fail(request.code());
    member.receives.begin(request.value());
  }
  while (failed_ == Errc::Ok && member.sends.begun() < staged_) {
    const std::uint64_t piece = member.sends.begun();
    const Piece& what = pieces_[piece % kPieces];
    const Result<Request*> request =
        member.send_side.send(parts_.memory->piece(parts_.rank, piece),
                              what.count * element_bytes(what.reduction.element));
    if (request.code() == Errc::WouldBlock) break;
    if (!request.ok()) return fail(request.code());
    member.sends.begin(request.value());
  }
}

// One test() turns the loop of all channels, and learns of an error: each request has its turn.
void Group::turn_engine() noexcept {
  const std::size_t courses = 2 * parts_.members.size();
  for (std::size_t i = 0; i < courses; ++i) {
    const std::size_t turn = turn_++ % courses;
    Member& member = parts_.members[turn / 2];
    Course& course = turn % 2 == 0 ? member.receives : member.sends;
    Request* const request = course.oldest();
    if (request == nullptr) continue;
    std::size_t bytes = 0;
    const Status status = mesh::test(*request, &bytes);
    if (status.ok()) return take(course, turn / 2, bytes);
    if (status.code() != Errc::WouldBlock) fail(status.code());
    return;
  }
}

void Group::reap() noexcept {
  for_members([&](std::size_t rank, Member& member) {
    for (Course* const course : {&member.receives, &member.sends}) {
      std::size_t bytes = 0;
      while (failed_ == Errc::Ok && course->oldest() != nullptr &&
             test_done(*course->oldest(), &bytes))
        take(*course, rank, bytes);
    }
  });
}

// Members that disagree about a message would reduce what does not belong together.
void Group::take(Course& course, std::size_t rank, std::size_t bytes) noexcept {
  const Piece& piece = pieces_[course.done() % kPieces];
  const std::size_t wanted = piece.count * element_bytes(piece.reduction.element);
  if (bytes != wanted) {
    LOG_WARN("one-shot all-reduce: member {} has sent {} bytes where this host has {}", rank, bytes,
             wanted);
    return fail(Errc::Protocol);
  }
  course.end_oldest();
}

void Group::reduce_ready() noexcept {
  std::uint64_t ready = staged_;
  for_members(
      [&](std::size_t, const Member& member) { ready = std::min(ready, member.receives.done()); });
  std::size_t left = kReducedBytesMax / parts_.members.size();
  while (failed_ == Errc::Ok && reduced_ < ready) {
    const Piece& piece = pieces_[reduced_ % kPieces];
    const std::size_t bytes = element_bytes(piece.reduction.element);
    const std::size_t count = std::min(piece.count - reduced_count_, left / bytes);
    if (count == 0) return;
    left -= reduce_slice(piece, count) * bytes;
    if (reduced_count_ < piece.count) return;
    reduced_count_ = 0;
    ++reduced_;
  }
}

// Our own data lies in our ring, so `to` may be where it came from.
std::size_t Group::reduce_slice(const Piece& piece, std::size_t count) noexcept {
  const std::size_t at = reduced_count_ * element_bytes(piece.reduction.element);
  std::array<const std::byte*, kMembersMax> inputs{};
  for (std::size_t rank = 0; rank < size(); ++rank)
    inputs[rank] = parts_.memory->piece(rank, reduced_) + at;
  reduce(piece.reduction, std::span(inputs).first(size()), piece.to + at, count);
  reduced_count_ += count;
  return count;
}

std::uint64_t Group::pieces_sent() const noexcept {
  std::uint64_t sent = staged_;
  for (std::size_t rank = 0; rank < parts_.members.size(); ++rank) {
    if (rank != parts_.rank) sent = std::min(sent, parts_.members[rank].sends.done());
  }
  return sent;
}

std::uint64_t Group::pieces_done() const noexcept { return std::min(reduced_, pieces_sent()); }

void Group::fail(Errc cause) noexcept { failed_ = cause; }

}  // namespace mesh::oneshot
