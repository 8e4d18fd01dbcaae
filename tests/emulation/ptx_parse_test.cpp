// What the parser refuses and how it says so; and that no text makes it crash.
#include <cstdlib>

#include "emulation/support.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;

namespace {

std::string error_of(const std::string& body, const std::string& declarations = "") {
  auto module = parse_ptx(
      ptx_kernel(1, ".reg .b32 %r<4>;\n.reg .b64 %l<4>;\n.reg .f32 %f<4>;\n.reg .pred %q<4>;\n" + declarations, body));
  return module ? "" : module.error().message;
}

const char* kWhole = R"(
//
// A comment
//
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 pool[];
.const .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 0, 0, 0};
.visible .entry k(
	.param .u64 k_param_0,
	.param .u64 .ptr .global .align 4 k_param_1
)
.maxntid 64, 1, 1
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<9>;
	.reg .b64 	%rd<6>;
	.reg .f32 	%f<5>;
	.shared .align 64 .b8 a[256];
	ld.param.u64 	%rd1, [k_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r1, %tid.x;
	mul.wide.s32 	%rd3, %r1, 4;
	add.s64 	%rd4, %rd2, %rd3;
	ld.global.f32 	%f1, [%rd4];
	st.shared.f32 	[a], %f1;
	bar.sync 	0;
	.pragma "nounroll";
$L__BB0_1:
	{ .reg .b32 remote; mov.u32 remote, 3; again: setp.lt.s32 %p1, %r1, 2; @!%p1 bra again; }
	ld.shared.v4.f32 	{%f1, %f2, %f3, %f4}, [a+16];
	// begin inline asm
	shfl.sync.bfly.b32 %r2|%p2, %r1, 16, 31, -1;
	// end inline asm
	@%p2 bra 	$L__BB0_1;
	fma.rn.ftz.f32 	%f1, %f2, 0f3F800000, %f3;
	st.global.f32 	[%rd4+-4], %f1;
	ret;
}
)";

}  // namespace

TEST_CASE("the PTX parser says what is wrong and where", "[emulation]") {
  CHECK(parse_ptx(kWhole).has_value());
  CHECK(parse_ptx(kWhole)->kernels() == std::vector<std::string>{"k"});
  CHECK(error_of("add.s32 %r1, %r2, 3;").empty());
  CHECK_THAT(error_of("frobnicate.b32 %r1, %r2;"),
             Catch::Contains("PTX line 16: unknown instruction 'frobnicate.b32'"));
  CHECK_THAT(error_of("add.fast.s32 %r1, %r2, 3;"), Catch::Contains("unknown instruction 'add.fast.s32'"));
  CHECK_THAT(error_of("ld.global.v4.f64 {%l1, %l1, %l1, %l1}, [%l2];"),
             Catch::Contains("unknown instruction 'ld.global.v4.f64'"));
  CHECK_THAT(error_of("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%l1}, {%l1}, {%l1}, {%l1};"),
             Catch::Contains("unknown instruction 'mma.sync"));
  CHECK_THAT(error_of("add.s32 %r9, %r2, 3;"), Catch::Contains("unknown register %r9"));
  CHECK_THAT(error_of("add.s64 %r1, %r2, 3;"), Catch::Contains("its register 32"));
  CHECK_THAT(error_of("add.s32 %r1, %r2;"), Catch::Contains("3"));
  CHECK_THAT(error_of("bra NOWHERE;"), Catch::Contains("unknown label 'NOWHERE'"));
  CHECK_THAT(error_of("A:\nA:\n"), Catch::Contains("the label 'A' is defined twice"));
  CHECK_THAT(error_of("mov.u64 %l1, nothing;"), Catch::Contains("unknown name 'nothing'"));
  CHECK_THAT(error_of("@%r1 add.s32 %r1, %r2, 3;"), Catch::Contains("expected a predicate as guard"));
  CHECK_THAT(error_of("add.s32 %r1, %r2, 3"), Catch::Contains("expected ';'"));
  CHECK_THAT(error_of("mov.u32 %tid.x, 3;"), Catch::Contains("special register"));
  CHECK_THAT(error_of("mov.f32 %f1, 0f123;"), Catch::Contains("expected a number, found"));
  CHECK_THAT(error_of("", ".shared .b8 s[99999999999];"), Catch::Contains("a number up to"));
  CHECK_THAT(error_of("", ".shared .b8 s[16777216][16777216];"), Catch::Contains("is larger than"));
  CHECK_THAT(error_of("call.uni f;"), Catch::Contains("unknown instruction 'call.uni'"));
  CHECK_THAT(parse_ptx("").error().message, Catch::Contains("no kernel"));
  CHECK_THAT(parse_ptx(".func f { }").error().message, Catch::Contains("functions other than kernels"));
  CHECK_THAT(parse_ptx("\n\n\x01").error().message, Catch::Contains("PTX line 3"));
  const PtxModule module = parsed(kWhole);
  std::vector<uint32_t> data(64);
  std::vector<PtxBuffer> buffers = {buffer_of(data)};
  CHECK_THAT(run_ptx(module, launch_of(64), buffers).error().message, Catch::Contains("2 parameters and 1 buffers"));
  buffers.push_back(buffers[0]);
  CHECK_THAT(run_ptx(module, launch_of(96), buffers).error().message, Catch::Contains("allows 64 threads"));
  codegen::Launch other = launch_of(64);
  other.symbol = "other";
  CHECK_THAT(run_ptx(module, other, buffers).error().message, Catch::Contains("no kernel 'other'"));
}

TEST_CASE("mutated PTX is refused or run, and never crashes", "[fuzz]") {
  const char* soak = std::getenv("TCC_SOAK_MINUTES");
  const int rounds = soak != nullptr ? 20000 * std::atoi(soak) : 3000;
  const std::string whole = kWhole;
  const std::vector<std::string> pieces = {"%r1",
                                           "%rd2",
                                           "%f3",
                                           "%p1",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           ",",
                                           ";",
                                           "@",
                                           "!",
                                           "|",
                                           "0x7fffffff",
                                           "-1",
                                           "0f3F800000",
                                           ".v4",
                                           ".f32",
                                           ".b16",
                                           ".s64",
                                           "a",
                                           "pool",
                                           "table",
                                           "bar.sync",
                                           "ld.shared.u32",
                                           "cvt.rn.f16.f32",
                                           "mma.sync",
                                           "bra",
                                           "$L__BB0_1",
                                           ":",
                                           "/*",
                                           "\"",
                                           "99999999999999999999"};
  int64_t parsed_ok = 0;
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<uint64_t>(round) + 1);
    std::string text = whole;
    for (int64_t n = 1 + rng.below(4); n > 0; --n) {
      const auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      const auto length = std::min<size_t>(static_cast<size_t>(rng.below(12)), text.size() - at);
      switch (rng.below(4)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, pieces[static_cast<size_t>(rng.below(static_cast<int64_t>(pieces.size())))] + " ");
          break;
        case 2:
          text.insert(at, text.substr(static_cast<size_t>(rng.below(static_cast<int64_t>(text.size()))), length));
          break;
        default:
          text[at] = static_cast<char>(rng.below(256));
      }
    }
    INFO("round " << round);
    auto module = parse_ptx(text);
    if (!module) continue;
    ++parsed_ok;
    std::vector<uint32_t> data(64);
    std::vector<PtxBuffer> buffers = {buffer_of(data), buffer_of(data)};
    codegen::Launch launch = launch_of(40);
    launch.shared_bytes = 64;
    (void)run_ptx(*module, launch, buffers, {.max_instructions = 20000});
  }
  CHECK(parsed_ok > rounds / 100);
}
