// Facts about the machine that runs this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/target/target.h"

namespace tcc::target {

// One logical processor of each usable physical core, lowest number first; empty when affinity cannot be read.
std::vector<int> usable_core_cpus();

// "0-3,8" -> {0,1,2,3,8}; empty on malformed text. The format of the kernel's cpu lists.
std::vector<int> parse_cpu_list(std::string_view text);
// "48K", "2048K", "480M" -> bytes. The format of sysfs cache sizes.
std::optional<int64_t> parse_cache_size(std::string_view text);
// cgroup v2 cpu.max: "150000 100000" -> 1.5 processors; none for "max ...".
std::optional<double> parse_cpu_quota(std::string_view text);

}  // namespace tcc::target
