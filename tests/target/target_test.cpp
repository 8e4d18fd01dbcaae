#include "tcc/target/target.h"
#include "tcc/target/device.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "target/cpu_targets.h"
#include "target/gpu_descriptors.h"
#include "target/host.h"
#include "tcc/target/last_cache.h"

namespace tcc::target {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("every listed target is found under its name", "[target]") {
  const std::vector<std::string> names = target_names();
  REQUIRE(names.front() == "host");
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  for (const char* wanted :
       {"x86-64-v2", "x86-64-v3", "x86-64-v4", "k80", "v100", "titan-v", "t4", "a100", "rtx-3070", "rtx-3080ti",
        "rtx-3090", "rtx-4090", "orin-agx", "orin-nano", "l4", "h100", "h200", "b200"})
    CHECK(std::count(names.begin(), names.end(), wanted) == 1);
  for (const std::string& name : names) {
    CAPTURE(name);
    auto t = find_target(name);
    REQUIRE(t);
    CHECK(t->name == name);
    CHECK(t->peak.fp32 > 0);
    CHECK(t->memory_bandwidth > 0);
    CHECK(t->memory_bytes > 0);
    CHECK(t->clock_hz > 0);
    CHECK_FALSE(t->source.empty());
  }
}

TEST_CASE("a misspelt target names its neighbors and how to list all", "[target][errors]") {
  auto t = find_target("a10");
  REQUIRE_FALSE(t);
  CHECK(t.error().cls == ErrorClass::kUsage);
  CHECK_THAT(t.error().message, Contains("'a10'"));
  CHECK_THAT(t.error().hint, Contains("'a100'") && Contains("tcc targets"));
  auto far = find_target("quantum-abacus");
  REQUIRE_FALSE(far);
  CHECK_THAT(far.error().hint, !Contains("did you mean") && Contains("--target-file"));
}

TEST_CASE("GPU descriptors agree with themselves", "[target]") {
  for (const Target& t : gpu_descriptors()) {
    CAPTURE(t.name);
    const CudaInfo& c = t.cuda;
    REQUIRE(t.is_cuda());
    CHECK(isa_level(t) == 0);
    CHECK(c.shared_per_block <= c.shared_per_block_optin);
    CHECK(c.shared_per_block_optin + c.shared_reserved_per_block <= c.shared_per_sm);
    CHECK(c.max_threads_per_sm % c.warp_size == 0);
    CHECK(c.max_threads_per_sm >= c.max_threads_per_block);
    // The fp32 peak is SMs x lanes x 2 x boost clock; a slip in any of the four columns shows here.
    const double computed = static_cast<double>(c.sm_count * c.fp32_lanes_per_sm * 2) * t.clock_hz;
    CHECK(t.peak.fp32 == Approx(computed).epsilon(0.02));
    CHECK((t.peak.tf32 > 0) == c.features.tf32);
    CHECK((t.peak.bf16 > 0) == c.features.bf16);
    CHECK((t.peak.fp16 > 0) == c.features.mma_sync);
    CHECK((t.peak.int8 > 0) == c.features.dp4a);
    CHECK(t.memory_bandwidth < 1e13);
  }
}

TEST_CASE("GPU features follow the compute capability", "[target]") {
  const Target t4 = *find_target("t4"), a100 = *find_target("a100"), h200 = *find_target("h200"),
               b200 = *find_target("b200");
  CHECK(sm_name(t4) == "sm_75");
  CHECK(sm_name(h200) == "sm_90a");
  CHECK(sm_name(b200) == "sm_100a");
  CHECK((t4.cuda.features.ldmatrix && !t4.cuda.features.cp_async && !t4.cuda.features.bf16));
  CHECK((a100.cuda.features.cp_async && a100.cuda.features.tf32 && !a100.cuda.features.tma));
  CHECK((h200.cuda.features.wgmma && h200.cuda.features.tma && !h200.cuda.features.tcgen05));
  CHECK((b200.cuda.features.tcgen05 && b200.cuda.features.tma && !b200.cuda.features.wgmma));
  CHECK(a100.cuda.shared_per_block_optin == 163 * 1024);
  CHECK(h200.cuda.shared_per_block_optin == 227 * 1024);

  auto ada = cuda_target_for(89);
  REQUIRE(ada);
  CHECK(ada->notes.empty());
  CHECK(ada->cuda.max_threads_per_sm == 1536);
  auto unknown = cuda_target_for(119);
  REQUIRE(unknown);
  CHECK(sm_name(*unknown) == "sm_119");
  REQUIRE(unknown->notes.size() == 1);
  CHECK_THAT(unknown->notes[0], Contains("sm_110"));
  CHECK_FALSE(unknown->cuda.features.wgmma);
  CHECK_FALSE(cuda_target_for(20));
}

TEST_CASE("a process counts on a share of a large last cache for each core, without one on the second level") {
  CpuInfo cpu;
  cpu.l2_bytes = int64_t{2} << 20;
  cpu.cores = 2;
  cpu.l3_bytes = int64_t{480} << 20;  // of a whole server, as a virtual machine sees it
  CHECK(last_cache_bytes(cpu) == int64_t{32} << 20);
  cpu.cores = 64;
  CHECK(last_cache_bytes(cpu) == cpu.l3_bytes);
  cpu.cores = 0;  // not known
  CHECK(last_cache_bytes(cpu) == int64_t{16} << 20);
  cpu.l3_bytes = 0;
  CHECK(last_cache_bytes(cpu) == cpu.l2_bytes);
}

TEST_CASE("the host target is sane", "[target]") {
  const Target host = host_target();
  REQUIRE(host.is_cpu());
  const CpuInfo& cpu = host.cpu;
  CHECK(cpu.cores >= 1);
  CHECK(cpu.threads >= cpu.cores);
  CHECK(cpu.threads <= std::max(1u, std::thread::hardware_concurrency()));
  CHECK((cpu.vector_bits == 128 || cpu.vector_bits == 256 || cpu.vector_bits == 512));
  CHECK(cpu.l1_bytes >= 8 << 10);
  CHECK(cpu.l2_bytes > cpu.l1_bytes);
  CHECK((cpu.cache_line_bytes & (cpu.cache_line_bytes - 1)) == 0);
  // The compiler's own detection, which also reads CPUID and XGETBV.
  __builtin_cpu_init();
  CHECK(cpu.features.sse4_2 == (__builtin_cpu_supports("sse4.2") != 0));
  CHECK(cpu.features.avx2 == (__builtin_cpu_supports("avx2") != 0));
  CHECK(cpu.features.fma == (__builtin_cpu_supports("fma") != 0));
  CHECK(cpu.features.avx512f == (__builtin_cpu_supports("avx512f") != 0));
  CHECK(cpu.features.avx512bw == (__builtin_cpu_supports("avx512bw") != 0));
  CHECK(cpu.features.avx512_vnni == (__builtin_cpu_supports("avx512vnni") != 0));
  CHECK(cpu.features.avx512_bf16 == (__builtin_cpu_supports("avx512bf16") != 0));
  CHECK(usable_core_cpus().size() >= static_cast<size_t>(cpu.cores));
}

TEST_CASE("the feature string holds exactly the bits set", "[target]") {
  for (const char* name : {"host", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const Target t = *find_target(name);
    const std::string text = "," + llvm_feature_string(t) + ",";
    CAPTURE(name, text);
    int64_t set = 0;
#define TCC_TEST_FEATURE(field, llvm)                                             \
  CHECK((text.find(",+" llvm ",") != std::string::npos) == t.cpu.features.field); \
  set += t.cpu.features.field;
    TCC_CPU_FEATURES(TCC_TEST_FEATURE)
#undef TCC_TEST_FEATURE
    CHECK(std::count(text.begin(), text.end(), '+') == set);
  }
  CHECK(llvm_feature_string(Target{}).empty());
}

TEST_CASE("instruction set levels", "[target]") {
  for (int64_t level = 2; level <= 4; ++level) {
    Target t = *find_target(isa_level_name(level));
    CHECK(isa_level(t) == level);
    t.cpu.features.popcnt = false;
    CHECK(isa_level(t) == 1);
  }
  CHECK(find_target("x86-64-v2")->cpu.vector_bits == 128);
  CHECK(find_target("x86-64-v3")->cpu.vector_bits == 256);
  CHECK(find_target("x86-64-v4")->cpu.vector_bits == 512);
  CHECK(find_target("x86-64-v4")->cpu.num_vector_registers == 32);
}

TEST_CASE("the feature hash sees instructions, not sizes or rates", "[target]") {
  const Target base = *find_target("x86-64-v4");
  Target t = base;
  t.name = "other";
  t.cpu.cores = 77;
  t.cpu.l2_bytes *= 2;
  t.peak.fp32 *= 3;
  CHECK(feature_hash(t) == feature_hash(base));
  t.cpu.features.avx512_bf16 = true;
  CHECK(feature_hash(t) != feature_hash(base));
  CHECK(feature_hash(*find_target("h100")) == feature_hash(*find_target("h200")));
  CHECK(feature_hash(*find_target("rtx-3090")) != feature_hash(*find_target("a100")));
}

TEST_CASE("JSON round trip of every target", "[target]") {
  for (const std::string& name : target_names()) {
    CAPTURE(name);
    const Target t = *find_target(name);
    auto back = target_from_json(target_to_json(t));
    if (!back) FAIL(back.error().message);
    CHECK(*back == t);
    CHECK(feature_hash(*back) == feature_hash(t));
  }
}

TEST_CASE("a target file may build on a base", "[target]") {
  auto t = target_from_json(R"({"name": "small-a100", "base": "a100", "memory_bandwidth": 1e12,
                                "cuda": {"sm_count": 54}, "peak": {"fp32": 9.75e12}})");
  if (!t) FAIL(t.error().message);
  const Target base = *find_target("a100");
  CHECK(t->name == "small-a100");
  CHECK(t->cuda.sm_count == 54);
  CHECK(t->memory_bandwidth == 1e12);
  CHECK(t->peak.fp32 == 9.75e12);
  CHECK(t->peak.fp16 == base.peak.fp16);
  CHECK(t->cuda.shared_per_sm == base.cuda.shared_per_sm);

  auto cpu = target_from_json(R"({"name": "box", "cpu": {"cores": 8, "features": ["avx", "avx2", "fma"]}})");
  if (!cpu) FAIL(cpu.error().message);
  CHECK(cpu->cpu.vector_bits == 256);
  CHECK(cpu->cpu.cores == 8);
  CHECK(cpu->peak.fp32 > 0);
  CHECK_FALSE(cpu->notes.empty());

  auto gpu = target_from_json(R"({"name": "big-ada", "clock_hz": 2.5e9, "memory_bandwidth": 9e11, "memory_bytes": 48e9,
      "cuda": {"sm_arch": 89, "sm_count": 142, "l2_bytes": 100663296}, "peak": {"fp32": 9.1e13}})");
  if (!gpu) FAIL(gpu.error().message);
  CHECK(sm_name(*gpu) == "sm_89");
  CHECK(gpu->cuda.shared_per_block_optin == 99 * 1024);
  CHECK(gpu->cuda.features.cp_async);
}

