// The instruction table: every row is complete and means what the manuals say.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"

using namespace tcc;
using namespace tcc::ir;

TEST_CASE("every row is well formed", "[instr]") {
  Arena arena;
  std::set<std::string> names;
  for (size_t n = 0; n < instruction_table().size(); ++n) {
    const Instruction& row = instruction_table()[n];
    INFO(row.name);
    CHECK(names.insert(std::string(row.name)).second);
    CHECK(find_instruction(row.name) == static_cast<int32_t>(n));
    int64_t threads = row.participants == Participants::kWarp        ? 32
                      : row.participants == Participants::kWarpgroup ? 128
                                                                     : 1;
    for (const OperandSpec& o : row.operands) {
      INFO(o.name);
      if (o.layout.empty()) continue;
      auto layout = parse_layout(arena, o.layout);
      if (!layout) FAIL(layout.error().message);
      const Layout& l = **layout;
      REQUIRE(l.shape.size() == static_cast<size_t>(o.rank));
      int64_t elements = 1;
      for (int32_t d = 0; d < o.rank; ++d) {
        CHECK(l.shape[static_cast<size_t>(d)] == o.tile[d]);
        elements *= o.tile[d];
      }
      CHECK(is_injective(l));
      // Distributed evenly: every thread has the same number of registers, and there are no gaps.
      std::map<int64_t, std::set<int64_t>> held;
      for (int64_t e = 0; e < elements; ++e) {
        std::vector<int64_t> index(l.shape.size());
        int64_t rest = e;
        for (size_t d = index.size(); d-- > 0;) index[d] = rest % l.shape[d], rest /= l.shape[d];
        PhysicalIndex at = ir::apply(l, index);
        held[at.warp * 32 + at.lane].insert(at.reg + at.address);
      }
      // An operand in memory is the rows that lanes give addresses of: ldmatrix.x2 reads those of half a warp.
      const auto holders = static_cast<int64_t>(held.size());
      if (o.scope == Scope::kShared)
        CHECK(threads % holders == 0);
      else
        CHECK(holders == threads);
      for (const auto& [thread, registers] : held) {
        CHECK(static_cast<int64_t>(registers.size()) == elements / holders);
        CHECK(*registers.rbegin() == elements / holders - 1);
        // Of an opaque fragment a lane may have more, which hold what the hardware likes.
        CHECK((o.opaque ? l.size >= elements && l.size % threads == 0 : true));
      }
    }
    if (row.behaviour == Behaviour::kCompute) {
      const Kernel& k = instruction_semantics(static_cast<int32_t>(n));
      CHECK(verify(k).empty());
      REQUIRE(k.buffers.size() == row.operands.size());
      CHECK(k.scalars.size() == static_cast<size_t>(row.num_args));
      for (size_t i = 0; i < row.operands.size(); ++i) CHECK(k.buffers[i]->type == row.operands[i].type);
      CHECK(&instruction_semantics(static_cast<int32_t>(n)) == &k);
    } else {
      CHECK(row.semantics.empty());
    }
  }
  CHECK(names.size() > 40);
  CHECK(find_instruction("no.such") == -1);
}

// Fragment positions of a few elements as the PTX manual gives them: groupID = lane >> 2, t = lane % 4.
TEST_CASE("fragments of mma.m16n8k16 follow the manual", "[instr]") {
  Arena arena;
  const Instruction& row = instruction(find_instruction("mma.m16n8k16.f32.f16"));
  auto place = [&](int operand, int64_t i, int64_t j) {
    auto l = parse_layout(arena, row.operands[static_cast<size_t>(operand)].layout);
    return ir::apply(**l, std::vector<int64_t>{i, j});
  };
  for (int64_t lane = 0; lane < 32; ++lane) {
    int64_t group = lane / 4, t = lane % 4;
    for (int64_t i = 0; i < 8; ++i) {
      int64_t r = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
      int64_t c = t * 2 + (i & 1) + (i < 4 ? 0 : 8);
      CHECK(place(1, r, c) == PhysicalIndex{0, 0, lane, i});
    }
    for (int64_t i = 0; i < 4; ++i) {
      CHECK(place(2, t * 2 + (i & 1) + (i < 2 ? 0 : 8), group) == PhysicalIndex{0, 0, lane, i});
      CHECK(place(0, group + (i < 2 ? 0 : 8), t * 2 + (i & 1)) == PhysicalIndex{0, 0, lane, i});
    }
  }
}

TEST_CASE("fragments of mma.m16n8k8 bf16 follow the manual", "[instr]") {
  Arena arena;
  const Instruction& row = instruction(find_instruction("mma.m16n8k8.f32.bf16"));
  auto place = [&](size_t operand, int64_t i, int64_t j) {
    auto l = parse_layout(arena, row.operands[operand].layout);
    return ir::apply(**l, std::vector<int64_t>{i, j});
  };
  for (int64_t lane = 0; lane < 32; ++lane) {
    const int64_t group = lane / 4, t = lane % 4;
    for (int64_t i = 0; i < 4; ++i) {
      CHECK(place(1, group + (i / 2) * 8, t * 2 + i % 2) == PhysicalIndex{0, 0, lane, i});
      CHECK(place(0, group + (i / 2) * 8, t * 2 + i % 2) == PhysicalIndex{0, 0, lane, i});
    }
    for (int64_t i = 0; i < 2; ++i) CHECK(place(2, t * 2 + i, group) == PhysicalIndex{0, 0, lane, i});
  }
}

