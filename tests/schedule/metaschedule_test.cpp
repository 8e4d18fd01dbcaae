// Traces in MetaSchedule's published form, written by hand: their imports and refusals.
#include "tcc/schedule/metaschedule.h"

#include <catch2/catch.hpp>

#include <array>

#include "sample_tasks.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/task/task.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

std::vector<double> result_of(const ir::Kernel& k) {
  std::vector<interp::TensorData> data;
  for (const ir::Buffer* b : k.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    data.push_back(interp::TensorData::make_random_integers(b->type, shape, 5 + data.size()));
  }
  std::vector<interp::TensorData*> params;
  for (interp::TensorData& d : data) params.push_back(&d);
  interp::Options options;
  options.check_races = true;
  interp::Report report = interp::run(k, params, options);
  INFO(report.text());
  REQUIRE(report.ok());
  return data.back().to_doubles();
}

std::string error_of(const std::string& text) {
  auto imported = trace_from_metaschedule(text, "t.json");
  return imported ? std::string("accepted") : imported.error().message;
}

// The tiling of a product as MetaSchedule's rules for CPUs write it: tiles, a cache for the result, hints on the root.
const char* const kGemm = R"([[
  ["GetBlock", [], ["gemm", "main"], ["b0"]],
  ["GetBlock", [], ["root", "main"], ["b1"]],
  ["Annotate", ["b0", "\"SSRSRS\""], ["meta_schedule.tiling_structure"], []],
  ["GetLoops", ["b0"], [], ["l2", "l3", "l4"]],
  ["SamplePerfectTile", ["l2"], [3, 64], ["v5", "v6", "v7"]],
  ["Split", ["l2", "v5", "v6", "v7"], [1, 0], ["l8", "l9", "l10"]],
  ["SamplePerfectTile", ["l3"], [3, 64], ["v11", "v12", "v13"]],
  ["Split", ["l3", "v11", "v12", "v13"], [1, 0], ["l14", "l15", "l16"]],
  ["SamplePerfectTile", ["l4"], [2, 64], ["v17", "v18"]],
  ["Split", ["l4", "v17", "v18"], [1, 0], ["l19", "l20"]],
  ["Reorder", ["l8", "l14", "l9", "l15", "l19", "l10", "l20", "l16"], [], []],
  ["CacheWrite", ["b0"], [0, "local"], ["b21"]],
  ["ReverseComputeAt", ["b21", "l15"], [1, -1], []],
  ["Annotate", ["b1", 64], ["meta_schedule.parallel"], []],
  ["SampleCategorical", [], [[0, 16, 64, 512], [0.25, 0.25, 0.25, 0.25]], ["v22"]],
  ["Annotate", ["b1", "v22"], ["meta_schedule.unroll_explicit"], []],
  ["Parallel", ["l8"], [], []],
  ["Vectorize", ["l16"], [], []],
  ["DecomposeReduction", ["b0", "l19"], [], ["b23"]],
  ["EnterPostproc", [], [], []],
  ["RollingBuffer", ["b0"], [0], []]
 ],
 [[4, [2, 2, 3]], [6, [1, 4, 2]], [8, [5, 1]], [14, 2]]])";

}  // namespace

TEST_CASE("a product's trace of MetaSchedule does the same to our kernel") {
  task::Task t = task::make_gemm({.m = 12, .n = 8, .k = 5});
  auto imported = trace_from_metaschedule(kGemm, "gemm.json");
  if (!imported) FAIL(imported.error().message);
  REQUIRE(imported->notes.size() == 4);
  CHECK(imported->notes[0] == "instruction 2 (Annotate): the hint 'meta_schedule.tiling_structure' is left out");
  CHECK(imported->notes[3] ==
        "instructions from 19 on, of postprocessors, are left out: gemm.json: instruction 20 (RollingBuffer): no "
        "primitive here does this");
  INFO(print_trace(imported->trace));
  CHECK(imported->trace.decisions == std::vector<int64_t>{2, 2, 3, 1, 4, 2, 5, 1, 2});
  auto k = replay(imported->trace, imported->trace.decisions, t.kernel, std::make_shared<Arena>());
  if (!k) FAIL(k.error().text);
  INFO(ir::print(*k));
  CHECK(ir::verify(*k).empty());
  CHECK(result_of(*k) == result_of(t.kernel));
  // The text forms of ours know it too.
  auto again = parse_trace(print_trace(imported->trace));
  if (!again) FAIL(again.error().message);
  CHECK(*again == imported->trace);
  auto json = trace_from_json(trace_to_json(imported->trace));
  if (!json) FAIL(json.error().message);
  CHECK(*json == imported->trace);
}

