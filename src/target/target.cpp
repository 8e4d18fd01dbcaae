// Names, feature strings and hashes of targets.
#include "tcc/target/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "target/cpu_targets.h"
#include "target/gpu_descriptors.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"
#include "tcc/target/core_model.h"

namespace tcc::target {

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"host"};
  for (const Target& t : generic_cpu_targets()) names.push_back(t.name);
  for (const Target& t : gpu_descriptors()) names.push_back(t.name);
  return names;
}

Result<Target> find_target(std::string_view name) {
  if (name == "host") return host_target();
  for (Target& t : generic_cpu_targets())
    if (t.name == name) return std::move(t);
  for (const Target& t : gpu_descriptors())
    if (t.name == name) return t;
  const std::vector<std::string> names = target_names();
  const std::string near = suggest(name, names);
  return make_error(ErrorClass::kUsage, fmt::format("expected the name of a target, not '{}'", sanitize(name)),
                    fmt::format("{}{}run 'tcc targets' to list them, or describe another machine with --target-file",
                                near, near.empty() ? "" : " "));
}

Result<Target> cuda_target_for(int64_t sm_arch) {
  Target t;
  t.name = fmt::format("sm_{}", sm_arch);
  t.kind = TargetKind::kCuda;
  t.source = "CUDA C++ Programming Guide, compute capabilities";
  t.cuda = cuda_limits(sm_arch);
  if (t.cuda.sm_arch == 0)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("compute capability {}.{} is older than 3.7", sm_arch / 10, sm_arch % 10),
                      "use a newer device or a CPU target");
  if (t.cuda.sm_arch != sm_arch) {
    t.notes.push_back(
        fmt::format("limits and features of sm_{} are unknown: those of sm_{} are taken", sm_arch, t.cuda.sm_arch));
    t.cuda.sm_arch = sm_arch;
    return t;
  }
  if (sm_arch == 90 || sm_arch == 100 || sm_arch == 103) t.cuda.sm_suffix = "a";
  t.cuda.features = cuda_features(sm_arch, t.cuda.sm_suffix);
  return t;
}

std::string sm_name(const Target& target) {
  TCC_CHECK(target.cuda.sm_arch > 0, "{} is not a CUDA target", target.name);
  return fmt::format("sm_{}{}", target.cuda.sm_arch, target.cuda.sm_suffix);
}

std::string llvm_feature_string(const Target& target) {
  TCC_CHECK(target.cuda.sm_arch == 0, "{} is not a CPU target", target.name);
  std::string text;
  const CpuFeatures& f = target.cpu.features;
#define TCC_APPEND_FEATURE(field, llvm) \
  if (f.field) text += text.empty() ? "+" llvm : ",+" llvm;
  TCC_CPU_FEATURES(TCC_APPEND_FEATURE)
#undef TCC_APPEND_FEATURE
  return text;
}

const CoreModel& core_model(const Target& target) {
  return target.cpu.core;
}

int64_t isa_level(const Target& target) {
  if (!target.is_cpu()) return 0;
  int64_t level = 1;
  for (int64_t candidate = 2; candidate <= 4; ++candidate) {
    const CpuFeatures need = level_features(candidate);
    bool all = true;
#define TCC_TEST_FEATURE(field, llvm) all = all && (!need.field || target.cpu.features.field);
    TCC_CPU_FEATURES(TCC_TEST_FEATURE)
#undef TCC_TEST_FEATURE
    if (!all) break;
    level = candidate;
  }
  return level;
}

std::string isa_level_name(int64_t level) {
  TCC_CHECK(level >= 1 && level <= 4, "no x86-64 level {}", level);
  return level == 1 ? "x86-64" : fmt::format("x86-64-v{}", level);
}

int64_t resident_clusters(const Target& target, int64_t blocks, int64_t per_sm) {
  const CudaInfo& c = target.cuda;
  const int64_t sms = std::max<int64_t>(c.sm_count, 1), group = static_cast<int64_t>(c.model.sms_per_gpc);
  int64_t clusters = blocks == 2 ? c.clusters_of_2 : blocks == 4 ? c.clusters_of_4 : blocks == 8 ? c.clusters_of_8 : 0;
  if (clusters == 0 && (blocks <= 1 || group == 0)) clusters = sms / std::max<int64_t>(blocks, 1);
  if (clusters == 0) clusters = sms / group * (group / blocks) + sms % group / blocks;
  return std::max<int64_t>(clusters * per_sm, 1);
}

uint64_t feature_hash(const Target& target) {
  // Names, not positions: a feature added to the list later leaves the hashes of machines without it alone.
  if (target.is_cpu()) {
    uint64_t hash = hash_bytes("cpu");
    hash = combine_hash(hash, static_cast<uint64_t>(target.cpu.vector_bits));
    // A sum, so that the order of the list does not matter either.
    uint64_t features = 0;
#define TCC_HASH_FEATURE(field, llvm) \
  if (target.cpu.features.field) features += hash_bytes(llvm);
    TCC_CPU_FEATURES(TCC_HASH_FEATURE)
#undef TCC_HASH_FEATURE
    return combine_hash(hash, features);
  }
  if (!target.is_cuda()) return hash_bytes(target.name, hash_bytes("other"));
  const CudaInfo& cuda = target.cuda;
  uint64_t hash = hash_bytes(sm_name(target), hash_bytes("cuda"));
  for (int64_t value :
       {cuda.max_threads_per_block, cuda.max_threads_per_sm, cuda.max_blocks_per_sm, cuda.registers_per_sm,
        cuda.max_registers_per_thread, cuda.shared_per_block, cuda.shared_per_block_optin, cuda.shared_per_sm})
    hash = combine_hash(hash, static_cast<uint64_t>(value));
  if (cuda.simulated != 0) hash = combine_hash(hash_bytes("simulated", hash), static_cast<uint64_t>(cuda.simulated));
  return hash;
}

}  // namespace tcc::target
