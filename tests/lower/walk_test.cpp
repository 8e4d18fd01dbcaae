// Products by warpgroups whose results leave by tensor copies, whose blocks walk over several tiles, and whose clusters
// fetch together what they share.
#include <catch2/catch.hpp>

#include "tcc/analysis/roles.h"
#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/lower/nest.h"
#include "traces/reference.h"

using namespace tcc;

namespace {

struct Form {
  int64_t tiles = 2, at_a_time = 0;  // of the grid, each 64 rows of each block of a cluster
  int64_t x = 1, y = 1;              // blocks of a cluster along rows and along columns
  int64_t depth = 3;
  int64_t overhang = 0;  // rows of the last tile that are not there
  std::string out = "f32", value = "acc[p, q]";
  int64_t parts = 0;  // of the sums of tiles that do not fill the last wave; 0: nothing is said
};

// Sums of products over 200 terms, 64 an iteration.
std::string product(const Form& f) {
  const int64_t rows = f.tiles * f.x * 64 - f.overhang, columns = f.y * 64;
  auto inside = [&](const std::string& load, const std::string& predicate, bool needed) {
    return needed ? fmt::format("({} where {} else 0.0f16)", load, predicate) : load;
  };
  const std::string row = fmt::format("g*{0} + x*64", f.x * 64), odd = fmt::format("{} + a < {}", row, rows);
  const std::string a =
      inside(fmt::format("A[{} + a, k*64 + b]", row), "k*64 + b < 200" + (f.overhang > 0 ? " && " + odd : ""), true);
  const std::string where = f.overhang > 0 ? fmt::format(" where {} + p < {}", row, rows) : "";
  return fmt::format(R"(kernel nest {{
  input A: f16[{rows}, 200]
  input B: f16[200, {columns}]
  input D: f32[{rows}]
  output C: {out}[{rows}, {columns}]
  temp acc: f32[64, 64] local
  temp As: f16[64, 64] shared
  temp Bs: f16[64, 64] shared
  for g in {tiles} bound(grid.x) @persistent_blocks({limit}) {{
    for x in {x} bound(cluster.x) {{
      for y in {y} bound(cluster.y) {{
        for w in 1 bound(warpgroup) {{
          alloc acc {{
            for i in 64 {{
              for j in 64 {{
                acc[i, j] = 0.0
              }}
            }}
            for k in 4 @pipeline_depth({depth}) @pipeline_role(1){tree} {{
              alloc As, Bs {{
                for a in 64 @cooperative_fetch(8) {{
                  for b in 64 {{
                    As[a, b] = {a}
                  }}
                }}
                for u in 64 @cooperative_fetch(8) {{
                  for v in 64 {{
                    Bs[u, v] = (B[k*64 + u, y*64 + v] where k*64 + u < 200 else 0.0f16)
                  }}
                }}
                for kk in 4 unrolled {{
                  instr wgmma.m64n64k16.f32.f16.trans_b(acc[0, 0], As[0, kk*16], Bs[kk*16, 0])
                }}
              }}
            }}
            for p in 64 {{
              for q in 64 {{
                C[{row} + p, y*64 + q] = {value}{where}
              }}
            }}
          }}
        }}
      }}
    }}
  }}
}}
)",
                     fmt::arg("rows", rows), fmt::arg("columns", columns), fmt::arg("out", f.out),
                     fmt::arg("tiles", f.tiles), fmt::arg("limit", f.at_a_time), fmt::arg("x", f.x), fmt::arg("y", f.y),
                     fmt::arg("depth", f.depth), fmt::arg("a", a), fmt::arg("row", row), fmt::arg("value", f.value),
                     fmt::arg("where", where),
                     fmt::arg("tree", f.parts > 0 ? fmt::format(" @tree_reduce({})", f.parts) : ""));
}