TEST_CASE("a GPU schedule of MetaSchedule: bound loops, shared memory, cooperative fetches") {
  task::Task t = task::make_gemm({.m = 8, .n = 8, .k = 8});
  auto imported = trace_from_metaschedule(R"([[
    ["GetBlock", [], ["gemm", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
    ["Split", ["l1", null, 4], [1], ["l4", "l5"]],
    ["Split", ["l2", 2, null], [1], ["l6", "l7"]],
    ["Split", ["l3", null, 4], [1], ["l8", "l9"]],
    ["Reorder", ["l4", "l6", "l5", "l7", "l8", "l9"], [], []],
    ["Fuse", ["l4", "l6"], [1], ["l10"]],
    ["Bind", ["l10"], ["blockIdx.x"], []],
    ["Fuse", ["l5", "l7"], [1], ["l11"]],
    ["Bind", ["l11"], ["threadIdx.x"], []],
    ["CacheWrite", ["b0", []], [0, "local"], ["b12"]],
    ["ReverseComputeAt", ["b12", "l11"], [1, -1], []],
    ["CacheRead", ["b0"], [0, "shared"], ["b13"]],
    ["StorageAlign", ["b13"], [0, 0, 32, 8], []],
    ["ComputeAt", ["b13", "l8"], [1, -1], []],
    ["SampleCategorical", [], [[1, 2, 4], [0.4, 0.3, 0.3]], ["v14"]],
    ["Annotate", ["b13", "v14"], ["meta_schedule.cooperative_fetch"], []],
    ["SetScope", ["b13"], [0, "shared.dyn"], []],
    ["Unannotate", ["b13"], ["meta_schedule.cooperative_fetch"], []],
    ["AddUnitLoop", ["b13"], [], ["l15"]],
    ["Unroll", ["l9"], [], []]
   ], [[15, 1]]])");
  if (!imported) FAIL(imported.error().message);
  CHECK(imported->notes.empty());
  auto k = replay(imported->trace, imported->trace.decisions, t.kernel, std::make_shared<Arena>());
  if (!k) FAIL(k.error().text);
  INFO(ir::print(*k));
  CHECK(ir::verify(*k).empty());
  CHECK(ir::print(*k).find("shared stride(0, 32, 8)") != std::string::npos);
  CHECK(ir::print(*k).find("bound(grid.x)") != std::string::npos);
  CHECK(result_of(*k) == result_of(t.kernel));
}

TEST_CASE("each instruction with a counterpart is read") {
  auto only = [](const std::string& row) {
    auto imported = trace_from_metaschedule(
        R"([[["GetBlock", [], ["x", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l0", "l1"]], )" + row +
        R"(], [[2, -1]]])");
    return imported ? print_trace({{imported->trace.instructions.back()}, imported->trace.decisions, 9})
                    : imported.error().message;
  };
  CHECK(only(R"(["GetSBlock", [], ["y", "main"], ["b9"]])") == "v3 = get_block(\"y\")\n");
  CHECK(only(R"(["CacheRead", ["b0", ["b0"]], [0, "shared"], ["b9"]])") == "v3 = cache_read(v0) read=0 scope=shared\n");
  CHECK(only(R"(["Split", ["l0", "None", 4], [true, false], ["l8", "l9"]])") == "v3, v4 = split(v1, _, 4)\n");
  CHECK(only(R"(["Split", ["l0", null, 4], [true, false], ["l8", "l9"]])") == "v3, v4 = split(v1, _, 4)\n");
  CHECK(only(R"(["RFactor", ["l1"], [2], ["b9"]])") == "v3 = rfactor(v0, v2)\n");
  CHECK(only(R"(["ReIndex", ["b0"], [1, 0], ["b9"]])") == "v3 = reindex(v0) read=1\n");
  CHECK(only(R"(["ReIndex", ["b0"], [0, 1], ["b9"]])") == "v3 = reindex(v0) read=result\n");
  CHECK(only(R"(["ReadAt", ["l0", "b0"], [1, "local"], ["b9"]])") == "v3 = read_at(v0, v1) read=1 scope=local\n");
  CHECK(only(R"(["WriteAt", ["l0", "b0"], [0, "local"], ["b9"]])") == "v3 = write_at(v0, v1) local\n");
  CHECK(only(R"(["DecomposePadding", ["b0", "l0"], [], ["b9"]])") == "v3 = decompose_padding(v0, v1)\n");
  CHECK(only(R"(["SampleComputeLocation", ["b0"], [], ["l9"]])") == "v3 = sample_compute_location(v0) <-1>\n");
  CHECK(only(R"(["Blockize", ["l0"], [1], ["b9"]])") == "v3 = blockize(v1)\n");
  CHECK(only(R"(["Tensorize", ["b0"], ["amx.zero.f32", 1], []])") == "tensorize(\"amx.zero.f32\", v0)\n");
  CHECK(only(R"(["PadEinsum", ["b0"], [[16, 16, 4]], []])") == "pad_einsum(v0) multiples=[16, 16, 4]\n");
  CHECK(only(R"(["GetChildBlocks", ["b0"], [], ["b8", "b9"]])") == "v3, v4 = get_child_blocks(v0)\n");
  CHECK(only(R"(["GetOutputBlocks", [], [], ["b9"]])") == "v3 = get_output_blocks()\n");
  CHECK(only(R"(["GetConsumers", ["b0"], [], ["b9"]])") == "v3 = get_consumers(v0)\n");
  CHECK(only(R"(["ReverseComputeInline", ["b0"], [], []])") == "reverse_compute_inline(v0)\n");
  CHECK(only(R"(["Annotate", ["l0", 64], ["pragma_auto_unroll_max_step"], []])") == "annotate(v1, 64) unroll_max\n");
  CHECK(only(R"(["Unannotate", ["l0"], ["pragma_auto_unroll_max_step"], []])") == "unannotate(v1) unroll_max\n");
}

