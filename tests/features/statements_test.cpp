// The 164 statement features and the dataflow rows, against values computed by hand.
#include "tables.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

// C[32, 64] = A[32, 16] * B[16, 64]
TableRows naive_product(const features::Table& table) {
  const task::Task t = task::make_gemm({.m = 32, .n = 64, .k = 16});
  return rows_of(table, nest_of(t.kernel, *target::find_target("x86-64-v4")), t);
}

}  // namespace

TEST_CASE("the tables have the papers' sizes") {
  CHECK(features::kStatements.columns.size() == 174);
  CHECK(features::kStatementsTenSet.columns.size() == 174);
  CHECK(features::kDataflow.columns.size() == 23);
  CHECK(features::kDataflowPruner.columns.size() == 23);
  auto shape = [](const features::Table& t) { return std::pair(t.max_rows, static_cast<int64_t>(t.columns.size())); };
  CHECK(shape(features::kTraceTlpCpu) == std::pair<int64_t, int64_t>(25, 22));
  CHECK(shape(features::kTraceTlpGpu) == std::pair<int64_t, int64_t>(40, 20));
  CHECK(shape(features::kTraceTclCpu) == std::pair<int64_t, int64_t>(26, 22));
  CHECK(shape(features::kTraceTclGpu) == std::pair<int64_t, int64_t>(41, 20));
  CHECK(features::kTraceCpu.max_rows == 40);
  CHECK(features::kTraceGpu.max_rows == 56);
  std::set<uint64_t> hashes;
  for (const features::Table* t : features::tables()) {
    CHECK(features::find_table(t->name) == t);
    hashes.insert(features::table_hash(*t));
    std::set<std::string_view> names(t->columns.begin(), t->columns.end());
    CHECK(names.size() == t->columns.size());
  }
  CHECK(hashes.size() == features::tables().size());
  CHECK(features::find_table("statement") == nullptr);
  features::Table newer = features::kHardware;
  newer.version += 1;
  CHECK(features::table_hash(newer) != features::table_hash(features::kHardware));
}

TEST_CASE("statement features of the naive matrix product") {
  const TableRows t = naive_product(features::kStatements);
  REQUIRE(t.rows() == 1);  // the update replaces the init
  const double n = 32 * 64 * 16;
  CHECK(t.count(0, "real.add") == Approx(n));
  CHECK(t.count(0, "real.mul") == Approx(n));
  CHECK(t.at(0, "real.mad") == 0);
  CHECK(t.at(0, "real.other") == 0);
  CHECK(t.at(0, "vectorized.none") == 1);
  CHECK(t.at(0, "vectorized.mixed") == 0);
  CHECK(t.at(0, "is_gpu") == 0);
  CHECK(t.count(0, "grid.x") == Approx(1));
  CHECK(t.count(0, "vthread") == Approx(1));
  // B: a new line in each step of the innermost loop; repeated by i, which touches C, A and B below it.
  CHECK(t.at(0, "b0.read") == 1);
  CHECK(t.at(0, "b0.update") == 0);
  CHECK(t.count(0, "b0.bytes") == Approx(4 * n));
  CHECK(t.count(0, "b0.unique_bytes") == Approx(4 * 16 * 64));
  CHECK(t.count(0, "b0.lines") == Approx(n));
  CHECK(t.count(0, "b0.unique_lines") == Approx(64));
  CHECK(t.at(0, "b0.reuse_loop") == 1);
  CHECK(t.count(0, "b0.reuse_count") == Approx(32));
  CHECK(t.count(0, "b0.reuse_iterations") == Approx(16 * 64));
  CHECK(t.count(0, "b0.bytes_per_reuse") == Approx(4 * n / 32));
  CHECK(t.count(0, "b0.stride") == Approx(64));
  // A: neighbors, repeated by j.
  CHECK(t.at(0, "b1.read") == 1);
  CHECK(t.count(0, "b1.lines") == Approx(n * 4 / 64));
  CHECK(t.count(0, "b1.unique_bytes") == Approx(4 * 32 * 16));
  CHECK(t.count(0, "b1.reuse_count") == Approx(64));
  CHECK(t.count(0, "b1.reuse_iterations") == Approx(16));
  CHECK(t.count(0, "b1.reuse_bytes") == Approx(4 * (1 + 16 + 16)));
  CHECK(t.count(0, "b1.stride") == Approx(1));
  // C: the same element in all 16 steps of k, read and written.
  CHECK(t.at(0, "b2.update") == 1);
  CHECK(t.count(0, "b2.lines") == Approx(n / 16 * 4 / 64));
  CHECK(t.count(0, "b2.reuse_count") == Approx(16));
  CHECK(t.count(0, "b2.reuse_iterations") == Approx(1));
  CHECK(t.count(0, "b2.reuse_bytes") == Approx(4 * 3));
  CHECK(t.at(0, "b2.stride") == 0);
  CHECK(t.at(0, "b3.bytes") == 0);
  // Operations per byte: 32 and 132 bytes below k, 2,048 and 4,416 below j, 65,536 and 14,336 in all.
  const double j = 2048.0 / 4416, all = 65536.0 / 14336, share = (6553.6 - 2048) / (65536 - 2048);
  CHECK(t.count(0, "intensity.0") == Approx(j + share * (all - j)));
  CHECK(t.count(0, "intensity.9") == Approx(all));
  CHECK(t.count(0, "alloc.bytes") == Approx(4 * 32 * 64));
  CHECK(t.count(0, "alloc.product") == Approx(32 * 64));
  CHECK(t.count(0, "alloc.outer") == Approx(1));
  CHECK(t.count(0, "alloc.inner") == Approx(n));
  CHECK(t.count(0, "outer_product") == Approx(n));
  CHECK(t.count(0, "outer_loops") == Approx(3));
  CHECK(t.at(0, "auto_unroll") == 0);
  CHECK(t.at(0, "task.dense") == 1);
  CHECK(t.at(0, "task.add") == 0);  // the reducer's addition does not count
  CHECK(t.at(0, "task.unused") == 0);
}

