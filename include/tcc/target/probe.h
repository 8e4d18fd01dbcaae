// Measures what the host reaches, so that model predictions and "share of the machine" figures refer to this machine
// on this day. The caller caches the result.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::target {

// The logical processors of this one's core, itself among them; itself alone where the system does not say.
std::vector<int> core_siblings(int cpu);

struct ProbeOptions {
  double seconds = 2.0;  // time spent in measured loops; setting up the memory comes on top
  int64_t repeats = 5;   // rounds over all quantities: of arithmetic the best counts, of memory the median
  int64_t threads = 0;   // 0 = one for each usable core
};

struct ProbeRate {
  double one_core = 0;
  double all_cores = 0;
};

struct ProbeResult {
  int64_t vector_bits = 0;  // width used for everything but fp32_256
  int64_t threads = 0;      // behind all_cores
  int64_t repeats = 0;
  ProbeRate fp32;      // operations per second, fused multiply-add counted as two
  ProbeRate fp32_256;  // the same with 256-bit vectors (128-bit where there is no AVX)
  // Bytes per second, each core on its own data.
  ProbeRate l1_read;
  ProbeRate l2_read;
  ProbeRate l3_read;
  ProbeRate dram_read;
  ProbeRate dram_copy;  // bytes read plus bytes written with non-temporal stores
  int64_t l1_set_bytes = 0, l2_set_bytes = 0, l3_set_bytes = 0, dram_set_bytes = 0;  // working set of one core
  // Share of the samples during which other programs had the processor for more than a twentieth of the time.
  double disturbed = 0;
  std::vector<std::string> notes;
};

// Fails only where memory for the measurement cannot be had.
Result<ProbeResult> probe_host(const ProbeOptions& options = {});
Result<ProbeResult> probe_host(const Target& host, const ProbeOptions& options);

std::string probe_to_json(const ProbeResult& probe);
Result<ProbeResult> probe_from_json(std::string_view text);

// What rates belong to: the processor's model, its features, and the cores and caches that this process may use. Equal
// where a probe would measure the same; for keeping probes apart.
std::string host_identity(const Target& host);
// The kind of machine that runs programs for the target, for people and to tell machines apart whose programs are
// exchangeable but whose times are not: this machine's processor and caches, or the GPU's architecture and
// multiprocessors. It does not depend on affinity or on how many cores a process may use.
std::string platform_text(const Target& target);

// `host` with measured rates; its vector width falls to 256 where 512-bit arithmetic proved slower.
Target apply_probe(Target host, const ProbeResult& probe);

}  // namespace tcc::target