TEST_CASE("a partitioned tile keeps its decision") {
  task::Task t = task::make_gemm({.m = 12, .n = 8, .k = 5});
  auto imported = trace_from_metaschedule(R"([[
    ["GetSBlock", [], ["gemm", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
    ["SamplePartitionedTile", ["l1"], [3, 1, 6], ["v4", "v5", "v6"]],
    ["Split", ["l1", "v4", "v5", "v6"], [true, false], ["l7", "l8", "l9"]]], [[2, [2, 3, 2]]]])");
  if (!imported) FAIL(imported.error().message);
  CHECK(imported->notes.size() == 1);
  auto k = replay(imported->trace, imported->trace.decisions, t.kernel, std::make_shared<Arena>());
  if (!k) FAIL(k.error().text);
  CHECK(ir::print(*k).find("in 3 {") != std::string::npos);
  CHECK(result_of(*k) == result_of(t.kernel));
}

TEST_CASE("what cannot be imported is named with its instruction", "[errors]") {
  std::string start = R"([[["GetBlock", [], ["x", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l0", "l1"]], )";
  auto with = [&](const std::string& row, const std::string& decisions = "[]") {
    return error_of(start + row + "], " + decisions + "]");
  };
  CHECK(error_of("nonsense") == "t.json: not a MetaSchedule trace: no JSON");
  CHECK(error_of("{}") == "t.json: not a MetaSchedule trace: [instructions, decisions] is expected");
  CHECK(error_of("[[],[[0, 1]]]") == "t.json: a decision is [number of an instruction, value]");
  CHECK(error_of("[[3],[]]").find("instruction 0: [name, inputs, attributes, outputs] is expected") !=
        std::string::npos);
  CHECK(with(R"(["RollingBuffer", ["b0"], [0], []])") ==
        "t.json: instruction 2 (RollingBuffer): no primitive here does this");
  CHECK(with(R"(["Fuse", ["l0", "l7"], [], ["l2"]])") == "t.json: instruction 2 (Fuse): 'l7' is not defined before it");
  CHECK(with(R"(["Fuse", ["l0", "l1"], [], ["l0"]])") == "t.json: instruction 2 (Fuse): 'l0' is defined a second time");
  CHECK(with(R"(["Split", ["l0", 2, null], [], ["l5"]])") ==
        "t.json: instruction 2 (Split): has 1 outputs instead of 2");
  CHECK(with(R"(["Split", ["l0", 2.5], [], ["l5"]])").find("input 1 is to be a variable, a number or null") !=
        std::string::npos);
  CHECK(with(R"(["SamplePerfectTile", ["l0"], [2, 16], ["v1", "v2"]])") ==
        "t.json: instruction 2 (SamplePerfectTile): has no decision");
  CHECK(with(R"(["SamplePerfectTile", ["l0"], [2, 16], ["v1", "v2"]])", "[[2, [1, 2, 3]]]") ==
        "t.json: instruction 2 (SamplePerfectTile): 3 factors are decided instead of 2");
  CHECK(with(R"(["SampleCategorical", [], [[1, 2], [0.5]], ["v1"]])", "[[2, 0]]")
            .find("not as many probabilities as candidates") != std::string::npos);
  CHECK(with(R"(["Bind", ["l0"], ["threadIdx.w"], []])").find("unknown axis 'threadIdx.w'") != std::string::npos);
  CHECK(with(R"(["CacheRead", ["b0"], [0, "wmma.matrix_a"], ["b1"]])").find("no scope here is like 'wmma.matrix_a'") !=
        std::string::npos);
  CHECK(with(R"(["CacheRead", ["b0", ["b0", "b7"]], [0, "shared"], ["b1"]])") ==
        "t.json: instruction 2 (CacheRead): the consumer 'b7' is named: only the block itself can be the one that uses "
        "the copy");
  CHECK(with(R"(["CacheRead", ["b0", 3], [0, "shared"], ["b1"]])").find("a list of blocks") != std::string::npos);
  CHECK(with(R"(["SamplePartitionedTile", ["l0"], [2, 1, 4], ["v1", "v2"]])", "[[2, [1, 2, 3]]]") ==
        "t.json: instruction 2 (SamplePartitionedTile): 3 factors are decided instead of 2");
  CHECK(with(R"(["CacheWrite", ["b0"], [1, "local"], ["b1"]])").find("result 1 of a block: blocks have one") !=
        std::string::npos);
  CHECK(with(R"(["Annotate", ["b0", 1], ["my_key"], []])").find("no annotation here is like 'my_key'") !=
        std::string::npos);
  CHECK(with(R"(["TransformLayout", ["b0"], [0, 0, "m"], []])") ==
        "t.json: instruction 2 (TransformLayout): a block and an index map are expected");
  CHECK(with(R"(["TransformLayout", ["b0", "m"], [0, 0, null, 0], []])") ==
        "t.json: instruction 2 (TransformLayout): the index map: expected JSON");
  CHECK(with(R"(["TransformBlockLayout", ["b0"], [7], []])") ==
        "t.json: instruction 2 (TransformBlockLayout): an index map is a text of JSON");
  CHECK(with(R"(["GetBlock", [], ["root", "main"], ["b1"]], ["ComputeInline", ["b1"], [], []])")
            .find("instruction 3 (ComputeInline): the root block has no counterpart") != std::string::npos);
}

