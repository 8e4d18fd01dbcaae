#include "cli/value_curve.h"

#include <algorithm>

#include "cli/output.h"
#include "cli/text_table.h"

namespace tcc::cli {
namespace {

constexpr size_t kLines = 8;
constexpr double kCells = 40;

}  // namespace

void ValueCurve::add(const search::Progress& p) {
  trials_ = std::max(trials_, p.trials);
  if (p.kind != search::Progress::Kind::kRound || p.task < 0 || static_cast<size_t>(p.task) >= best_.size()) return;
  // Rounds of a task may be about different forms of it.
  double& best = best_[static_cast<size_t>(p.task)];
  if (p.best_seconds > 0) best = best > 0 ? std::min(best, p.best_seconds) : p.best_seconds;
  double sum = 0;
  for (size_t i = 0; i < best_.size(); ++i) {
    if (best_[i] <= 0) return;
    sum += best_[i] * static_cast<double>(weights_[i]);
  }
  if (points_.empty() || sum < points_.back().seconds) points_.push_back({p.trials, p.elapsed_seconds, sum});
}

void ValueCurve::end(double seconds, double elapsed) {
  if (points_.empty() || seconds <= 0) return;
  if (points_.back().trials == trials_) points_.pop_back();
  points_.push_back({trials_, elapsed, seconds});
}

std::string ValueCurve::text() const {
  if (points_.size() < 2) return "";
  std::vector<std::vector<std::string>> rows = {{"trials", "elapsed", "all kernels", ""}};
  const size_t step = (points_.size() + kLines - 2) / (kLines - 1);
  for (size_t i = 0; i < points_.size(); i += step) {
    const size_t at = i + step >= points_.size() ? points_.size() - 1 : i;  // the last line is the last point
    const Point& p = points_[at];
    const auto cells = static_cast<size_t>(std::min(kCells, kCells * p.seconds / points_.front().seconds + 0.5));
    rows.push_back({std::to_string(p.trials), format_elapsed(p.elapsed), format_seconds(p.seconds),
                    std::string(cells, '#') + std::string(static_cast<size_t>(kCells) - cells, ' ')});
  }
  std::string text = format_table(rows, 0);
  const Point* before = nullptr;
  for (const Point& p : points_)
    if (p.trials <= trials_ * 3 / 4) before = &p;
  if (before != nullptr)
    text += fmt::format("the last quarter of the trials took {:.1f}% off the kernels' time\n",
                        100 * (1 - points_.back().seconds / before->seconds));
  return text;
}

}  // namespace tcc::cli
