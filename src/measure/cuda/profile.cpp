#include "measure/cuda/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tcc::measure {
namespace {

constexpr int kTracedSamples = 5;

}  // namespace

// The median over a few samples, each of as many runs as a timed one and on cold caches as that: the sum of what the
// kernels took, a share of it for each run.
Result<double> DeviceProfiler::device_seconds(const DeviceProgram& program, const CacheFlush& flush, int64_t repeats) {
  std::vector<double> samples;
  for (int i = 0; i < kTracedSamples; ++i) {
    TCC_TRY_VOID(flush.enqueue(device_));
    TCC_TRY_VOID(device_.synchronise());
    TCC_TRY(const auto kernels, trace_->kernels(device_, [&]() -> Result<void> {
      for (int64_t r = 0; r < repeats; ++r) TCC_TRY_VOID(program.launch(r % program.copies));
      return {};
    }));
    double sum = 0;
    for (const runtime::CudaTrace::Kernel& k : kernels) sum += k.seconds;
    samples.push_back(sum / static_cast<double>(repeats));
  }
  std::nth_element(samples.begin(), samples.begin() + kTracedSamples / 2, samples.end());
  return samples[kTracedSamples / 2];
}

void DeviceProfiler::note(const char* what, const Error& error, WorkerResult& result) {
  const std::string before = result.note.data();
  set_text(result.note, fmt::format("{}{}{}: {}{}{}; measuring goes on without", before, before.empty() ? "" : "\n",
                                    what, error.message, error.hint.empty() ? "" : "; ", error.hint));
}

void DeviceProfiler::trace(const DeviceProgram& program, const CacheFlush& flush, WorkerResult& result) {
  if (no_trace_) return;
  if (trace_ == nullptr) {
    auto opened = runtime::CudaTrace::open(library_);
    if (!opened) {
      no_trace_ = no_counters_ = true;
      return note("no times and counters by CUPTI", opened.error(), result);
    }
    trace_ = std::move(*opened);
  }
  auto seconds = device_seconds(program, flush, std::max<int64_t>(result.repeats, 1));
  if (seconds) {
    result.device_seconds = *seconds;
  } else if (!device_.lost()) {
    no_trace_ = true;
    note("no times by CUPTI", seconds.error(), result);
  }
}

void DeviceProfiler::count(const DeviceProgram& program, WorkerResult& result) {
  if (no_counters_) return;
  if (counters_ == nullptr) {
    auto opened = runtime::CudaCounters::open(device_, ordinal_, library_);
    if (!opened) {
      no_counters_ = true;
      return note("no counters by CUPTI", opened.error(), result);
    }
    counters_ = std::move(*opened);
  }
  auto counted = counters_->count([&] { return program.launch(0); });
  if (counted) {
    result.has_counts = 1;
    result.counts = {counted->dram_bytes, counted->tensor_share, counted->occupancy};
  } else if (!device_.lost()) {
    no_counters_ = true;
    note("no counters by CUPTI", counted.error(), result);
  }
}

void DeviceProfiler::profile(const DeviceProgram& program, const CacheFlush& flush, WorkerResult& result) {
  if (!enabled_) return;
  trace(program, flush, result);
  if (!device_.lost()) count(program, result);
}

}  // namespace tcc::measure