TEST_CASE("a target file may describe the core", "[target]") {
  auto t = target_from_json(
      R"({"base": "x86-64-v3", "name": "wide", "cpu": {"core": {"fmas_per_cycle": 4, "fma_latency": 5}}})");
  REQUIRE(t.has_value());
  CHECK(t->cpu.core.sums_in_flight() == 20);
  CHECK(t->cpu.core.loads_per_cycle == CoreModel{}.loads_per_cycle);
  CHECK(t->cpu.core.step(8, 2) == 5);    // one sum waits for itself
  CHECK(t->cpu.core.step(40, 2) == 10);  // the multiply-add ports are busy
  CHECK(t->cpu.core.step(8, 24) == 12);  // the load ports are
  auto back = target_from_json(target_to_json(*t));
  REQUIRE(back.has_value());
  CHECK(back->cpu.core == t->cpu.core);
  CHECK(feature_hash(*t) == feature_hash(*find_target("x86-64-v3")));
  auto misspelt = target_from_json(R"({"base": "x86-64-v3", "name": "x", "cpu": {"core": {"fma_latencies": 5}}})");
  REQUIRE_FALSE(misspelt.has_value());
  CHECK_THAT(misspelt.error().message,
             Catch::Contains("unknown key 'cpu.core.fma_latencies'") && Catch::Contains("fma_latency"));
  auto zero = target_from_json(R"({"base": "x86-64-v3", "name": "x", "cpu": {"core": {"loads_per_cycle": 0}}})");
  REQUIRE_FALSE(zero.has_value());
  CHECK_THAT(zero.error().message, Catch::Contains("'cpu.core.loads_per_cycle' is 0 but must be 0.1 to 1e18"));
}

