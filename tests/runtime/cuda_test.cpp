// A device, by a driver that only pretends: memory between guards, graphs, what its errors mean, the watch on its
// clock.
#include <dlfcn.h>
#include <catch2/catch.hpp>

#include <cstdlib>

#include "tcc/runtime/cuda_clock.h"
#include "tcc/runtime/cuda_device.h"

using namespace tcc;

namespace {

std::unique_ptr<runtime::CudaDevice> open() {
  auto device = runtime::CudaDevice::open(0, TCC_FAKE_CUDA);
  if (!device) FAIL(device.error().message);
  return std::move(*device);
}

codegen::Artifact program(const std::string& symbol, int64_t threads = 32) {
  codegen::Artifact artifact;
  artifact.format = codegen::CodeFormat::kPtx;
  artifact.code = fmt::format(".version 8.0\n.target sm_80\n.visible .entry {}(.param .u64 x)\n", symbol);
  artifact.launches.push_back({.symbol = symbol, .block = {threads, 1, 1}});
  artifact.buffers.push_back({ir::BufferRole::kOutput, ir::Type::kF32, {8}, "", 32, 16});
  return artifact;
}

}  // namespace

TEST_CASE("cuda: a device has the peaks of its architecture's tensor cores", "[unit]") {
  const target::Target device = open()->target(), a100 = *target::find_target("a100");
  REQUIRE(device.cuda.sm_arch == 80);
  const double scale = static_cast<double>(device.cuda.sm_count) * device.clock_hz /
                       (static_cast<double>(a100.cuda.sm_count) * a100.clock_hz);
  CHECK(device.peak.fp16 == Approx(a100.peak.fp16 * scale));
  CHECK(device.peak.tf32 == Approx(a100.peak.tf32 * scale));
  CHECK(device.peak.int8 > device.peak.fp16);
}

