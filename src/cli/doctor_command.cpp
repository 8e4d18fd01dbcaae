#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/catalogue.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/library.h"
#include "tcc/driver/records.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct DoctorArguments {
  Common common;
  RecordArguments records;
  TargetArguments target;  // the CUDA driver
};

void declare(Options& options, DoctorArguments& a) {
  add_cuda_driver(options, a.target);
  add_db(options, a.records);
}

enum class State { kOk, kNote, kProblem };

struct Check {
  std::string what;
  State state = State::kOk;
  std::string found, advice;
};

const char* state_name(State state) {
  return state == State::kOk ? "ok" : state == State::kNote ? "note" : "problem";
}

Check failed(std::string what, State state, const Error& error) {
  return {std::move(what), state, sanitize(error.message, 300), sanitize(error.hint, 300)};
}

// Other programs on the cores make every time too long.
Check check_load() {
  const target::Target host = target::host_target();
  double load = 0;
  if (getloadavg(&load, 1) != 1) return {"load", State::kNote, "the system does not tell its load", ""};
  const std::string found = fmt::format("{:.1f} on {}", load, plural(host.cpu.threads, "processor"));
  if (load < 0.5) return {"load", State::kOk, found, ""};
  return {"load", State::kNote, found + ": measured times will be disturbed", "stop other programs before tuning"};
}

// The whole way of one small model: import, lowering, code, link, load, run, comparison with the reference.
Check check_compiler() {
  const auto build_and_verify = []() -> Result<std::string> {
    TCC_TRY(auto folder, TemporaryDirectory::create("tcc-doctor-"));
    driver::ModelSource source;
    source.model = "zoo:mlp";
    TCC_TRY(driver::Model model, driver::load_model(source));
    driver::BuildOptions options;
    options.folder = folder->path();
    options.targets = {target::host_target()};
    Stopwatch watch;
    TCC_TRY(driver::BuildReport built, driver::build_model(model, options));
    TCC_TRY(driver::VerifyReport verified, driver::verify_library(built.package.library, {}));
    if (!verified.passed()) return input_error("the library of {} computes wrong numbers", source.model);
    return fmt::format("{} built, linked by {} and verified in {}", source.model, built.package.linker,
                       format_duration(watch.seconds()));
  };
  Result<std::string> done = build_and_verify();
  if (!done) return failed("compiler", State::kProblem, done.error());
  return {"compiler", State::kOk, *done, ""};
}

Check check_records(const RecordArguments& records) {
  Result<std::string> path = store_path(records.db);
  if (!path) return failed("records", State::kProblem, path.error());
  const std::string shown = sanitize(*path);
  if (!file_exists(*path))
    return {"records", State::kNote, fmt::format("'{}' does not exist yet", shown), "`tcc tune` makes it"};
  auto store = record::Store::open(*path);
  if (!store) return failed("records", State::kProblem, store.error());
  auto summary = driver::summarise_store(**store);
  if (!summary) return failed("records", State::kProblem, summary.error());
  return {"records", State::kOk, fmt::format("{} in '{}'", plural(summary->records, "record"), shown), ""};
}

Check check_cache() {
  const std::string folder = cache_folder();
  if (folder.empty())
    return {"cache", State::kNote,
            "neither XDG_CACHE_HOME nor HOME names a folder for what is measured of this machine",
            "set HOME; until then each command measures the machine again"};
  if (auto made = make_directories(folder); !made) return failed("cache", State::kNote, made.error());
  const std::string probe = folder + "/doctor";
  if (auto written = write_file(probe, "tcc"); !written) return failed("cache", State::kNote, written.error());
  std::remove(probe.c_str());
  return {"cache", State::kOk, fmt::format("'{}' can be written", sanitize(folder)), ""};
}

Check check_gpu(const TargetArguments& target) {
  Result<target::Target> gpu = driver::find_target("cuda", gpu_sources(target));
  if (gpu) return {"gpu", State::kOk, fmt::format("{} is here", gpu->name), ""};
  return {"gpu", State::kNote, driver::describe_cuda(), sanitize(gpu.error().hint, 300)};
}

Result<int> doctor(const DoctorArguments& a) {
  const std::vector<Check> checks = {check_load(), check_compiler(), check_records(a.records), check_cache(),
                                     check_gpu(a.target)};
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  int64_t problems = 0;
  for (const Check& check : checks) {
    problems += check.state == State::kProblem ? 1 : 0;
    const char* state = state_name(check.state);
    json.push_back({{"check", check.what}, {"state", state}, {"found", check.found}, {"advice", check.advice}});
    rows.push_back({check.what, state, check.advice.empty() ? check.found : check.found + "; " + check.advice});
  }
  if (a.common.json)
    print_json({{"checks", json}});
  else
    print(format_rows(rows, 3));
  if (problems == 0) return kOk;
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("expected every check to pass, and {} of {} failed", problems, checks.size()),
                    "the table says what to do about each");
}

}  // namespace

Command doctor_command() {
  return make_command("doctor", "Check what tcc needs on this machine, and that it works",
                      "  tcc doctor\n"
                      "  tcc doctor --db team.db --json",
                      declare, doctor);
}

}  // namespace tcc::cli
