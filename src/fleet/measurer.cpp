#include "tcc/fleet/measurer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "fleet/lanes.h"
#include "tcc/fleet/worker.h"
#include "tcc/ir/walk.h"
#include "tcc/record/record.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::fleet {
namespace {

constexpr double kLookSeconds = 0.2;    // between two looks at beats and at TunerOptions::stop
constexpr double kResendSeconds = 5;    // a publication without the server's word
constexpr double kAskFinalSeconds = 2;  // between two requests for the same final
constexpr double kLostSeconds = 15;     // a queue that is empty although answers are missing
constexpr double kLiveSeconds = 10;     // since a worker's last beat
constexpr size_t kMostEarly = 1 << 16;  // answers that came before they were asked for
constexpr int64_t kMostAtOnce = 4096, kTasksAtOnce = kLanes;
constexpr int kMostTaskSends = 3;

std::vector<std::unique_ptr<Delivery>> all_of(Inbox& inbox) {
  std::vector<std::unique_ptr<Delivery>> out;
  while (true) {
    auto next = inbox.next(0.001);
    if (!next || *next == nullptr) return out;
    out.push_back(std::move(*next));
  }
}

// Statements of a program, those of unrolled loops as often as they are written out: about what compiling it takes.
double code_size(ir::Stmt s) {
  if (s == nullptr) return 0;
  double size = 1;
  ir::visit_children(s, [&](ir::Stmt child) { size += code_size(child); });
  const ir::Loop* loop = ir::as<ir::Loop>(s);
  const bool unrolled = loop != nullptr && loop->loop_kind == ir::LoopKind::kUnrolled && ir::is_int(loop->extent);
  return unrolled ? size * static_cast<double>(ir::int_value(loop->extent)) : size;
}

}  // namespace

class FleetMeasurer::State {
 public:
  State(std::shared_ptr<Bus> bus, TunerOptions options) : bus_(std::move(bus)), o_(std::move(options)) {}

