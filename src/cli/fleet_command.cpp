#include <algorithm>
#include <cstdlib>

#include "cli/command.h"
#include "cli/fleet_arguments.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/tune.h"
#include "tcc/fleet/server.h"
#include "tcc/fleet/status.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

const std::vector<std::string> kFleetActions = {"serve", "work", "status", "drain"};

struct FleetCommandArguments {
  Common common;
  TargetArguments target;
  FleetArguments fleet;
  std::string action, worker;
  std::string folder, listen = "127.0.0.1:4222", certificate, key, authority;
  std::string name, user;
  int64_t threads = 0, simulate = 0;
  double fake = -1;
  int64_t job_seconds = 600, job_memory = 0;
};

void declare(Options& options, FleetCommandArguments& a) {
  options.option("ACTION", a.action, "serve, work, status or drain").words(kFleetActions).required();
  options.option("WORKER", a.worker, "drain: this worker only [all]");
  add_fleet(options, a.fleet, false);
  options.section("Serve");
  options
      .option("--folder", a.folder,
              "Of the server's files, the secrets of the roles among them "
              "[$XDG_DATA_HOME/tcc/fleet]")
      .value("FOLDER");
  options.option("--listen", a.listen, "Address and port to listen on").value("HOST:PORT").show_default();
  options.option("--tls-cert", a.certificate, "Certificate of the server, PEM").value("FILE");
  options.option("--tls-key", a.key, "Key of the certificate, PEM").value("FILE");
  options.option("--tls-ca", a.authority, "Authority that signed it, for the secrets of the roles, PEM").value("FILE");
  options.section("Work");
  options.option("--name", a.name, "Name of the worker [host and process]").value("NAME");
  options.option("--user", a.user, "User that a worker started by root becomes [nobody]").value("USER");
  options.option("--simulate", a.simulate, "Programs run on a simulated GPU of this seed").positive().value("SEED");
  const Option fake =
      options
          .option("--fake", a.fake,
                  "With --simulate: answer after this many seconds with made-up times, to try out a fleet")
          .range(0, 60)
          .value("SECONDS");
  (void)fake;
  options
      .option("--job-seconds", a.job_seconds, "A candidate that takes longer ends the worker, and goes to another one")
      .positive()
      .value("SECONDS")
      .show_default();
  options
      .option("--job-memory", a.job_memory, "MiB that the data of a candidate's task may take [half of the machine's]")
      .positive()
      .value("MIB");
  add_target(options, a.target);
  add_threads(options, a.threads, "Threads that the measured programs run on [all]");
}

Result<int> serve(const FleetCommandArguments& a) {
  fleet::ServerOptions server;
  server.folder = a.folder;
  if (server.folder.empty()) {
    TCC_TRY(const std::string records, store_path(""));
    server.folder = records.substr(0, records.find_last_of('/')) + "/fleet";
  }
  const size_t colon = a.listen.find_last_of(':');
  const std::string host = a.listen.substr(0, colon), port = colon < a.listen.size() ? a.listen.substr(colon + 1) : "";
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  server.host = host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
  server.port = number ? std::stoll(port) : 0;
  if (server.host.empty() || server.port < 1 || server.port > 65535)
    return make_error(
        ErrorClass::kUsage,
        fmt::format("--listen: expected HOST:PORT with a port from 1 to 65535, found '{}'", sanitize(a.listen)),
        "write it as 127.0.0.1:4222");
  server.certificate_file = a.certificate, server.key_file = a.key, server.ca_file = a.authority;
  TCC_TRY_VOID(fleet::write_server_files(server));
  remark(a.common.quiet,
         fmt::format("secrets of the roles: {0}/tuner.secrets, {0}/worker.secrets, {0}/viewer.secrets\n"
                     "workers: tcc fleet work --fleet {1}://{2} --fleet-secrets {0}/worker.secrets",
                     sanitize(server.folder), a.certificate.empty() ? "nats" : "tls", sanitize(a.listen)));
  return tl::make_unexpected(fleet::run_server(server.folder));  // returns only where it could not start
}

