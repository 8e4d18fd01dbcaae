#include <fmt/ranges.h>

#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/show.h"
#include "tcc/features/sample.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr std::string_view kRow = "row", kTrace = "trace";

template <class Named>
FeatureTable table_of(const Named& named, std::vector<float> values) {
  FeatureTable out{std::string(named.name), named.version, {named.columns.begin(), named.columns.end()}, {}};
  for (size_t at = 0; at < values.size(); at += out.columns.size())
    out.rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                          values.begin() + static_cast<std::ptrdiff_t>(at + out.columns.size()));
  return out;
}

}  // namespace

std::vector<std::string> feature_names() {
  std::vector<std::string> names = {std::string(kRow), std::string(kTrace)};
  for (const features::Table* table : features::tables()) names.emplace_back(table->name);
  return names;
}

Result<FeatureTable> show_features(const std::string& features, const Program& program, const std::string& name,
                                   const record::Database* store, const target::Target& target, int64_t threads) {
  const std::vector<std::string> names = feature_names();
  if (std::find(names.begin(), names.end(), features) == names.end()) {
    const std::string near = suggest(features, names);
    return make_error(ErrorClass::kUsage,
                      fmt::format("--features: expected a kind of features, not '{}'", sanitize(features)),
                      near.empty() ? fmt::format("known are {}", fmt::join(names, ", ")) : near);
  }
  TCC_TRY(const size_t index, find_task(program, name));
  const task::Task& task = find_form(program, index, name);
  TCC_TRY(const search::Chosen chosen, search::built_program(task, target, store, threads));
  auto rejected = [&](const ir::Reject& r) {
    return input_error("{}: {}: {}", task.workload, ir::reject_reason_name(r.reason), r.text);
  };
  schedule::Trace trace;
  if (!chosen.trace.empty()) {
    TCC_TRY(trace, schedule::trace_from_json(chosen.trace));
  }
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> kernel = schedule::replay(trace, trace.decisions, task.kernel, arena);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kNest, arena);
  if (!kernel) return rejected(kernel.error());
  const backend::Backend& backend = backend::backend_of(target);
  if (features == kRow) {
    const features::Schema& schema = backend.prior(target)->schema();
    return table_of(schema, features::extract(schema, *kernel, target, threads).values);
  }
  const features::Table& table = features == kTrace ? *backend.trace_table : *features::find_table(features);
  return table_of(table, features::extract(table, {task, trace, trace.decisions, *kernel, target, threads}));
}

}  // namespace tcc::driver
