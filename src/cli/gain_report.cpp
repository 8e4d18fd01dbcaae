#include "cli/gain_report.h"

#include <algorithm>

#include "cli/json.h"
#include "cli/output.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

constexpr size_t kMostGained = 3;

}  // namespace

std::string gain_text(const driver::Gain& gain, const driver::Program& program, int64_t threads) {
  const driver::Comparison& c = gain.latency;
  auto less = [](double ratio) {
    return ratio <= 1 ? fmt::format("{:.1f}% less", 100 * (1 - ratio)) : fmt::format("{:.1f}% more", 100 * (ratio - 1));
  };
  std::string text = fmt::format(
      "latency: {} with the schedules that are taken without tuning, {} now: {} (99% interval: {} to {}{}); of the "
      "built library on {}\n",
      format_seconds(c.median_a), format_seconds(c.median_b), less(c.ratio), less(c.high), less(c.low),
      c.differs ? "" : ", no difference shown", plural(threads, "thread"));
  std::string tasks;
  for (size_t i = 0; i < std::min(kMostGained, gain.tasks.size()); ++i) {
    const driver::TaskGain& t = gain.tasks[i];
    size_t number = 0;
    while (number < program.tasks.tasks.size() && program.tasks.tasks[number].key != t.key) ++number;
    tasks += fmt::format("{}task {} {} -> {} ({})", tasks.empty() ? "" : ", ", number, format_seconds(t.before),
                         format_seconds(t.after), format_ratio(t.before, t.after));
  }
  return tasks.empty() ? text : text + "most gained: " + tasks + "\n";
}

Json gain_json(const driver::Gain& gain) {
  const driver::Comparison& c = gain.latency;
  Json json = {{"before_seconds", c.median_a}, {"after_seconds", c.median_b}};
  json.update(TCC_JSON(c, ratio, low, high, p, differs));
  json["seconds"] = gain.seconds;
  json["gained"] = Json::array();
  for (size_t i = 0; i < std::min(kMostGained, gain.tasks.size()); ++i)
    json["gained"].push_back(TCC_JSON(gain.tasks[i], key, workload, weight, before, after));
  return json;
}

}  // namespace tcc::cli
