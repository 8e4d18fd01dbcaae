// Timing a program that runs in this process.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "measure/host/quiet.h"
#include "measure/timing.h"

namespace tcc::measure {

struct HostTiming {
  TimingPlan plan;
  QuietTimes quiet;                            // of this machine
  std::span<const int32_t> cpus;               // that the program runs on; empty: stolen time is not looked at
  std::function<void(void (*)())> everywhere;  // see QuietWatch
};

// A program that is ready. Where it has `before`, that is called in front of each run, and is not timed.
struct HostRun {
  std::function<void()> run, before = {};
};

// time_program and time_pair of such programs; WorkerResult::quiet too.
void time_on_host(const HostRun& program, const HostTiming& timing, WorkerResult& result);
void time_pair_on_host(const HostRun& a, const HostRun& b, const HostTiming& timing, WorkerResult& result);

// Clock ticks that the hypervisor gave to others, summed over `cpus`; from the text of /proc/stat. 0 where it says
// nothing.
int64_t stolen_ticks(std::string_view stat, std::span<const int32_t> cpus);

}  // namespace tcc::measure
