// What is read out of SASS: loops, widths, and bytes under way.
#include "sass.h"

#include <catch2/catch.hpp>

using namespace tcc::benchmarks;

namespace {

// A loop of four wide loads, of which the second is used first; a loop that only waits; code behind both.
constexpr const char* kText = R"(	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_SM90"
//--------------------- .text.tcc_bench_0         --------------------------
	.section	.text.tcc_bench_0,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=32"
.text.tcc_bench_0:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.128 R8, desc[UR4][R2.64+0x10] ;
        /*0030*/                   LDG.E.64 R12, desc[UR4][R2.64+0x20] ;
        /*0040*/                   FADD R8, R8, R9 ;
        /*0050*/                   LDG.E.U16 R14, desc[UR4][R2.64+0x28] ;
        /*0060*/                   LDGSTS.E.BYPASS.128 [R20], desc[UR4][R2.64] ;
        /*0070*/                   LDGDEPBAR ;
        /*0080*/                   DEPBAR.LE SB0, 0x2 ;
        /*0090*/                   HMMA.16816.F32 R24, R4, R8, R24 ;
        /*00a0*/                   LDS.128 R16, [R20] ;
        /*00b0*/                   STG.E.64 desc[UR4][R2.64], R24 ;
        /*00c0*/               @P0 BRA `(.L_x_0) ;
.L_x_1:
        /*00d0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R2], R3 ;
        /*00e0*/              @!P1 BRA `(.L_x_1) ;
        /*00f0*/                   STL [R1], R4 ;
        /*0100*/                   EXIT ;
.L_x_2:
        /*0110*/                   BRA `(.L_x_2) ;
	.section	.nv.info
)";

}  // namespace

TEST_CASE("loops, widths and bytes under way are read out of SASS") {
  const auto kernels = parse_sass(kText);
  REQUIRE(kernels.size() == 1);
  const SassKernel& k = kernels[0];
  CHECK(k.name == "tcc_bench_0");
  CHECK(k.all.instructions == 18);
  CHECK(k.all.spills == 1);
  REQUIRE(k.loops.size() == 1);
  REQUIRE(k.steady() == &k.loops[0]);
  const SassCounts& c = k.loops[0].counts;
  CHECK(c.instructions == 12);
  CHECK(c.hmma == 1);
  CHECK(c.lds == 1);
  CHECK(c.shared_read_words == 4);
  CHECK(c.async_copies == 1);
  CHECK(c.copied_bytes == 16);
  CHECK(c.groups_in_flight == 3);
  CHECK(c.loaded_bytes == 42);
  CHECK(c.stored_bytes == 8);
  CHECK(SassCounts::widest(c.loads) == 16);
  CHECK(SassCounts::narrowest(c.loads) == 2);
  // The first use waits for both loads of 16 bytes.
  CHECK(c.bytes_in_flight == 40);
  CHECK(c.spills == 0);
}

TEST_CASE("a text without code has no kernels") {
  CHECK(parse_sass("").empty());
  CHECK(parse_sass("error: no cubin\n").empty());
}