TEST_CASE("rows are found by types, participants and shapes", "[instr]") {
  auto names_of = [](const std::vector<int32_t>& rows) {
    std::vector<std::string> out;
    for (int32_t row : rows) out.emplace_back(instruction(row).name);
    return out;
  };
  // The most terms first: a space tries them in this order.
  CHECK(names_of(find_products(Type::kBF16, Participants::kWarp)) ==
        std::vector<std::string>{"mma.m16n8k16.f32.bf16", "mma.m16n8k16.f32.bf16.bt", "mma.m16n8k8.f32.bf16",
                                 "mma.m16n8k8.f32.bf16.bt"});
  CHECK(names_of(find_products(Type::kI8, Participants::kWarp)) ==
        std::vector<std::string>{"mma.m16n8k32.i32.i8", "mma.m16n8k32.i32.i8.bt"});
  CHECK(names_of(find_products(Type::kU8, Participants::kThread)) ==
        std::vector<std::string>{"amx.tdpbusd", "amx.tdpbuud", "amx.tdpbusd.kn", "amx.tdpbuud.kn", "zmm.vpdpbusd",
                                 "ymm.vpdpbusd", "ymm.vpdpbusd.avx", "zmm.vpmaddwd", "xmm.vpdpbusd", "xmm.vpdpbusd.avx",
                                 "ymm.vpmaddwd", "xmm.pmaddwd"});
  CHECK(find_products(Type::kF64, Participants::kWarp).empty());
  const Instruction& tile = instruction(find_instruction("amx.tdpbf16ps.kn"));
  CHECK(instruction(find_tile_load(Family::kAmx, tile.operands[1])).name == "amx.load.bf16");
  CHECK(instruction(find_tile_load(Family::kAmx, tile.operands[2])).name == "amx.load.bf16.pairs");
  CHECK(instruction(find_tile_zero(Family::kAmx, tile.operands[0])).name == "amx.zero.f32");
  CHECK(instruction(find_tile_store(Family::kAmx, tile.operands[0])).name == "amx.store.f32");
  CHECK(instruction(find_tensor_copy(Type::kF16, Scope::kShared, true)).name == "tma.load.multicast.f16");
  CHECK(instruction(find_tensor_copy(Type::kF16, Scope::kGlobal)).name == "tma.store.f16");
  CHECK(find_tensor_copy(Type::kI8, Scope::kShared) == -1);
  CHECK(instruction(instruction_row(Family::kMbarrier, Behaviour::kMbarrierArrive, 1)).name ==
        "mbarrier.arrive.cluster");
  // Neither waits for the block's writes to global memory.
  const Instruction& arrival = instruction(instruction_row(Family::kMbarrier, Behaviour::kMbarrierArrive, 1));
  CHECK(arrival.ptx.find("mbarrier.arrive.shared::cluster.b64") != std::string_view::npos);
  CHECK(instruction(instruction_row(Family::kSync, Behaviour::kFenceProxyAsync)).ptx ==
        "fence.proxy.async.shared::cta;");
  CHECK(instruction(instruction_row(Family::kTensorCopy, Behaviour::kCopyWaitRead)).name == "tma.wait_read");
  CHECK(reads_transposed(instruction(find_instruction("ldmatrix.x2.trans.f16")), 1));
  CHECK_FALSE(reads_transposed(instruction(find_instruction("ldmatrix.x2.f16")), 1));
}

TEST_CASE("fragments of mma.m16n8k8 tf32 and m16n8k32 i8 follow the manual", "[instr]") {
  Arena arena;
  auto place = [&](const char* name, int operand, int64_t i, int64_t j) {
    auto l = parse_layout(arena, instruction(find_instruction(name)).operands[static_cast<size_t>(operand)].layout);
    return ir::apply(**l, std::vector<int64_t>{i, j});
  };
  for (int64_t lane = 0; lane < 32; ++lane) {
    int64_t group = lane / 4, t = lane % 4;
    for (int64_t i = 0; i < 4; ++i)
      CHECK(place("mma.m16n8k8.f32.tf32", 1, group + (i % 2) * 8, t + (i / 2) * 4) == PhysicalIndex{0, 0, lane, i});
    for (int64_t i = 0; i < 2; ++i)
      CHECK(place("mma.m16n8k8.f32.tf32", 2, t + i * 4, group) == PhysicalIndex{0, 0, lane, i});
    for (int64_t i = 0; i < 16; ++i) {
      int64_t r = (i < 4 || (i >= 8 && i < 12)) ? group : group + 8;
      CHECK(place("mma.m16n8k32.i32.i8", 1, r, t * 4 + (i & 3) + (i < 8 ? 0 : 16)) == PhysicalIndex{0, 0, lane, i});
    }
    for (int64_t i = 0; i < 8; ++i)
      CHECK(place("mma.m16n8k32.i32.i8", 2, t * 4 + (i & 3) + (i < 4 ? 0 : 16), group) == PhysicalIndex{0, 0, lane, i});
  }
}
