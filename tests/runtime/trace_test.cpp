// Times of kernels by CUPTI, by a library that only pretends.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tcc/runtime/cuda_trace.h"

using namespace tcc;

namespace {

struct Setting {
  explicit Setting(const char* text) { setenv("FAKE_CUPTI", text, 1); }
  ~Setting() { unsetenv("FAKE_CUPTI"); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
};

codegen::Artifact program(int64_t blocks) {
  codegen::Artifact artifact;
  artifact.format = codegen::CodeFormat::kPtx;
  artifact.code =
      ".version 8.0\n.target sm_80\n.visible .entry tcc_a_0(.param .u64 x)\n.visible .entry tcc_a_1(.param .u64 x)\n";
  artifact.launches.push_back({.symbol = "tcc_a_0", .grid = {blocks, 1, 1}, .block = {32, 1, 1}});
  artifact.launches.push_back({.symbol = "tcc_a_1", .block = {32, 1, 1}});
  artifact.buffers.push_back({ir::BufferRole::kOutput, ir::Type::kF32, {8}, "", 32, 16});
  return artifact;
}

}  // namespace

TEST_CASE("cupti: kernels come with the device's times, in order", "[unit]") {
  auto device = runtime::CudaDevice::open(0, TCC_FAKE_CUDA);
  REQUIRE(device);
  auto trace = runtime::CudaTrace::open(TCC_FAKE_CUPTI);
  if (!trace) FAIL(trace.error().message);
  auto memory = (*device)->allocate(32);
  auto kernel = (*device)->load(program(1000));
  REQUIRE((memory && kernel));
  const uint64_t params[] = {memory->address()};
  const auto run = [&] { return (*kernel)->launch(params); };
  // Launches before and after are not of the trace.
  REQUIRE(run());
  for (const int times : {1, 5}) {
    auto kernels = (*trace)->kernels(**device, [&]() -> Result<void> {
      for (int i = 0; i < times; ++i) TCC_TRY_VOID(run());
      return {};
    });
    if (!kernels) FAIL(kernels.error().message);
    REQUIRE(kernels->size() == static_cast<size_t>(2 * times));
    for (size_t i = 0; i < kernels->size(); ++i) {
      const runtime::CudaTrace::Kernel& k = (*kernels)[i];
      CHECK(k.symbol == (i % 2 == 0 ? "tcc_a_0" : "tcc_a_1"));
      // The fake device takes 2 us and 10 ns a block.
      CHECK(k.seconds == Approx(i % 2 == 0 ? 12e-6 : 2.01e-6).margin(2e-9));
      if (i > 0) CHECK(k.start >= (*kernels)[i - 1].start + (*kernels)[i - 1].seconds - 2e-9);
    }
    REQUIRE(run());
    REQUIRE((*device)->synchronise());
  }
  // What goes wrong inside leaves the trace usable.
  CHECK_FALSE((*trace)->kernels(**device, [&] { return (*kernel)->launch({}); }));
  CHECK((*trace)->kernels(**device, run).value().size() == 2);
}

TEST_CASE("cupti: a trace that cannot be had is an error, not a time", "[unit]") {
  auto device = runtime::CudaDevice::open(0, TCC_FAKE_CUDA);
  REQUIRE(device);
  CHECK_FALSE(runtime::CudaTrace::open("/nonexistent/libcupti.so"));
  CHECK_THAT(runtime::CudaTrace::open(TCC_FAKE_NVML).error().message, Catch::Contains("lacks functions of CUPTI"));
  {
    Setting old("old");
    CHECK_THAT(runtime::CudaTrace::open(TCC_FAKE_CUPTI).error().message, Catch::Contains("not known (7)"));
  }
  auto trace = runtime::CudaTrace::open(TCC_FAKE_CUPTI);
  REQUIRE(trace);
  const auto nothing = [] { return Result<void>(); };
  {
    Setting refused("refused");
    CHECK_THAT((*trace)->kernels(**device, nothing).error().message, Catch::Contains("status 39"));
  }
  {
    Setting lossy("lossy");
    CHECK_THAT((*trace)->kernels(**device, nothing).error().message, Catch::Contains("lost 5 records"));
  }
  CHECK((*trace)->kernels(**device, nothing).value().empty());
}
