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
  constexpr const char* kNames[] = {"started", "round", "task_finished", "finished", "note", "finals"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

ProgressView::ProgressView(const Common& common, double time_limit, ValueCurve& curve)
    : common_(common), curve_(curve), time_limit_(time_limit), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressView::~ProgressView() {
  if (bar_shown_) std::fputs("\n", stderr);
}

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
  if (p.kind != Kind::kRound && p.kind != Kind::kFinals) return;
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
