#include "cli/gain_report.h"

#include <algorithm>

#include "cli/json.h"
#include "cli/output.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/show.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

constexpr size_t kMostGained = 3;

}  // namespace

std::string gain_text(const driver::Gain& gain, const driver::Program& program, const driver::TuneRequest& request) {
  const driver::Comparison& c = gain.latency;
  auto less = [](double ratio) {
    return ratio <= 1 ? fmt::format("{:.1f}% less", 100 * (1 - ratio)) : fmt::format("{:.1f}% more", 100 * (ratio - 1));
  };
  const std::string where = backend::backend_of(request.target).by_threads ? plural(request.options.threads, "thread")
                                                                           : sanitize(request.target.name);
  std::string text = fmt::format("latency: {} with the schedules that are taken without tuning, {} now: {} ",
                                 format_seconds(c.median_a), format_seconds(c.median_b), less(c.ratio));
  text += gain.predicted ? fmt::format(
                               "(predicted: both are sums of the kernels' times by the analytical model of {}, and no "
                               "device ran them)\n",
                               where)
                         : fmt::format("(99% interval: {} to {}{}); of the built library on {}\n", less(c.high),
                                       less(c.low), c.differs ? "" : ", no difference shown", where);
  std::string tasks;
  for (size_t i = 0; i < std::min(kMostGained, gain.tasks.size()); ++i) {
    const driver::TaskGain& t = gain.tasks[i];
    const Result<size_t> number = driver::find_task(program, t.key);  // whichever form was built
    const std::string name = number ? fmt::format("task {}", *number) : t.workload;
    tasks += fmt::format("{}{} {} -> {} ({})", tasks.empty() ? "" : ", ", name, format_seconds(t.before),
                         format_seconds(t.after), format_ratio(t.before, t.after));
  }
  return tasks.empty() ? text : text + "most gained: " + tasks + "\n";
}

Json gain_json(const driver::Gain& gain) {
  const driver::Comparison& c = gain.latency;
  Json json = {{"before_seconds", c.median_a},
               {"after_seconds", c.median_b},
               {"kernels_seconds", gain.kernels},
               {"predicted", gain.predicted}};
  if (gain.predicted)
    json["ratio"] = c.ratio;
  else
    json.update(TCC_JSON(c, ratio, low, high, p, differs));
  json["seconds"] = gain.seconds;
  json["gained"] = Json::array();
  for (size_t i = 0; i < std::min(kMostGained, gain.tasks.size()); ++i)
    json["gained"].push_back(TCC_JSON(gain.tasks[i], key, workload, weight, before, after));
  return json;
}

}  // namespace tcc::cli
