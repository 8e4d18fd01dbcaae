#include "cli/bench_report.h"

#include <algorithm>

#include "cli/counts.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/forms.h"

namespace tcc::cli {
namespace {

using Row = std::vector<std::string>;
using Columns = std::vector<Column>;

constexpr double kSteadyVariation = 0.05;
constexpr size_t kMaxSavedSamples = 2000;  // in JSON; evenly spread over the run

double share(double part, double whole) {
  return part > 0 && whole > 0 ? part / whole : 0;
}
std::string share_text(double part, double whole) {
  return share(part, whole) > 0 ? fmt::format("{:.0f}%", 100 * share(part, whole)) : "-";
}
std::string rate_text(double bytes, double seconds) {
  return share(bytes, seconds) > 0 ? fmt::format("{:.1f}", bytes / seconds / 1e9) : "-";
}

// What the threads in use can reach: the probe's figures are for all cores.
double peak_of(const target::Target& host, int64_t threads) {
  const auto cores = static_cast<double>(std::max<int64_t>(host.cpu.cores, 1));
  return host.peak.fp32 * std::min(static_cast<double>(threads), cores) / cores;
}

Row time_cells(const driver::Statistics& s, double flops) {
  Row cells;
  for (double t : {s.min, s.mean, s.median, s.p90, s.p95, s.p99}) cells.push_back(format_seconds(t));
  cells.push_back(fmt::format("{:.1f}%", 100 * s.variation));
  cells.push_back(format_gflops(flops, s.median));
  return cells;
}
const Columns kTimeColumns = {{"min", 4}, {"mean", 6}, {"median"},       {"p90", 5},
                              {"p95", 7}, {"p99", 3},  {"variation", 2}, {"GFLOP/s", 1}};

template <class T>
std::vector<T> operator+(std::vector<T> left, const std::vector<T>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

std::string run_table(const driver::BenchReport& report, const target::Target& host) {
  const driver::Statistics& s = report.time;
  if (!report.gpu) {
    TextTable table(kTimeColumns + Columns{{"of peak", 8}, {"GB/s", 9}});
    table.add(time_cells(s, report.flops) + Row{share_text(report.flops / s.median, peak_of(host, report.threads)),
                                                rate_text(report.bytes, s.median)});
    return table.text();
  }
  const driver::GpuBench& g = *report.gpu;
  TextTable table(Columns{text_column("", 10)} + kTimeColumns + Columns{{"of roofline", 8}});
  auto add = [&](const char* what, const driver::Statistics& times, bool device) {
    table.add(Row{what} + time_cells(times, report.flops) + Row{device ? share_text(g.roofline, times.median) : ""});
  };
  add("device, warm", g.warm, true);
  add("device, cold", g.cold, true);
  if (g.kernels.runs > 0) add("kernels alone", g.kernels, true);
  add("run and wait", s, false);
  if (g.graph) add("graph and wait", g.wall_graph, false);
  return table.text();
}

std::string kernel_table(const driver::BenchReport& report, const target::Target& host) {
  double total = 0;
  for (const driver::KernelTime& k : report.kernels) total += k.time.median;
  const double peak = peak_of(host, report.threads);
  const Columns limits =
      report.gpu ? Columns{{"GB/s", 9}, {"of roofline", 5}} : Columns{{"of peak", 5}, {"GB/s", 9}, {"of memory", 8}};
  TextTable table(Columns{text_column("workload", 24),
                          text_column("nodes", 14, 1),
                          {"weight", 6},
                          {"in model"},
                          {"alone", 3},
                          {"p95", 11},
                          {"variation", 10},
                          {"GFLOP/s", 4}} +
                  limits + Columns{{"share", 2}, {"tuned", 7}});
  for (const driver::KernelTime& k : report.kernels) {
    const auto weight = static_cast<double>(k.weight);
    const double each = k.time.median / weight;
    const std::string rate = rate_text(k.bytes, each);
    table.add(Row{k.workload, task::nodes_text(k.nodes), std::to_string(k.weight), format_seconds(each),
                  format_seconds(k.alone), format_seconds(k.time.p95 / weight),
                  fmt::format("{:.1f}%", 100 * k.time.variation), format_gflops(k.flops, each)} +
              (report.gpu
                   ? Row{rate, share_text(k.roofline, each)}
                   : Row{share_text(k.flops / each, peak), rate, share_text(k.bytes / each, host.memory_bandwidth)}) +
              Row{share_text(k.time.median, total), k.tuned ? "yes" : "no"});
  }
  return table.text();
}

// What to do about the figures of a device, one sentence each.
std::vector<std::string> device_advice(const driver::BenchReport& report) {
  const driver::GpuBench& g = *report.gpu;
  std::vector<std::string> lines;
  if (g.warm.variation > kSteadyVariation)
    lines.push_back(
        fmt::format("the device's times vary by {:.0f}%: lock its clocks (nvidia-smi -lgc), and let nothing "
                    "else run on it",
                    100 * g.warm.variation));
  if (g.graph && report.time.median > 1.2 * g.wall_graph.median)
    lines.push_back(fmt::format("launching takes {} of a run: capture run() in a CUDA graph",
                                format_seconds(report.time.median - g.wall_graph.median)));
  if (!g.graph) lines.push_back("this driver has no CUDA graphs: the device's times hold gaps between launches");
  for (const std::string& note : g.notes) lines.push_back(note);
  if (g.code.ends_with("(PTX)"))
    lines.push_back("the driver compiled the code from PTX; a library with code for this device may be faster");
  return lines;
}

std::vector<std::string> advice(const driver::BenchReport& report) {
  if (report.gpu) return device_advice(report);
  std::vector<std::string> lines;
  const driver::Statistics& s = report.time;
  if (s.variation > kSteadyVariation)
    lines.push_back(
        fmt::format("the times vary by {:.0f}%: stop other programs, fix the clock (cpupower frequency-set -g "
                    "performance), or compare minima instead of means",
                    100 * s.variation));
  if (s.median > 0 && s.p99 > 2 * s.median)
    lines.push_back("one run in a hundred takes more than twice the median: other programs take the cores at times");
  double in_model = 0, alone = 0, untuned = 0, fastest = 0;
  for (const driver::KernelTime& k : report.kernels) {
    if (k.time.runs == 0) continue;
    in_model += k.time.median;
    fastest += k.time.min;
    if (!k.tuned) untuned += k.time.median;
    alone += k.alone > 0 ? k.alone * static_cast<double>(k.weight) : k.time.median;
  }
  if (alone > 0 && in_model > 1.05 * alone)
    lines.push_back(
        fmt::format("the kernels take {:.0f}% longer inside the model than alone: there weights and "
                    "activations come from memory, when tuned they were in the caches",
                    100 * (in_model / alone - 1)));
  // By the minima: the two were timed one after the other, and a disturbance of one of them tells nothing.
  if (fastest > 0 && s.min > 1.1 * fastest)
    lines.push_back(fmt::format("{} of a run are outside of the kernels", format_seconds(s.min - fastest)));
  if (untuned > 0)
    lines.push_back(fmt::format("{:.0f}% of the time is in kernels that are not tuned; `tcc tune` makes them faster",
                                100 * untuned / in_model));
  return lines;
}

Json statistics_json(const driver::Statistics& s) {
  if (s.runs == 0) return {};
  return TCC_JSON(s, runs, min, mean, median, p90, p95, p99, variation);
}

Json report_json(const driver::BenchReport& report, const target::Target& host) {
  const driver::Statistics& s = report.time;
  Json json = {{"library", report.id}, {"flops", report.flops}, {"bytes", report.bytes}};
  if (report.gpu) {
    const driver::GpuBench& g = *report.gpu;
    json.update(TCC_JSON(g, device, code, target, calibrated));
    json.update({{"device_warm", statistics_json(g.warm)},
                 {"device_cold", statistics_json(g.cold)},
                 {"seconds_graph", statistics_json(g.wall_graph)},
                 {"kernels_alone", statistics_json(g.kernels)},
                 {"counters", counts_json(g.counts)},
                 {"roofline_seconds", g.roofline},
                 {"roofline_share", share(g.roofline, g.warm.median)}});
  } else {
    json.update({{"threads", report.threads},
                 {"gflops", report.flops / s.median / 1e9},
                 {"gbytes_per_second", report.bytes / s.median / 1e9},
                 {"peak_share", report.flops / s.median / peak_of(host, report.threads)},
                 {"peak_measured", host.measured}});
  }
  std::vector<double> samples;
  const size_t step = std::max<size_t>((report.samples.size() + kMaxSavedSamples - 1) / kMaxSavedSamples, 1);
  for (size_t i = 0; i < report.samples.size(); i += step) samples.push_back(report.samples[i]);
  json.update({{"seconds", statistics_json(s)}, {"samples", samples}, {"advice", advice(report)}});
  for (const driver::KernelTime& k : report.kernels) {
    if (k.time.runs == 0) continue;
    Json kernel = TCC_JSON(k, key, workload);
    kernel["form"] = driver::form_of(k.workload);
    kernel["nodes"] = task::nodes_to_json<Json>(k.nodes);
    kernel.update(TCC_JSON(k, weight, tuned, flops, bytes));
    kernel["seconds_alone"] = k.alone > 0 ? Json(k.alone) : Json();
    kernel["roofline_seconds"] = k.roofline > 0 ? Json(k.roofline) : Json();
    kernel["seconds"] = statistics_json(k.time);
    json["kernels"].push_back(kernel);
  }
  return json;
}

}  // namespace

double best_rate(const driver::BenchReport& report, const target::Target& host) {
  double best = 0;
  for (const driver::KernelTime& k : report.kernels)
    if (k.time.median > 0) best = std::max(best, k.flops * static_cast<double>(k.weight) / k.time.median);
  return host.peak.fp32 > 0 ? best * host.peak.fp32 / peak_of(host, report.threads) : 0;
}

void print_times(const Common& common, const driver::BenchReport& report, const target::Target& host) {
  if (common.json) return void(print_json(report_json(report, host)));
  std::string text = report.id;
  if (report.gpu)
    text += fmt::format(" on {}, code {}\n", report.gpu->device, report.gpu->code);
  else
    text += fmt::format(", {}, {}\n", plural(report.threads, "thread"), plural(report.time.runs, "run"));
  text += run_table(report, host);
  if (report.gpu && report.gpu->roofline > 0)
    text += fmt::format("roofline: {} by the nominal rates of {}, kernel by kernel\n",
                        format_seconds(report.gpu->roofline), report.gpu->target);
  if (report.gpu && report.gpu->counts.any())
    text += "counters of a run: " + counts_text(report.gpu->counts, report.gpu->kernels.median) + "\n";
  if (std::any_of(report.kernels.begin(), report.kernels.end(), [](const auto& k) { return k.time.runs > 0; }))
    text += "\n" + kernel_table(report, host);
  print(text);
  for (const std::string& line : advice(report)) remark(common.quiet, "note: " + line);
}

}  // namespace tcc::cli
