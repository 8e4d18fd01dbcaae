// `--dump-after PASS`: kernels between the passes of their lowering.
#include <filesystem>

#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;

TEST_CASE("show prints a task's program after one pass of the lowering", "[cli]") {
  Sandbox box;
  const Outcome nest = box.tcc({"show", "zoo:mlp", "--task", "0", "--dump-after", "check_limits"});
  CHECK(nest.exit_code == 0);
  CHECK_THAT(nest.out, Contains("# after check_limits\nkernel nest {") && !Contains("block "));
  const Outcome inits = box.tcc({"show", "zoo:mlp", "--task", "0", "--dump-after", "place_inits"});
  CHECK_THAT(inits.out, Contains("# after place_inits\nkernel ") && Contains("block ") && !Contains("init {"));
  const Outcome gpu =
      box.tcc({"show", "zoo:mlp", "--task", "0", "--target", "a100", "--dump-after", "insert_barriers"});
  CHECK(gpu.exit_code == 0);
  CHECK_THAT(gpu.out, Contains("# after insert_barriers\nkernel nest {") && Contains("bound(thread.x)"));

  const Outcome unknown = box.tcc({"show", "zoo:mlp", "--task", "0", "--dump-after", "split_tials"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("unknown pass 'split_tials'") && Contains("did you mean 'split_tails'"));
  const Outcome no_task = box.tcc({"show", "zoo:mlp", "--dump-after", "fold"});
  CHECK(no_task.exit_code == 2);
  CHECK_THAT(no_task.err, Contains("--task is missing"));
}

TEST_CASE("build writes each kernel after one pass of the lowering", "[cli]") {
  Sandbox box;
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "-q", "--dump-after", "split_tails"});
  CHECK(built.exit_code == 0);
  int dumped = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(box.path("out"))) {
    if (entry.path().extension() != ".tir") continue;
    CHECK_THAT(slurp(entry.path()), Contains("# after split_tails\nkernel nest {"));
    ++dumped;
  }
  CHECK(dumped >= 2);
  const Outcome unknown = box.tcc({"build", "zoo:mlp", "-o", "none", "--dump-after", "insert_barriers"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("the lowering for cpu"));
  CHECK_FALSE(std::filesystem::exists(box.path("none")));
}