target::Target h200() {
  auto t = target::find_target("h200");
  REQUIRE(t.has_value());
  return *t;
}
ir::Kernel parsed(const std::string& text) {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message << text);
  return *k;
}
// The text of the lowered kernel, which means the same.
std::string lowered(const Form& f) {
  const ir::Kernel nest = parsed(product(f));
  if (const ir::Legal<void> limits = lower::check_limits(nest, h200()); !limits) FAIL(limits.error().text);
  const auto k = lower::lower(nest, h200(), ir::Stage::kLowered, std::make_shared<Arena>());
  if (!k) FAIL(k.error().text);
  const testing::Reference reference(nest);
  for (uint64_t seed : {1, 2, 3}) reference.check(*k, product(f), seed);
  return ir::print(*k);
}
std::string refusal(const Form& f) {
  const ir::Legal<void> limits = lower::check_limits(parsed(product(f)), h200());
  REQUIRE_FALSE(limits.has_value());
  return limits.error().text;
}
size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("results leave by tensor copies, a piece of 128 bytes of each row at a time") {
  const std::string single = lowered({});
  INFO(single);
  CHECK(count_of(single, "instr tma.store.f32(C[") == 2);
  CHECK(count_of(single, "results: f32[2, 1, 64, 32] shared align 1024") == 1);
  CHECK(count_of(single, "; 64, 32)") == 2);
  // Both slots are free at first.
  CHECK(count_of(single, "instr tma.wait_read(; 0)") == 1);
  CHECK(count_of(single, "instr tma.wait_read(; 1)") == 0);
  for (const char* type : {"f16", "bf16"}) {
    const std::string half = lowered({.out = type, .value = fmt::format("{}(acc[p, q])", type)});
    INFO(half);
    CHECK(count_of(half, fmt::format("instr tma.store.{}(C[", type)) == 1);
    CHECK(count_of(half, "; 64, 64)") >= 1);
  }
}

TEST_CASE("the tensor copy handles positions outside of the output; other inputs are not read there") {
  const std::string text = lowered({.overhang = 24, .value = "acc[p, q] + D[g*64 + x*64 + p]"});
  INFO(text);
  CHECK(count_of(text, "instr tma.store.f32(C[") == 2);
  CHECK(count_of(text, "where") >= 1);
}

TEST_CASE("results that no tensor copy can write leave from registers") {
  // Rows of 126 bytes.
  Form odd{.out = "f16", .value = "f16(acc[p, q])"};
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  std::string text = replaced(product(odd), "C: f16[128, 64]", "C: f16[128, 63]");
  text = replaced(text, "= f16(acc[p, q])", "= f16(acc[p, q]) where q < 63");
  const ir::Kernel rows = parsed(text);
  // A store that leaves out what exists.
  const ir::Kernel holes = parsed(replaced(product(odd), "= f16(acc[p, q])", "= f16(acc[p, q]) where q < 60"));
  for (const ir::Kernel* nest : {&rows, &holes}) {
    const auto k = lower::lower(*nest, h200(), ir::Stage::kLowered, std::make_shared<Arena>());
    if (!k) FAIL(k.error().text);
    CHECK(count_of(ir::print(*k), "tma.store") == 0);
    if (nest == &rows) testing::Reference(rows).check(*k, text);
  }
}

TEST_CASE("blocks that walk over tiles keep the ring turning from one to the next") {
  // One block makes all, tiles are dealt out evenly, and unevenly.
  for (const auto& [tiles, at_a_time] : {std::pair<int64_t, int64_t>{3, 1}, {4, 2}, {5, 2}, {5, 3}}) {
    const std::string text = lowered({.tiles = tiles, .at_a_time = at_a_time});
    INFO(text);
    // A grid of one block has no loop.
    if (at_a_time > 1) CHECK(count_of(text, fmt::format("in {} bound(grid.x)", at_a_time)) == 1);
    CHECK(count_of(text, "instr tma.wait_read(; 1)") == 2);
    // The last version of a tile is given back too.
    CHECK(count_of(text, "mbarrier.arrive(empty") == 2);
  }
  const std::string plain = lowered({.tiles = 3, .at_a_time = 3});
  CHECK(count_of(plain, "mbarrier.arrive(empty") == 1);
  CHECK(count_of(plain, "in 3 bound(grid.x)") == 1);
  // One slot only: it must be free before the next tile.
  const std::string half = lowered({.tiles = 3, .at_a_time = 1, .out = "f16", .value = "f16(acc[p, q])"});
  INFO(half);
  CHECK(count_of(half, "instr tma.wait_read(; 0)") == 2);
  CHECK(count_of(half, "instr tma.wait_read(; 1)") == 0);
}

