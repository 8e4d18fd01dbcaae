// Traces that TVM 0.27 wrote, its blocks named as ours: design spaces of its rules for CPUs with their postprocessing,
// weights free to be laid out anew where a file's name says layout, and single steps of layouts.
#include <catch2/catch.hpp>

#include <algorithm>

#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/schedule/metaschedule.h"
#include "tcc/support/files.h"
#include "tcc/task/task.h"
#include "traces/reference.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

std::string stored(const std::string& name) {
  auto text = read_file(TCC_SOURCE_DIR "/tests/schedule/metaschedule/" + name);
  if (!text) FAIL(text.error().message);
  return *text;
}

ir::Kernel stored_kernel(const std::string& name) {
  auto k = ir::parse(stored(name));
  if (!k) FAIL(k.error().message);
  return *k;
}

ImportedTrace imported(const std::string& file) {
  auto trace = trace_from_metaschedule(stored(file + ".json"), file);
  if (!trace) FAIL(trace.error().message);
  REQUIRE(trace->numbers.size() == trace->trace.instructions.size());
  return *trace;
}

// The kernel that the trace makes, which computes the same; the notes without those of hints.
ir::Kernel scheduled(const std::string& file, const ir::Kernel& kernel, std::vector<std::string>& notes) {
  INFO(file);
  ImportedTrace trace = imported(file);
  INFO(print_trace(trace.trace));
  auto fitted = fit_to(trace, kernel, std::make_shared<Arena>());
  if (!fitted) FAIL(fitted.error().text);
  for (const std::string& note : trace.notes)
    if (note.find("the hint") == std::string::npos) notes.push_back(note);
  auto k = replay(*fitted, fitted->decisions, kernel, std::make_shared<Arena>());
  if (!k) FAIL(k.error().text);
  INFO(ir::print(*k));
  testing::Reference(kernel).check(*k, file);
  // Handles are numbered in the order of their appearance, whatever was added or left out.
  auto again = parse_trace(print_trace(*fitted));
  if (!again) FAIL(again.error().message);
  CHECK(*again == *fitted);
  return *k;
}

bool has(const ir::Kernel& k, const char* what) {
  return ir::print(k).find(what) != std::string::npos;
}
bool has(const std::vector<std::string>& notes, const char* what) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(what) != std::string::npos; });
}

ir::Kernel small_gemm() {
  return task::make_gemm({.m = 12, .n = 8, .k = 6}).kernel;
}

}  // namespace

// On a GPU TVM binds the loops of a copy within bound ones, where our traces have an annotation.
TEST_CASE("traces that TVM wrote do the same to our kernels") {
  struct Row {
    const char* file;
    ir::Kernel kernel;
    bool left_out, vectorized;  // its postprocessing; loops of the kernel
  };
  const std::vector<Row> rows = {
      {"gemm_cpu", task::make_gemm({.m = 32, .n = 16, .k = 24}).kernel, false, true},
      {"gemm_cuda", task::make_gemm({.m = 32, .n = 16, .k = 24}).kernel, true, false},
      {"conv_relu_cpu",
       task::make_conv({.channels = 4,
                        .filters = 8,
                        .size = {16, 16},
                        .kernel = {3, 3},
                        .pads = {1, 1},
                        .bias = true,
                        .relu = true})
           .kernel,
       false, true},
      {"softmax_cpu", task::make_softmax({32, 64}, 1).kernel, false, false},
      {"norm_cpu", stored_kernel("norm.tir"), false, false},
      {"transposed_conv_cpu", stored_kernel("transposed_conv.tir"), false, true},
  };
  for (const Row& row : rows) {
    INFO(row.file);
    std::vector<std::string> notes;
    const ir::Kernel k = scheduled(row.file, row.kernel, notes);
    CHECK(has(notes, "postprocessors wrote is left out") == row.left_out);
    // A softmax divides in a block of its own here, which changes where others may go.
    CHECK(has(notes, "does not fit this kernel") == (std::string(row.file) == "softmax_cpu"));
    if (std::string(row.file).ends_with("_cuda")) CHECK(has(k, "bound(thread.x)"));
    if (row.vectorized) CHECK(has(k, "parallel"));
    if (row.vectorized) CHECK(has(k, "vectorized"));
  }
}

TEST_CASE("a weight that TVM lays out in a copy takes the layout itself") {
  std::vector<std::string> notes;
  const ir::Kernel gemm = scheduled(
      "gemm_layout_cpu", task::make_gemm({.m = 32, .n = 16, .k = 24, .constant_weights = true}).kernel, notes);
  CHECK(has(notes, "(CacheRead): the weight itself takes the layout of its copy, ahead"));
  CHECK(has(gemm,
            "weight b: f32[24, 16] layout[24,16]{1/8%0@addr*192, 1/4%2@addr*96, 0/2%0@addr*8, 1/1%4@addr*2, "
            "0/1%2@addr*1}"));
  const ir::Kernel conv = scheduled(
      "conv_layout_cpu",
      task::make_conv({.channels = 4, .filters = 8, .size = {16, 16}, .kernel = {3, 3}, .pads = {1, 1}}).kernel, notes);
  CHECK(has(conv,
            "weight w: f32[8, 4, 3, 3] layout[8,4,3,3]{0/4%0@addr*144, 3/1%0@addr*48, 0/1%4@addr*12, "
            "1/1%0@addr*3, 2/1%0@addr*1}"));
  CHECK_FALSE(has(notes, "left out"));
  // An operand that is not a weight keeps the caller's layout: TVM's postprocessing does not fit.
  notes.clear();
  scheduled("gemm_layout_cpu", task::make_gemm({.m = 32, .n = 16, .k = 24}).kernel, notes);
  CHECK(has(notes, "the caller's: its layout is fixed"));
}