  Result<void> open() {
    class_ = fleet::machine_class(o_.target, o_.platform, o_.threads, o_.tool, o_.kind);
    TCC_TRY_VOID(ensure_streams(*bus_));
    TCC_TRY_VOID(ensure_lanes(*bus_, class_, o_.ack_wait));
    TCC_TRY(beats_, bus_->follow(std::string(kBeatsStream), "tcc.beat.*", true));
    TCC_TRY(results_, bus_->follow(std::string(kResultsStream), result_subject(o_.run)));
    reconnects_ = bus_->reconnects();
    Stopwatch watch;
    for (bool said = false; live().empty(); said = true) {
      if (watch.seconds() > o_.patience || (o_.stop && o_.stop())) return no_worker();
      if (!said && watch.seconds() > 1) note(fmt::format("waiting for a worker of class {}", class_));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const Beat& first = workers_.at(*live().begin()).beat;
    compares_ = first.compares, calibration_ = first.calibration;
    note(fmt::format("the fleet has {} {} of class {}", live().size(), live().size() == 1 ? "worker" : "workers",
                     class_));
    return {};
  }

  measure::MeasurerTraits traits() const {
    return {.kind = o_.kind,
            .at_once = kMostAtOnce,
            .tasks_at_once = kTasksAtOnce,
            .compares = compares_,
            .prepares_beside = true};
  }
  const std::string& machine_class() const { return class_; }
  double calibration() const { return calibration_; }
  const TunerCounts& counts() const { return counts_; }
  std::vector<std::string> notes() const {
    std::vector<std::string> out = {
        fmt::format("measured by a fleet: {} candidates on workers of class {}, {} of them more than once",
                    counts_.answered, class_, counts_.repeated)};
    if (counts_.poisoned > 0)
      out.push_back(fmt::format("{} candidates ended several workers and count as crashed", counts_.poisoned));
    return out;
  }

  // Answers in the order of the jobs. `final`: one worker measures them.
  Result<std::vector<Answer>> ask(std::vector<Job> jobs, bool final, const std::vector<double>& code_sizes = {}) {
    std::map<std::string, double> sizes;
    for (size_t i = 0; i < code_sizes.size(); ++i) sizes[jobs[i].id] = code_sizes[i];
    for (Job& job : jobs) {
      Pending& p = pending_[job.id];
      p.job = std::move(job), p.final = final;
      order_.push_back(p.job.id);
    }
    const std::vector<std::string> order = std::exchange(order_, {});
    if (!final) assign_lanes(order);
    // What takes long to compile begins first, so that workers end about together.
    std::vector<std::string> longest_first = order;
    std::stable_sort(longest_first.begin(), longest_first.end(),
                     [&](const auto& a, const auto& b) { return sizes[a] > sizes[b]; });
    Result<void> done = wait(longest_first);
    std::vector<Answer> answers;
    for (const std::string& id : order) {
      // A program that was asked for twice in one call.
      const auto at = pending_.find(id);
      if (done && at != pending_.end() && at->second.answer) answers.push_back(*at->second.answer);
    }
    for (const std::string& id : order) pending_.erase(id);
    outstanding_ = 0;
    if (!done) return tl::make_unexpected(std::move(done).error());
    return answers;
  }

  Result<std::string> send_task(const ir::Kernel& naive) {
    TCC_CHECK(naive.root, "a fleet measures candidates with their task and trace");
    const uint64_t hash = ir::hash_kernel(naive);
    if (const auto known = tasks_.find(hash); known != tasks_.end()) return known->second.key;
    TaskText task{task_key(naive, o_.target), naive, o_.target};
    const std::string subject = task_subject(task.key);
    const std::string message = seal(o_.key, subject, print_task(task));
    if (message.size() > kMaxMessageBytes)
      return environment_error("a task of {} bytes is too long for a fleet, which takes {}", message.size(),
                               kMaxMessageBytes);
    TCC_TRY_VOID(bus_->store(subject, message, ""));
    const std::string key = task.key;
    tasks_.emplace(hash, std::move(task));
    return key;
  }

  const TunerOptions& options() const { return o_; }
  // A program that is asked for again in one run is measured again.
  std::string unused_id(uint64_t id) {
    while (answered_.contains(record::hash_text(id))) id = combine_hash(id, ++again_);
    return record::hash_text(id);
  }
  std::string final_id() {
    static thread_local std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
  }
  void count(const Answer& answer) {
    ++counts_.answered;
    if (answer.poison) ++counts_.poisoned;
  }

 private:
  struct Pending {
    Job job;
    bool final = false;
    bool sent = false;
    double sent_at = 0;
    int64_t sends = 0;
    int task_sends = 0;
    std::string worker;  // of a final
    int lane = 0;        // of others
    std::optional<Answer> answer;
  };
  struct Worker {
    Beat beat;
    double seen = 0;  // by this machine's clock
  };
  // What the library's thread tells.
  struct Stored {
    std::mutex mutex;
    std::set<std::string> ids;
    std::string error;
  };

  void note(const std::string& text) const {
    if (o_.note) o_.note(text);
  }

  // Names of the live workers of the class.
  std::vector<std::string> live() {
    const double now = Clock::system().seconds();
    for (const auto& delivery : all_of(*beats_)) {
      const auto body = open_sealed(o_.key, delivery->subject(), delivery->data());
      const Opened<Beat> beat = body ? parse_beat(*body) : tl::make_unexpected(body.error());
      if (!beat) {
        ++counts_.refused;
        foreign_key_ = foreign_key_ || beat.error().first == Refusal::kHmac;
        continue;
      }
      workers_[beat->worker] = {*beat, now};
    }
    std::vector<std::string> out;
    for (const auto& [name, worker] : workers_)
      if (worker.beat.machine_class == class_ && worker.beat.state != "ended" && worker.beat.state != "draining" &&
          now - worker.seen < kLiveSeconds)
        out.push_back(name);
    return out;
  }

  tl::unexpected<Error> no_worker() const {
    std::string found;
    for (const auto& [name, worker] : workers_) {
      const Beat& b = worker.beat;
      if (b.state == "ended") continue;
      std::string why = b.tool != o_.tool         ? fmt::format("it is tcc {}", b.tool)
                        : b.kind != o_.kind       ? fmt::format("its times are {}", record::kind_name(b.kind))
                        : b.threads != o_.threads ? fmt::format("it measures on {} threads", b.threads)
                        : b.features != target::feature_hash(o_.target)
                            ? fmt::format("its target is {}", b.target)
                            : fmt::format("its machine is '{}', expected '{}'", b.platform, o_.platform);
      found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", name, why);
    }
    if (found.empty()) found = foreign_key_ ? "workers whose messages have another key" : "no worker";
    return make_error(
        ErrorClass::kEnvironment,
        fmt::format("expected workers for {} on {} threads (class {}), found {}", sanitize(o_.target.name), o_.threads,
                    class_, sanitize(found, 600)),
        "start `tcc fleet work` there, of the same version and for the same number of threads; what was measured is "
        "in the store, and the same command goes on from there");
  }

  Result<void> wait(const std::vector<std::string>& order) {
    size_t next = 0;
    std::set<std::string> open(order.begin(), order.end());
    for (const std::string& id : order)
      if (const auto early = early_.find(id); early != early_.end() && !pending_[id].final) {
        pending_[id].answer = std::move(early->second);
        answered_.insert(id);
        early_.erase(early);
        open.erase(id);
      }
    double looked = 0, alive = Clock::system().seconds(), moved = alive;
    outstanding_ = 0;
    while (!open.empty()) {
      while (next < order.size() && outstanding_ < o_.window) {
        Pending& p = pending_[order[next++]];
        if (p.answer || p.sent) continue;
        ++outstanding_;
        TCC_TRY_VOID(publish(p));
      }
      TCC_TRY(const std::unique_ptr<Delivery> delivery, results_->next(kLookSeconds));
      const double now = Clock::system().seconds();
      if (delivery != nullptr) {
        TCC_TRY_VOID(take(*delivery, open));
        moved = alive = now;
        if (now - looked < kLookSeconds) continue;
      }
      looked = now;
      TCC_TRY_VOID(follow_again());
      if (bus_->connected() && !live().empty()) alive = now;
      if (now - alive > o_.patience) return bus_->connected() ? Result<void>(no_worker()) : lost();
      if (o_.stop && o_.stop() && now - moved > 2 * o_.ack_wait) return interrupted(open.size());
      TCC_TRY_VOID(send_again(open, now, moved));
    }
    return {};
  }

  // A task keeps its lane, because workers that prepared it stay there. A few tasks share all lanes.
  void assign_lanes(const std::vector<std::string>& order) {
    std::map<std::string, int> asked;  // jobs so far, by task
    for (const std::string& id : order) asked.emplace(pending_[id].job.task, 0);
    for (const std::string& id : order) {
      const std::string& task = pending_[id].job.task;
      if (lanes_.contains(task)) continue;
      const auto least = std::min_element(lane_tasks_.begin(), lane_tasks_.end());
      lanes_[task] = static_cast<int>(least - lane_tasks_.begin());
      ++*least;
    }
    const int count = static_cast<int>(std::min<size_t>(asked.size(), kLanes));
    for (const std::string& id : order) {
      Pending& p = pending_[id];
      const int number = asked[p.job.task]++;
      p.lane = (lanes_[p.job.task] + count * (number % (kLanes / count))) % kLanes;
    }
  }

  // A server that was started again may have forgotten who follows what.
  Result<void> follow_again() {
    if (!bus_->connected() || bus_->reconnects() == reconnects_) return {};
    auto beats = bus_->follow(std::string(kBeatsStream), "tcc.beat.*", true);
    auto results = bus_->follow(std::string(kResultsStream), result_subject(o_.run));
    if (!beats || !results) return {};  // it is not ready yet: the next look tries again
    beats_ = std::move(*beats), results_ = std::move(*results);
    reconnects_ = bus_->reconnects();
    return {};
  }

  tl::unexpected<Error> lost() const {
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("the NATS server has not been reached for {:.0f} s", o_.patience),
                      "what was measured is in the store, and the same command goes on from there; --fleet-or-local "
                      "goes on on this machine");
  }
  static tl::unexpected<Error> interrupted(size_t open) {
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("stopped while {} candidates had no answer from the fleet", open),
                      "what was measured is in the store, and the same command goes on from there");
  }

  Result<void> publish(Pending& p) {
    p.sent = true;
    p.sent_at = Clock::system().seconds();
    ++counts_.published;
    ++p.sends;
    if (p.final) return ask_final(p);
    const std::string subject = work_subject(class_, p.lane);
    const std::string message = seal(o_.key, subject, print_job(p.job));
    if (message.size() > kMaxJobBytes)
      return environment_error("a candidate of {} bytes is too long for a fleet, which takes {}", message.size(),
                               kMaxJobBytes);
    // Another number makes it another message where the first was lost.
    const std::string id = p.sends == 1 ? p.job.id : fmt::format("{}.{}", p.job.id, p.sends);
    const std::string job = p.job.id;
    return bus_->store_later(subject, message, id, [stored = stored_, job](const std::string& error) {
      std::lock_guard lock(stored->mutex);
      if (error.empty())
        stored->ids.insert(job);
      else
        stored->error = error;
    });
  }

  // Finals are not stored: the worker that has them may be gone, and they are asked for again.
  Result<void> ask_final(Pending& p) {
    const std::vector<std::string> workers = live();
    if (std::count(workers.begin(), workers.end(), finals_worker_) == 0) {
      if (workers.empty()) return {};
      if (!finals_worker_.empty())
        note(fmt::format("worker {} is gone: finals go on on {}", finals_worker_, workers.front()));
      finals_worker_ = workers.front();
    }
    p.worker = finals_worker_;
    const std::string subject = final_subject(p.worker);
    (void)bus_->tell(subject, seal(o_.key, subject, print_job(p.job)));  // a lost request is asked again
    return {};
  }

  Result<void> send_again(const std::set<std::string>& open, double now, double moved) {
    std::set<std::string> stored;
    std::string error;
    {
      std::lock_guard lock(stored_->mutex);
      stored = stored_->ids;
      error = std::exchange(stored_->error, "");
    }
    if (error.find("maximum") != std::string::npos || error.find("insufficient") != std::string::npos ||
        error.find("resource") != std::string::npos)
      return make_error(ErrorClass::kEnvironment,
                        fmt::format("the store of the NATS server is full: {}", sanitize(error)),
                        "free disk space there, or raise its limits; what was measured is in the store, and the same "
                        "command goes on from there");
    if (!bus_->connected()) return {};
    bool empty = false;
    if (now - moved > kLostSeconds && now - asked_state_ > kLostSeconds) {
      asked_state_ = now;
      const auto state = bus_->stream_state(work_stream(class_));
      empty = state && (!*state || (*state)->messages == 0);
      if (state && !*state) TCC_TRY_VOID(remake());
    }
    for (const std::string& id : open) {
      Pending& p = pending_[id];
      if (!p.sent) continue;
      const double age = now - p.sent_at;
      const bool again = p.final ? age > kAskFinalSeconds
                                 : (age > kResendSeconds && !stored.contains(id)) || (empty && age > kLostSeconds);
      if (again) TCC_TRY_VOID(publish(p));
    }
    return {};
  }

  // The server was started without what it had.
  Result<void> remake() {
    note("the NATS server has lost its streams: they are made again");
    for (auto& [hash, task] : tasks_) {
      const std::string subject = task_subject(task.key);
      TCC_TRY_VOID(ensure_streams(*bus_));
      TCC_TRY_VOID(bus_->store(subject, seal(o_.key, subject, print_task(task)), ""));
    }
    return ensure_lanes(*bus_, class_, o_.ack_wait);
  }

  Result<void> take(const Delivery& delivery, std::set<std::string>& open) {
    const auto body = open_sealed(o_.key, delivery.subject(), delivery.data());
    Opened<Answer> answer = body ? parse_answer(*body) : tl::make_unexpected(body.error());
    if (!answer) {
      ++counts_.refused;
      return {};
    }
    const auto at = pending_.find(answer->id);
    if (at == pending_.end()) {
      if (answered_.contains(answer->id)) {
        ++counts_.repeated;
        return {};
      }
      if (early_.size() >= kMostEarly) early_.erase(early_.begin());
      if (usable(*answer)) early_.emplace(answer->id, std::move(*answer));
      return {};
    }
    Pending& p = at->second;
    if (p.answer) {
      ++counts_.repeated;
      return {};
    }
    if (answer->unknown_task) return explain(p);
    if (!usable(*answer))
      return make_error(
          ErrorClass::kEnvironment,
          fmt::format("worker {} cannot measure a candidate: {}", answer->worker,
                      answer->trouble.empty() ? "its answer is incomplete" : sanitize(answer->trouble, 400)),
          "what was measured is in the store, and the same command goes on from there");
    if (p.final && answer->worker != p.worker) return {};
    answered_.insert(answer->id);
    p.answer = std::move(*answer);
    open.erase(p.job.id);
    --outstanding_;
    std::lock_guard lock(stored_->mutex);
    stored_->ids.erase(p.job.id);
    return {};
  }

  static bool usable(const Answer& answer) { return answer.trouble.empty() && (answer.measured || answer.compared); }

  // The worker does not find the task: its text is stored again, then the job.
  Result<void> explain(Pending& p) {
    if (++p.task_sends > kMostTaskSends)
      return environment_error("workers do not find the text of task {} on the NATS server", p.job.task);
    for (auto& [hash, task] : tasks_) {
      if (task.key != p.job.task) continue;
      const std::string subject = task_subject(task.key);
      TCC_TRY_VOID(bus_->store(subject, seal(o_.key, subject, print_task(task)), ""));
    }
    return publish(p);
  }

  const std::shared_ptr<Bus> bus_;
  const TunerOptions o_;
  std::string class_;
  bool compares_ = false, foreign_key_ = false;
  double calibration_ = 0, asked_state_ = 0;
  std::unique_ptr<Inbox> beats_, results_;
  std::map<std::string, Worker> workers_;
  std::map<uint64_t, TaskText> tasks_;  // that were sent, by the hash of the naive kernel
  std::map<std::string, Pending> pending_;
  std::vector<std::string> order_;
  std::map<std::string, int> lanes_;  // of tasks
  std::array<int, kLanes> lane_tasks_ = {};
  std::map<std::string, Answer> early_;
  std::set<std::string> answered_;
  int64_t outstanding_ = 0, reconnects_ = 0;
  uint64_t again_ = 0;
  std::string finals_worker_;
  const std::shared_ptr<Stored> stored_ = std::make_shared<Stored>();
  TunerCounts counts_;
};

