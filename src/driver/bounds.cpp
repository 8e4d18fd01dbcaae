// A program's features give the counts, the machine's measured rates turn them into seconds. On a GPU the analytical
// model has done both already.
#include "tcc/driver/bounds.h"

#include <algorithm>
#include <cmath>

#include "tcc/backend/backend.h"
#include "tcc/features/features.h"
#include "tcc/target/last_cache.h"

namespace tcc::driver {
namespace {

constexpr double kNear = 0.35;      // a limit below this share of the time does not explain it
constexpr double kIdle = 0.67;      // fewer busy threads than this share are the bound
constexpr double kBeaten = 1.25;    // a limit that a kernel beats by more was measured on a busy machine
constexpr int64_t kFewTrials = 64;  // of a task: `tune` without limits measures as many
constexpr const char *kArithmetic = "arithmetic", *kMemory = "memory", *kLaunch = "launch", *kThreads = "threads",
                     *kSchedule = "schedule";

// A row of features, by the names of its columns.
class NamedRow {
 public:
  explicit NamedRow(features::Row row) : row_(std::move(row)) {}
  bool has(std::string_view name) const { return column(name) >= 0; }
  double share(std::string_view name) const {
    const int64_t at = column(name);
    return at < 0 ? 0 : static_cast<double>(row_[static_cast<size_t>(at)]);
  }
  // Of a column that holds log2(1 + x).
  double number(std::string_view name) const { return has(name) ? std::exp2(share(name)) - 1 : 0; }

