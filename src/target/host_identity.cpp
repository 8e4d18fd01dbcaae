#include <cpuid.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "tcc/support/text.h"
#include "tcc/target/probe.h"

namespace tcc::target {
namespace {

// The processor's own name for itself, from CPUID; only told apart from others, never interpreted.
std::string brand() {
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000004) return "";
  std::array<char, 49> text{};
  for (unsigned i = 0; i < 3; ++i) {
    std::array<unsigned, 4> r{};
    __get_cpuid(0x80000002 + i, &r[0], &r[1], &r[2], &r[3]);
    std::memcpy(text.data() + 16 * i, r.data(), 16);
  }
  std::string name = text.data();
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  name.erase(name.find_last_not_of(' ') + 1);
  return sanitize(name);
}

}  // namespace

std::string host_identity(const Target& host) {
  const CpuInfo& cpu = host.cpu;
  return fmt::format("{}; {}; {} cores, {} threads, caches of {}, {} and {} bytes", brand(), llvm_feature_string(host),
                     cpu.cores, cpu.threads, cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes);
}

std::string platform_text(const Target& target) {
  if (target.is_cuda()) {
    const std::string name = fmt::format("{}, {} multiprocessors", sm_name(target), target.cuda.sm_count);
    return target.cuda.simulated != 0 ? fmt::format("{}, simulated {}", name, target.cuda.simulated) : name;
  }
  static const std::string here = [] {
    const CpuInfo cpu = host_target().cpu;
    return fmt::format("{}, caches of {}, {} and {} bytes", brand(), cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes);
  }();
  return here;
}

}  // namespace tcc::target
