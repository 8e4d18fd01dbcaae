// A fleet on the loopback, each worker in a process of its own.
//   fleet.1worker, .16workers, .64workers   candidates a second, each taking 50 ms that are slept away
//   fleet.overhead                          processor time of the tuner for a candidate
//   fleet.lost                              a tuning whose workers, server and tuner are killed, against one in peace
//   fleet.2cores                            real measuring by two workers, pinned to a core each, against one:
//                                           medians of turns
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <sstream>
#include <thread>

#include "bench.h"
#include "tcc/fleet/measurer.h"
#include "tcc/fleet/server.h"
#include "tcc/fleet/worker.h"
#include "tcc/ir/text.h"
#include "tcc/record/store.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {
namespace {

constexpr double kFakeSeconds = 0.05;
constexpr double kKillSeconds = 120;

constexpr std::string_view kFleetKernel = R"(kernel built {
  input A: f32[8]
  output B: f32[8]
  for i in 8 {
    block b(vi: spatial 8 = i) {
      B[vi] = A[vi] + 1.0
    }
  }
})";

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

int free_port_here() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  TCC_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0,
            "no free port");
  close(fd);
  return ntohs(address.sin_port);
}

// A process that is killed with this object.
class Child {
 public:
  Child() = default;
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    body();
    _exit(127);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept {
    end(SIGKILL);
    pid_ = std::exchange(other.pid_, -1);
    return *this;
  }
  ~Child() { end(SIGKILL); }
  // Processor time so far.
  double cpu_seconds() const {
    std::ifstream file(fmt::format("/proc/{}/stat", pid_));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream words(text.substr(text.rfind(')') + 1));
    std::string word;
    double ticks = 0;
    for (int i = 3; i <= 15 && words >> word; ++i)
      if (i >= 14) ticks += std::stod(word);
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  // Exit status, or -1 where a signal ended it.
  int end(int signal) {
    if (pid_ <= 0) return -1;
    if (signal != 0) kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Nothing while it runs.
  std::optional<int> ended() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

// `out`: a file for its standard output.
Child run_program(std::vector<std::string> words, const std::vector<int>& cpus = {}, const std::string& out = "") {
  return Child([words, cpus, out]() mutable {
    if (!out.empty()) dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    if (!cpus.empty()) {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (const int cpu : cpus) CPU_SET(cpu, &set);
      sched_setaffinity(0, sizeof set, &set);
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
  });
}

class BenchServer {
 public:
  BenchServer() {
    auto made = TemporaryDirectory::create("tcc-bench-fleet-");
    TCC_CHECK(made.has_value(), "no temporary folder");
    folder_ = std::move(*made);
    options_.folder = folder_->path() + "/fleet", options_.port = free_port_here();
    const Result<void> written = fleet::write_server_files(options_);
    TCC_CHECK(written.has_value(), "{}", written.error().message);
  }
  void start() {
    child_ = Child([folder = options_.folder] { fleet::run_server(folder); });
  }
  void stop() { child_.end(SIGTERM); }
  double cpu_seconds() const { return child_.cpu_seconds(); }
  std::string url() const { return fmt::format("nats://127.0.0.1:{}", options_.port); }
  std::string secrets(const std::string& role) const { return options_.folder + "/" + role + ".secrets"; }
  std::string path(const std::string& name) const { return folder_->path() + "/" + name; }
  fleet::Access access(const std::string& role) const {
    fleet::Access access;
    access.url = url();
    const Result<void> read = fleet::read_secrets(secrets(role), access);
    TCC_CHECK(read.has_value(), "{}", read.error().message);
    return access;
  }
  std::shared_ptr<fleet::Bus> connect_as(const std::string& role) const {
    for (int i = 0; i < 100; ++i) {
      auto bus = fleet::Bus::connect(access(role), "tcc-bench");
      if (bus) return *bus;
      sleep_seconds(0.1);
    }
    TCC_CHECK(false, "the NATS server does not answer");
    return nullptr;
  }

 private:
  std::unique_ptr<TemporaryDirectory> folder_;
  fleet::ServerOptions options_;
  Child child_;
};

target::Target fake_target() {
  target::Target target = target::find_target("a100").value();
  target.cuda.simulated = 7;
  return target;
}

// Runs in a process of its own, forked before this process has threads of the client.
void fake_worker(const BenchServer& server, int number) {
  const auto bus = server.connect_as("worker");
  fleet::WorkerOptions options;
  options.name = fmt::format("w{}", number), options.target = fake_target(), options.platform = "bench";
  options.tool = "bench";
  const auto runner = fleet::make_fake_runner(kFakeSeconds);
  (void)fleet::work(bus, server.access("worker").key, options, *runner);
  _exit(0);
}

struct FakeRate {
  double rate = 0;            // candidates a second
  double cpu_seconds = 0;     // of the tuner, a candidate
  double server_seconds = 0;  // of the server
};

// In a process of its own, so that the next number of workers can be forked.
FakeRate fake_rate(int workers, double seconds) {
  BenchServer server;
  server.start();
  std::vector<Child> children;
  for (int i = 0; i < workers; ++i) children.emplace_back([&] { fake_worker(server, i); });
  const auto count = static_cast<size_t>(seconds * workers / kFakeSeconds);
  int pipe_fds[2];
  TCC_CHECK(pipe(pipe_fds) == 0, "no pipe");
  Child tuner([&] {
    fleet::TunerOptions options;
    options.key = server.access("tuner").key;
    options.target = fake_target(), options.platform = "bench", options.tool = "bench", options.run = "bench";
    options.kind = record::Kind::kSimulated;
    auto measurer = fleet::FleetMeasurer::open(server.connect_as("tuner"), options);
    if (!measurer) _exit(1);
    const ir::Kernel kernel = ir::parse(kFleetKernel).value();
    const auto ask = [&](size_t n, uint64_t first) {
      std::vector<measure::Candidate> candidates(n);
      // As long as the trace of a convolution's program is.
      for (size_t i = 0; i < n; ++i)
        candidates[i].id = i, candidates[i].nest_hash = first + i, candidates[i].naive = kernel,
        candidates[i].trace = std::string(3000, ' ');
      return (*measurer)->measure(candidates).has_value();
    };
    sleep_seconds(2);  // all workers are there
    if (!ask(static_cast<size_t>(4 * workers), 1)) _exit(1);
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    const double server_before = server.cpu_seconds();
    const Stopwatch watch;
    if (!ask(count, 1 << 20)) _exit(1);
    const double wall = watch.seconds();
    getrusage(RUSAGE_SELF, &after);
    const auto spent = [](const rusage& r) {
      return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
             1e-6 * static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    };
    const FakeRate out{static_cast<double>(count) / wall, (spent(after) - spent(before)) / static_cast<double>(count),
                       (server.cpu_seconds() - server_before) / static_cast<double>(count)};
    _exit(write(pipe_fds[1], &out, sizeof out) == sizeof out ? 0 : 1);
  });
  close(pipe_fds[1]);
  FakeRate out;
  const bool got = read(pipe_fds[0], &out, sizeof out) == sizeof out;
  close(pipe_fds[0]);
  TCC_CHECK(tuner.end(0) == 0 && got, "the tuner of the benchmark failed");
  return out;
}

// Candidates a second of `workers`, by a simulation with measured costs: the tuner and the server are queues with one
// place each, half of a candidate's cost on the way out and half on the way back; a worker holds one candidate.
double simulated_rate(int workers, double tuner_seconds, double server_seconds) {
  constexpr int kCandidates = 200'000;
  struct Step {
    double at;
    int stage;  // 0: at the server, out; 1: at a worker; 2: at the server, back; 3: at the tuner
    bool operator>(const Step& other) const { return at > other.at; }
  };
  std::priority_queue<Step, std::vector<Step>, std::greater<>> steps;
  double tuner_free = 0, server_free = 0, now = 0;
  int published = 0, done = 0, idle = workers, waiting = 0;
  const auto serve = [&](double& free, double cost) { return free = std::max(free, now) + cost; };
  const auto publish = [&] {
    if (published++ < kCandidates) steps.push({serve(tuner_free, tuner_seconds / 2), 0});
  };
  for (int i = 0; i < std::min(4096, kCandidates); ++i) publish();
  while (done < kCandidates) {
    const Step step = steps.top();
    steps.pop();
    now = step.at;
    if (step.stage == 0) {
      ++waiting;
    } else if (step.stage == 1) {
      ++idle;
      steps.push({serve(server_free, server_seconds / 2), 2});
    } else if (step.stage == 2) {
      steps.push({serve(tuner_free, tuner_seconds / 2), 3});
    } else {
      ++done;
      publish();
    }
    for (; waiting > 0 && idle > 0; --waiting, --idle)
      steps.push({serve(server_free, server_seconds / 2) + kFakeSeconds, 1});
  }
  return kCandidates / now;
}

void add_fake_rows(double seconds, std::vector<Row>& rows) {
  if (!wanted("fleet.16workers") && !wanted("fleet.64workers") && !wanted("fleet.overhead")) return;
  const FakeRate one = fake_rate(1, seconds);
  rows.push_back({"fleet.1worker", one.rate, "candidates/s"});
  double overhead = one.cpu_seconds, server = one.server_seconds;
  for (const int workers : {16, 64}) {
    const std::string name = fmt::format("fleet.{}workers", workers);
    if (!wanted(name)) continue;
    const FakeRate many = fake_rate(workers, seconds);
    rows.push_back({name, many.rate, "candidates/s", "1 worker", one.rate, many.rate / one.rate});
    overhead = many.cpu_seconds, server = many.server_seconds;
  }
  rows.push_back({"fleet.overhead", overhead * 1e3, "ms/candidate"});
  rows.push_back({"fleet.server", server * 1e3, "ms/candidate"});
  for (const int workers : {64, 256, 1000}) {
    const double rate = simulated_rate(workers, overhead, server);
    rows.push_back(
        {fmt::format("fleet.simulated.{}", workers), rate, "candidates/s", "1 worker", one.rate, rate / one.rate});
  }
}

#ifdef TCC_PROGRAM_PATH

std::vector<std::string> tune_words(const BenchServer& server, const std::string& db, int64_t trials) {
  return {TCC_PROGRAM_PATH,
          "tune",
          "zoo:mlp",
          "--target",
          "a100",
          "--simulate",
          "7",
          "--trials",
          std::to_string(trials),
          "--strategy",
          "random",
          "--db",
          server.path(db),
          "--quiet",
          "--fleet",
          server.url(),
          "--fleet-secrets",
          server.secrets("tuner")};
}
std::vector<std::string> fake_words(const BenchServer& server, double seconds) {
  return {TCC_PROGRAM_PATH,         "fleet",    "work",   "--fleet",    server.url(), "--fleet-secrets",
          server.secrets("worker"), "--target", "a100",   "--simulate", "7",          "--fake",
          std::to_string(seconds),  "--quiet",  "--user", "root"};
}

// Programs with their times, by task; and how many records there are.
struct Found {
  std::map<std::pair<uint64_t, uint64_t>, double> programs;
  int64_t records = 0;
  std::map<uint64_t, double> best;
};
Found found_in(const std::string& path) {
  Found out;
  const auto store = record::Store::open(path, record::Store::Mode::kReadOnly);
  TCC_CHECK(store.has_value(), "{}", store.error().message);
  const auto all = (*store)->all();
  TCC_CHECK(all.has_value(), "{}", all.error().message);
  for (const record::Record& r : *all) {
    if (r.kind != record::Kind::kSimulated) continue;
    ++out.records;
    const double seconds = r.status == record::Status::kOk ? r.median : -1;
    out.programs[{r.task, r.nest_hash}] = seconds;
    if (double& best = out.best[r.task]; seconds > 0 && (best == 0 || seconds < best)) best = seconds;
  }
  return out;
}

// Random workers are killed each second, the server is started again once, the tuner killed twice.
void add_lost_row(std::vector<Row>& rows) {
  if (!wanted("fleet.lost")) return;
  constexpr int kWorkers = 8;
  constexpr double kSlow = 0.25;
  const auto trials = static_cast<int64_t>(kKillSeconds * kWorkers / kSlow * 0.55);
  BenchServer server;
  server.start();
  std::vector<Child> workers;
  for (int i = 0; i < kWorkers; ++i) workers.push_back(run_program(fake_words(server, 0)));
  TCC_CHECK(run_program(tune_words(server, "peace.db", trials)).end(0) == 0, "the undisturbed tuning failed");
  workers.clear();
  for (int i = 0; i < kWorkers; ++i) workers.push_back(run_program(fake_words(server, kSlow)));
  Child tuner = run_program(tune_words(server, "war.db", trials));
  Rng rng(1);
  const Stopwatch watch;
  int64_t killed = 0, tuners = 0, servers = 0;
  std::optional<int> status;
  while (!(status = tuner.ended()) && watch.seconds() < 6 * kKillSeconds) {
    sleep_seconds(1);
    if (watch.seconds() > kKillSeconds) continue;
    workers[rng.next() % kWorkers] = run_program(fake_words(server, kSlow));
    ++killed;
    if (servers == 0 && watch.seconds() > kKillSeconds / 2) {
      server.stop();
      sleep_seconds(1);
      server.start();
      ++servers;
    }
    if (tuners < 2 && watch.seconds() > (tuners + 1) * kKillSeconds / 3) {
      tuner.end(SIGKILL);
      tuner = run_program(tune_words(server, "war.db", trials));
      ++tuners;
    }
  }
  const Found peace = found_in(server.path("peace.db")), war = found_in(server.path("war.db"));
  std::fprintf(
      stderr,
      "fleet.lost: %.0f s, %ld workers, %ld servers, %ld tuners killed; status %d; records %ld of %ld, programs "
      "%zu of %zu, equal %d, best equal %d\n",
      watch.seconds(), killed, servers, tuners, status.value_or(-2), war.records, peace.records, war.programs.size(),
      peace.programs.size(), war.programs == peace.programs, war.best == peace.best);
  const bool right = status == 0 && war.programs == peace.programs && war.best == peace.best &&
                     war.records == static_cast<int64_t>(war.programs.size()) && killed > 0 && tuners == 2;
  rows.push_back({"fleet.lost", right ? 1.0 : 0.0, "bool"});
}

// What a tuning with real measuring says of itself.
struct RealRun {
  double rate = 0;  // candidates a second
  double best = 0;  // sum of the tasks' best times
};

RealRun read_run(const std::string& json_path, const std::string& db) {
  const std::string text = read_file(json_path).value();
  const auto summary = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
  const double seconds =
      summary.at("phases").at("measure").get<double>() + summary.at("phases").at("compile").get<double>();
  std::map<uint64_t, double> best;
  const auto store = record::Store::open(db, record::Store::Mode::kReadOnly);
  int64_t records = 0;
  const auto all = (*store)->all().value();
  for (const record::Record& r : all)
    if (r.kind == record::Kind::kMeasured && r.status == record::Status::kOk) {
      ++records;
      if (double& b = best[r.task]; b == 0 || r.median < b) b = r.median;
    }
  RealRun out{static_cast<double>(records) / seconds, 0};
  for (const auto& [task, b] : best) out.best += b;
  return out;
}

// By a fleet of workers, pinned to a core each.
RealRun real_run(int workers, const std::vector<int>& cpus, int64_t trials) {
  BenchServer server;
  server.start();
  std::vector<Child> children;
  for (int i = 0; i < workers; ++i)
    children.push_back(run_program({TCC_PROGRAM_PATH, "fleet", "work", "--fleet", server.url(), "--fleet-secrets",
                                    server.secrets("worker"), "--threads", "1", "--quiet", "--user", "root"},
                                   {cpus[static_cast<size_t>(i)]}));
  const std::string db = server.path("real.db"), json_path = server.path("out.json");
  const std::vector<std::string> words = {TCC_PROGRAM_PATH,
                                          "tune",
                                          "zoo:resnet18",
                                          "--image",
                                          "64",
                                          "--tasks",
                                          "0-3",
                                          "--threads",
                                          "1",
                                          "--trials",
                                          std::to_string(trials),
                                          "--strategy",
                                          "random",
                                          "--db",
                                          db,
                                          "--quiet",
                                          "--json",
                                          "--fleet",
                                          server.url(),
                                          "--fleet-secrets",
                                          server.secrets("tuner")};
  TCC_CHECK(run_program(words, {}, json_path).end(0) == 0, "the tuning failed");
  return read_run(json_path, db);
}

void add_two_cores_row(std::vector<Row>& rows) {
  if (!wanted("fleet.2cores")) return;
  std::vector<int> cpus = usable_cpus();
  if (cpus.size() < 2) return;
  cpus.resize(2);
  const std::vector<int> reversed(cpus.rbegin(), cpus.rend());
  constexpr int64_t kTrials = 256;  // 64 a task, as `tcc tune` has it
  constexpr int kTurns = 4;
  std::vector<double> rates[2], bests[2];  // of one worker, of two
  for (int turn = 0; turn < kTurns; ++turn)
    for (int workers = 1; workers <= 2; ++workers) {
      // Cores may differ: each is the only one in every second turn.
      const RealRun run = real_run(workers, turn % 2 == 0 ? cpus : reversed, kTrials);
      std::fprintf(stderr, "fleet.2cores: turn %d of %d, %d workers: %.2f candidates/s\n", turn + 1, kTurns, workers,
                   run.rate);
      rates[workers - 1].push_back(run.rate);
      bests[workers - 1].push_back(run.best);
    }
  const double rate[] = {median(rates[0]), median(rates[1])}, best[] = {median(bests[0]), median(bests[1])};
  rows.push_back({"fleet.2cores", rate[1], "candidates/s", "1 core", rate[0], rate[1] / rate[0]});
  rows.push_back({"fleet.2cores.best", best[1] * 1e3, "ms", "1 core", best[0] * 1e3, best[0] / best[1]});
}

#endif

}  // namespace

std::vector<Row> run_fleet_suite(double seconds) {
  std::vector<Row> rows;
  if (!fleet::fleet_available()) {
    rows.push_back({"fleet", 0, "candidates/s", "absent: this build has no client of NATS"});
    return rows;
  }
  add_fake_rows(std::max(seconds, 10.0), rows);
#ifdef TCC_PROGRAM_PATH
  add_lost_row(rows);
  add_two_cores_row(rows);
#endif
  return rows;
}

}  // namespace tcc::benchmarks
