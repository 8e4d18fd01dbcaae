// host_target(): cores, caches and memory of this machine. Whatever cannot be read is assumed and noted.
#include "target/host.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "target/cpu_targets.h"
#include "tcc/rt/rt.h"
#include "tcc/target/probe.h"

namespace tcc::target {
namespace {

std::string_view strip(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  return text;
}

// A one-line file of the kernel's, or none. Read here rather than by size: files in /sys and /proc claim sizes that
// are not their own.
std::optional<std::string> read_kernel_file(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return std::nullopt;
  char buffer[4096];
  const size_t n = std::fread(buffer, 1, sizeof buffer, file);
  std::fclose(file);
  return std::string(strip(std::string_view(buffer, n)));
}

std::vector<int> affinity_cpus() {
  for (int capacity = 1024; capacity <= 1 << 18; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    const size_t size = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(size, set);
    std::vector<int> cpus;
    const bool ok = sched_getaffinity(0, size, set) == 0;
    for (int i = 0; ok && i < capacity; ++i)
      if (CPU_ISSET_S(i, size, set)) cpus.push_back(i);
    CPU_FREE(set);
    if (ok) return cpus;
  }
  return {};
}

std::string cpu_path(int cpu, const std::string& file) {
  return fmt::format("/sys/devices/system/cpu/cpu{}/{}", cpu, file);
}

// What rt finds by CPUID and XGETBV. Model and family numbers are never read: virtual machines mask them, and code
// chosen by model number then falls back to older instructions.
CpuFeatures host_features() {
  const uint64_t found = tcc_rt_cpu_features();
  CpuFeatures features;
#define TCC_X(field, name) features.field = (found & tcc_rt_cpu_feature(name)) != 0;
  TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
  return features;
}

void fill_cores(CpuInfo& info, std::vector<std::string>& notes) {
  const std::vector<int> cpus = affinity_cpus();
  if (cpus.empty()) {
    info.threads = std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
    info.cores = info.threads;
    notes.push_back("affinity could not be read: all online processors are counted as cores");
    return;
  }
  info.threads = static_cast<int64_t>(cpus.size());
  info.cores = static_cast<int64_t>(usable_core_cpus().size());
  if (!read_kernel_file(cpu_path(cpus.front(), "topology/thread_siblings_list")))
    notes.push_back("the topology in sysfs could not be read: every logical processor is counted as a core");
  const auto quota_text = read_kernel_file("/sys/fs/cgroup/cpu.max");
  const auto quota = quota_text ? parse_cpu_quota(*quota_text) : std::nullopt;
  if (quota && *quota < static_cast<double>(info.cores)) {
    const int64_t allowed = std::max<int64_t>(1, static_cast<int64_t>(std::floor(*quota)));
    notes.push_back(
        fmt::format("the cgroup's quota of {} processors limits {} cores to {}", *quota, info.cores, allowed));
    info.cores = allowed;
    info.threads = std::min(info.threads, std::max<int64_t>(allowed, static_cast<int64_t>(std::ceil(*quota))));
  }
}

void fill_caches(CpuInfo& info, std::vector<std::string>& notes) {
  const std::vector<int> cpus = affinity_cpus();
  const int cpu = cpus.empty() ? 0 : cpus.front();
  int64_t found[4] = {0, 0, 0, 0};
  int64_t line = 0;
  for (int index = 0; index < 16; ++index) {
    const std::string base = fmt::format("cache/index{}/", index);
    const auto level = read_kernel_file(cpu_path(cpu, base + "level"));
    const auto type = read_kernel_file(cpu_path(cpu, base + "type"));
    const auto size = read_kernel_file(cpu_path(cpu, base + "size"));
    if (!level || !type || !size) break;
    const int number = std::atoi(level->c_str());
    const auto bytes = parse_cache_size(*size);
    if (*type == "Instruction" || number < 1 || number > 3 || !bytes) continue;
    found[number] = *bytes;
    const auto line_text = read_kernel_file(cpu_path(cpu, base + "coherency_line_size"));
    if (number == 1 && line_text) line = std::atoll(line_text->c_str());
  }
  // glibc asks CPUID itself, which still answers where a container hides sysfs.
  const long names[4] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  int64_t* const targets[4] = {nullptr, &info.l1_bytes, &info.l2_bytes, &info.l3_bytes};
  for (int level = 1; level <= 3; ++level) {
    if (found[level] <= 0) found[level] = std::max<int64_t>(0, sysconf(static_cast<int>(names[level])));
    if (found[level] > 0) {
      *targets[level] = found[level];
    } else if (level < 3) {
      notes.push_back(fmt::format("the L{} size is unknown: {} KiB assumed", level, *targets[level] >> 10));
    } else {
      *targets[level] = 0;
      notes.push_back("no L3 cache was reported: none assumed");
    }
  }
  if (line > 0) {
    info.cache_line_bytes = line;
  } else {
    notes.push_back(fmt::format("the cache line size is unknown: {} bytes assumed", info.cache_line_bytes));
  }
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  text = strip(text);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    int first = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (error != std::errc() || first < 0) return {};
    int last = first;
    if (end != part.data() + part.size()) {
      if (*end != '-') return {};
      auto [end2, error2] = std::from_chars(end + 1, part.data() + part.size(), last);
      if (error2 != std::errc() || end2 != part.data() + part.size() || last < first || last > 1 << 20) return {};
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return cpus;
}

std::optional<int64_t> parse_cache_size(std::string_view text) {
  text = strip(text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty()) return value;
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  if (unit == "G") return value << 30;
  return std::nullopt;
}

std::optional<double> parse_cpu_quota(std::string_view text) {
  text = strip(text);
  int64_t quota = 0, period = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quota);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return std::nullopt;
  auto [end2, error2] = std::from_chars(end + 1, text.data() + text.size(), period);
  if (error2 != std::errc() || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
}

std::vector<int> core_siblings(int cpu) {
  const auto text = read_kernel_file(cpu_path(cpu, "topology/thread_siblings_list"));
  const std::vector<int> siblings = text ? parse_cpu_list(*text) : std::vector<int>();
  return siblings.empty() ? std::vector<int>{cpu} : siblings;
}

std::vector<int> usable_core_cpus() {
  std::vector<int> result;
  std::set<int> taken;
  for (int cpu : affinity_cpus()) {
    if (taken.count(cpu)) continue;
    result.push_back(cpu);
    for (int sibling : core_siblings(cpu)) taken.insert(sibling);
  }
  return result;
}

Target host_target() {
  Target t;
  t.name = "host";
  t.kind = TargetKind::kCpu;
  t.source = "CPUID and XGETBV; sysfs, affinity and cgroup of this process";
  t.cpu.features = host_features();
  set_vector_shape(t.cpu);
  fill_cores(t.cpu, t.notes);
  fill_caches(t.cpu, t.notes);
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    t.memory_bytes = pages * page;
  } else {
    t.memory_bytes = int64_t{4} << 30;
    t.notes.push_back("the memory size is unknown: 4 GiB assumed");
  }
  set_nominal_rates(t);
  t.notes.push_back("rates are nominal until this machine is probed");
  return t;
}

}  // namespace tcc::target
