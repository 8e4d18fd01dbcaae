// Tables of traces and of machines, and all tables on random programs.
#include "tables.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

std::vector<task::Task> some_tasks() {
  return {
      task::make_gemm({.m = 48, .n = 96, .k = 60, .bias = true}),
      task::make_conv({.channels = 8, .filters = 32, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true}),
      task::make_conv({.channels = 16, .filters = 16, .group = 16, .size = {15, 15}, .kernel = {3, 3}, .pads = {1, 1}}),
      task::make_softmax({12, 40}, 1),
      task::make_elementwise({2, 8, 7, 7}),
      task::make_reduction({8, 30, 12}, {1}, graph::Op::kReduceMean),
      task::make_attention({.heads = 2, .queries = 32, .keys = 48, .depth = 16})};
}

// The tables of a program as text, without zeros. TCC_UPDATE_GOLDEN=1 writes the file.
void check_golden(const std::string& name, const features::Program& program) {
  std::string text;
  for (const features::Table* table : features::tables()) {
    const std::vector<float> values = features::extract(*table, program);
    const size_t width = table->columns.size();
    for (size_t r = 0; r * width < values.size(); ++r) {
      std::string row;
      for (size_t c = 0; c < width; ++c)
        if (const float v = values[r * width + c]; v != 0) row += fmt::format(" {}={:.4g}", table->columns[c], v);
      if (!row.empty()) text += fmt::format("{} {}:{}\n", table->name, r, row);
    }
  }
  const std::string file = std::string(TCC_SOURCE_DIR) + "/tests/features/golden/" + name + ".txt";
  if (std::getenv("TCC_UPDATE_GOLDEN") != nullptr) REQUIRE(write_file(file, text).has_value());
  auto expected = read_file(file);
  REQUIRE(expected.has_value());
  CHECK(*expected == text);
}

struct Traced {
  schedule::Trace trace;
  task::Task task;
  ir::Kernel nest;
};
// C[48, 128] = A B, tiled and annotated.
Traced tiled_product() {
  task::Task t = task::make_gemm({.m = 48, .n = 128, .k = 64});
  auto trace = schedule::parse_trace(R"(v0 = get_block("gemm")
v1, v2, v3 = get_loops(v0)
v4, v5 = sample_perfect_tile(v1) max_innermost=64 <4, 12>
v6, v7 = split(v1, v4, v5)
v8, v9 = split(v2, _, 32)
reorder(v6, v8, v3, v7, v9)
v10 = sample_categorical() candidates=[1, 64, 256] weights=[300000, 400000, 300000] <2>
annotate(v3, v10) unroll_max
vectorize(v9)
v11 = fuse(v6, v8)
parallel(v11)
)");
  REQUIRE(trace.has_value());
  auto kernel = schedule::replay(*trace, trace->decisions, t.kernel, std::make_shared<Arena>());
  REQUIRE(kernel.has_value());
  ir::Kernel nest = nest_of(*kernel, *target::find_target("x86-64-v3"));
  return {std::move(*trace), std::move(t), std::move(nest)};
}

}  // namespace