 private:
  int64_t column(std::string_view name) const {
    const auto& columns = row_.schema->columns;
    const auto found = std::find(columns.begin(), columns.end(), name);
    return found == columns.end() ? -1 : found - columns.begin();
  }
  features::Row row_;
};

// Between one core and all of them the rate grows in proportion.
double rate_on(const target::ProbeRate& rate, double threads, double cores) {
  if (cores <= 1 || threads <= 1) return rate.one_core;
  return rate.one_core + (rate.all_cores - rate.one_core) * (std::min(threads, cores) - 1) / (cores - 1);
}

// Of a program for CPUs: what `threads` threads need where all of them have work.
std::vector<Limit> cpu_limits(const NamedRow& row, double flops, const target::Target& target,
                              const MachineFacts* facts, double threads) {
  std::vector<Limit> limits;
  auto add = [&](const char* part, double amount, double rate) {
    if (amount > 0 && rate > 0) limits.push_back({part, amount / rate});
  };
  const double bytes = row.number("param_bytes");
  const auto cores = static_cast<double>(std::max<int64_t>(target.cpu.cores, 1));
  const double used = std::min(threads, cores);
  const auto last = static_cast<double>(target::last_cache_bytes(target.cpu));
  if (facts == nullptr) {
    add(kArithmetic, flops, target.peak.fp32 * used / cores);
    if (bytes > last) add(kMemory, bytes, target.memory_bandwidth);
    return limits;
  }
  const target::ProbeResult& probe = facts->probe;
  add(kArithmetic, flops, rate_on(probe.fp32, used, cores));
  add("second-level cache", row.number("traffic_l1"), rate_on(probe.l2_read, used, cores));
  // Data that does not fit the caches of the cores comes from the shared one, and from memory where that is smaller.
  const bool fits = bytes <= static_cast<double>(target.cpu.l2_bytes) * used;
  if (!fits && target.cpu.l3_bytes > 0)
    add("third-level cache", row.number("traffic_l2"), rate_on(probe.l3_read, used, cores));
  if (bytes > last) add(kMemory, bytes, rate_on(probe.dram_read, used, cores));
  if (threads > 1 && row.number("parallel_extent") > 1)
    limits.push_back({kLaunch, facts->fork_join_seconds * std::max(row.number("launches"), 1.0)});
  return limits;
}

// The rows of launches on GPUs hold the least time of each part, in nanoseconds.
std::vector<Limit> launch_limits(const NamedRow& row, const target::Target& target) {
  std::vector<Limit> limits;
  for (const auto& [part, column] :
       {std::pair(kArithmetic, "compute_time"), std::pair(kMemory, "memory_time"),
        std::pair("shared memory", "shared_time"), std::pair("second-level cache", "cache_time"),
        std::pair("issue of instructions", "issue_time"), std::pair("latency of loads", "latency_time")})
    if (row.number(column) > 0) limits.push_back({part, 1e-9 * row.number(column)});
  limits.push_back({kLaunch, target.cuda.launch_seconds * std::max(row.number("launches"), 1.0)});
  return limits;
}

const graph::Node& anchor_of(const BoundsQuery& q) {
  const auto& bindings = q.program->tasks.bindings;
  size_t group = 0;
  while (bindings[group].task != static_cast<int64_t>(q.task)) ++group;
  return q.program->graph.node(q.program->groups[group].anchor);
}

bool is_plain_3x3(const graph::Node& node) {
  if (node.op != graph::Op::kConv) return false;
  const auto& a = node.as<graph::ConvAttrs>();
  return a.kernel == std::vector<int64_t>{3, 3} && a.strides == std::vector<int64_t>{1, 1} && a.group == 1 &&
         a.dilations == std::vector<int64_t>{1, 1} && a.winograd == 0;
}

// A shorter type that the target multiplies, for a kernel of f32; "": none, or one is in use.
std::string shorter_type(const BoundsQuery& q, const target::Target& target) {
  if (q.source != nullptr && q.source->precision != target::Precision::kF32) return "";
  for (const ir::Buffer* buffer : q.nest->buffers)
    if (buffer->role == ir::BufferRole::kOutput && buffer->type != ir::Type::kF32) return "";
  for (target::Precision p : {target::Precision::kF16, target::Precision::kBF16})
    if (backend::backend_of(target).multiplies(target, p)) return std::string(target::precision_name(p));
  return "";
}

std::vector<std::string> advise(const BoundsQuery& q, const target::Target& target, const Bounds& bounds,
                                double parallel) {
  std::vector<std::string> advice;
  const graph::Node& anchor = anchor_of(q);
  const bool contraction = graph::op_class(anchor.op) == graph::OpClass::kContraction;
  const std::string shorter = shorter_type(q, target);
  const bool moves = bounds.by == kMemory || bounds.by.ends_with("cache");
  if (bounds.by == kThreads)
    advice.push_back(
        fmt::format("the parallel loop has {:.0f} iterations for {} threads: a larger batch gives more, and "
                    "--threads {:.0f} keeps the others free",
                    parallel, q.threads, std::max(1.0, std::min(parallel, double(q.threads)))));
  if (bounds.by == kLaunch)
    advice.push_back(
        backend::backend_of(target).by_threads
            ? "starting the threads takes as long as the work: a larger batch, or --threads 1"
            : "launching the kernel takes as long as the work: a larger batch, or a CUDA graph of the run");
  if (bounds.by == kArithmetic && is_plain_3x3(anchor) && (q.source == nullptr || q.source->winograd == 0))
    advice.emplace_back(
        "--winograd auto also measures forms of this convolution with fewer products, which are less accurate");
  if (!shorter.empty() && ((bounds.by == kArithmetic && contraction) || moves))
    advice.push_back(moves ? fmt::format("--precision {} halves the bytes that move", shorter)
                           : fmt::format("--precision {} multiplies faster here", shorter));
  if (bounds.by == kMemory && contraction) advice.emplace_back("a larger batch uses each weight more often");
  if (moves && bounds.by != kMemory && anchor.op == graph::Op::kConv && q.source != nullptr &&
      q.source->layouts == Layouts::kPlain && backend::backend_of(target).channel_block != nullptr)
    advice.emplace_back("--layouts auto puts channels side by side where an estimate prefers it");
  if (q.measured < kFewTrials || (bounds.by == kSchedule && q.seconds > 0))
    advice.push_back(
        fmt::format("more trials: the records hold {} program{} of this task (tcc tune MODEL --tasks {} "
                    "--trials {})",
                    q.measured, q.measured == 1 ? "" : "s", q.task, std::max<int64_t>(2 * q.measured, kFewTrials)));
  return advice;
}

}  // namespace

Bounds find_bounds(const BoundsQuery& q, const target::Target& target, const MachineFacts* facts) {
  Bounds bounds;
  const task::Task& task = q.program->tasks.tasks[q.task];
  const features::Schema& schema = backend::backend_of(target).prior(target)->schema();
  const NamedRow row(features::extract(schema, *q.nest, target, q.threads));
  bounds.measured_rates = facts != nullptr;
  const double parallel = row.has("parallel_extent") ? row.number("parallel_extent") : row.number("blocks");
  if (row.has("compute_time")) {
    bounds.limits = launch_limits(row, target);
  } else {
    bounds.busy_threads = q.threads > 1 ? row.share("parallel_balance") : 1;
    bounds.limits =
        cpu_limits(row, task.flops, facts != nullptr ? facts->target : target, facts, static_cast<double>(q.threads));
  }
  std::stable_sort(bounds.limits.begin(), bounds.limits.end(),
                   [](const Limit& a, const Limit& b) { return a.seconds > b.seconds; });
  if (bounds.limits.empty()) return bounds;
  bounds.by = bounds.limits[0].part;
  if (q.seconds > 0) bounds.share = bounds.limits[0].seconds / q.seconds;
  if (bounds.busy_threads < kIdle && bounds.by != kLaunch)
    bounds.by = kThreads;
  else if (q.seconds > 0 && bounds.share < kNear)
    bounds.by = kSchedule;
  bounds.beaten = bounds.share > kBeaten;
  bounds.advice = advise(q, target, bounds, parallel);
  return bounds;
}

}  // namespace tcc::driver
