#include "tcc/fleet/status.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace tcc::fleet {
namespace {

double unix_now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<FleetStatus> read_status(Bus& bus, const std::string& key) {
  FleetStatus status;
  TCC_TRY(const std::vector<std::string> streams, bus.stream_names());
  const auto has = [&](std::string_view name) { return std::count(streams.begin(), streams.end(), name) > 0; };
  std::map<std::string, ClassStatus> classes;
  const std::string prefix = work_stream("");
  for (const std::string& stream : streams)
    if (stream.starts_with(prefix)) classes[stream.substr(prefix.size())].name = stream.substr(prefix.size());
  if (has(kBeatsStream)) {
    TCC_TRY(const std::unique_ptr<Inbox> beats, bus.follow(std::string(kBeatsStream), "tcc.beat.*", true));
    while (true) {
      TCC_TRY(const std::unique_ptr<Delivery> delivery, beats->next(0.3));
      if (delivery == nullptr) break;
      const auto body = open_sealed(key, delivery->subject(), delivery->data());
      Opened<Beat> beat = body ? parse_beat(*body) : tl::make_unexpected(body.error());
      if (!beat) {
        ++status.refused;
        continue;
      }
      if (beat->state == "ended") continue;
      const double stored = static_cast<double>(delivery->unix_nanoseconds()) * 1e-9;
      WorkerStatus worker{std::move(*beat), std::max(unix_now_seconds() - stored, 0.0), 0};
      worker.clock_skew = static_cast<double>(worker.beat.now) * 1e-3 - stored;
      ClassStatus& c = classes[worker.beat.machine_class];
      c.name = worker.beat.machine_class;
      if (worker.silent < kSilentSeconds) ++c.workers, c.rate += worker.beat.rate;
      // A worker whose beat comes again is the same one.
      const auto same = std::find_if(status.workers.begin(), status.workers.end(),
                                     [&](const WorkerStatus& w) { return w.beat.worker == worker.beat.worker; });
      if (same == status.workers.end())
        status.workers.push_back(std::move(worker));
      else
        *same = std::move(worker);
    }
  }
  for (auto& [name, c] : classes) {
    if (has(work_stream(name))) {
      for (int lane = 0; lane < kLanes; ++lane) {
        TCC_TRY(const auto consumer, bus.consumer_state(work_stream(name), lane_consumer(lane)));
        if (!consumer) continue;
        c.waiting += consumer->waiting, c.in_work += consumer->in_work, c.redelivered += consumer->redelivered;
      }
    }
    status.classes.push_back(c);
  }
  std::sort(status.workers.begin(), status.workers.end(), [](const WorkerStatus& a, const WorkerStatus& b) {
    return std::pair(a.beat.machine_class, a.beat.worker) < std::pair(b.beat.machine_class, b.beat.worker);
  });
  if (has(kPoisonStream)) {
    TCC_TRY(const auto poison, bus.stream_state(std::string(kPoisonStream)));
    if (poison) status.poison = poison->messages;
  }
  return status;
}

Result<void> drain(Bus& bus, const std::string& key, const std::string& worker) {
  if (!worker.empty() && !is_name(worker))
    return make_error(ErrorClass::kUsage, "expected the name of a worker", "`tcc fleet status` lists them");
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  const std::string subject(kControlSubject);
  return bus.tell(subject, seal(key, subject, print_control({worker, now.count()})));
}

}  // namespace tcc::fleet