TEST_CASE("a target file may describe how the analytical model counts", "[target]") {
  auto t = target_from_json(
      R"({"base": "h200", "name": "tuned", "cuda": {"clusters_of_4": 31, "model": {"memory_latency_ns": 620}}})");
  if (!t) FAIL(t.error().message);
  CHECK(t->cuda.model.memory_latency_ns == 620);
  CHECK(t->cuda.model.warp_matrix_share == 0.63);  // that of the base
  auto back = target_from_json(target_to_json(*t));
  REQUIRE(back.has_value());
  CHECK(*back == *t);
  // A file from before there was a model has that of its architecture.
  auto old = target_from_json(R"({"name": "old", "clock_hz": 2e9, "memory_bandwidth": 3e12, "memory_bytes": 48e9,
      "cuda": {"sm_arch": 90, "sm_count": 132, "l2_bytes": 50000000}, "peak": {"fp32": 6e13}})");
  if (!old) FAIL(old.error().message);
  CHECK(old->cuda.model == find_target("h100")->cuda.model);
  CHECK(find_target("a100")->cuda.model == SmModel{});
  auto misspelt = target_from_json(R"({"base": "a100", "name": "x", "cuda": {"model": {"memory_latency": 5}}})");
  REQUIRE_FALSE(misspelt.has_value());
  CHECK_THAT(misspelt.error().message, Catch::Contains("unknown key 'cuda.model.memory_latency'; did you mean"));
  auto share = target_from_json(R"({"base": "a100", "name": "x", "cuda": {"model": {"copy_share": 2}}})");
  REQUIRE_FALSE(share.has_value());
  CHECK_THAT(share.error().message, Catch::Contains("'cuda.model.copy_share' is 2 but a share is at most 1"));
  for (const SmModelField& field : kSmModelFields) {
    CAPTURE(field.name);
    CHECK(SmModel{}.*field.value >= field.least);
    CHECK_FALSE(field.meaning.empty());
    CHECK_FALSE(field.source.empty());
  }
}

