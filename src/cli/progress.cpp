#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/json.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Kind = search::Progress::Kind;

constexpr double kSecondsBetweenLines = 10;  // where stderr is a file or a pipe
constexpr size_t kLeastWorkload = 20;        // columns that are worth showing

const char* event_name(Kind kind) {
  constexpr const char* kNames[] = {"started", "round", "task_finished", "finished", "note", "finals"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(terminal_moves(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  clear_status();
  if (!last_.empty()) remark(false, last_);
}

size_t ProgressLine::width() const {
  return terminal_width(STDERR_FILENO) - 1;
}

void ProgressLine::show(const std::string& line) {
  if (quiet_) return;
  if (terminal_) return show_status(line);
  last_ = line;
  if (said_ && since_said_.seconds() < kSecondsBetweenLines) return;
  remark(false, std::exchange(last_, ""));
  said_ = true;
  since_said_.restart();
}

// Off a terminal, --json writes events instead of lines.
ProgressView::ProgressView(const Common& common, double time_limit, ValueCurve& curve)
    : common_(common),
      curve_(curve),
      time_limit_(time_limit),
      line_(common.quiet || (common.json && !terminal_moves(STDERR_FILENO))) {}

std::string ProgressView::describe(const search::Progress& p) const {
  std::string text = p.trials_limit > 0 ? fmt::format("{}/{} measured", p.trials, p.trials_limit)
                                        : fmt::format("{} measured", p.trials);
  text += fmt::format(", {} elapsed", format_elapsed(p.elapsed_seconds));
  if (p.kind == Kind::kFinals)
    text += fmt::format(", comparing the fastest of {} of {}", p.finals_done + 1, plural(p.finals_total, "task"));
  if (p.remaining_seconds >= 0) text += fmt::format(", about {} left", format_elapsed(p.remaining_seconds));
  if (p.best_seconds > 0)
    text += fmt::format("; best {}{}", format_duration(p.best_seconds),
                        p.best_gflops > 0 ? fmt::format(" ({:.1f} GFLOP/s)", p.best_gflops) : "");
  if (!p.workload.empty()) text += (p.improved ? " (new) for " : " for ") + p.workload;
  return text;
}

void ProgressView::show_event(const search::Progress& p) const {
  Json event = {{"event", event_name(p.kind)}};
  event.update(TCC_JSON(p, trials, trials_limit, elapsed_seconds));
  if (p.remaining_seconds >= 0) event["remaining_seconds"] = p.remaining_seconds;
  if (p.kind == Kind::kFinals) event.update(TCC_JSON(p, finals_done, finals_total));
  if (p.task >= 0) event.update(TCC_JSON(p, task, workload, task_trials, best_seconds, best_gflops, improved));
  if (!p.note.empty()) event["note"] = p.note;
  print_json_line(event);
}

// As much as fits `width` columns: the workload is left out first, then GFLOP/s, the best time, the bar and the time
// that has passed.
std::string ProgressView::status(const search::Progress& p, size_t width) const {
  double share = p.trials_limit > 0 ? static_cast<double>(p.trials) / static_cast<double>(p.trials_limit) : 0;
  if (time_limit_ > 0) share = std::max(share, p.elapsed_seconds / time_limit_);
  constexpr double kCells = 24;
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kCells);
  const std::string bar =
      fmt::format("[{}{}] ", std::string(full, '#'), std::string(static_cast<size_t>(kCells) - full, '.'));
  const std::string trials =
      p.trials_limit > 0 ? fmt::format("{}/{}", p.trials, p.trials_limit) : fmt::format("{} measured", p.trials);
  const std::string elapsed = fmt::format(", {}", format_elapsed(p.elapsed_seconds));
  std::string left;
  if (p.kind == Kind::kFinals) left = fmt::format(", final {}/{}", p.finals_done + 1, p.finals_total);
  if (p.remaining_seconds >= 0) left += fmt::format(", about {} left", format_elapsed(p.remaining_seconds));
  std::string best, rate, workload;
  if (p.best_seconds > 0) best = fmt::format("; best {}", format_duration(p.best_seconds));
  if (p.best_seconds > 0 && p.best_gflops > 0) rate = fmt::format(" ({:.1f} GFLOP/s)", p.best_gflops);
  if (!p.workload.empty()) workload = (p.improved ? " (new) for " : " for ") + p.workload;
  const std::string most = bar + trials + elapsed + left + best + rate;
  if (text_width(most) + kLeastWorkload <= width) return most + workload;  // which is cut where it is longer
  for (const std::string& line :
       {most, bar + trials + elapsed + left + best, bar + trials + elapsed + left, trials + elapsed + left})
    if (text_width(line) <= width) return line;
  return trials + left;
}

void ProgressView::show(const search::Progress& p) {
  curve_.add(p);
  if (common_.json) show_event(p);
  if (common_.quiet) return;
  if (p.kind == Kind::kNote) return remark(false, "note: " + p.note);
  if (p.kind != Kind::kRound && p.kind != Kind::kFinals) return;
  line_.show(line_.redraws() ? status(p, line_.width()) : describe(p));
}

}  // namespace tcc::cli
