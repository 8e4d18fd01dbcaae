// rt as it ships: the embedded object linked with a hand-written model, loaded as a user loads it.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tcc/rt/blob.h"
#include "tcc/rt/model_abi.h"

namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char part[4096];
  while (size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
  INFO(command << "\n" << text);
  REQUIRE(pclose(pipe) == 0);
  return text;
}

std::string build_library(const fs::path& folder, const std::string& flags = "") {
  fs::create_directories(folder);
  std::ofstream(folder / "rt.o", std::ios::binary)
      .write(reinterpret_cast<const char*>(tcc_rt_object_begin), tcc_rt_object_end - tcc_rt_object_begin);
  const std::string library = (folder / "libexample.so").string();
  output_of("cc -std=c11 -Wall -Werror -O1 -fPIC -fvisibility=hidden -shared " + flags +
            " -I" TCC_SOURCE_DIR "/include -o " + library + " " TCC_SOURCE_DIR "/tests/rt/shipped_model.c " +
            (folder / "rt.o").string() + " -Wl,--gc-sections,-z,defs");
  return library;
}

}  // namespace

TEST_CASE("the embedded header text is the header", "[unit]") {
  std::ifstream file(TCC_SOURCE_DIR "/include/tcc/rt/model_abi.h");
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE(text.str() == std::string(reinterpret_cast<const char*>(tcc_rt_model_abi_begin),
                                    reinterpret_cast<const char*>(tcc_rt_model_abi_end)));
}

TEST_CASE("a library takes the first code whose features this CPU has", "[unit]") {
  // The first plan asks for a feature that no CPU has, the older one for none.
  const std::string path =
      build_library(fs::path(TCC_BINARY_DIR) / "test_rt_levels", "-DTCC_TEST_CPU_FEATURES=0x8000000000000000ull");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  auto query = reinterpret_cast<const tcc_model_api* (*)(uint32_t)>(dlsym(handle, "tcc_example_query"));
  REQUIRE(query != nullptr);
  const tcc_model_api* api = query(TCC_MODEL_ABI_VERSION);
  REQUIRE(api->info()->cpu_features == 0);
  tcc_context* context = nullptr;
  REQUIRE(api->create(nullptr, &context) == TCC_OK);
  REQUIRE(api->self_test(context) == TCC_OK);
  api->destroy(context);
  dlclose(handle);
}

TEST_CASE("a shipped library exports its query function only, and runs", "[unit]") {
  const fs::path folder = fs::path(TCC_BINARY_DIR) / "test_rt_shipped";
  const std::string path = build_library(folder);
  const std::string symbols = output_of("nm -D --defined-only " + path);
  INFO(symbols);
  REQUIRE(symbols.find("tcc_example_query") != std::string::npos);
  REQUIRE(std::count(symbols.begin(), symbols.end(), '\n') == 1);
  const std::string needed = output_of("readelf -d " + path);
  INFO(needed);
  REQUIRE(needed.find("libc.so.6") != std::string::npos);
  for (const char* other : {"libstdc++", "libgcc", "libgomp", "libcuda"})
    REQUIRE(needed.find(other) == std::string::npos);

  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  auto query = reinterpret_cast<const tcc_model_api* (*)(uint32_t)>(dlsym(handle, "tcc_example_query"));
  REQUIRE(query != nullptr);
  REQUIRE(query(0) == nullptr);
  const tcc_model_api* api = query(TCC_MODEL_ABI_VERSION);
  REQUIRE(api != nullptr);
  REQUIRE(api == query(1000));
  REQUIRE(api->abi_version == TCC_MODEL_ABI_VERSION);
  REQUIRE(api->struct_size == sizeof(tcc_model_api));
  REQUIRE(std::string(api->info()->inputs[0].name) == "x");
  REQUIRE(api->workspace_bytes() == 0);
  uint64_t length = 0;
  REQUIRE(std::string(api->metadata_json(&length)) == "{\"id\":\"example\"}");
  REQUIRE(length == 16);

  tcc_context* context = nullptr;
  REQUIRE(api->create(nullptr, &context) == TCC_OK);
  float x[4] = {10, 20, 30, 40}, y[4] = {};
  int64_t shape[] = {4};
  tcc_dltensor in{x, {TCC_DEVICE_CPU, 0}, 1, {TCC_DTYPE_FLOAT, 32, 1}, shape, nullptr, 0}, out = in;
  out.data = y;
  REQUIRE(api->run(context, &in, 1, &out, 1, nullptr, 0, nullptr) == TCC_OK);
  for (int i = 0; i < 4; ++i) REQUIRE(y[i] == 2 * x[i] + static_cast<float>(i + 1));
  REQUIRE(api->self_test(context) == TCC_OK);
  shape[0] = 5;
  const tcc_status refused = api->run(context, &in, 1, &out, 1, nullptr, 0, nullptr);
  REQUIRE(std::string(api->status_string(refused)) == "wrong tensor");
  REQUIRE(std::string(api->last_error()).find("shape is [5]") != std::string::npos);
  tcc_context_info info{sizeof info, 0, 0, 0};
  REQUIRE(api->context_info(context, &info) == TCC_OK);
  REQUIRE(info.threads >= 1);
  api->destroy(context);
  REQUIRE(dlclose(handle) == 0);
}
