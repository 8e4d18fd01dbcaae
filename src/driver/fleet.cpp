#include "tcc/driver/fleet.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <random>

#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/fleet/measurer.h"
#include "tcc/measure/calibration.h"
#include "tcc/measure/simulated.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"
#include "tcc/target/probe.h"

namespace tcc::driver {
namespace {

std::string run_row(const target::Target& target, int64_t threads, uint64_t seed) {
  const uint64_t machine = combine_hash(target::feature_hash(target), hash_bytes(target::platform_text(target)));
  return fmt::format("fleet:{:016x}", combine_hash(combine_hash(machine, static_cast<uint64_t>(threads)), seed));
}

// A tuner goes on here only where this machine is as fast as those of the fleet.
Result<void> check_speed(double fleet_seconds) {
  if (fleet_seconds <= 0) return {};
  const double here = measure::calibration_seconds();
  if (std::abs(here / fleet_seconds - 1) <= fleet::kMostCalibrationApart) return {};
  return environment_error("its calibration kernel takes {}, on the fleet {}: times would not be comparable",
                           format_duration(here), format_duration(fleet_seconds));
}

constexpr double kJobShare = 0.5;      // of the machine's memory, that a job may ask for
constexpr double kWorkerShare = 0.75;  // likewise, that the worker itself may take: a compiler runs inside of it
constexpr int64_t kProcessBytes = int64_t{1} << 30;  // of a process that measures, beside the job's data: code, stacks
constexpr int kOverdue = 75;                         // exit code: a job took too long

// A program that makes the compiler take more ends the worker, and after three of them the program is set aside.
void limit_own_memory(double bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min(static_cast<rlim_t>(bytes), limit.rlim_max);
  setrlimit(RLIMIT_DATA, &limit);
}

Result<void> become(const std::string& given) {
  if (geteuid() != 0 || given == "root") return {};
  const std::string user = given.empty() ? "nobody" : given;
  const passwd* entry = getpwnam(user.c_str());
  if (entry == nullptr)
    return make_error(ErrorClass::kUsage,
                      fmt::format("--user: expected a user of this system, found '{}'", sanitize(user)),
                      "programs of others are measured by a user without privileges; name one");
  const gid_t group = entry->pw_gid;
  const uid_t id = entry->pw_uid;
  if (setgroups(0, nullptr) != 0 || setgid(group) != 0 || setuid(id) != 0)
    return environment_error("the worker cannot become user '{}': {}", sanitize(user), std::strerror(errno));
  // Else the system gives /proc/self to root, and the process that measures cannot be started from it.
  prctl(PR_SET_DUMPABLE, 1);
  return {};
}

}  // namespace

Result<std::unique_ptr<measure::Measurer>> open_fleet(const FleetRequest& request, const target::Target& target,
                                                      int64_t threads, const std::string& run,
                                                      const std::function<bool()>& stop, OpenLocal open_local) {
  TCC_TRY(std::shared_ptr<fleet::Bus> bus, fleet::Bus::connect(request.access, "tcc tuner"));
  fleet::TunerOptions options;
  options.key = request.access.key;
  options.target = target, options.platform = target::platform_text(target), options.threads = threads;
  options.kind = is_simulated(target) ? record::Kind::kSimulated : record::Kind::kMeasured;
  options.tool = tool_version();
  options.run = run;
  options.stop = stop, options.note = request.note;
  if (request.or_local) options.patience = 20;
  TCC_TRY(std::unique_ptr<fleet::FleetMeasurer> measurer, fleet::FleetMeasurer::open(std::move(bus), options));
  if (!request.or_local) return measurer;
  const double calibration = measurer->calibration();
  return std::make_unique<fleet::FleetOrLocal>(
      std::move(measurer),
      [calibration, open_local = std::move(open_local)]() -> Result<measure::Measurer*> {
        TCC_TRY_VOID(check_speed(calibration));
        return open_local();
      },
      request.note);
}

Result<std::string> fleet_run(record::Store& store, const target::Target& target, int64_t threads, uint64_t seed,
                              bool resume) {
  const std::string row = run_row(target, threads, seed);
  if (resume) {
    TCC_TRY(const std::optional<std::string> known, store.load_session(row));
    if (known && fleet::is_name(*known)) return *known;
  }
  std::random_device device;
  const std::string run = fmt::format("{:08x}{:08x}", device(), device());
  TCC_TRY_VOID(store.save_session(row, run));
  return run;
}

Result<void> end_fleet_run(record::Store& store, const target::Target& target, int64_t threads, uint64_t seed) {
  return store.erase_session(run_row(target, threads, seed));
}

Result<fleet::WorkerReport> work_for_fleet(const FleetWorkerRequest& request) {
  // Certificates and keys may be for root's eyes only.
  TCC_TRY(const std::shared_ptr<fleet::Bus> bus, fleet::Bus::connect(request.access, "tcc worker"));
  TCC_TRY_VOID(become(request.user));
  fleet::WorkerOptions options;
  options.name = request.name;
  options.target = request.target, options.platform = target::platform_text(request.target);
  options.threads = request.threads;
  options.tool = tool_version();
  options.stop = request.stop, options.note = request.note;
  options.job_seconds = request.job_seconds;
  options.overdue = [] { _exit(kOverdue); };  // a compiler that does not end cannot be stopped otherwise
  const auto machine_memory = static_cast<double>(target::host_target().memory_bytes);
  const double memory = request.job_memory > 0 ? request.job_memory : kJobShare * machine_memory;
  ThreadPool pool(static_cast<int>(std::max<int64_t>(target::host_target().cpu.threads, 1)));
  std::unique_ptr<measure::Measurer> simulated;
  std::unique_ptr<backend::Machine> machine;
  std::unique_ptr<fleet::Runner> runner;
  if (is_simulated(request.target)) {
    options.threads = 1;
    simulated = std::make_unique<measure::SimulatedMeasurer>(request.target, nullptr);
    runner = request.fake >= 0 ? fleet::make_fake_runner(request.fake) : fleet::make_runner(*simulated, memory);
  } else {
    const backend::Backend& backend = backend::backend_of(request.target);
    TCC_TRY_VOID(backend.check_tunable(request.target));
    if (backend.runs_on_host(request.target)) limit_own_memory(kWorkerShare * machine_memory);
    if (!backend.by_threads) options.threads = 1;
    TCC_TRY(machine, backend.open(request.target, {.threads = options.threads,
                                                   .device = request.device,
                                                   .cuda_driver = request.cuda_driver,
                                                   .cupti = request.cupti,
                                                   .sandbox = true,
                                                   .memory_limit_bytes = static_cast<int64_t>(memory) + kProcessBytes,
                                                   .compile_pool = &pool}));
    options.calibration = measure::calibration_seconds();
    options.calibrate_again = measure::calibration_seconds;
    runner = fleet::make_runner(*machine->measurer, memory);
  }
  return fleet::work(bus, request.access.key, options, *runner);
}

}  // namespace tcc::driver
