#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/json.h"
#include "cli/output.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Kind = search::Progress::Kind;

const char* event_name(Kind kind) {
  constexpr const char* kNames[] = {"started", "round", "task_finished", "finished", "note"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

ProgressView::ProgressView(const Common& common, double time_limit, ValueCurve& curve)
    : common_(common), curve_(curve), time_limit_(time_limit), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressView::~ProgressView() {
  if (bar_shown_) std::fputs("\n", stderr);
}

double ProgressView::remaining(const search::Progress& p) const {
  double left = -1;
  if (p.trials > 0 && p.trials_limit > 0)
    left = p.elapsed_seconds / static_cast<double>(p.trials) * static_cast<double>(p.trials_limit - p.trials);
  if (time_limit_ > 0) {
    const double limit = std::max(time_limit_ - p.elapsed_seconds, 0.0);
    left = left < 0 ? limit : std::min(left, limit);
  }
  return left;
}

std::string ProgressView::describe(const search::Progress& p) const {
  std::string text = p.trials_limit > 0 ? fmt::format("{}/{} measured", p.trials, p.trials_limit)
                                        : fmt::format("{} measured", p.trials);
  text += fmt::format(", {} elapsed", format_elapsed(p.elapsed_seconds));
  if (p.trials_limit > 0 && p.trials >= p.trials_limit)
    text += ", comparing the fastest of each task";
  else if (const double left = remaining(p); left >= 0)
    text += fmt::format(", about {} left", format_elapsed(left));
  if (p.best_seconds > 0)
    text += fmt::format("; best {}{}", format_duration(p.best_seconds),
                        p.best_gflops > 0 ? fmt::format(" ({:.1f} GFLOP/s)", p.best_gflops) : "");
  if (!p.workload.empty()) text += (p.improved ? " (new) for " : " for ") + p.workload;
  return text;
}

void ProgressView::show_event(const search::Progress& p) const {
  Json event = {{"event", event_name(p.kind)}};
  event.update(TCC_JSON(p, trials, trials_limit, elapsed_seconds));
  if (p.task >= 0) event.update(TCC_JSON(p, task, workload, task_trials, best_seconds, best_gflops, improved));
  if (!p.note.empty()) event["note"] = p.note;
  print_json_line(event);
}

void ProgressView::show(const search::Progress& p) {
  curve_.add(p);
  if (common_.json) show_event(p);
  if (common_.quiet) return;
  if (p.kind == Kind::kNote) {
    if (bar_shown_) std::fputs("\n", stderr);
    bar_shown_ = false;
    remark(false, "note: " + p.note);
    return;
  }
  if (p.kind != Kind::kRound) return;
  if (!terminal_) {
    remark(common_.json, describe(p));
    return;
  }
  constexpr int64_t kCells = 24;
  double share = p.trials_limit > 0 ? static_cast<double>(p.trials) / static_cast<double>(p.trials_limit) : 0;
  if (time_limit_ > 0) share = std::max(share, p.elapsed_seconds / time_limit_);
  const auto full = static_cast<int64_t>(std::clamp(share, 0.0, 1.0) * kCells);
  std::string line = fmt::format("[{}{}] {}", std::string(static_cast<size_t>(full), '#'),
                                 std::string(static_cast<size_t>(kCells - full), '.'), describe(p));
  constexpr size_t kWidth = 150;
  std::fputs(fmt::format("\r\x1b[K{}", line.substr(0, kWidth)).c_str(), stderr);
  std::fflush(stderr);
  bar_shown_ = true;
}

}  // namespace tcc::cli