FleetMeasurer::FleetMeasurer(std::unique_ptr<State> state) : state_(std::move(state)) {}
FleetMeasurer::~FleetMeasurer() = default;

Result<std::unique_ptr<FleetMeasurer>> FleetMeasurer::open(std::shared_ptr<Bus> bus, TunerOptions options) {
  auto state = std::make_unique<State>(std::move(bus), std::move(options));
  TCC_TRY_VOID(state->open());
  return std::unique_ptr<FleetMeasurer>(new FleetMeasurer(std::move(state)));
}

measure::MeasurerTraits FleetMeasurer::traits() const {
  return state_->traits();
}
std::vector<std::string> FleetMeasurer::notes() const {
  return state_->notes();
}
TunerCounts FleetMeasurer::counts() const {
  return state_->counts();
}
const std::string& FleetMeasurer::machine_class() const {
  return state_->machine_class();
}
const target::Target& FleetMeasurer::target() const {
  return state_->options().target;
}
double FleetMeasurer::calibration() const {
  return state_->calibration();
}

Result<std::shared_ptr<const measure::MeasureTask>> FleetMeasurer::prepare(const ir::Kernel&, const target::Target&) {
  return nullptr;
}

Result<std::vector<measure::Measurement>> FleetMeasurer::measure(std::span<const measure::Candidate> candidates) {
  const TunerOptions& o = state_->options();
  std::vector<measure::Measurement> out(candidates.size());
  for (const bool final : {false, true}) {
    std::vector<Job> jobs;
    std::vector<size_t> places;
    std::vector<double> sizes;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const measure::Candidate& c = candidates[i];
      if (c.finalist != final) continue;
      TCC_TRY(const std::string task, state_->send_task(c.naive));
      uint64_t id = combine_hash(hash_bytes(task, hash_bytes(o.run)), c.nest_hash);
      if (c.nest_hash == 0) id = combine_hash(id, hash_bytes(c.trace));
      jobs.push_back({.id = final ? state_->final_id() : state_->unused_id(id),
                      .run = o.run,
                      .task = task,
                      .tool = o.tool,
                      .number = c.run,
                      .threads = o.threads,
                      .programs = {{c.nest_hash, c.trace, c.finalist}}});
      places.push_back(i);
      sizes.push_back(code_size(c.kernel.root));
    }
    if (jobs.empty()) continue;
    TCC_TRY(std::vector<Answer> answers, state_->ask(std::move(jobs), final, sizes));
    TCC_CHECK(answers.size() == places.size(), "every candidate has an answer");
    for (size_t i = 0; i < places.size(); ++i) {
      if (!answers[i].measured)
        return environment_error("worker {} compared where it was to measure", answers[i].worker);
      state_->count(answers[i]);
      out[places[i]] = std::move(*answers[i].measured);
      out[places[i]].id = candidates[places[i]].id;
    }
  }
  return out;
}

Result<measure::PairedComparison> FleetMeasurer::compare(const measure::Candidate& a, const measure::Candidate& b,
                                                         measure::PairAim aim) {
  const TunerOptions& o = state_->options();
  TCC_TRY(const std::string task, state_->send_task(a.naive));
  std::vector<Job> jobs = {{.id = state_->final_id(),
                            .run = o.run,
                            .task = task,
                            .tool = o.tool,
                            .threads = o.threads,
                            .programs = {{a.nest_hash, a.trace, true}, {b.nest_hash, b.trace, true}},
                            .aim = aim}};
  TCC_TRY(std::vector<Answer> answers, state_->ask(std::move(jobs), true));
  if (!answers.at(0).compared)
    return environment_error("worker {} measured where it was to compare", answers[0].worker);
  return *answers[0].compared;
}

}  // namespace tcc::fleet
