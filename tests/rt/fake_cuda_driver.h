// The fake CUDA driver (fake_cuda.h), opened once in a test's process.
#pragma once

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

#include "rt/fake_cuda.h"

struct FakeCuda {
  fake_cuda_configure_fn configure;
  fake_cuda_register_fn register_kernel;
  fake_cuda_calls_fn calls;
  fake_cuda_clear_fn clear;
  fake_cuda_log_fn log;
  fake_cuda_live_fn live;
  fake_cuda_violation_fn violation;

  static const char* path() { return TCC_FAKE_CUDA; }
  // Fresh: nothing of an earlier test is left.
  static FakeCuda& start(const char* settings = "") {
    static FakeCuda fake = open();
    fake.configure(settings);
    return fake;
  }

 private:
  static FakeCuda open() {
    void* library = dlopen(path(), RTLD_NOW | RTLD_LOCAL);
    INFO(path());
    REQUIRE(library != nullptr);
    FakeCuda fake{};
    get(library, "fake_cuda_configure", fake.configure);
    get(library, "fake_cuda_register", fake.register_kernel);
    get(library, "fake_cuda_calls", fake.calls);
    get(library, "fake_cuda_clear", fake.clear);
    get(library, "fake_cuda_log", fake.log);
    get(library, "fake_cuda_live", fake.live);
    get(library, "fake_cuda_violation", fake.violation);
    return fake;
  }
  template <class F>
  static void get(void* library, const char* name, F& f) {
    f = reinterpret_cast<F>(dlsym(library, name));
    REQUIRE(f != nullptr);
  }
};
