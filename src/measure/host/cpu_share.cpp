#include "measure/host/cpu_share.h"

#include <unistd.h>

#include <algorithm>

#include "tcc/target/probe.h"

namespace tcc::measure {
namespace {

cpu_set_t set_of(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  return set;
}

bool contains(std::span<const int> cpus, int cpu) {
  return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
}

}  // namespace

void CpuShare::divide(std::span<const int> cpus, int threads, bool may_bind) {
  auto count = std::min(static_cast<size_t>(std::max(threads, 1)), cpus.size());
  measure_cpus_.assign(cpus.end() - static_cast<int64_t>(count), cpus.end());
  compile_cpus_.clear();
  if (!may_bind) return;
  std::vector<int> taken;
  for (int cpu : measure_cpus_)
    for (int beside : target::core_siblings(cpu)) taken.push_back(beside);
  for (int cpu : cpus)
    if (!contains(taken, cpu) && !contains(measure_cpus_, cpu)) compile_cpus_.push_back(cpu);
  all_ = set_of(cpus);
  compile_ = set_of(compile_cpus_);
}

// A running thread is off its CPU when the call returns. A thread that has ended meanwhile is skipped.
void CpuShare::move_compilers() {
  for (pid_t thread : compilers_) sched_setaffinity(thread, sizeof(cpu_set_t), measuring_ ? &compile_ : &all_);
}

void CpuShare::begin_measuring() {
  std::lock_guard lock(mutex_);
  if (!divided() || measuring_) return;
  measuring_ = true;
  move_compilers();
}

void CpuShare::end_measuring() {
  std::lock_guard lock(mutex_);
  if (!measuring_) return;
  measuring_ = false;
  move_compilers();
}

CpuShare::Compiling::Compiling(CpuShare& share) : share_(share) {
  if (!share_.divided() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  std::lock_guard lock(share_.mutex_);
  bound_ = true;
  share_.compilers_.push_back(gettid());
  sched_setaffinity(0, sizeof(cpu_set_t), share_.measuring_ ? &share_.compile_ : &share_.all_);
}

CpuShare::Compiling::~Compiling() {
  if (!bound_) return;
  std::lock_guard lock(share_.mutex_);
  std::erase(share_.compilers_, gettid());
  sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace tcc::measure
