#include "driver/neighbors.h"

#include <algorithm>
#include <cstdlib>

#include "tcc/support/text.h"

namespace tcc::driver {

Neighbors::Neighbors(const TuneRequest& request, record::Kind kind, double before, double build_seconds)
    : request_(request), before_(before), build_seconds_(build_seconds) {
  if (kind != record::Kind::kMeasured || request.measuring_folder.empty()) return;
  // A folder that cannot be written costs the notes only.
  if (auto here = MeasuringHere::begin(request.measuring_folder)) here_ = std::move(*here);
}

void Neighbors::watch(search::Progress progress) {
  progress.elapsed_seconds += before_;
  if (progress.remaining_seconds >= 0 && request_.afterwards)
    progress.remaining_seconds +=
        request_.afterwards(progress.elapsed_seconds + progress.remaining_seconds, build_seconds_);
  if (request_.progress) request_.progress(progress);
  if (progress.kind != search::Progress::Kind::kNote) look(progress);
}

void Neighbors::look(const search::Progress& progress) {
  double load = 0;
  if (getloadavg(&load, 1) == 1) load_ = std::max(load_, load);
  if (!here_) return;
  for (const int64_t pid : here_->others()) {
    if (!seen_.insert(pid).second || !request_.progress) continue;
    search::Progress note = progress;
    note.kind = search::Progress::Kind::kNote;
    note.note = fmt::format(
        "process {} measures on this machine as well: each disturbs the times of the other. Times that were disturbed "
        "are counted at the end",
        pid);
    request_.progress(note);
  }
}

}  // namespace tcc::driver