TEST_CASE("a step's row holds its kind and the resolved numbers") {
  const Traced p = tiled_product();
  const target::Target target = *target::find_target("x86-64-v3");
  const features::Program program{p.task, p.trace, p.trace.decisions, p.nest, target, 1};
  const TableRows rows{&features::kTraceCpu, features::extract(features::kTraceCpu, program)};
  REQUIRE(rows.rows() == 40);
  auto parameters = [&](size_t row, std::vector<double> expected) {
    INFO(row);
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO(i);
      CHECK(rows.at(row, fmt::format("p{}", i)) == Approx(std::log2(1 + expected[i])));
    }
  };
  CHECK(rows.at(0, "task") == 1);
  CHECK(rows.count(0, "p0") == Approx(2.0 * 48 * 128 * 64));
  CHECK(rows.count(0, "p1") == Approx(4.0 * (48 * 64 + 64 * 128 + 48 * 128)));
  parameters(0, {2.0 * 48 * 128 * 64, 4.0 * (48 * 64 + 64 * 128 + 48 * 128), 1, 64, 1 + 16, 0, 48, 128, 64, 0});
  CHECK(rows.at(1, "split") == 1);
  parameters(1, {48, 4, 12, 1, 1, 0});  // extent, factors; of the first block the first loop
  CHECK(rows.at(2, "split") == 1);
  parameters(2, {128, 4, 32, 1, 2});
  CHECK(rows.at(3, "reorder") == 1);
  parameters(3, {4, 4, 64, 12, 32, 1, 1, 1, 3, 2, 2});
  CHECK(rows.at(4, "annotate") == 1);
  parameters(4, {64, 256});
  CHECK(rows.at(5, "vectorize") == 1);
  parameters(5, {32});
  CHECK(rows.at(6, "fuse") == 1);
  CHECK(rows.at(7, "parallel") == 1);
  parameters(7, {16});
  for (size_t c = 0; c < rows.table->columns.size(); ++c) CHECK(rows.values[8 * rows.table->columns.size() + c] == 0);

  // TLP: raw integers in the order of the step.
  const TableRows tlp{&features::kTraceTlpCpu, features::extract(features::kTraceTlpCpu, program)};
  REQUIRE(tlp.rows() == 25);
  CHECK(tlp.at(0, "split") == 1);
  const double split[] = {1, 1, 4, 12};  // block, loop, factors
  for (size_t i = 0; i < 4; ++i) CHECK(tlp.at(0, fmt::format("p{}", i)) == split[i]);
  CHECK(tlp.at(3, "pragma") == 1);
  CHECK(tlp.at(3, "p2") == 256);
  CHECK(tlp.at(4, "annotate") == 1);
  // TCL: the machine in the last row.
  const TableRows tcl{&features::kTraceTclCpu, features::extract(features::kTraceTclCpu, program)};
  const TableRows machine{&features::kHardware, features::extract(features::kHardware, program)};
  REQUIRE(tcl.rows() == 26);
  CHECK(std::equal(tlp.values.begin(), tlp.values.end(), tcl.values.begin()));
  for (size_t i = 0; i < 11; ++i) CHECK(tcl.values[25 * 22 + i] == machine.values[i]);
}

TEST_CASE("all tables of a CPU's and of a GPU's program", "[golden]") {
  const Traced p = tiled_product();
  check_golden("cpu", {p.task, p.trace, p.trace.decisions, p.nest, *target::find_target("x86-64-v3"), 1});
  const ir::Kernel nest = parse_kernel(kTiledProduct);
  const schedule::Trace none;
  check_golden("gpu", {p.task, none, {}, nest, *target::find_target("a100"), 1});
}

TEST_CASE("too many steps: those without a decision go first") {
  task::Task t = task::make_gemm({.m = 48, .n = 128, .k = 64});
  Rng rng(3);
  schedule::Schedule sampled(t.kernel, std::make_shared<Arena>(), &rng);
  const schedule::BlockRv b = sampled.get_block("gemm");
  for (int i = 0; i < 45; ++i) sampled.add_unit_loop(b);
  const schedule::LoopRv loop = sampled.get_loops(b)[1];
  sampled.split(loop, sampled.sample_perfect_tile(loop, 2, 16));
  REQUIRE(sampled.ok());
  const schedule::Trace& trace = sampled.trace();
  const target::Target target = *target::find_target("x86-64-v3");
  const ir::Kernel nest = nest_of(sampled.kernel(), target);
  const TableRows rows{&features::kTraceCpu,
                       features::extract(features::kTraceCpu, {t, trace, trace.decisions, nest, target, 1})};
  for (size_t r = 1; r < 39; ++r) CHECK(rows.at(r, "add_unit_loop") == 1);
  CHECK(rows.at(39, "split") == 1);
  CHECK(rows.count(39, "p0") == Approx(128));
}