TEST_CASE("cuda: the driver says how many clusters a device holds", "[unit]") {
  CHECK(open()->target().cuda.clusters_of_2 == 0);  // an architecture without clusters
  void* library = dlopen(TCC_FAKE_CUDA, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto configure = reinterpret_cast<void (*)(const char*)>(dlsym(library, "fake_cuda_configure"));
  REQUIRE(configure != nullptr);
  configure("arch=90");
  auto device = runtime::CudaDevice::open(0, TCC_FAKE_CUDA);
  if (!device) FAIL(device.error().message);
  const target::Target& t = (*device)->target();
  REQUIRE(t.cuda.features.clusters);
  CHECK(t.cuda.clusters_of_2 == 108 / 2 - 1);
  CHECK(t.cuda.clusters_of_4 == 108 / 4 - 1);
  CHECK(target::resident_clusters(t, 4) == 108 / 4 - 1);
  CHECK(t.notes.empty());
  device->reset();
  configure(nullptr);
}

TEST_CASE("cuda: what is written beside a guarded buffer shows", "[unit]") {
  auto device = open();
  auto buffer = runtime::GuardedCudaBuffer::allocate(*device, 100);
  REQUIRE(buffer);
  CHECK(buffer->bytes() == 100);
  REQUIRE(device->fill_at(buffer->address(), 100, 7));
  CHECK(buffer->margins_intact().value());
  for (const int64_t beside : {int64_t{-1}, int64_t{100}, int64_t{-4096}, int64_t{4195}}) {
    auto other = runtime::GuardedCudaBuffer::allocate(*device, 100);
    REQUIRE(other);
    REQUIRE(device->fill_at(other->address() + static_cast<uint64_t>(beside), 1, 7));
    INFO(beside);
    CHECK_FALSE(other->margins_intact().value());
  }
  std::vector<std::byte> bytes(100);
  REQUIRE(device->download_at(bytes, buffer->address()));
  CHECK(bytes[99] == std::byte{7});
}

TEST_CASE("cuda: a graph is launched as often as it was recorded for", "[unit]") {
  auto device = open();
  auto kernel = device->load(program("tcc_nothing_0"));
  REQUIRE(kernel);
  auto memory = device->allocate(32);
  REQUIRE(memory);
  const uint64_t params[] = {memory->address()};
  auto one = device->time(1, [&] { return (*kernel)->launch(params); });
  REQUIRE(one);
  auto graph = device->record([&]() -> Result<void> {
    for (int i = 0; i < 10; ++i) TCC_TRY_VOID((*kernel)->launch(params));
    return {};
  });
  REQUIRE(graph);
  REQUIRE(*graph != nullptr);
  auto ten = device->time(1, [&] { return (*graph)->launch(); });
  REQUIRE(ten);
  CHECK(*ten > 5 * *one);
  // What cannot be recorded is an error, and leaves the stream usable.
  CHECK_FALSE(device->record([&] { return (*kernel)->launch({}); }));
  CHECK(device->time(1, [&] { return (*kernel)->launch(params); }));
}

TEST_CASE("cuda: blocks that wait for each other are launched together or not at all", "[unit]") {
  auto device = open();
  auto memory = device->allocate(32);
  REQUIRE(memory);
  const uint64_t params[] = {memory->address()};
  codegen::Artifact together = program("tcc_together_0", 1024);
  together.launches[0].grid = {216, 1, 1};  // two blocks on each of 108 multiprocessors
  for (const bool cooperative : {false, true}) {
    together.launches[0].cooperative = cooperative;
    for (const int64_t more : {0, 1}) {
      together.launches[0].grid[0] = 216 + more;
      auto kernel = device->load(together);
      REQUIRE(kernel);
      CHECK(((*kernel)->launch(params).has_value()) == (!cooperative || more == 0));
    }
  }
  CHECK(device->last_error() == 720);
  // Clusters are part of the code; this device has none.
  codegen::Artifact cluster = program("tcc_cluster_0");
  cluster.code.insert(cluster.code.find('\n', cluster.code.find(".entry")), "\n.reqnctapercluster 2, 1, 1\n{");
  cluster.launches[0].grid = {4, 1, 1};
  auto kernel = device->load(cluster);
  REQUIRE(kernel);
  CHECK_FALSE((*kernel)->launch(params));
  CHECK(device->last_error() == 912);
  CHECK_FALSE(device->lost());
}

TEST_CASE("cuda: a launch that is refused is not the device's end", "[unit]") {
  auto device = open();
  auto memory = device->allocate(32);
  auto kernel = device->load(program("tcc_large_0", 2048));
  REQUIRE((memory && kernel));
  const uint64_t params[] = {memory->address()};
  CHECK_FALSE((*kernel)->launch(params));
  CHECK(device->last_error() == 701);
  CHECK_FALSE(device->lost());
  auto large = device->allocate(int64_t{1} << 40);
  REQUIRE_FALSE(large);
  CHECK(device->last_error() == 2);
  CHECK_FALSE(device->lost());
  CHECK_THAT(large.error().hint, Catch::Contains("free device memory"));
}

TEST_CASE("cuda: a slow clock and throttling are seen", "[unit]") {
  auto device = open();
  // Without NVML the calibration kernel tells; on the fake device its time never changes.
  auto plain = runtime::CudaClock::open(*device, "/nonexistent/libnvidia-ml.so.1");
  CHECK(plain->source() == "a calibration kernel");
  auto look = plain->look();
  REQUIRE(look);
  CHECK(look->calibration > 0);
  CHECK(look->slowdown == 1);
  CHECK_FALSE(look->throttled);
  setenv("FAKE_NVML", "1980", 1);
  auto clock = runtime::CudaClock::open(*device, TCC_FAKE_NVML);
  CHECK(clock->source() == "NVML and a calibration kernel");
  CHECK_FALSE(clock->look()->throttled);
  setenv("FAKE_NVML", "600 throttled", 1);
  CHECK(clock->look()->throttled);
  setenv("FAKE_NVML", "1500 capped", 1);  // by its own power: the program's doing
  CHECK_FALSE(clock->look()->throttled);
  unsetenv("FAKE_NVML");
}