TEST_CASE("blocks of a cluster fetch together what they share") {
  struct Wanted {
    int64_t x, y, arrivals;
    const char *a, *b;  // copies
  };
  for (const Wanted& w : {Wanted{2, 1, 8, "tma.load.f16(As", "tma.load.multicast.f16(Bs"},
                          Wanted{1, 2, 8, "tma.load.multicast.f16(As", "tma.load.f16(Bs"},
                          Wanted{2, 2, 12, "tma.load.multicast.f16(As", "tma.load.multicast.f16(Bs"}}) {
    for (int64_t at_a_time : {int64_t{0}, 2 * w.x * w.y}) {
      const std::string text = lowered({.tiles = 3, .at_a_time = at_a_time, .x = w.x, .y = w.y, .overhang = 10});
      INFO(text);
      CHECK(count_of(text, w.a) == 1);
      CHECK(count_of(text, w.b) == 1);
      CHECK(count_of(text, fmt::format("mbarrier.init(empty[s]; {})", w.arrivals)) == 1);
      // Before the first copy and before anybody ends.
      CHECK(count_of(text, "cluster.sync") == 2);
      CHECK(count_of(text, "cluster_shared") == 4);
      CHECK(count_of(text, fmt::format("in {} bound(grid.x)", at_a_time == 0 ? 3 : 2)) == 1);
      CHECK(count_of(text, "; 16384)") == 1);
    }
  }
}

TEST_CASE("clusters that no mask can name are refused") {
  CHECK_THAT(refusal({.x = 4}), Catch::Contains("a cluster of more than 2 blocks along an axis"));
}

TEST_CASE("a walk over tiles is read off the launch") {
  const ir::Kernel nest = parsed(product({.tiles = 9, .at_a_time = 4, .x = 2}));
  const analysis::TileWalk walk = analysis::tile_walk(nest.root);
  CHECK(walk.tiles == 9);
  CHECK(walk.clusters == 2);
  CHECK(walk.persistent());
  CHECK(analysis::cluster_shape(nest.root).x == 2);
  CHECK(analysis::cluster_shape(nest.root).blocks() == 2);
  CHECK(analysis::staged_bytes(nest, nest.root) == 2 * 64 * 128);
  CHECK_FALSE(analysis::tile_walk(parsed(product({.tiles = 9, .at_a_time = 9})).root).persistent());
}

TEST_CASE("tiles that do not fill the last wave are summed up in parts") {
  struct Wanted {
    Form form;
    int64_t whole, parts, sums;  // blocks
  };
  const std::string biased = "max(acc[p, q] + D[g*64 + x*64 + p], 0.0)";
  const Wanted cases[] = {
      {{.tiles = 5, .at_a_time = 2, .parts = 2}, 2, 2, 64},
      {{.tiles = 5, .at_a_time = 3, .value = biased, .parts = 4}, 3, 4, 128},
      {{.tiles = 3, .at_a_time = 2, .overhang = 9, .value = biased, .parts = 3}, 2, 2, 64},
      {{.tiles = 3, .at_a_time = 4, .x = 2, .out = "f16", .value = "f16(acc[p, q])", .parts = 2}, 2, 2, 128},
      {{.tiles = 3, .at_a_time = 8, .x = 2, .y = 2, .overhang = 3, .parts = 8}, 2, 2, 256},
  };
  for (const Wanted& w : cases) {
    const ir::Kernel before = parsed(product(w.form));
    const ir::Kernel nest = *lower::finish_nest(before, {}, h200(), std::make_shared<Arena>());
    INFO(product(w.form) << ir::print(nest));
    const std::string text = ir::print(nest);
    CHECK(count_of(text, "tree") == 0);
    CHECK(count_of(text, "bound(grid.x)") == 3);
    CHECK(count_of(text, fmt::format("in {} bound(grid.x)", w.parts)) >= 1);
    CHECK(count_of(text, fmt::format("in {} bound(grid.x)", w.sums)) >= 1);
    if (const ir::Legal<void> limits = lower::check_limits(nest, h200()); !limits) FAIL(limits.error().text);
    const auto k = lower::lower(nest, h200(), ir::Stage::kLowered, std::make_shared<Arena>());
    if (!k) FAIL(k.error().text);
    const testing::Reference reference(before);
    reference.check(nest, text);
    for (uint64_t seed : {1, 2}) reference.check(*k, text, seed);
    CHECK(count_of(ir::print(*k), fmt::format("in {} bound(grid.x)", w.whole)) >= 1);
  }
}

TEST_CASE("sums stay whole where tiles fill their waves, or nothing says how many run at a time") {
  for (const Form& f : {Form{.tiles = 4, .at_a_time = 2, .parts = 2}, Form{.tiles = 5, .parts = 2},
                        Form{.tiles = 5, .at_a_time = 2, .parts = 1}}) {
    const ir::Kernel nest = *lower::finish_nest(parsed(product(f)), {}, h200(), std::make_shared<Arena>());
    INFO(ir::print(nest));
    CHECK(count_of(ir::print(nest), "bound(grid.x)") == 1);
    CHECK(count_of(ir::print(nest), "tree") == 0);
  }
}