TEST_CASE("machines differ in their rows, values are shares") {
  const task::Task t = task::make_elementwise({4});
  const ir::Kernel nest = parse_kernel("kernel nest {\n  output C: f32[8]\n  C[0] = 1.0\n}");
  std::set<std::vector<float>> seen;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "a100", "h200", "v100"}) {
    const TableRows rows = rows_of(features::kHardware, nest, t, name);
    REQUIRE(rows.rows() == 1);
    for (float v : rows.values) CHECK((v >= 0 && v <= 1));
    CHECK(seen.insert(rows.values).second);
  }
  const TableRows cpu = rows_of(features::kHardware, nest, t, "x86-64-v4");
  CHECK(cpu.at(0, "cpu.vector_bytes") == Approx(std::log2(65) / std::log2(4097)));
  CHECK(cpu.at(0, "gpu.multiprocessors") == 0);
  const TableRows gpu = rows_of(features::kHardware, nest, t, "a100");
  CHECK(gpu.at(0, "gpu.multiprocessors") == Approx(std::log2(109) / std::log2(4097)));
  CHECK(gpu.at(0, "cpu.cores") == 0);
}

TEST_CASE("tables of random programs: finite, deterministic, the same from a reparsed trace and a reused workspace") {
  Rng rng(5);
  for (const char* name : {"x86-64-v4", "x86-64-v3", "a100", "h200"}) {
    const target::Target target = *target::find_target(name);
    const std::vector<task::Task> tasks = some_tasks();
    features::Workspace reused;
    features::Sample sample;
    for (const task::Task& t : tasks) {
      INFO(name << ": " << t.workload);
      int programs = 0;
      for_programs(t, target, 2, rng.below(1000), [&](const features::Program& p, uint64_t) {
        ++programs;
        features::extract({features::kHotStatement, features::tables()}, p, reused, sample);
        REQUIRE(sample.tables.size() == features::tables().size());
        CHECK(sample.row == features::extract(features::kHotStatement, p.nest, target, 1));
        schedule::Trace written = p.trace;
        written.decisions.assign(p.decisions.begin(), p.decisions.end());
        auto read = schedule::trace_from_json(schedule::trace_to_json(written));
        REQUIRE(read.has_value());
        // The definition: replay and lowering.
        auto kernel = schedule::replay(*read, read->decisions, t.kernel, std::make_shared<Arena>());
        REQUIRE(kernel.has_value());
        auto nest = lower::lower(*kernel, target, ir::Stage::kNest, std::make_shared<Arena>());
        REQUIRE(nest.has_value());
        for (size_t k = 0; k < sample.tables.size(); ++k) {
          const features::Table& table = *features::tables()[k];
          INFO(table.name);
          const std::vector<float>& values = sample.tables[k];
          const auto rows = static_cast<int64_t>(values.size() / table.columns.size());
          CHECK(values.size() % table.columns.size() == 0);
          CHECK((table.max_rows == 0 || rows <= table.max_rows));
          CHECK((!table.padded || rows == table.max_rows));
          CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
          CHECK(values == features::extract(table, {t, *read, read->decisions, *nest, target, 1}));
        }
        CHECK(!sample.tables[0].empty());
        CHECK(!sample.tables[2].empty());
      });
      CHECK(programs > 0);
    }
  }
}

TEST_CASE("few different programs share a matrix of their trace") {
  std::vector<task::Task> tasks = some_tasks();
  for (int64_t m : {64, 384})
    for (int64_t n : {256, 1000}) tasks.push_back(task::make_gemm({.m = m, .n = n, .k = 128, .relu = n == 256}));
  for (int64_t size : {14, 28})
    for (int64_t k : {1, 3})
      tasks.push_back(task::make_conv(
          {.channels = 32, .filters = 64, .size = {size, size}, .kernel = {k, k}, .pads = {k / 2, k / 2}}));
  for (const char* name : {"x86-64-v4", "a100"}) {
    const target::Target target = *target::find_target(name);
    const features::Table& table = std::string(name) == "a100" ? features::kTraceGpu : features::kTraceCpu;
    std::map<std::vector<float>, std::set<uint64_t>> nests;
    std::set<uint64_t> all;
    features::Workspace workspace;
    for (const task::Task& t : tasks)
      for_programs(t, target, 60, 7, [&](const features::Program& p, uint64_t nest) {
        nests[features::extract(table, p)].insert(nest);
        all.insert(nest);
      });
    // A program shares a matrix where another has it as well: all but one of each matrix's.
    size_t shared = 0;
    for (const auto& [matrix, programs] : nests) shared += programs.size() - 1;
    INFO(name << ": " << shared << " of " << all.size());
    CHECK(all.size() > 1000);
    CHECK(static_cast<double>(shared) <= 0.015 * static_cast<double>(all.size()));
  }
}
