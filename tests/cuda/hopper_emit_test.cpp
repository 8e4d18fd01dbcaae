// What is printed for kernels with bulk copies, clusters, roles and wgmma, and which of them have no form.
#include "cuda/support.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::codegen;
using namespace tcc::codegen::testing;

namespace {

using Edits = std::vector<std::pair<std::string, std::string>>;

// tests/ir/hard/gemm_wgmma.tir with some of its text replaced.
Result<CudaSource> source_of(const Edits& edits, const char* target = "h200") {
  auto text = read_file(std::string(TCC_SOURCE_DIR) + "/tests/ir/hard/gemm_wgmma.tir");
  REQUIRE(text.has_value());
  for (const auto& [from, to] : edits) {
    INFO(from);
    REQUIRE(text->find(from) != std::string::npos);
    for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
      text->replace(at, from.size(), to);
  }
  auto kernel = ir::parse(*text);
  if (!kernel) FAIL(kernel.error().message);
  return emit_cuda_source(*kernel, gpu(target));
}

std::string refusal(const Edits& edits, const char* target = "h200") {
  auto source = source_of(edits, target);
  return source ? "printed" : source.error().message;
}

const Edits kSwizzled = {
    {"As: f16[2, 64, 32] cluster_shared align 128",
     "As: f16[2, 64, 32] cluster_shared align 1024 layout[2,64,32]{0/1%0@addr*2048, 1/1%0@addr*32, 2/1%0@addr*1} "
     "xor(6->3&3) size 4096"}};

}  // namespace

TEST_CASE("a launch tells its tensor maps and its clusters") {
  for (const Edits& edits : {Edits{}, kSwizzled}) {
    auto source = source_of(edits);
    if (!source) FAIL(source.error().message);
    REQUIRE(source->launches.size() == 1);
    const Launch& l = source->launches[0];
    CHECK(l.grid == std::array<int64_t, 3>{4, 1, 1});
    CHECK(l.cluster == std::array<int64_t, 3>{2, 1, 1});
    CHECK(l.block == std::array<int64_t, 3>{256, 1, 1});
    const std::vector<TensorMap> wanted = {{0, ir::Type::kF16, {96, 256}, {192}, {32, 64}, 64},
                                           {1, ir::Type::kF16, {96, 16}, {192}, {32, 4}, 64},
                                           {2, ir::Type::kF32, {16, 256}, {64}, {8, 64}, 0}};
    CHECK(l.tensor_maps == wanted);
    const std::string text = source->text.substr(source->text.find("extern \"C\""));
    INFO(text);
    CHECK(count_of(text, "TCC_CLUSTER(2, 1, 1) __launch_bounds__(256, 1)") == 1);
    CHECK(count_of(text, "TCC_TENSOR_MAP(") == 3);
    CHECK(count_of(text, "tcc_tile<64, 16, 512>(As") == 1);
    CHECK(count_of(text, "tcc_setmaxnreg_dec<40>();") == 1);
    CHECK(count_of(text, "tcc_setmaxnreg_dec<232>();") == 1);
    CHECK(count_of(text, "tcc_pin(acc") == 2);
    // One thread, which the compiler knows to be alone, copies; lane 0 tells the other blocks.
    CHECK(count_of(text, "tcc_elect()") == 2);
    CHECK(count_of(text, "if (tcc_w >= 0 && tcc_w < 4)") == 1);
    CHECK(count_of(text, "threadIdx.x / 32") == 0);
    CHECK(count_of(text, "(int)(blockIdx.x / 2)") == 1);
    CHECK(count_of(text, "(int)(blockIdx.x % 2)") == 1);
  }
}

TEST_CASE("tensors and tiles that bulk copies and wgmma do not know are refused by name") {
  CHECK_THAT(refusal({{"[256, 96]", "[256, 90]"}}), Catch::Contains("'A' has rows of 180 bytes"));
  CHECK_THAT(refusal({{"A: f16[256, 96] align 16", "A: f16[256, 96] align 8"}}),
             Catch::Contains("'A' is aligned to 8 bytes"));
  CHECK_THAT(refusal({{"2, 64, 32] cluster", "2, 64, 40] cluster"}}),
             Catch::Contains("those of 'As' do not follow each other"));
  CHECK_THAT(refusal({{"Cs: f32[64, 8]", "Cs: f32[64, 12]"}}),
             Catch::Contains("those of 'Cs' do not follow each other"));
  Edits other = kSwizzled;
  other[0].second.replace(other[0].second.find("6->3"), 4, "5->3");
  CHECK_THAT(refusal(other),
             Catch::Contains("expected a layout that bulk copies and wgmma know for shared buffer 'As'"));
  // Threads that write a tile the ordinary way would have to know its swizzle.
  CHECK_THAT(
      refusal({{"instr fence.proxy.async()", "As[0, 0, 0] = f16(0.0)\n                    instr fence.proxy.async()"}}),
      Catch::Contains("of shared buffer 'As' is nothing that a matrix descriptor"));
  CHECK_THAT(refusal({}, "a100"), Catch::Contains("which a100 does not have"));
}
