// The kernels of gpu_check through NVRTC, where there is one.
#include "cuda/support.h"

using namespace tcc;
using namespace tcc::codegen;
using namespace tcc::codegen::testing;

namespace {

bool have_nvrtc() {
  auto version = nvrtc_version();
  if (!version) WARN("skipped: " + version.error().message);
  return version.has_value();
}

}  // namespace

TEST_CASE("every kernel compiles for one architecture a family without spills") {
  if (!have_nvrtc()) return;
  const ir::Kernel kernels[] = {gpu_check::make_add_relu(1 << 20),
                                gpu_check::make_add_relu(1000003),
                                gpu_check::make_gemm(1024, 1024, 1024, gpu_check::kLargeTile),
                                gpu_check::make_gemm(1024, 1024, 1024, gpu_check::kSmallTile),
                                gpu_check::make_gemm(1001, 777, 333, gpu_check::kLargeTile),
                                gpu_check::make_gemm(1001, 777, 333, gpu_check::kSmallTile)};
  for (const char* name : {"t4", "a100", "h200"})
    for (const ir::Kernel& kernel : kernels) {
      auto artifact = compile_cuda(kernel, gpu(name));
      if (!artifact) FAIL(artifact.error().message);
      INFO(name << ": " << artifact->launches[0].symbol << " of " << artifact->buffers[2].bytes << " bytes");
      CHECK(artifact->format == CodeFormat::kCubin);
      CHECK(artifact->code.substr(1, 3) == "ELF");
      CHECK(artifact->facts.at("spill_bytes") == 0);
      CHECK(artifact->facts.at("stack_bytes") == 0);
      CHECK(artifact->facts.at("registers") >= 16);
      CHECK(artifact->facts.at("registers") < 255);
    }
}

TEST_CASE("aligned kernels move 16 bytes at a time") {
  if (!have_nvrtc()) return;
  auto gemm =
      compile_cuda(gpu_check::make_gemm(1024, 1024, 1024, gpu_check::kLargeTile), gpu("a100"), {.want_ptx = true});
  REQUIRE(gemm);
  CHECK(gemm->format == CodeFormat::kPtx);
  CHECK(count_of(gemm->code, "ld.global.nc.v4") == 4);
  CHECK(count_of(gemm->code, "st.global.v4") == 16);
  CHECK(count_of(gemm->code, "st.global.f32") == 0);
  CHECK(count_of(gemm->code, "ld.shared.f32") == 0);
  CHECK(gemm->code.find("bar.sync") != std::string::npos);
  auto shared = compile_cuda(gpu_check::make_gemm(1024, 1024, 1024, gpu_check::kLargeTile), gpu("a100"));
  REQUIRE(shared);
  CHECK(shared->facts.at("shared_bytes") == (2 * 8 * 132 + 2 * 8 * 128) * 4);
}

TEST_CASE("a target that this toolkit does not compile is an error that names one that does") {
  if (!have_nvrtc()) return;
  auto artifact = compile_cuda(gpu_check::make_add_relu(64), gpu("k80"));
  REQUIRE_FALSE(artifact);
  CHECK_THAT(artifact.error().message, Catch::Contains("does not compile sm_37"));
  CHECK_THAT(artifact.error().hint, Catch::Contains("CUDA Toolkit 11.8"));
}

TEST_CASE("a library that is not there is an error that says what to do") {
  auto artifact =
      compile_cuda(gpu_check::make_add_relu(64), gpu("a100"), {.nvrtc_library = "/nonexistent/libnvrtc.so"});
  REQUIRE_FALSE(artifact);
  CHECK(artifact.error().cls == ErrorClass::kEnvironment);
  CHECK_FALSE(artifact.error().hint.empty());
}