TEST_CASE("TenSet sorts buffers by the distance of their reuse and divides logarithms") {
  const TableRows t = naive_product(features::kStatementsTenSet);
  REQUIRE(t.rows() == 1);
  CHECK(t.at(0, "b0.update") == 1);                             // C: 12 bytes between two uses
  CHECK(t.count(0, "b1.unique_bytes") == Approx(4 * 32 * 16));  // A: 132 bytes
  CHECK(t.count(0, "b2.unique_bytes") == Approx(4 * 16 * 64));  // B
  CHECK(t.at(0, "intensity.9") == Approx(16 / std::log2(14336)));
  // 1.6 of 16 is below the 5 of the innermost loop.
  CHECK(t.at(0, "intensity.0") == Approx(5 / std::log2(132)));
}

TEST_CASE("a constant store has a row where TenSet has one") {
  const task::Task t = task::make_elementwise({4});
  const ir::Kernel nest = parse_kernel(
      "kernel nest {\n  output C: f32[8]\n  output D: f32[8]\n  for i in 8 @unroll_max(16) {\n    C[i] = 0.0\n  }\n"
      "  for j in 2 parallel {\n    for k in 4 vectorized {\n      D[j*4 + k] = max(C[j*4 + k], 1.0)\n    }\n  }\n}");
  CHECK(rows_of(features::kStatements, nest, t).rows() == 1);
  const TableRows rows = rows_of(features::kStatementsTenSet, nest, t);
  REQUIRE(rows.rows() == 2);
  CHECK(rows.at(0, "b0.write") == 1);
  CHECK(rows.at(0, "b0.reuse_none") == 1);
  CHECK(rows.count(0, "b0.bytes_per_reuse") == Approx(64));  // divided by 0.5
  CHECK(rows.count(0, "auto_unroll") == Approx(16));
  CHECK(rows.count(1, "real.compare") == Approx(8));
  CHECK(rows.count(1, "parallel.loops") == Approx(1));
  CHECK(rows.count(1, "parallel.product") == Approx(2));
  CHECK(rows.count(1, "vectorized.inner_extent") == Approx(4));
  CHECK(rows.at(1, "vectorized.mixed") == 1);
  CHECK(rows.at(1, "task.other") == 1);
}