TEST_CASE("a device has the tensor cores of its architecture, by multiprocessors and clock", "[target]") {
  for (const char* name : {"t4", "a100", "h100", "h200", "b200", "rtx-4090"}) {
    const Target known = *find_target(name);
    Target device = *cuda_target_for(known.cuda.sm_arch);
    device.cuda.sm_count = known.cuda.sm_count;
    device.clock_hz = known.clock_hz;
    complete_device(device);
    CAPTURE(name);
    CHECK(device.peak.fp16 == Approx(known.peak.fp16));
    CHECK(device.peak.bf16 == Approx(known.peak.bf16));
    CHECK(device.peak.tf32 == Approx(known.peak.tf32));
    CHECK(device.peak.int8 == Approx(known.peak.int8));
    CHECK(device.cuda.features == known.cuda.features);
    CHECK(sm_name(device) == sm_name(known));
    CHECK(device.notes.empty());
  }
  Target slice = *cuda_target_for(80);
  slice.cuda.sm_count = 54;
  slice.clock_hz = 0.9 * find_target("a100")->clock_hz;
  complete_device(slice);
  CHECK(slice.peak.fp16 == Approx(0.45 * find_target("a100")->peak.fp16));
  Target newer = *cuda_target_for(120);
  newer.cuda.sm_count = 170;
  newer.clock_hz = 2.4e9;
  complete_device(newer);
  CHECK(newer.peak.fp16 > 0);
  REQUIRE(newer.notes.size() == 1);
  CHECK_THAT(newer.notes[0], Catch::Contains("scaled") && Catch::Contains("sm_120"));
}