Result<int> work(const FleetCommandArguments& a) {
  driver::FleetWorkerRequest request;
  TCC_TRY(request.access, open_access(a.fleet));
  TCC_TRY(request.target, open_target(a.target));
  if (a.simulate > 0) {
    TCC_TRY(request.target, driver::simulated_target(request.target, a.simulate));
  }
  if (a.fake >= 0 && a.simulate == 0)
    return make_error(ErrorClass::kUsage,
                      "--fake: expected --simulate beside it: times that are made up belong to no "
                      "device",
                      "add --target a100 --simulate 1, or leave --fake out");
  if (!a.name.empty() && !fleet::is_name(a.name))
    return make_error(
        ErrorClass::kUsage,
        fmt::format("--name: expected letters, digits, - and _, at most 64, found '{}'", sanitize(a.name)),
        "leave it out: the host and the process make a name");
  TCC_TRY_VOID(driver::check_tunable(request.target));
  if (a.simulate == 0 && backend::backend_of(request.target).runs_on_host(request.target))
    request.device = measured_device(a.common.quiet);
  request.cuda_driver = a.target.cuda_driver;
  request.threads = threads_or_all(a.threads);
  request.job_seconds = static_cast<double>(a.job_seconds);
  request.job_memory = static_cast<double>(a.job_memory) * (1 << 20);
  request.fake = a.fake, request.name = a.name, request.user = a.user;
  const bool quiet = a.common.quiet;
  request.note = [quiet](const std::string& text) { remark(quiet, text); };
  InterruptGuard interrupts;
  request.stop = &InterruptGuard::requested;
  TCC_TRY(const fleet::WorkerReport report, driver::work_for_fleet(request));
  if (a.common.json)
    return print_json({{"worker", report.worker},
                       {"class", report.machine_class},
                       {"done", report.done},
                       {"failed", report.failed},
                       {"refused", report.refused},
                       {"poison", report.poisoned},
                       {"redelivered", report.redelivered},
                       {"seconds",
                        {{"waiting", report.seconds.waiting},
                         {"answering", report.seconds.answering},
                         {"preparing", report.seconds.preparing},
                         {"measuring", report.seconds.measuring}}}});
  remark(quiet, fmt::format("{}: {} answered, {} of them failed; {} refused", report.worker,
                            plural(report.done, "candidate"), report.failed, plural(report.refused, "message")));
  return kOk;
}

Json json_of(const fleet::WorkerStatus& w) {
  const fleet::Beat& b = w.beat;
  return {{"worker", b.worker},
          {"class", b.machine_class},
          {"host", b.host},
          {"state", b.state},
          {"target", b.target},
          {"platform", b.platform},
          {"threads", b.threads},
          {"tool_version", b.tool},
          {"calibration_seconds", b.calibration},
          {"rate", b.rate},
          {"done", b.done},
          {"failed", b.failed},
          {"refused", b.refused},
          {"poison", b.poisoned},
          {"redelivered", b.redelivered},
          {"silent_seconds", w.silent},
          {"clock_skew_seconds", w.clock_skew}};
}

int print_status(const fleet::FleetStatus& status) {
  TextTable workers({text_column("worker", 16),
                     text_column("class", 12, 4),
                     text_column("state"),
                     {"rate"},
                     {"done"},
                     {"failed", 2},
                     {"refused", 3},
                     {"redelivered", 5},
                     {"silent", 1}});
  for (const fleet::WorkerStatus& w : status.workers)
    workers.add({w.beat.worker, w.beat.machine_class, w.silent > fleet::kSilentSeconds ? "silent" : w.beat.state,
                 fmt::format("{:.1f}/s", w.beat.rate), std::to_string(w.beat.done), std::to_string(w.beat.failed),
                 std::to_string(w.beat.refused), std::to_string(w.beat.redelivered),
                 fmt::format("{:.0f} s", w.silent)});
  TextTable classes({text_column("class", 12), {"workers"}, {"rate"}, {"waiting"}, {"in work"}, {"again", 1}});
  for (const fleet::ClassStatus& c : status.classes)
    classes.add({c.name, std::to_string(c.workers), fmt::format("{:.1f}/s", c.rate), std::to_string(c.waiting),
                 std::to_string(c.in_work), std::to_string(c.redelivered)});
  std::string text = classes.text() + "\n" + workers.text();
  if (status.poison > 0)
    text += fmt::format("{} ended several workers and {} set aside\n", plural(status.poison, "candidate"),
                        status.poison == 1 ? "is" : "are");
  return print(text);
}