TEST_CASE("a buffer that an earlier statement below the same loop touched is used again") {
  const task::Task t = task::make_elementwise({4});
  const TableRows rows = rows_of(features::kStatements,
                                 parse_kernel("kernel nest {\n  input A: f32[64]\n  output C: f32[64]\n"
                                              "  output D: f32[64]\n  for i in 64 {\n    C[i] = A[i] + 1.0\n"
                                              "    D[i] = A[i] * 2.0\n  }\n}"),
                                 t);
  REQUIRE(rows.rows() == 2);
  CHECK(rows.at(0, "b0.reuse_none") == 1);
  // Of D and A, whose lines and bytes are equal, A comes first in the kernel.
  CHECK(rows.at(1, "b0.read") == 1);
  CHECK(rows.at(1, "b0.reuse_serial") == 1);
  CHECK(rows.count(1, "b0.reuse_count") == Approx(1));
  CHECK(rows.count(1, "b0.reuse_iterations") == Approx(1));   // 64 elements below i, 64 iterations
  CHECK(rows.count(1, "b0.reuse_bytes") == Approx(4.0 * 4));  // C, A, D and A again
}

TEST_CASE("the halo of a window is counted once, quotients by their values") {
  const task::Task t = task::make_elementwise({4});
  const TableRows rows =
      rows_of(features::kStatements,
              parse_kernel("kernel nest {\n  input A: f32[100]\n  input B: f32[8]\n  output C: f32[32]\n"
                           "  for i in 32 {\n    C[i] = A[i*2] + A[i*2 + 1] * B[i // 4]\n  }\n}"),
              t);
  REQUIRE(rows.rows() == 1);
  CHECK(rows.count(0, "b0.unique_bytes") == Approx(4 * 64));  // of A; lines: 32 * 2 * 4 / 64
  CHECK(rows.count(0, "b0.lines") == Approx(4));
  CHECK(rows.count(0, "b2.unique_bytes") == Approx(4 * 8));  // of B
  CHECK(rows.count(0, "int.div") == Approx(32));
  // A step of i stays on its element of B, but a modulo moves.
  CHECK(rows.at(0, "b2.stride") == 0);
  const TableRows wrapped = rows_of(features::kStatements,
                                    parse_kernel("kernel nest {\n  input A: f32[8, 12]\n  output C: f32[64]\n"
                                                 "  for i in 64 {\n    C[i] = A[i // 8, i % 8] * 2.0\n  }\n}"),
                                    t);
  CHECK(wrapped.at(0, "b0.read") == 1);
  CHECK(wrapped.count(0, "b0.stride") == Approx(1));
  CHECK(wrapped.count(0, "b0.unique_bytes") == Approx(4 * 64));
}

TEST_CASE("instructions count the operations of their semantics and whole tiles") {
  const task::Task t = task::make_gemm({.m = 16, .n = 16, .k = 64});
  const ir::Kernel nest = parse_kernel(R"(kernel nest {
  input A: bf16[16, 64]
  input B: bf16[64, 16]
  output C: f32[16, 16]
  temp a: bf16[16, 32] amx_tile
  temp b: bf16[32, 16] amx_tile
  temp c: f32[16, 16] amx_tile
  alloc a, b, c {
    instr amx.zero.f32(c[0, 0])
    for k in 2 {
      instr amx.load.bf16(a[0, 0], A[0, k*32])
      instr amx.load.bf16.pairs(b[0, 0], B[k*32, 0])
      instr amx.tdpbf16ps.kn(c[0, 0], a[0, 0], b[0, 0])
    }
    instr amx.store.f32(C[0, 0], c[0, 0])
  }
})");
  const TableRows rows = rows_of(features::kStatements, nest, t);
  REQUIRE(rows.rows() == 4);  // c, a, b, C in the order of their first stores, the zeros left out
  const double n = 2.0 * 16 * 16 * 32;
  CHECK(rows.count(2, "real.mul") == Approx(n));
  CHECK(rows.count(2, "real.add") == Approx(n));
  // Two conversions of operands for each product, and the call itself.
  CHECK(rows.count(2, "real.other") == Approx(2 * n + 2));
  // Tiles of a, b and c have as many bytes each: the kernel's order decides.
  CHECK(rows.at(2, "b2.update") == 1);
  CHECK(rows.count(2, "b2.bytes") == Approx(2 * 4 * 256));
  CHECK(rows.count(2, "b2.unique_bytes") == Approx(4 * 256));
  CHECK(rows.count(0, "b0.bytes") == Approx(2 * 2 * 512));
  CHECK(rows.count(0, "b0.stride") == Approx(1));
  CHECK(rows.count(0, "real.other") == Approx(2));
  // Without the product the other rows stay.
  const TableRows flow = rows_of(features::kDataflow, nest, t);
  REQUIRE(flow.rows() == 10);
  CHECK(flow.at(0, "write") == 1);  // zeros, loads of A and B, reads of both, update, write-back
  CHECK(flow.at(0, "local") == 1);
  CHECK(flow.at(1, "global") == 1);
  CHECK(flow.at(2, "local") == 1);
  CHECK(flow.at(7, "update") == 1);
  CHECK(flow.at(9, "global") == 1);
  CHECK(rows_of(features::kDataflowPruner, nest, t).values == std::vector<float>(8 * 23));
}

