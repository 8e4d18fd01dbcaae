#include "tcc/fleet/worker.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "fleet/lanes.h"
#include "tcc/record/record.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::fleet {
namespace {

// An idle worker looks at all lanes so often: soon after its last job, and later.
constexpr double kPullSeconds = 0.2, kIdlePullSeconds = 1, kIdleAfter = 10;
constexpr double kStreamPollSeconds = 0.5, kRateSeconds = 10, kControlAge = 60;
constexpr int kCalibrations = 10;  // until a slow machine is believed
constexpr size_t kKnownTasks = 256, kKnownFinals = 256;

int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class WorkerLoop {
 public:
  WorkerLoop(std::shared_ptr<Bus> bus, const std::string& key, const WorkerOptions& options, Runner& runner)
      : bus_(std::move(bus)), key_(key), options_(options), runner_(runner) {
    beat_.worker = options.name.empty() ? default_worker_name() : options.name;
    beat_.tool = options.tool;
    beat_.target = options.target.name, beat_.platform = options.platform;
    beat_.features = target::feature_hash(options.target), beat_.threads = options.threads;
    beat_.kind = runner.kind(), beat_.compares = runner.compares();
    beat_.calibration = options.calibration;
    beat_.machine = options.machine;
    beat_.started = unix_milliseconds();
    beat_.state = "ready";
    beat_.machine_class = machine_class(options.target, options.platform, options.threads, options.tool, beat_.kind);
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) == 0) beat_.host = host;
  }

  Result<WorkerReport> run() {
    TCC_TRY_VOID(wait_for_streams());
    if (!stopping()) TCC_TRY_VOID(calibrate());
    say_beat();
    note(fmt::format("worker {} of class {}", beat_.worker, beat_.machine_class));
    std::jthread beats([this](const std::stop_token& token) { keep_beating(token); });
    std::jthread finals([this](const std::stop_token& token) { take_finals(token); });
    const Result<void> ended = take_jobs();
    finals.request_stop();
    finals.join();
    beats.request_stop();
    beats.join();
    set_state("ended");
    say_beat();
    if (!ended) return tl::make_unexpected(ended.error());
    if (error_) return tl::make_unexpected(*error_);
    seconds_.preparing = runner_.preparing_seconds();
    seconds_.measuring -= seconds_.preparing;
    return WorkerReport{beat_.worker,  beat_.machine_class, beat_.done,        beat_.failed,
                        beat_.refused, beat_.poisoned,      beat_.redelivered, seconds_};
  }

 private:
  void note(const std::string& text) const {
    if (options_.note) options_.note(text);
  }
  bool stopping() {
    if (options_.stop && options_.stop()) draining_ = true;
    return draining_;
  }
  void set_state(const char* state) {
    std::lock_guard lock(mutex_);
    beat_.state = state;
  }

  // The first tuner of a server makes them.
  Result<void> wait_for_streams() {
    for (bool said = false; !stopping(); said = true) {
      TCC_TRY(const auto beats, bus_->stream_state(std::string(kBeatsStream)));
      if (beats) return {};
      if (!said) note("waiting for a tuner");
      std::this_thread::sleep_for(std::chrono::duration<double>(kStreamPollSeconds));
    }
    return {};
  }

  // The first worker of a class says how fast the class is. What another class's last worker said counts only while a
  // worker of it lives.
  Result<void> calibrate() {
    if (options_.calibration <= 0) return {};
    const std::string subject = class_subject(beat_.machine_class);
    const std::string body = print_calibration(options_.calibration, beat_.worker);
    TCC_TRY(const Others others, others_live());
    if (!others.any) return bus_->store(subject, seal(key_, subject, body), "");
    TCC_TRY(const std::unique_ptr<Delivery> known, bus_->last(std::string(kClassesStream), subject));
    if (known == nullptr) {
      Result<void> first = bus_->store(subject, seal(key_, subject, body), "", true);
      return first || first.error().cls == ErrorClass::kInput ? Result<void>() : first;
    }
    const auto opened = open_sealed(key_, subject, known->data());
    const Opened<double> seconds = opened ? parse_calibration(*opened) : tl::make_unexpected(opened.error());
    if (!seconds || *seconds <= 0) return {};
    double own = options_.calibration;
    const double apart = others.here ? kMostCalibrationApartHere : kMostCalibrationApart;
    const double slowest = *seconds * (1 + apart);
    for (int i = 0; i < kCalibrations && own > slowest && options_.calibrate_again && !stopping(); ++i)
      own = std::min(own, options_.calibrate_again());
    beat_.calibration = own;
    const double ratio = own / *seconds;
    if (std::abs(ratio - 1) <= apart) return {};
    return make_error(
        ErrorClass::kEnvironment,
        fmt::format("expected the calibration kernel of class {} to take {} within {:.0f} %, found {} on this machine: "
                    "times of the two would not be comparable",
                    beat_.machine_class, format_duration(*seconds), 100 * apart, format_duration(own)),
        "stop other programs here and look at the processor's clock; or drain the class, and start this worker first");
  }

  // Living workers of the class.
  struct Others {
    bool any = false, here = false;  // here: on this machine
  };
  Result<Others> others_live() {
    TCC_TRY(const std::unique_ptr<Inbox> beats, bus_->follow(std::string(kBeatsStream), "tcc.beat.*", true));
    Others others;
    while (true) {
      TCC_TRY(const std::unique_ptr<Delivery> delivery, beats->next(0.3));
      if (delivery == nullptr) return others;
      const auto body = open_sealed(key_, delivery->subject(), delivery->data());
      if (!body) continue;
      const Opened<Beat> beat = parse_beat(*body);
      if (!beat || beat->machine_class != beat_.machine_class || beat->worker == beat_.worker || beat->state == "ended")
        continue;
      others.any = true;
      others.here = others.here || (!beat_.machine.empty() && beat->machine == beat_.machine);
      if (others.here) return others;
    }
  }

  // --- beats, control and signals of progress
  void say_beat() {
    std::string text;
    {
      std::lock_guard lock(mutex_);
      beat_.now = unix_milliseconds();
      const double now = Clock::system().seconds();
      while (!recent_.empty() && now - recent_.front() > kRateSeconds) recent_.pop_front();
      beat_.rate = static_cast<double>(recent_.size()) / kRateSeconds;
      text = print_beat(beat_);
    }
    const std::string subject = beat_subject(beat_.worker);
    // A server that is gone for a moment misses a beat, no more.
    (void)bus_->store(subject, seal(key_, subject, text), "");
  }

  void keep_beating(const std::stop_token& token) {
    Result<std::unique_ptr<Inbox>> control = bus_->listen(std::string(kControlSubject));
    Stopwatch since_beat;
    while (!token.stop_requested()) {
      if (control) {
        auto delivery = (*control)->next(0.2);
        if (delivery && *delivery != nullptr) obey(**delivery);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
      if (stopping()) set_state("draining");
      watch_job();
      if (since_beat.seconds() < std::min(options_.beat_seconds, options_.ack_wait / 3)) continue;
      since_beat.restart();
      {
        std::lock_guard lock(held_mutex_);
        if (held_ != nullptr) held_->in_progress();
      }
      say_beat();
    }
  }

  // What takes too long is left to others.
  void watch_job() {
    const double since = job_since_;
    if (since <= 0 || Clock::system().seconds() - since < options_.job_seconds || overdue_.exchange(true)) return;
    hold(nullptr);
    note(fmt::format("a job took more than {}: it is left to another worker", format_duration(options_.job_seconds)));
    if (options_.overdue) options_.overdue();
  }

  void obey(const Delivery& delivery) {
    const auto body = open_sealed(key_, kControlSubject, delivery.data());
    const Opened<Control> control = body ? parse_control(*body) : tl::make_unexpected(body.error());
    if (!control) return refuse(control.error());
    if (std::abs(static_cast<double>(unix_milliseconds() - control->now)) > kControlAge * 1e3) {
      note("a request to drain is older than a minute, or a clock is wrong: it was ignored");
      return;
    }
    if (control->worker.empty() || control->worker == beat_.worker) draining_ = true;
  }

  // --- jobs
  Result<void> take_jobs() {
    Lanes jobs(bus_, beat_.machine_class, beat_.worker);
    bool open = false, waiting = false;
    Stopwatch since_job;
    while (!stopping()) {
      if (!open) {
        if (!jobs.open()) {  // the first tuner of the class makes it
          if (!waiting) note("waiting for a tuner");
          waiting = true;
          std::this_thread::sleep_for(std::chrono::duration<double>(kStreamPollSeconds));
          continue;
        }
        open = true;
      }
      const Stopwatch waiting_for_job;
      auto delivery = jobs.next(since_job.seconds() < kIdleAfter ? kPullSeconds : kIdlePullSeconds);
      seconds_.waiting += waiting_for_job.seconds();
      if (!delivery) {
        open = false;
        std::this_thread::sleep_for(std::chrono::duration<double>(kStreamPollSeconds));
        continue;
      }
      if (*delivery == nullptr) continue;
      hold(delivery->get());
      const bool going_on = handle(**delivery);
      hold(nullptr);
      since_job.restart();
      if (!going_on) return {};
    }
    return {};
  }

  void take_finals(const std::stop_token& token) {
    const std::string subject = final_subject(beat_.worker);
    Result<std::unique_ptr<Inbox>> finals = bus_->listen(subject);
    if (!finals) return note(finals.error().message);
    while (!token.stop_requested()) {
      auto delivery = (*finals)->next(0.2);
      if (!delivery || *delivery == nullptr) continue;
      // The tuner asks again until it has the answer.
      const auto body = open_sealed(key_, subject, (*delivery)->data(), kMaxJobBytes);
      const Opened<Job> job = body ? parse_job(*body) : tl::make_unexpected(body.error());
      if (!job) {
        refuse(job.error());
        continue;
      }
      if (std::count(finals_.begin(), finals_.end(), job->id) > 0) continue;
      if (finals_.size() >= kKnownFinals) finals_.pop_front();
      finals_.push_back(job->id);
      measure(*job);
    }
  }

  void hold(Delivery* delivery) {
    std::lock_guard lock(held_mutex_);
    held_ = delivery;
  }
  void acknowledge(Delivery& delivery) {
    std::lock_guard lock(held_mutex_);
    held_ = nullptr;
    delivery.acknowledge();
  }
  void refuse(const std::pair<Refusal, std::string>& why) {
    std::lock_guard lock(mutex_);
    if (beat_.refused++ < 10 && options_.note)
      options_.note(fmt::format("a message was refused ({}): {}", refusal_name(why.first), sanitize(why.second)));
  }

  // False: nothing can be measured here any more.
  bool handle(Delivery& delivery) {
    const auto body = open_sealed(key_, delivery.subject(), delivery.data(), kMaxJobBytes);
    const Opened<Job> job = body ? parse_job(*body) : tl::make_unexpected(body.error());
    if (!job) {
      refuse(job.error());
      acknowledge(delivery);
      return true;
    }
    if (delivery.deliveries() > 1) {
      std::lock_guard lock(mutex_);
      ++beat_.redelivered;
    }
    if (delivery.deliveries() > options_.poison_after) {
      quarantine(*job, delivery);
      return true;
    }
    if (!measure(*job)) {
      std::lock_guard lock(held_mutex_);
      held_ = nullptr;
      delivery.give_back(1);
      return false;
    }
    acknowledge(delivery);
    return true;
  }

  // Its record says that it ended workers; the message is kept for people to look at.
  void quarantine(const Job& job, Delivery& delivery) {
    Answer answer;
    answer.poison = true;
    measure::Measurement& m = answer.measured.emplace();
    m.status = record::Status::kCrashed;
    m.failure = fmt::format("{} workers ended, or fell silent, while they measured it", options_.poison_after);
    m.threads = job.threads;
    const std::string subject = poison_subject(beat_.machine_class);
    (void)bus_->store(subject, delivery.data(), job.id);
    if (!send(job, std::move(answer))) return;
    {
      std::lock_guard lock(mutex_);
      ++beat_.poisoned;
    }
    note(fmt::format("candidate {} ended {} workers: it is set aside", job.id, options_.poison_after));
    acknowledge(delivery);
  }

  // False: nothing was answered.
  bool measure(const Job& job) {
    std::lock_guard lock(running_);
    if (error_) return false;
    set_state("measuring");
    Stopwatch watch;
    overdue_ = false;
    job_since_ = Clock::system().seconds();
    Result<Answer> answer = answer_to(job);
    job_since_ = 0;
    seconds_.measuring += watch.seconds(), watch.restart();
    set_state("ready");
    if (!answer) {
      error_ = answer.error();
      draining_ = true;
      return false;
    }
    const bool ok = answer->compared || (answer->measured && answer->measured->status == record::Status::kOk);
    if (!send(job, std::move(*answer))) return false;
    seconds_.answering += watch.seconds();
    std::lock_guard count(mutex_);
    recent_.push_back(Clock::system().seconds());
    ++beat_.done;
    if (!ok) ++beat_.failed;
    return true;
  }

  Result<Answer> answer_to(const Job& job) {
    Answer answer;
    if (job.tool != options_.tool || job.threads != options_.threads) {
      answer.trouble = fmt::format("worker {} is tcc {} on {} threads, and the job is of tcc {} for {}", beat_.worker,
                                   options_.tool, options_.threads, sanitize(job.tool), job.threads);
      refuse({Refusal::kBody, answer.trouble});
      return answer;
    }
    TCC_TRY(const TaskText* task, task_of(job.task));
    if (task == nullptr) {
      refuse({Refusal::kBody, fmt::format("unknown task {}", job.task)});
      answer.unknown_task = true;
      return answer;
    }
    return runner_.run(job, *task);
  }

  Result<const TaskText*> task_of(const std::string& key) {
    if (const auto known = tasks_.find(key); known != tasks_.end()) return &known->second;
    const std::string subject = task_subject(key);
    Result<std::unique_ptr<Delivery>> found = bus_->last(std::string(kTasksStream), subject);
    if (!found || *found == nullptr) return nullptr;
    const auto body = open_sealed(key_, subject, (*found)->data());
    Opened<TaskText> task = body ? parse_task(*body) : tl::make_unexpected(body.error());
    if (!task || task->key != key || target::feature_hash(task->target) != beat_.features) {
      if (!task) refuse(task.error());
      return nullptr;
    }
    if (tasks_.size() >= kKnownTasks) tasks_.erase(tasks_.begin());
    return &tasks_.emplace(key, std::move(*task)).first->second;
  }

  // Tries for as long as the server may be away: an answer is worth a measurement.
  bool send(const Job& job, Answer answer) {
    answer.id = job.id, answer.worker = beat_.worker;
    const std::string subject = result_subject(job.run);
    const std::string message = seal(key_, subject, print_answer(answer));
    const bool counts = answer.measured || answer.compared;  // else the same job may be answered again
    for (int attempt = 0; attempt < 60; ++attempt) {
      const Result<void> stored = bus_->store(subject, message, counts ? job.id : "");
      if (stored) return true;
      if (attempt == 0) note(stored.error().message);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    return false;
  }

  const std::shared_ptr<Bus> bus_;
  const std::string key_;
  const WorkerOptions& options_;
  Runner& runner_;
  std::map<std::string, TaskText> tasks_;  // guarded by running_
  std::deque<std::string> finals_;         // ids, of the thread of finals
  std::atomic<bool> draining_{false};
  std::atomic<double> job_since_{0};  // when the job under way began; 0: none is
  std::atomic<bool> overdue_{false};  // it took too long
  std::mutex running_;                // one program at a time
  std::optional<Error> error_;        // guarded by running_, read at the end
  WorkerSeconds seconds_;             // guarded by running_, but for `waiting`
  std::mutex held_mutex_;
  Delivery* held_ = nullptr;  // guarded by held_mutex_: signals of progress are for this one
  std::mutex mutex_;
  Beat beat_;                  // what changes is guarded by mutex_
  std::deque<double> recent_;  // guarded by mutex_: when programs were done
};

}  // namespace

