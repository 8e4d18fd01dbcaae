#include "fleet/lanes.h"

#include <algorithm>
#include <tuple>

#include "tcc/support/hash.h"

namespace tcc::fleet {
namespace {

constexpr double kTakeSeconds = 0.05;   // until a job arrives that was there a moment ago
constexpr int64_t kFew = 2;             // jobs that take others less time than preparing their task takes here
constexpr int64_t kPatientWaits = 4;    // before it waits for what somebody else may leave
constexpr int64_t kMostJobs = 1 << 20;  // of a queue

}  // namespace

Result<void> ensure_lanes(Bus& bus, const std::string& machine_class, double ack_wait) {
  std::vector<std::string> subjects;
  for (int lane = 0; lane < kLanes; ++lane) subjects.push_back(work_subject(machine_class, lane));
  const std::string stream = work_stream(machine_class);
  TCC_TRY_VOID(bus.ensure_stream(
      {.name = stream, .subjects = subjects, .work_queue = true, .refuse_when_full = true, .max_messages = kMostJobs}));
  for (int lane = 0; lane < kLanes; ++lane)
    TCC_TRY_VOID(bus.ensure_consumer({.stream = stream,
                                      .name = lane_consumer(lane),
                                      .subject = subjects[static_cast<size_t>(lane)],
                                      .ack_wait = ack_wait}));
  return {};
}

Lanes::Lanes(std::shared_ptr<Bus> bus, std::string machine_class, const std::string& worker)
    : bus_(std::move(bus)), class_(std::move(machine_class)), lane_(static_cast<int>(hash_bytes(worker) % kLanes)) {}

Result<void> Lanes::open() {
  for (int lane = 0; lane < kLanes; ++lane) {
    TCC_TRY(inboxes_[static_cast<size_t>(lane)],
            bus_->pull(work_stream(class_), lane_consumer(lane), work_subject(class_, lane)));
  }
  return {};
}

// False: no lane has a job.
Result<bool> Lanes::choose() {
  std::array<ConsumerState, kLanes> states;
  for (int k = 0; k < kLanes; ++k) {
    const int lane = (lane_ + k) % kLanes;
    TCC_TRY(const auto state, bus_->consumer_state(work_stream(class_), lane_consumer(lane)));
    if (state) states[static_cast<size_t>(lane)] = *state;
    if (k == 0 && state && state->waiting > 0) return true;
  }
  // The last jobs of a lane that this worker does not know are left to those who are at it.
  for (int lane = 0; lane < kLanes; ++lane) {
    ConsumerState& s = states[static_cast<size_t>(lane)];
    if (worked_[static_cast<size_t>(lane)] == 0 && s.in_work > 0 && s.waiting <= kFew) s.waiting = 0;
  }
  const bool any = std::any_of(states.begin(), states.end(), [](const ConsumerState& s) { return s.waiting > 0; });
  // The least is best.
  const auto rank = [&](int lane) {
    const ConsumerState& s = states[static_cast<size_t>(lane)];
    const int64_t recent = -worked_[static_cast<size_t>(lane)];
    return any ? std::tuple(s.waiting == 0, s.in_work, recent, -s.waiting)
               : std::tuple(false, s.pulls, recent, int64_t{0});
  };
  if (!any && ++idle_ > kPatientWaits && idle_ % 2 == 0) {
    // What a worker has that fell silent counts as work, and comes back to a worker that waits in its lane.
    for (int k = 1; k <= kLanes; ++k)
      if (const int lane = (looked_ + k) % kLanes; states[static_cast<size_t>(lane)].in_work > 0) {
        lane_ = looked_ = lane;
        return false;
      }
  }
  int best = lane_;
  for (int k = 1; k < kLanes; ++k)
    if (const int lane = (lane_ + k) % kLanes; rank(lane) < rank(best)) best = lane;
  lane_ = best;
  return any;
}

Result<std::unique_ptr<Delivery>> Lanes::next(double seconds) {
  bool there = pending_ > 0;
  if (!there) {
    TCC_TRY(there, choose());
  }
  const auto lane = static_cast<size_t>(lane_);
  TCC_TRY(std::unique_ptr<Delivery> delivery, inboxes_[lane]->next(there ? kTakeSeconds : seconds));
  pending_ = delivery != nullptr ? delivery->pending() : 0;
  if (delivery != nullptr) worked_[lane] = ++jobs_, idle_ = 0;
  return delivery;
}

}  // namespace tcc::fleet
