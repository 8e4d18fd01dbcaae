#include <ctime>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/calibrate.h"
#include "tcc/driver/catalogue.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct TargetsArguments {
  Common common;
  std::string name;
  bool probe = false, refresh = false, calibrate = false;
  TargetArguments device;
};

void declare(Options& options, TargetsArguments& a) {
  options.option("NAME", a.name, "One target in full").words(target::target_names());
  Option probe = options.flag("--probe", a.probe, "What this machine reaches: measured once and kept for later calls");
  options.flag("--refresh", a.refresh, "With --probe: measure again").needs(probe);
  options.flag("--calibrate", a.calibrate,
               "Fit the analytical model's numbers to a GPU of this machine and keep them for later calls");
  add_cuda_driver(options, a.device);
}

std::string describe_target(const target::Target& t) {
  if (target::isa_level(t) > 0)
    return fmt::format("{}, {} vectors of {} bits, {} of {}", target::isa_level_name(target::isa_level(t)),
                       t.cpu.num_vector_registers, t.cpu.vector_bits, plural(t.cpu.threads, "thread"),
                       plural(t.cpu.cores, "core"));
  return fmt::format("{}, {} multiprocessors, {} of memory", target::sm_name(t), t.cuda.sm_count,
                     format_bytes(static_cast<double>(t.memory_bytes)));
}

std::string rate_row(const char* what, const target::ProbeRate& rate, const char* unit) {
  return fmt::format("{:<22}{:>10.1f} {:>10.1f}  {}\n", what, rate.one_core / 1e9, rate.all_cores / 1e9, unit);
}

std::string minute(int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char text[32] = {};
  localtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Result<int> print_probe(const TargetsArguments& a) {
  TCC_TRY(driver::MachineFacts facts, driver::machine_facts({cache_folder(), a.refresh, {}}));
  for (const std::string& note : facts.notes) remark(a.common.quiet, "note: " + note);
  if (a.common.json) {
    Json json = Json::parse(driver::machine_facts_to_json(facts));
    json["cached"] = facts.cached;
    json["file"] = sanitize(facts.file);
    return print_json(json);
  }
  const target::ProbeResult& probe = facts.probe;
  std::string text = fmt::format("{:<22}{:>10} {:>10}\n", "", "one core", "all");
  text += rate_row("f32 arithmetic", probe.fp32, "GFLOP/s");
  text += rate_row("L1 read", probe.l1_read, "GB/s") + rate_row("L2 read", probe.l2_read, "GB/s") +
          rate_row("L3 read", probe.l3_read, "GB/s") + rate_row("memory read", probe.dram_read, "GB/s") +
          rate_row("memory copy", probe.dram_copy, "GB/s");
  text += fmt::format("{:<22}{:>10} {:>10.2f}  us\n", "parallel launch", "", facts.fork_join_seconds * 1e6);
  for (const std::string& note : probe.notes) text += "note: " + note + "\n";
  if (facts.cached)
    text += fmt::format("measured {}; --refresh measures again\n", minute(facts.unix_seconds));
  else if (!facts.file.empty())
    text += fmt::format("measured now and kept in {}\n", sanitize(facts.file));
  else
    text += "measured now and not kept\n";
  return print(text);
}

Result<int> print_calibration(const TargetsArguments& a) {
  TCC_TRY(driver::Calibration found,
          driver::calibrate_gpu(a.name.empty() ? "cuda" : a.name, {cache_folder(), a.device.cuda_driver, {}}));
  if (a.common.json) {
    Json json = Json::parse(driver::calibration_to_json(found));
    json["file"] = sanitize(found.file);
    print_json(json);
    return kOk;
  }
  std::string text = fmt::format("{}\n{:<22}{:>14} {:>14}\n", sanitize(found.device), "", "assumed", "measured");
  for (const driver::Calibration::Fitted& f : found.fitted)
    text += fmt::format("{:<22}{:>14.4g} {:>14.4g}\n", f.name, f.before, f.after);
  for (const std::string& note : found.notes) text += "note: " + note + "\n";
  text += found.file.empty() ? "measured now and not kept\n" : fmt::format("kept in {}\n", sanitize(found.file));
  print(text);
  return kOk;
}

Result<int> targets(const TargetsArguments& a) {
  if (a.calibrate) return print_calibration(a);
  if (!a.name.empty()) {
    TCC_TRY(target::Target target, driver::find_target(a.name, gpu_sources(a.device)));
    if (a.probe && target.name != "host")
      return make_error(ErrorClass::kUsage, fmt::format("--probe measures this machine, not {}", target.name),
                        "tcc targets host --probe");
    if (a.probe) return print_probe(a);
    if (a.common.json) return print_exact(target::target_to_json(target) + "\n");
    std::string text = fmt::format("{}: {}\n{}\n", target.name, describe_target(target), target.source);
    text += fmt::format("f32 {:.0f} GFLOP/s, memory {:.0f} GB/s ({})\n", target.peak.fp32 / 1e9,
                        target.memory_bandwidth / 1e9, target.measured ? "measured" : "nominal");
    if (target.cuda.calibrated) text += "numbers of the analytical model were fitted to this device (--calibrate)\n";
    for (const std::string& note : target.notes) text += "note: " + note + "\n";
    return print(text);
  }
  if (a.probe) return print_probe(a);
  std::vector<std::vector<std::string>> rows;
  Json json = Json::array();
  for (const std::string& name : target::target_names()) {
    TCC_TRY(target::Target target, target::find_target(name));
    rows.push_back({name, describe_target(target)});
    json.push_back(
        {{"name", name}, {"kind", target::isa_level(target) > 0 ? "cpu" : "cuda"}, {"description", rows.back()[1]}});
  }
  return a.common.json ? print_json({{"targets", json}}) : print(format_rows(rows, 2) + driver::describe_cuda() + "\n");
}

}  // namespace

Command targets_command() {
  return make_command("targets", "The machines that tcc knows",
                      "  tcc targets\n"
                      "  tcc targets a100 --json\n"
                      "  tcc targets host --probe --refresh\n"
                      "  tcc targets cuda --calibrate",
                      declare, targets);
}

}  // namespace tcc::cli
