// What explain counts beside its texts, which tests/cli holds.
#include <catch2/catch.hpp>

#include "sample_tasks.h"
#include "tcc/driver/explain.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/schedule.h"

using namespace tcc;

TEST_CASE("vectorized loops that the lowering unrolls are counted") {
  const target::Target gpu = *target::find_target("a100");
  // Rows of 63 floats start anywhere, rows of 64 where a vector of four may.
  for (const auto& [columns, unaligned] : {std::pair<int64_t, int64_t>{64, 0}, {63, 1}}) {
    CAPTURE(columns);
    const task::Task task = task::make_elementwise({8, columns});
    schedule::Schedule s(task.kernel, std::make_shared<Arena>(), nullptr);
    const std::vector<schedule::LoopRv> loops =
        s.get_loops(s.get_block(ir::name_hint(task.kernel, ir::collect_blocks(task.kernel.root)[0]->id)));
    REQUIRE(loops.size() == 2);
    const std::vector<schedule::LoopRv> parts = s.split(loops[1], {{}, schedule::lit(4)});
    s.bind(loops[0], ir::Axis::kGridX);
    s.bind(parts[0], ir::Axis::kThreadX);
    s.vectorize(parts[1]);
    REQUIRE(s.ok());
    CHECK(driver::count_unaligned_vector_loops(s.trace(), task, gpu) == unaligned);
    // No pass for CPUs asks, and what is bound to a GPU is not for them.
    CHECK(driver::count_unaligned_vector_loops({}, task, *target::find_target("x86-64-v3")) == -1);
  }
}