std::string running_system() {
  const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id");
  return boot ? record::hash_text(hash_bytes(*boot)) : "";
}

std::string default_worker_name() {
  char host[64] = "worker";
  gethostname(host, sizeof host - 1);
  std::string name = fmt::format("{:.40}-{}", host, getpid());
  for (char& c : name)
    if (!is_name(std::string_view(&c, 1))) c = '-';
  return name;
}

Result<void> ensure_streams(Bus& bus) {
  constexpr double kHour = 3600;
  const StreamSpec streams[] = {
      {.name = std::string(kTasksStream), .subjects = {"tcc.task.*"}, .latest_only = true, .max_age = 7 * 24 * kHour},
      {.name = std::string(kResultsStream), .subjects = {"tcc.result.*"}, .max_age = 24 * kHour},
      {.name = std::string(kBeatsStream), .subjects = {"tcc.beat.*"}, .latest_only = true, .max_age = 30},
      {.name = std::string(kClassesStream), .subjects = {"tcc.class.*"}, .latest_only = true},
      {.name = std::string(kPoisonStream),
       .subjects = {"tcc.poison.*"},
       .max_age = 30 * 24 * kHour,
       .max_messages = 4096},
  };
  for (const StreamSpec& stream : streams) TCC_TRY_VOID(bus.ensure_stream(stream));
  return {};
}

Result<WorkerReport> work(const std::shared_ptr<Bus>& bus, const std::string& key, const WorkerOptions& options,
                          Runner& runner) {
  return WorkerLoop(bus, key, options, runner).run();
}

}  // namespace tcc::fleet
