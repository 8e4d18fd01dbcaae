// The kernels of gpu_check through NVRTC, where there is one.
#include "cuda/support.h"
#include "skip.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::codegen;
using namespace tcc::codegen::testing;

namespace {

bool have_nvrtc() {
  auto version = nvrtc_version();
  if (!version) tcc::testing::report_skip(version.error().message);
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
  CHECK(shared->launches[0].shared_bytes + shared->launches[0].static_shared_bytes == (2 * 8 * 132 + 2 * 8 * 128) * 4);
}

TEST_CASE("each launch has the registers and the shared memory of its own function") {
  if (!have_nvrtc()) return;
  // A copy; 96 values of a thread that wait for their maximum; an exchange in shared memory.
  auto kernel = ir::parse(R"(kernel lowered {
  input A: f32[98304]
  output B: f32[1024]
  output C: f32[98304]
  output D: f32[1024]
  temp t: f32[96] local
  temp m: f32[1] local
  temp s: f32[128] shared
  for g in 8 bound(grid.x) {
    for x in 128 bound(thread.x) {
      B[g*128 + x] = A[g*128 + x]
    }
  }
  for g1 in 8 bound(grid.x) {
    for x1 in 128 bound(thread.x) {
      alloc t, m {
        m[0] = -inf
        for i in 96 unrolled {
          t[i] = A[i*1024 + g1*128 + x1]
          m[0] = max(m[0], t[i])
        }
        for j in 96 unrolled {
          C[j*1024 + g1*128 + x1] = t[j] - m[0]
        }
      }
    }
  }
  for g2 in 8 bound(grid.x) {
    alloc s {
      for x2 in 128 bound(thread.x) {
        s[x2] = A[g2*128 + x2]
        instr bar.sync(; 0, 128)
        D[g2*128 + x2] = s[127 - x2]
      }
    }
  }
}
)");
  if (!kernel) FAIL(kernel.error().message);
  auto artifact = compile_cuda(*kernel, gpu("a100"));
  if (!artifact) FAIL(artifact.error().message);
  const std::vector<Launch>& l = artifact->launches;
  REQUIRE(l.size() == 3);
  CHECK(l[0].registers >= 4);
  CHECK(l[0].registers <= 32);
  CHECK(l[1].registers >= 96);
  CHECK(l[2].registers <= 32);
  CHECK(static_cast<double>(l[1].registers) == artifact->facts.at("registers"));
  CHECK(l[0].shared_bytes + l[0].static_shared_bytes == 0);
  CHECK(l[1].shared_bytes + l[1].static_shared_bytes == 0);
  CHECK(l[2].shared_bytes + l[2].static_shared_bytes == 512);
}

TEST_CASE("kernels of the expressibility suite compile: mma.sync, cp.async, ldmatrix, shuffles") {
  if (!have_nvrtc()) return;
  for (const char* name : {"gemm_mma_sync", "gemm_split_k", "softmax_block", "softmax_warp"}) {
    const std::string path = fmt::format("{}/tests/ir/hard/{}.tir", TCC_SOURCE_DIR, name);
    auto text = read_file(path);
    REQUIRE(text);
    auto kernel = ir::parse(*text, path);
    REQUIRE(kernel);
    for (const char* target : {"a100", "h200"}) {
      auto artifact = compile_cuda(*kernel, gpu(target));
      if (!artifact) FAIL(artifact.error().message);
      CHECK(artifact->facts.at("spill_bytes") == 0);
      CHECK(artifact->launches.size() == (std::string(name) == "gemm_split_k" ? 2 : 1));
    }
    if (std::string(name) != "gemm_mma_sync") continue;
    auto ptx = compile_cuda(*kernel, gpu("a100"), {.want_ptx = true});
    REQUIRE(ptx);
    CHECK(count_of(ptx->code, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {") == 8);
    CHECK(count_of(ptx->code, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {") == 8);
    CHECK(count_of(ptx->code, "st.global.v4") == 1);
    // t4 has mma.sync, but not the m16n8k16 form and no cp.async.
    CHECK_THAT(compile_cuda(*kernel, gpu("t4")).error().message, Catch::Contains("which t4 does not have"));
  }
}

TEST_CASE("what the compiler notes about products that it waits for and budgets that it ignores is counted") {
  if (!have_nvrtc()) return;
  const auto facts = [](const std::string& from, const std::string& to) {
    auto text = read_file(std::string(TCC_SOURCE_DIR) + "/tests/ir/hard/gemm_wgmma.tir");
    REQUIRE(text.has_value());
    if (const size_t at = text->find(from); !from.empty()) {
      REQUIRE(at != std::string::npos);
      text->replace(at, from.size(), to);
    }
    auto kernel = ir::parse(*text, "gemm_wgmma.tir");
    if (!kernel) FAIL(kernel.error().message);
    auto artifact = compile_cuda(*kernel, gpu("h200"));
    if (!artifact) FAIL(artifact.error().message);
    return artifact->facts;
  };
  auto whole = facts("", "");
  CHECK(whole.at("serialized_products") == 0);
  CHECK(whole.at("injected_waits") == 0);
  CHECK(whole.at("ignored_register_budgets") == 0);
  auto hasty = facts("instr wgmma.wait(; 0)\n", "");
  CHECK(hasty.at("serialized_products") + hasty.at("injected_waits") > 0);
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

TEST_CASE("waits trap after a limit in code that is tried out, and only there") {
  if (!have_nvrtc()) return;
  const char* text = R"(kernel lowered {
  output C: f32[32] align 16
  temp bar: barrier[1] shared align 8
  for g in 1 bound(grid.x) {
    alloc bar {
      for w in 1 bound(warp) {
        for l in 32 bound(lane) {
          if l == 0 {
            instr mbarrier.init(bar[0]; 32)
          }
          instr bar.sync(; 0, 32)
          instr mbarrier.arrive(bar[0])
          instr mbarrier.wait(bar[0]; 0)
          C[l] = 1.0
        }
      }
    }
  }
}
)";
  auto kernel = ir::parse(text, "wait.tir");
  if (!kernel) FAIL(kernel.error().message);
  for (const char* target : {"a100", "h200"}) {
    const auto ptx = [&](int64_t limit) {
      auto made = compile_cuda(*kernel, gpu(target), {.want_ptx = true, .wait_limit = limit});
      if (!made) FAIL(made.error().message);
      return made->code;
    };
    const std::string shipped = ptx(0), tried = ptx(2'000'000'000);
    CHECK_THAT(shipped, !Catch::Contains("trap") && !Catch::Contains("%globaltimer"));
    CHECK_THAT(tried, Catch::Contains("trap;") && Catch::Contains("%globaltimer") && Catch::Contains("2000000000"));
    CHECK(compile_cuda(*kernel, gpu(target), {.wait_limit = 2'000'000'000}));
  }
}
