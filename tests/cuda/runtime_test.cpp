// Devices and cuBLAS where there is no driver; and, tagged [gpu], on a device.
#include <cstring>

#include "cuda/support.h"
#include "gpu/cuda_blas.h"
#include "skip.h"
#include "tcc/runtime/cuda_device.h"

using namespace tcc;
using namespace tcc::codegen::testing;

TEST_CASE("without a driver opening a device is an error that says what to do") {
  auto device = runtime::CudaDevice::open();
  if (device) {
    auto beyond = runtime::CudaDevice::open(4096);
    REQUIRE_FALSE(beyond);
    CHECK_THAT(beyond.error().message, Catch::Contains("there is no CUDA device 4096"));
    return;
  }
  CHECK(device.error().cls == ErrorClass::kEnvironment);
  CHECK_FALSE(device.error().hint.empty());
}

TEST_CASE("a cuBLAS that is not there is an error") {
  auto blas = gpu_check::CudaBlas::open(nullptr, "/nonexistent/libcublas.so");
  REQUIRE_FALSE(blas);
  CHECK_THAT(blas.error().message, Catch::Contains("/nonexistent/libcublas.so"));
}

TEST_CASE("a kernel on the device equals the reference", "[gpu]") {
  auto device = runtime::CudaDevice::open();
  if (!device) SKIP(device.error().message);
  constexpr int64_t kN = 100003;
  auto artifact = codegen::compile_cuda(gpu_check::make_add_relu(kN), (*device)->target());
  REQUIRE(artifact);
  auto kernel = (*device)->load(*artifact);
  REQUIRE(kernel);
  std::vector<float> a(kN), b(kN), y(kN);
  for (size_t i = 0; i < kN; ++i) a[i] = static_cast<float>(i % 17) - 8, b[i] = static_cast<float>(i % 5);
  auto da = (*device)->allocate(kN * 4), db = (*device)->allocate(kN * 4), dy = (*device)->allocate(kN * 4);
  REQUIRE((da && db && dy));
  REQUIRE((*device)->upload(*da, std::as_bytes(std::span<const float>(a))));
  REQUIRE((*device)->upload(*db, std::as_bytes(std::span<const float>(b))));
  REQUIRE((*device)->fill(*dy, 0xff));
  const uint64_t params[] = {da->address(), db->address(), dy->address()};
  REQUIRE((*kernel)->launch(params));
  REQUIRE((*device)->download(std::as_writable_bytes(std::span<float>(y)), *dy));
  for (size_t i = 0; i < kN; ++i) REQUIRE(y[i] == std::max(a[i] + b[i], 0.0f));
}