TEST_CASE("clusters that run at a time follow the driver, else the formula", "[target]") {
  Target t = *find_target("h200");
  REQUIRE(t.cuda.sm_count == 132);
  // Seven groups of 18 multiprocessors and one of 6: CUTLASS's get_max_cta_occupancy gives 116 blocks for clusters
  // of 4.
  CHECK(resident_clusters(t, 1) == 132);
  CHECK(resident_clusters(t, 2) == 66);
  CHECK(resident_clusters(t, 4) == 29);
  CHECK(resident_clusters(t, 8) == 14);
  CHECK(resident_clusters(t, 4, 2) == 58);
  t.cuda.clusters_of_4 = 31;
  CHECK(resident_clusters(t, 4) == 31);
  CHECK(resident_clusters(t, 2) == 66);
  CHECK(resident_clusters(*find_target("a100"), 1) == 108);
}

TEST_CASE("bad target files say what is wrong and where", "[target][errors]") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not JSON at byte"},
      {"[1]", "one JSON object"},
      {R"({"name": "x"})", "exactly one of 'cpu' and 'cuda'"},
      {R"({"base": "a100"})", "'name' is missing"},
      {R"({"name": "x", "base": "a101"})", "expected the name of a target, not 'a101'"},
      {R"({"name": "x", "base": 5})", "'base' must be"},
      {R"({"name": "x", "base": "a100", "cuda": {"sm_cuont": 3}})",
       "unknown key 'cuda.sm_cuont'; did you mean 'sm_count'"},
      {R"({"name": "x", "base": "a100", "cuda": {"sm_count": "many"}})", "'cuda.sm_count' must be a whole number"},
      {R"({"name": "x", "base": "a100", "cuda": {"sm_count": 0}})", "'cuda.sm_count' is 0 but must be 1 to 1e18"},
      {R"({"name": "x", "base": "a100", "cuda": {"warp_size": 64}})", "'cuda.warp_size' must be 32"},
      {R"({"name": "x", "base": "a100", "cuda": {"shared_per_sm": 65536}})", "'cuda.shared_per_sm'"},
      {R"({"name": "x", "base": "a100", "cpu": {}})", "'cpu' does not belong"},
      {R"({"name": "x", "base": "a100", "kind": "cpu"})", "'kind' does not agree"},
      {R"({"name": "x", "base": "a100", "memory_bandwidth": -1})", "'memory_bandwidth' is -1"},
      {R"({"name": "x", "base": "host", "cpu": {"vector_bits": 384}})", "128, 256 or 512"},
      {R"({"name": "x", "cpu": {"vector_bits": 512}})", "without the feature avx512f"},
      {R"({"name": "x", "cpu": {"features": ["avx3"]}})", "unknown feature 'avx3'"},
      {R"({"name": "x", "cuda": {"sm_count": 3}})", "'cuda.sm_arch' is needed"},
      {R"({"name": "x", "cuda": {"sm_arch": 80, "sm_count": 3, "l2_bytes": 4096}})", "'clock_hz'"},
      {R"({"name": "x", "kind": "tpu"})", "\"cpu\" or \"cuda\""},
      {R"({"name": "", "base": "a100"})", "1 to 64 characters"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    auto t = target_from_json(text);
    REQUIRE_FALSE(t);
    CHECK(t.error().cls == ErrorClass::kInput);
    CHECK_THAT(t.error().message, Contains(expected));
    CHECK_FALSE(t.error().hint.empty());
  }
}

TEST_CASE("texts of the kernel's files", "[target]") {
  CHECK(parse_cpu_list("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("0,4\n") == std::vector<int>{0, 4});
  CHECK(parse_cpu_list("5") == std::vector<int>{5});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("3-1").empty());
  CHECK(parse_cpu_list("a").empty());
  CHECK(parse_cache_size("48K") == 48 * 1024);
  CHECK(parse_cache_size("480M\n") == int64_t{480} << 20);
  CHECK_FALSE(parse_cache_size("12X"));
  CHECK_FALSE(parse_cache_size(""));
  CHECK(parse_cpu_quota("150000 100000") == 1.5);
  CHECK_FALSE(parse_cpu_quota("max 100000"));
  CHECK_FALSE(parse_cpu_quota(""));
}

}  // namespace
}  // namespace tcc::target
