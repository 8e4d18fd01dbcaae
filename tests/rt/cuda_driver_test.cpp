#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

#include "tcc/rt/cuda_driver.h"
#include "tcc/rt/rt.h"

TEST_CASE("a missing CUDA driver is named with what to do", "[unit][errors]") {
  tcc_cuda_driver driver;
  REQUIRE(tcc_cuda_driver_load("libtcc-absent-driver.so.1", &driver) == TCC_ERROR_DEVICE);
  const std::string text = tcc_rt_last_error();
  INFO(text);
  REQUIRE(text.find("libtcc-absent-driver.so.1") != std::string::npos);
  REQUIRE(text.find("install the NVIDIA driver") != std::string::npos);
  REQUIRE(driver.cuInit == nullptr);
}

TEST_CASE("a library that is not a CUDA driver is named", "[unit][errors]") {
  tcc_cuda_driver driver;
  REQUIRE(tcc_cuda_driver_load("libm.so.6", &driver) == TCC_ERROR_DEVICE);
  REQUIRE(std::string(tcc_rt_last_error()).find("libm.so.6 has no function cuInit") != std::string::npos);
  REQUIRE(driver.cuInit == nullptr);
}

TEST_CASE("the system's driver is there with a device count, or the reason why not", "[unit]") {
  const tcc_cuda_driver* driver = nullptr;
  const tcc_status status = tcc_cuda_driver_get(&driver);
  if (status == TCC_OK) {
    int count = -1;
    REQUIRE(driver->cuDeviceGetCount(&count) == 0);
    REQUIRE(count >= 0);
    REQUIRE(tcc_cuda_check(driver, 100, "probe") == TCC_ERROR_DEVICE);
    REQUIRE(std::string(tcc_rt_last_error()).find("probe: CUDA_ERROR_NO_DEVICE") != std::string::npos);
  } else {
    REQUIRE(status == TCC_ERROR_DEVICE);
    REQUIRE(driver == nullptr);
    const std::string first = tcc_rt_last_error();
    REQUIRE(!first.empty());
    tcc_rt_fail(TCC_ERROR_INTERNAL, "something else");
    REQUIRE(tcc_cuda_driver_get(&driver) == TCC_ERROR_DEVICE);
    REQUIRE(tcc_rt_last_error() == first);
  }
}
