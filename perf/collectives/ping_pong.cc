#include "perf/collectives/ping_pong.h"

#include "perf/collectives/slots.h"

#include <algorithm>
#include <cstdio>

namespace mesh::perf {

PingPong::PingPong(const Team& team, const CollectiveOptions& options)
    : team_(team), options_(options), connections_(*team.communicator) {}

PingPong::~PingPong() {
  driver::ProgressThread& progress = team_.communicator->progress();
  if (volley_ != nullptr) progress.detach(*volley_);
  for (const auto* pipe : {&send_, &recv_}) {
    if (*pipe != nullptr) progress.detach(**pipe);
  }
  send_memory_.release();
  recv_memory_.release();
}

int PingPong::open(std::string& error) {
  driver::ConnectionPlan plan;
  plan.send_to = plan.recv_from = {peer()};
  plan.timeout = team_.connect_timeout();
  int result = connections_.connect(*team_.bootstrap, plan);
  if (result != driver::kNetSuccess) {
    error = std::string("connecting failed: ") + driver::net_result_name(result);
    return result;
  }
  const std::size_t room = kVolleySlots * stride_of(options_.bytes_max);
  send_memory_ = driver::Registered(*team_.communicator, connections_.send(0), room);
  recv_memory_ = driver::Registered(*team_.communicator, connections_.recv(0), room);
  result = std::max(send_memory_.result(), recv_memory_.result());
  if (result != driver::kNetSuccess) {
    error = std::string("registering memory failed: ") + driver::net_result_name(result);
    return result;
  }
  driver::NetApi& api = team_.communicator->api();
  send_ = std::make_unique<driver::Pipe>(
      api, driver::PipeOptions{
               .side = driver::Side::Send, .comm = connections_.send(0), .depth = kVolleySlots});
  recv_ = std::make_unique<driver::Pipe>(
      api, driver::PipeOptions{
               .side = driver::Side::Recv, .comm = connections_.recv(0), .depth = kVolleySlots});
  volley_ = std::make_unique<Volley>(team_.rank() == 0 ? VolleyRole::Server : VolleyRole::Returner,
                                     VolleyPipes{send_.get(), recv_.get()});
  // In this order one round takes a message, answers it and posts the answer.
  for (driver::Task* task :
       std::initializer_list<driver::Task*>{recv_.get(), volley_.get(), send_.get()}) {
    team_.communicator->progress().attach(*task);
  }
  return driver::kNetSuccess;
}

int PingPong::run(std::size_t count, int iterations) {
  const std::size_t bytes = size_of(count);
  volley_->start({.sent = send_memory_.piece(0, bytes),
                  .received = recv_memory_.piece(0, bytes),
                  .stride = stride_of(bytes),
                  .pause = options_.pause},
                 static_cast<std::uint64_t>(iterations));
  return team_.communicator->progress().wait_idle(team_.timeout);
}

driver::PatternKey PingPong::key(int sender, std::uint64_t round) const {
  return {.seed = 0, .sender = static_cast<std::uint32_t>(sender), .message = round};
}

int PingPong::check(std::size_t count, std::uint64_t round, std::size_t& wrong) {
  const std::size_t bytes = size_of(count);
  for (std::uint32_t slot = 0; slot < kVolleySlots; ++slot) {
    driver::fill_pattern(key(team_.rank(), round * kVolleySlots + slot),
                         send_memory_.data() + slot * stride_of(bytes), bytes);
  }
  const std::uint64_t first = recv_->pushed();  // the slots go on where the last run stopped
  const std::uint64_t sent = send_->pushed();
  const int result = run(count, kVolleySlots);
  if (result != driver::kNetSuccess) return result;
  for (std::uint32_t i = 0; i < kVolleySlots; ++i) {
    // Both sides have sent as many messages as they received, so both count the same slots.
    const driver::PatternKey expected =
        key(peer(), round * kVolleySlots + (sent + i) % kVolleySlots);
    const char* data = recv_memory_.data() + (first + i) % kVolleySlots * stride_of(bytes);
    const driver::PatternVerdict verdict = driver::check_pattern(expected, data, bytes);
    if (verdict.good() && recv_->bytes_of(first + i) == bytes) continue;
    std::fprintf(stderr, "mesh_perf: rank %d: %s\n", team_.rank(),
                 driver::describe(verdict, expected, data, bytes).c_str());
    const std::size_t element = info(options_.type).bytes;
    wrong += std::max<std::size_t>(1, (verdict.wrong_bytes + element - 1) / element);
  }
  return driver::kNetSuccess;
}

}  // namespace mesh::perf
