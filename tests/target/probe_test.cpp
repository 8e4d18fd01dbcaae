#include "tcc/target/probe.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "target/probe_kernels.h"

namespace tcc::target {
namespace {

using Catch::Matchers::Contains;

// Rates are never compared with each other or with a figure: a test must not depend on how busy the machine is.
TEST_CASE("the probe measures every quantity", "[target]") {
  const Target host = host_target();
  auto probe = probe_host(host, {.seconds = 0.05, .repeats = 1, .threads = 0});
  if (!probe) FAIL(probe.error().message);
  CHECK(probe->threads == host.cpu.cores);
  CHECK(probe->l1_set_bytes < host.cpu.l1_bytes);
  CHECK(probe->l2_set_bytes > host.cpu.l1_bytes);
  CHECK(probe->l3_set_bytes > host.cpu.l2_bytes);
  CHECK(probe->dram_set_bytes > probe->l3_set_bytes);
  for (const ProbeRate& rate : {probe->fp32, probe->fp32_256, probe->l1_read, probe->l2_read, probe->l3_read,
                                probe->dram_read, probe->dram_copy}) {
    CHECK(rate.one_core > 0);
    CHECK(rate.all_cores > 0);
  }

  auto back = probe_from_json(probe_to_json(*probe));
  if (!back) FAIL(back.error().message);
  CHECK(back->fp32.all_cores == probe->fp32.all_cores);
  CHECK(back->dram_copy.one_core == probe->dram_copy.one_core);
  CHECK(back->dram_set_bytes == probe->dram_set_bytes);
  CHECK(back->notes == probe->notes);

  const Target measured = apply_probe(host, *probe);
  CHECK(measured.measured);
  CHECK(measured.memory_bandwidth == probe->dram_read.all_cores);
  CHECK(measured.peak.fp32 > 0);
}

TEST_CASE("a width that measures slower is given up", "[target]") {
  Target host = *find_target("x86-64-v4");
  ProbeResult probe;
  probe.vector_bits = 512;
  probe.fp32 = {100, 200};
  probe.fp32_256 = {150, 300};
  probe.dram_read = {10, 20};
  const Target slow = apply_probe(host, probe);
  CHECK(slow.cpu.vector_bits == 256);
  CHECK(slow.peak.fp32 == 300);
  probe.fp32 = {200, 400};
  const Target fast = apply_probe(host, probe);
  CHECK(fast.cpu.vector_bits == 512);
  CHECK(fast.peak.fp32 == 400);
}

TEST_CASE("probe errors", "[target][errors]") {
  auto gpu = probe_host(*find_target("a100"), {});
  REQUIRE_FALSE(gpu);
  CHECK_THAT(gpu.error().message, Contains("'a100' is not the host"));
  CHECK_FALSE(probe_host({.seconds = 0, .repeats = 1, .threads = 1}));
  CHECK_FALSE(probe_from_json("{"));
  auto lacking = probe_from_json(R"({"vector_bits": 512})");
  REQUIRE_FALSE(lacking);
  CHECK_THAT(lacking.error().message, Contains("lacks a positive"));
}

TEST_CASE("the kernels of each width do the work they claim", "[target]") {
  const CpuFeatures features = host_target().cpu.features;
  for (int64_t bits : {128, 256, 512}) {
    if (bits == 256 && !(features.avx2 && features.fma)) continue;
    if (bits == 512 && !features.avx512f) continue;
    CAPTURE(bits);
    const ProbeKernels& kernels = probe_kernels(bits);
    CHECK(kernels.vector_bits == bits);
    struct alignas(64) Block {
      std::byte bytes[4096];
    };
    std::vector<Block> from(1), to(1);
    for (size_t i = 0; i < sizeof(Block); ++i) from[0].bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    kernels.copy(to[0].bytes, from[0].bytes, sizeof(Block));
    CHECK(std::memcmp(to[0].bytes, from[0].bytes, sizeof(Block)) == 0);

    // read is the exclusive or of all vectors; lane 0 of it comes from each vector's first four bytes.
    uint32_t expected = 0;
    std::memset(&from[0], 0, sizeof(Block));
    for (int64_t i = 0; i < static_cast<int64_t>(sizeof(Block)); i += bits / 8) {
      const uint32_t word = 0x00400000u ^ static_cast<uint32_t>(i * 2654435761u >> 12);
      std::memcpy(from[0].bytes + i, &word, 4);
      expected ^= word;
    }
    const float got = kernels.read(from[0].bytes, sizeof(Block));
    uint32_t got_bits = 0;
    std::memcpy(&got_bits, &got, 4);
    CHECK(got_bits == expected);

    // x -> 0.999 x + 0.001 has the fixed point 1: the sum of all chains tends to their number.
    const double chains = static_cast<double>(kernels.flops_per_iteration) / 2 / (static_cast<double>(bits) / 32);
    CHECK(static_cast<double>(kernels.fma(20000)) == Approx(chains).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace tcc::target
