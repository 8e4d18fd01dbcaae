// The format, all numbers little-endian:
//
//   "tccprior"                              8 bytes
//   version of the format                   u32
//   version of the schema of the rows       u32
//   hash of the schema                      u64   of its name, version and columns
//   name of the schema                      u8 length, bytes
//   hash of everything that follows         u64
//   number of columns                       u32
//   number of tasks                         u32
//   for each task
//     anchor                                u8    number in TCC_TASK_ANCHORS
//     hash                                  u64
//     number of rows                        u16
//     for each row
//       throughput                          u16   in 1/65535 of the fastest
//       for each column                     u16   in 1/512
#include "tcc/search/shipped_prior.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "search/shipped_bytes.h"
#include "search/task_state.h"
#include "tcc/lower/lower.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::search {
namespace {

constexpr std::string_view kMagic = "tccprior";
constexpr uint32_t kFormat = 2;
constexpr size_t kMaxBytes = 16 << 20, kMaxTasks = 4096, kMaxRows = 4096;
constexpr float kFeatureScale = 512, kThroughputScale = 65535;

#define TCC_X(name, text) +1
constexpr uint64_t kAnchors = 0 TCC_TASK_ANCHORS(TCC_X);
#undef TCC_X

Error damaged(const std::string& what) {
  return Error{ErrorClass::kInput, fmt::format("the prior of the cost model cannot be read: {}", what),
               "take the file of this version of tcc, or write it anew with `tools/bench prior`"};
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  // 0 once the bytes have run out, which failed() then says.
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    if (rest_.size() < bytes) {
      failed_ = true;
      rest_ = {};
      return 0;
    }
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
    rest_.remove_prefix(bytes);
    return value;
  }
  std::string text(size_t bytes) {
    std::string out;
    for (size_t i = 0; i < bytes && !failed_; ++i) out += static_cast<char>(number(1));
    return out;
  }
  bool failed() const { return failed_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

void put(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

uint64_t scaled(float value, float scale) {
  return static_cast<uint64_t>(std::clamp(std::round(value * scale), 0.f, 65535.f));
}

Result<PriorTask> parse_task(Reader& in, const features::Schema& schema) {
  PriorTask task;
  const uint64_t anchor = in.number(1);
  if (anchor >= kAnchors) return tl::make_unexpected(damaged("it has a family that this version does not know"));
  task.anchor = static_cast<task::AnchorKind>(anchor);
  task.hash = in.number(8);
  const uint64_t rows = in.number(2);
  if (rows > kMaxRows || rows * 2 * (schema.columns.size() + 1) > in.rest().size())
    return tl::make_unexpected(damaged("it ends within a task"));
  task.rows = features::Rows(schema);
  std::vector<float> row(schema.columns.size());
  for (uint64_t r = 0; r < rows; ++r) {
    task.throughputs.push_back(static_cast<float>(in.number(2)) / kThroughputScale);
    for (float& value : row) value = static_cast<float>(in.number(2)) / kFeatureScale;
    task.rows.add(row);
  }
  if (in.failed()) return tl::make_unexpected(damaged("it ends within a task"));
  return task;
}

}  // namespace

Result<ShippedPrior> parse_prior(std::string_view bytes, const features::Schema& schema) {
  if (bytes.size() > kMaxBytes) return tl::make_unexpected(damaged(fmt::format("it has {} bytes", bytes.size())));
  if (!bytes.starts_with(kMagic)) return tl::make_unexpected(damaged("it does not begin as such a file does"));
  Reader in(bytes.substr(kMagic.size()));
  const uint64_t format = in.number(4);
  if (!in.failed() && format != kFormat)
    return tl::make_unexpected(damaged(fmt::format("its format is {}, not {}", format, kFormat)));
  const uint64_t version = in.number(4), hash = in.number(8);
  const std::string name = in.text(in.number(1));
  const uint64_t sum = in.number(8);
  if (in.failed()) return tl::make_unexpected(damaged("it ends within its head"));
  if (hash != features::schema_hash(schema) || version != static_cast<uint64_t>(schema.version) || name != schema.name)
    return tl::make_unexpected(damaged(fmt::format("its rows have schema '{}' version {}, expected '{}' version {}",
                                                   sanitize(name), version, schema.name, schema.version)));
  if (hash_bytes(in.rest()) != sum) return tl::make_unexpected(damaged("its checksum is wrong"));
  const uint64_t columns = in.number(4), tasks = in.number(4);
  if (in.failed() || columns != schema.columns.size() || tasks > kMaxTasks)
    return tl::make_unexpected(damaged("its head is not plausible"));
  ShippedPrior prior;
  prior.hash = hash_bytes(bytes);
  prior.schema = &schema;
  for (uint64_t t = 0; t < tasks; ++t) {
    TCC_TRY(PriorTask task, parse_task(in, schema));
    prior.tasks.push_back(std::move(task));
  }
  if (!in.rest().empty()) return tl::make_unexpected(damaged("something follows its last task"));
  return prior;
}

Result<std::string> print_prior(std::span<const PriorTask> tasks, const features::Schema& schema) {
  std::string body;
  put(body, schema.columns.size(), 4);
  put(body, tasks.size(), 4);
  if (tasks.size() > kMaxTasks) return input_error("a prior holds {} tasks, not {}", kMaxTasks, tasks.size());
  for (const PriorTask& task : tasks) {
    TCC_CHECK(task.rows.size() == task.throughputs.size() && (task.rows.empty() || task.rows.schema() == &schema));
    if (task.rows.size() > kMaxRows)
      return input_error("a prior holds {} programs of a task, not {}", kMaxRows, task.rows.size());
    put(body, static_cast<uint64_t>(task.anchor), 1);
    put(body, task.hash, 8);
    put(body, task.rows.size(), 2);
    for (size_t r = 0; r < task.rows.size(); ++r) {
      put(body, scaled(task.throughputs[r], kThroughputScale), 2);
      for (float value : task.rows[r]) put(body, scaled(value, kFeatureScale), 2);
    }
  }
  std::string out(kMagic);
  put(out, kFormat, 4);
  put(out, static_cast<uint64_t>(schema.version), 4);
  put(out, features::schema_hash(schema), 8);
  put(out, schema.name.size(), 1);
  out += schema.name;
  put(out, hash_bytes(body), 8);
  out += body;
  if (out.size() > kMaxBytes) return input_error("a prior of {} bytes is too large", out.size());
  return out;
}

const ShippedPrior& shipped_prior() {
  static const ShippedPrior prior = [] {
    const auto* begin = reinterpret_cast<const char*>(tcc_shipped_prior_begin);
    const auto* end = reinterpret_cast<const char*>(tcc_shipped_prior_end);
    Result<ShippedPrior> parsed = parse_prior({begin, static_cast<size_t>(end - begin)});
    TCC_CHECK(parsed.has_value(), "{}", parsed ? "" : parsed.error().message);
    return std::move(*parsed);
  }();
  return prior;
}

Result<PriorTask> prior_of(const task::Task& task, const target::Target& target, int64_t threads,
                           const record::Store& store, const features::Schema& schema) {
  PriorTask out;
  out.anchor = task.anchor;
  out.hash = combine_hash(combine_hash(task_hash(task), target::feature_hash(target)), static_cast<uint64_t>(threads));
  TCC_TRY(std::vector<record::Record> records, store.all(task_hash(task)));
  std::erase_if(records, [&](const record::Record& r) {
    return r.kind != record::Kind::kMeasured || r.target_features != target::feature_hash(target) ||
           r.threads != threads;
  });
  std::map<uint64_t, int64_t> newest;
  for (const record::Record& r : records) newest[r.nest_hash] = r.id;
  double best = 0;
  std::vector<double> seconds;
  for (const record::Record& r : records) {
    if (newest[r.nest_hash] != r.id || r.status != record::Status::kOk || r.median <= 0) continue;
    Result<schedule::Trace> trace = schedule::trace_from_json(r.trace);
    if (!trace || trace->instructions.empty()) continue;
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = schedule::replay(*trace, trace->decisions, task.kernel, arena);
    if (nest) nest = lower::lower(*nest, target, ir::Stage::kNest, arena);
    if (!nest) continue;
    out.rows.add(features::extract(schema, *nest, target, threads));
    seconds.push_back(r.median);
    best = best == 0 ? r.median : std::min(best, r.median);
  }
  if (seconds.size() < 2) {
    out.rows = {};
    return out;
  }
  for (double s : seconds) out.throughputs.push_back(static_cast<float>(best / s));
  return out;
}

}  // namespace tcc::search
