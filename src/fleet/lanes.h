// The queue of a machine class, as its tuner makes it and a worker takes from it. Private to the room.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "tcc/fleet/bus.h"
#include "tcc/fleet/message.h"

namespace tcc::fleet {

// Of a tuner. Idempotent.
Result<void> ensure_lanes(Bus& bus, const std::string& machine_class, double ack_wait);

// Of a worker. It stays in a lane while there are jobs, because it has prepared what the next ones need. Then it goes
// to the lane with jobs on which the fewest workers work. Without any it waits where the fewest wait, or where somebody
// works who may fall silent. When that time is over it looks again.
class Lanes {
 public:
  // `worker` decides where it begins.
  Lanes(std::shared_ptr<Bus> bus, std::string machine_class, const std::string& worker);

  // Errors: no tuner has made the queue yet; the connection.
  Result<void> open();
  // The next job; nullptr: none within `seconds`. Errors: the queue is gone.
  Result<std::unique_ptr<Delivery>> next(double seconds);

 private:
  Result<bool> choose();

  const std::shared_ptr<Bus> bus_;
  const std::string class_;
  std::array<std::unique_ptr<Inbox>, kLanes> inboxes_;
  std::array<int64_t, kLanes> worked_ = {};  // number of the last job that was taken from the lane; 0: none
  int64_t jobs_ = 0;
  int64_t pending_ = 0;  // in the lane, when the last job came
  int64_t idle_ = 0;     // waits since then
  int lane_ = 0;
  int looked_ = 0;  // lane of others in which it waited last
};

}  // namespace tcc::fleet
