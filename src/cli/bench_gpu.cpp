#include "cli/bench_gpu.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/counts.h"
#include "cli/output.h"

namespace tcc::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSteadyVariation = 0.05;
constexpr size_t kMaxSavedSamples = 2000;  // in JSON; evenly spread over the run

Json statistics_json(const driver::Statistics& s) {
  return {{"runs", s.runs}, {"min", s.min}, {"mean", s.mean}, {"median", s.median},
          {"p90", s.p90},   {"p95", s.p95}, {"p99", s.p99},   {"variation", s.variation}};
}

double share(double part, double whole) {
  return part > 0 && whole > 0 ? part / whole : 0;
}
std::string share_text(double part, double whole) {
  return part > 0 && whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "-";
}

std::vector<std::string> row(const char* what, const driver::Statistics& s, const driver::BenchReport& report,
                             bool device) {
  return {what,
          format_seconds(s.min),
          format_seconds(s.mean),
          format_seconds(s.median),
          format_seconds(s.p90),
          format_seconds(s.p95),
          format_seconds(s.p99),
          fmt::format("{:.1f}%", 100 * s.variation),
          format_gflops(report.flops, s.median),
          device ? share_text(report.gpu->roofline, s.median) : ""};
}

std::string kernel_table(const driver::BenchReport& report) {
  double total = 0;
  for (const driver::KernelTime& k : report.kernels) total += k.time.median;
  std::vector<std::vector<std::string>> rows = {{"workload", "weight", "in model", "alone", "p95", "variation",
                                                 "GFLOP/s", "GB/s", "of roofline", "share", "tuned"}};
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    const driver::KernelTime& k = report.kernels[i];
    const double weight = static_cast<double>(k.weight), each = k.time.median / weight;
    const double least = i < report.gpu->kernel_roofline.size() ? report.gpu->kernel_roofline[i] : 0;
    const double alone = i < report.gpu->kernel_seconds.size() ? report.gpu->kernel_seconds[i] : 0;
    rows.push_back({k.workload, std::to_string(k.weight), format_seconds(each), alone > 0 ? format_seconds(alone) : "-",
                    format_seconds(k.time.p95 / weight), fmt::format("{:.1f}%", 100 * k.time.variation),
                    format_gflops(k.flops, each), each > 0 ? fmt::format("{:.1f}", k.bytes / each / 1e9) : "-",
                    share_text(least, each), share_text(k.time.median, total), k.tuned ? "yes" : "no"});
  }
  return format_table(rows);
}

// What to do about the figures, one sentence each.
std::vector<std::string> advice(const driver::BenchReport& report) {
  const driver::GpuBench& g = *report.gpu;
  std::vector<std::string> lines;
  if (g.warm.variation > kSteadyVariation)
    lines.push_back(
        fmt::format("the device's times vary by {:.0f}%: lock its clocks (nvidia-smi -lgc), and let nothing "
                    "else run on it",
                    100 * g.warm.variation));
  if (g.graph && g.wall.median > 1.2 * g.wall_graph.median)
    lines.push_back(fmt::format("launching takes {} of a run: capture run() in a CUDA graph",
                                format_seconds(g.wall.median - g.wall_graph.median)));
  if (!g.graph) lines.push_back("this driver has no CUDA graphs: the device's times hold gaps between launches");
  for (const std::string& note : g.notes) lines.push_back(note);
  if (g.code.ends_with("(PTX)"))
    lines.push_back("the driver compiled the code from PTX; a library with code for this device may be faster");
  return lines;
}

Json report_json(const driver::BenchReport& report) {
  const driver::GpuBench& g = *report.gpu;
  std::vector<double> samples;
  const size_t step = std::max<size_t>((report.samples.size() + kMaxSavedSamples - 1) / kMaxSavedSamples, 1);
  for (size_t i = 0; i < report.samples.size(); i += step) samples.push_back(report.samples[i]);
  Json json = {{"library", report.id},
               {"device", g.device},
               {"code", g.code},
               {"target", g.target},
               {"flops", report.flops},
               {"device_warm", statistics_json(g.warm)},
               {"device_cold", statistics_json(g.cold)},
               {"seconds", statistics_json(g.wall)},
               {"seconds_graph", g.graph ? statistics_json(g.wall_graph) : Json()},
               {"kernels_alone", g.kernels.runs > 0 ? statistics_json(g.kernels) : Json()},
               {"counters", counts_json(g.counts)},
               {"roofline_seconds", g.roofline},
               {"roofline_share", share(g.roofline, g.warm.median)},
               {"samples", samples},
               {"advice", advice(report)}};
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    const driver::KernelTime& k = report.kernels[i];
    json["kernels"].push_back(
        {{"key", k.key},
         {"workload", k.workload},
         {"weight", k.weight},
         {"tuned", k.tuned},
         {"flops", k.flops},
         {"bytes", k.bytes},
         {"seconds_alone", i < g.kernel_seconds.size() && g.kernel_seconds[i] > 0 ? Json(g.kernel_seconds[i]) : Json()},
         {"roofline_seconds", i < g.kernel_roofline.size() ? g.kernel_roofline[i] : 0.0},
         {"seconds", statistics_json(k.time)}});
  }
  return json;
}

}  // namespace

void print_gpu_times(const Common& common, bool per_kernel, const driver::BenchReport& report) {
  if (common.json) {
    print_json(report_json(report));
    return;
  }
  const driver::GpuBench& g = *report.gpu;
  std::string text = fmt::format("{} on {}, code {}\n", report.id, g.device, g.code);
  std::vector<std::vector<std::string>> rows = {
      {"", "min", "mean", "median", "p90", "p95", "p99", "variation", "GFLOP/s", "of roofline"}};
  rows.push_back(row("device, warm", g.warm, report, true));
  rows.push_back(row("device, cold", g.cold, report, true));
  if (g.kernels.runs > 0) rows.push_back(row("kernels alone", g.kernels, report, true));
  rows.push_back(row("run and wait", g.wall, report, false));
  if (g.graph) rows.push_back(row("graph and wait", g.wall_graph, report, false));
  text += format_table(rows);
  if (g.roofline > 0)
    text += fmt::format("roofline: {} by the nominal rates of {}, kernel by kernel\n", format_seconds(g.roofline),
                        g.target);
  if (g.counts.any()) text += "counters of a run: " + counts_text(g.counts, g.kernels.median) + "\n";
  if (!report.kernels.empty() && per_kernel) text += "\n" + kernel_table(report);
  print(text);
  for (const std::string& line : advice(report)) remark(common.quiet, "note: " + line);
}

}  // namespace tcc::cli