TEST_CASE("layouts by index maps: of a result, flat, of a block, fused") {
  std::vector<std::string> notes;
  CHECK(has(scheduled("result_layout", small_gemm(), notes), "{0/4%0@addr*32, 1/1%0@addr*4, 0/1%4@addr*1}"));
  scheduled("flat_layout", small_gemm(), notes);
  CHECK(has(scheduled("block_layout", small_gemm(), notes), "spatial 3"));
  const ir::Kernel fused = scheduled("fused_block_layout", small_gemm(), notes);
  CHECK(has(fused, "in 96 parallel"));
  auto padded = trace_from_metaschedule(stored("padded_layout.json"), "padded");
  REQUIRE(!padded);
  CHECK(padded.error().message ==
        "padded: instruction 2 (TransformLayout): the elements that the layout adds have a value");
  // The map's factor 8 is the extent of the columns: another product's are not.
  ImportedTrace other = imported("fused_block_layout");
  auto refused = fit_to(other, task::make_gemm({.m = 12, .n = 10, .k = 6}).kernel, std::make_shared<Arena>());
  REQUIRE(!refused);
  CHECK(refused.error().text.starts_with("instruction 1 (here transform_block_layout): the digits of 'vn' cover 8 of"));
}

TEST_CASE("loops that the file counts differently are fused, or added where they have one iteration") {
  std::vector<std::string> notes;
  const ir::Kernel grouped = scheduled("grouped_conv_cpu",
                                       task::make_conv({.channels = 16,
                                                        .filters = 32,
                                                        .group = 4,
                                                        .size = {14, 14},
                                                        .kernel = {3, 3},
                                                        .strides = {2, 2},
                                                        .pads = {1, 1}})
                                           .kernel,
                                       notes);
  CHECK(notes == std::vector<std::string>{"loop 1 of conv in the file is 2 loops here, 4 x 8: they are fused",
                                          "loop 1 of pad in the file is 2 loops here, 4 x 4: they are fused",
                                          "loop 2 of out_global in the file is 2 loops here, 2 x 8: they are fused"});
  CHECK(has(grouped, "parallel"));
  CHECK(has(grouped, "vectorized"));
  notes.clear();
  const ir::Kernel depthwise = scheduled(
      "depthwise_cpu",
      task::make_conv({.channels = 8, .filters = 8, .group = 8, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}})
          .kernel,
      notes);
  CHECK(notes == std::vector<std::string>{"conv has no loop 4 of the file's, of one iteration: it is added"});
  CHECK(has(depthwise, "parallel"));
}

TEST_CASE("threads that share a sum get an accumulator each") {
  std::vector<std::string> notes;
  const ir::Kernel norm = scheduled("norm_cuda", stored_kernel("norm.tir"), notes);
  CHECK(has(notes, "threads share the sums of reduce_sum: rfactor gives each an accumulator first"));
  CHECK(has(norm, "in 8 bound(thread.x)"));
  CHECK(has(norm, "in 8 @tree_reduce(1)"));
  CHECK(has(norm, "bound(grid.x)"));
}

TEST_CASE("a file of another kernel's loops says which they are", "[errors]") {
  const ir::Kernel conv =
      task::make_conv({.channels = 4, .filters = 8, .size = {16, 16}, .kernel = {3, 3}, .pads = {1, 1}}).kernel;
  ImportedTrace grouped = imported("grouped_conv_cpu");
  auto refused =
      fit_to(grouped, task::make_conv({.channels = 4, .filters = 8, .size = {16}, .kernel = {3}, .pads = {1}}).kernel,
             std::make_shared<Arena>());
  REQUIRE(!refused);
  CHECK(
      refused.error().text ==
      "instruction 4 (here get_loops): the file has 7 loops (1 x 32 x 7 x 7 x 4 x 3 x 3) around conv, the kernel 5 (1 "
      "x 8 x 16 x 4 x 3), which are not the same iterations counted differently: write the trace for this kernel's "
      "loops");
  // A transposed convolution is computed in other blocks here.
  ImportedTrace transposed = imported("transposed_conv_cpu");
  refused = fit_to(transposed, conv, std::make_shared<Arena>());
  REQUIRE(!refused);
  CHECK(refused.error().text ==
        "instruction 0 (here get_block): no block is named 'data_dilate'; the kernel has 'pad', "
        "'conv'");
  // A layout of four dimensions does not fit a weight of five.
  ImportedTrace layout = imported("conv_layout_cpu");
  std::vector<std::string> notes;
  ImportedTrace moved = layout;
  auto fitted = fit_to(
      moved,
      task::make_conv({.channels = 16, .filters = 8, .group = 4, .size = {16, 16}, .kernel = {3, 3}, .pads = {1, 1}})
          .kernel,
      std::make_shared<Arena>());
  if (!fitted) FAIL(fitted.error().text);
  CHECK(has(moved.notes, "the index map is from 4 indices, the buffer w has 5"));
}