Result<int> status(const FleetCommandArguments& a) {
  TCC_TRY(const fleet::Access access, open_access(a.fleet));
  TCC_TRY(const auto bus, fleet::Bus::connect(access, "tcc viewer"));
  TCC_TRY(const fleet::FleetStatus status, fleet::read_status(*bus, access.key));
  for (const fleet::WorkerStatus& w : status.workers)
    if (std::abs(w.clock_skew) > fleet::kMostClockSkew)
      print_warning(
          fmt::format("the clock of worker {} is {:.0f} s {} that of the server; a request to drain counts "
                      "for a minute only",
                      w.beat.worker, std::abs(w.clock_skew), w.clock_skew > 0 ? "ahead of" : "behind"));
  if (status.refused > 0)
    print_warning(fmt::format("{} of workers with another key or version", plural(status.refused, "message")));
  if (!a.common.json) return print_status(status);
  Json json = {
      {"workers", Json::array()}, {"classes", Json::array()}, {"poison", status.poison}, {"refused", status.refused}};
  for (const fleet::WorkerStatus& w : status.workers) json["workers"].push_back(json_of(w));
  for (const fleet::ClassStatus& c : status.classes)
    json["classes"].push_back({{"class", c.name},
                               {"workers", c.workers},
                               {"rate", c.rate},
                               {"waiting", c.waiting},
                               {"in_work", c.in_work},
                               {"redelivered", c.redelivered}});
  return print_json(json);
}

Result<int> drain(const FleetCommandArguments& a) {
  TCC_TRY(const fleet::Access access, open_access(a.fleet));
  TCC_TRY(const auto bus, fleet::Bus::connect(access, "tcc drain"));
  TCC_TRY_VOID(fleet::drain(*bus, access.key, a.worker));
  remark(a.common.quiet, a.worker.empty() ? "all workers were asked to end when they have answered"
                                          : fmt::format("worker {} was asked to end when it has answered", a.worker));
  return kOk;
}

Result<int> run_fleet(const FleetCommandArguments& a) {
  if (a.action != "drain" && !a.worker.empty())
    return make_error(ErrorClass::kUsage,
                      fmt::format("tcc fleet {} takes options only, not '{}'", sanitize(a.action), sanitize(a.worker)),
                      "`tcc fleet --help` shows examples");
  if (a.action == "serve") return serve(a);
  const bool known = std::count(kFleetActions.begin(), kFleetActions.end(), a.action) > 0;
  if (known && a.fleet.url.empty())
    return make_error(ErrorClass::kUsage,
                      fmt::format("tcc fleet {} needs --fleet URL: the NATS server of the fleet", a.action),
                      "write it as nats://127.0.0.1:4222, or tls://HOST:4222");
  if (a.action == "work") return work(a);
  if (a.action == "status") return status(a);
  if (a.action == "drain") return drain(a);
  const std::string near = suggest(a.action, kFleetActions);
  return make_error(ErrorClass::kUsage,
                    fmt::format("tcc fleet: expected serve, work, status or drain, not '{}'", sanitize(a.action)),
                    near.empty() ? "`tcc fleet --help` shows examples" : near);
}

}  // namespace

Command fleet_command() {
  return make_command("fleet", "Measure on many machines: a server, workers, and what they do",
                      "  tcc fleet serve --folder fleet\n"
                      "  tcc fleet work --fleet nats://127.0.0.1:4222 --fleet-secrets fleet/worker.secrets\n"
                      "  tcc tune zoo:resnet18 --fleet nats://127.0.0.1:4222 --fleet-secrets fleet/tuner.secrets\n"
                      "  tcc fleet status --fleet nats://127.0.0.1:4222 --fleet-secrets fleet/viewer.secrets\n"
                      "  tcc fleet drain --fleet nats://127.0.0.1:4222 --fleet-secrets fleet/tuner.secrets",
                      declare, run_fleet);
}

}  // namespace tcc::cli