TEST_CASE("a trace of another kernel is refused with the instruction's number", "[errors]") {
  task::Task t = task::make_elementwise({3, 5});
  auto imported = trace_from_metaschedule(kGemm);
  REQUIRE(imported);
  auto k = replay(imported->trace, imported->trace.decisions, t.kernel, std::make_shared<Arena>());
  REQUIRE(!k);
  CHECK(k.error().text.find("instruction 0 (get_block): no block is named 'gemm'; the kernel has '") == 0);
  // The file's own numbers, where hints before the instruction have no counterpart in the trace.
  auto hinted = trace_from_metaschedule(R"([[
    ["GetSBlock", [], ["root", "main"], ["b1"]],
    ["Annotate", ["b1", 64], ["meta_schedule.parallel"], []],
    ["GetSBlock", [], ["nothing", "main"], ["b2"]]], []])");
  REQUIRE(hinted);
  auto refused = fit_to(*hinted, t.kernel, std::make_shared<Arena>());
  REQUIRE(!refused);
  CHECK(refused.error().text.starts_with("instruction 2 (here get_block): no block is named 'nothing'"));
  // Another shape: decisions of tiles are repaired as on any replay.
  task::Task other = task::make_gemm({.m = 7, .n = 16, .k = 10});
  std::vector<int64_t> used;
  auto repaired = replay(imported->trace, imported->trace.decisions, other.kernel, std::make_shared<Arena>(), &used);
  if (!repaired) FAIL(repaired.error().text);
  CHECK(used[0] * used[1] * used[2] == 7);
  CHECK(result_of(*repaired) == result_of(other.kernel));
}

TEST_CASE("edited MetaSchedule traces end in an error or a trace", "[fuzz]") {
  Rng rng(77);
  int64_t accepted = 0, refused = 0;
  static constexpr std::array<const char*, 10> kPieces = {"null", "[]", "-1",    "\"b0\"",    "9223372036854775807",
                                                          "1e99", "{}", "[[1]]", "\"local\"", "\"l2\""};
  for (int i = 0; i < 4000; ++i) {
    std::string text = kGemm;
    for (int64_t edits = 1 + rng.below(2); edits > 0; --edits) {
      // Another token in the place of one between two separators.
      size_t at = text.find_first_of(",[", static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())))), end = at;
      if (at == std::string::npos) continue;
      end = text.find_first_of(",]", at + 1);
      if (end == std::string::npos) continue;
      text.replace(at + 1, end - at - 1, kPieces[static_cast<size_t>(rng.below(kPieces.size()))]);
    }
    INFO(text);
    auto imported = trace_from_metaschedule(text, "fuzz");
    if (!imported) {
      ++refused;
      CHECK_FALSE(imported.error().message.empty());
      continue;
    }
    ++accepted;
    task::Task t = task::make_gemm({.m = 12, .n = 8, .k = 5});
    auto fitted = fit_to(*imported, t.kernel, std::make_shared<Arena>());
    if (!fitted) CHECK_FALSE(fitted.error().text.empty());
    if (!fitted) continue;
    auto k = replay(*fitted, fitted->decisions, t.kernel, std::make_shared<Arena>());
    REQUIRE(k.has_value());
    CHECK(ir::verify(*k).empty());
  }
  CHECK(accepted > 100);
  CHECK(refused > 100);
}
