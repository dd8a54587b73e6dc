#include "plugin/oneshot/group.h"

#include "plugin/oneshot/totals.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace mesh::oneshot {

Group::Group(Parts parts)
    : parts_(std::move(parts)), stages_(parts_.steps.size()), stalls_(parts_.stalls) {
  CHECK(parts_.members.size() >= 2 && parts_.members.size() <= kMembersMax && !stages_.empty());
}

// Calls each(index of the step, rank, member) for the other members of each step.
template <typename Each>
void Group::for_members(Each&& each) noexcept {
  for (std::size_t index = 0; index < stages_.size(); ++index) {
    for (const std::size_t rank : parts_.steps[index].ranks) {
      if (rank != parts_.rank) each(index, rank, parts_.members[rank]);
    }
  }
}

Result<Job*> Group::all_reduce(const Work& work) noexcept {
  if (failed_ != Errc::Ok) return failed_;
  Job& job = jobs_[jobs_begun_ % kJobs];
  if (job.group != nullptr) return Errc::WouldBlock;
  if (jobs_begun_ == jobs_done_) stalls_.restart();
  planned_ += (work.bytes() + kPieceBytes - 1) / kPieceBytes;
  job = {.group = this, .work = work, .pieces_end = planned_};
  ++jobs_begun_;
  Totals::instance().count(work.bytes());
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
  if (pieces_done() < job.pieces_end) {
    watch();
    return Errc::WouldBlock;
  }
  ++jobs_done_;
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

// Receives come first: the peer's message needs ours to be posted.
void Group::post() noexcept {
  for_members([&](std::size_t, std::size_t rank, Member& member) { receive(rank, member); });
  for_members([&](std::size_t index, std::size_t, Member& member) { send(index, member); });
}

void Group::receive(std::size_t rank, Member& member) noexcept {
  while (failed_ == Errc::Ok && member.receives.begun() < staged_) {
    const std::uint64_t piece = member.receives.begun();
    const Result<Request*> request =
        member.receive_side.receive(parts_.memory->piece(rank, piece), kPieceBytes);
    if (request.code() == Errc::WouldBlock) break;
    if (!request.ok()) return fail(request.code());
    member.receives.begin(request.value());
  }
}

void Group::send(std::size_t index, Member& member) noexcept {
  while (failed_ == Errc::Ok && member.sends.begun() < brought_to(index)) {
    const std::uint64_t piece = member.sends.begun();
    const Piece& what = pieces_[piece % kPieces];
    const Result<Request*> request =
        member.send_side.send(parts_.memory->piece(parts_.steps[index].from, piece),
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
  for_members([&](std::size_t, std::size_t rank, Member& member) {
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
  if (bytes == 0) return fail(Errc::PeerClosed);  // its group has failed
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
  std::size_t left = kReducedBytesMax;
  for (std::size_t index = 0; index < stages_.size(); ++index) reduce_ready(index, left);
}

// `left`: bytes of inputs that this call may still reduce.
void Group::reduce_ready(std::size_t index, std::size_t& left) noexcept {
  Stage& stage = stages_[index];
  const std::vector<std::size_t>& ranks = parts_.steps[index].ranks;
  std::uint64_t ready = brought_to(index);
  for (const std::size_t rank : ranks) {
    if (rank != parts_.rank) ready = std::min(ready, parts_.members[rank].receives.done());
  }
  while (failed_ == Errc::Ok && stage.reduced < ready) {
    const Piece& piece = pieces_[stage.reduced % kPieces];
    const std::size_t bytes = element_bytes(piece.reduction.element) * ranks.size();
    const std::size_t count = std::min(piece.count - stage.reduced_count, left / bytes);
    if (count == 0) return;
    reduce_slice(index, count);
    left -= count * bytes;
    if (stage.reduced_count < piece.count) return;
    stage.reduced_count = 0;
    ++stage.reduced;
  }
}

// Our own data lies in a ring, so `to` may be where it came from.
void Group::reduce_slice(std::size_t index, std::size_t count) noexcept {
  Stage& stage = stages_[index];
  const PlanStep& step = parts_.steps[index];
  const Piece& piece = pieces_[stage.reduced % kPieces];
  const std::size_t at = stage.reduced_count * element_bytes(piece.reduction.element);
  std::array<const std::byte*, kMembersMax> inputs{};
  for (std::size_t i = 0; i < step.ranks.size(); ++i) {
    const std::size_t ring = step.ranks[i] == parts_.rank ? step.from : step.ranks[i];
    inputs[i] = parts_.memory->piece(ring, stage.reduced) + at;
  }
  std::byte* const to = index + 1 == stages_.size()
                            ? piece.to
                            : parts_.memory->piece(parts_.steps[index + 1].from, stage.reduced);
  parts_.reducer(piece.reduction, std::span(inputs).first(step.ranks.size()), to + at, count);
  stage.reduced_count += count;
}

// Returns the number of pieces for which we have what we bring to a step.
std::uint64_t Group::brought_to(std::size_t index) const noexcept {
  return index == 0 ? staged_ : stages_[index - 1].reduced;
}

// Returns the number of pieces that are reduced here and sent to all.
std::uint64_t Group::pieces_done() noexcept {
  std::uint64_t done = stages_.back().reduced;
  for_members([&](std::size_t, std::size_t, const Member& member) {
    done = std::min(done, member.sends.done());
  });
  return done;
}

// A message of no bytes, which no piece is, tells the others: in a plan of steps not all of them
// hear of a member that has ended.
void Group::fail(Errc cause) noexcept {
  if (failed_ != Errc::Ok) return;
  failed_ = cause;
  for_members([&](std::size_t, std::size_t, Member& member) {
    static_cast<void>(member.send_side.send(parts_.memory->piece(parts_.rank, 0), 0));
  });
}

}  // namespace mesh::oneshot