TEST_CASE("PaCM's rows: init, copies of the operands, reads, update") {
  const task::Task t = task::make_gemm({.m = 32, .n = 8, .k = 16});
  const ir::Kernel nest = parse_kernel(kTiledProduct);
  const TableRows rows = rows_of(features::kDataflowPruner, nest, t, "a100");
  REQUIRE(rows.rows() == 8);
  const std::string_view places[] = {"local", "global", "shared", "global", "shared", "shared", "shared", "local"};
  const std::string_view accesses[] = {"write", "read", "write", "read", "write", "read", "read", "update"};
  for (size_t r = 0; r < 8; ++r) {
    INFO(r);
    CHECK(rows.at(r, places[r]) == 1);
    CHECK(rows.at(r, accesses[r]) == 1);
    CHECK(rows.at(r, "global") + rows.at(r, "shared") + rows.at(r, "local") == 1);
  }
  const double threads = 8 * 16;
  CHECK(rows.at(0, "real_operations") == 0);
  CHECK(rows.count(7, "real_operations") == Approx(threads * 4 * 4 * 2 * 2));
  CHECK(rows.count(1, "bytes") == Approx(4 * threads * 4 * 16));
  CHECK(rows.count(1, "unique_bytes") == Approx(4 * 32 * 16));
  CHECK(rows.count(1, "alloc_bytes") == Approx(4 * 32 * 16));
  CHECK(rows.count(2, "alloc_bytes") == Approx(4 * 16));
  CHECK(rows.count(4, "unique_bytes") == Approx(4 * 32));
  // The update's reads of A: neighbors x share a row for four threads; the innermost loop repeats it.
  CHECK(rows.at(5, "reuse_loop") == 1);
  CHECK(rows.count(5, "reuse_count") == Approx(2));
  // B repeats over k and the blocks around it only: x and r move it.
  CHECK(rows.count(6, "reuse_count") == Approx(4));
  // The sums stay in their registers for r and k, x and g.
  CHECK(rows.count(7, "reuse_count") == Approx(4 * 4 * 16 * 8));
  // The whole way has the write-back besides.
  const TableRows whole = rows_of(features::kDataflow, nest, t, "a100");
  REQUIRE(whole.rows() == 10);
  CHECK(std::vector<float>(whole.values.begin(), whole.values.begin() + 8 * 23) == rows.values);
  CHECK(whole.at(8, "local") == 1);
  CHECK(whole.at(9, "global") == 1);
  CHECK(whole.at(9, "write") == 1);
  // The machine's loops are counted as such.
  const TableRows statements = rows_of(features::kStatements, nest, t, "a100");
  CHECK(statements.at(0, "is_gpu") == 1);
  CHECK(statements.count(0, "grid.x") == Approx(8));
  CHECK(statements.count(0, "thread.x") == Approx(16));
  CHECK(statements.count(0, "alloc.outer") == Approx(8 * 16 * 4));  // of As: the first row, the init of acc is left out
}

TEST_CASE("an elementwise program has a way of its data, but not Pruner's") {
  const task::Task t = task::make_elementwise({2, 3, 4, 5});
  const ir::Kernel nest = nest_of(t.kernel, *target::find_target("x86-64-v3"));
  CHECK(rows_of(features::kDataflow, nest, t).rows() > 1);
  CHECK(rows_of(features::kDataflowPruner, nest, t).values == std::vector<float>(8 * 23));
  CHECK(rows_of(features::kStatements, nest, t).at(0, "task.other") == 1);
  CHECK(rows_of(features::kStatements, nest, t).at(0, "task.max") == 1);
  CHECK(rows_of(features::kStatements, nest, t).at(0, "task.add") == 1);
}
