// A reduction that TVM's rules for GPUs share out among threads, down to the code of one thread.
#include <catch2/catch.hpp>

#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/metaschedule.h"
#include "tcc/support/files.h"
#include "traces/reference.h"

using namespace tcc;

TEST_CASE("a cross-thread reduction of MetaSchedule's runs without races", "[traces]") {
  const std::string folder = TCC_SOURCE_DIR "/tests/schedule/metaschedule/";
  auto text = read_file(folder + "norm.tir"), trace = read_file(folder + "norm_cuda.json");
  REQUIRE((text.has_value() && trace.has_value()));
  auto norm = ir::parse(*text);
  if (!norm) FAIL(norm.error().message);
  auto imported = schedule::trace_from_metaschedule(*trace, "norm_cuda");
  if (!imported) FAIL(imported.error().message);
  auto arena = std::make_shared<Arena>();
  auto fitted = schedule::fit_to(*imported, *norm, arena);
  if (!fitted) FAIL(fitted.error().text);
  auto scheduled = schedule::replay(*fitted, fitted->decisions, *norm, arena);
  if (!scheduled) FAIL(scheduled.error().text);
  auto lowered = lower::lower(*scheduled, *target::find_target("a100"), ir::Stage::kLowered, arena);
  if (!lowered) FAIL(lowered.error().text);
  INFO(ir::print(*lowered));
  CHECK(ir::print(*lowered).find("in 8 bound(thread.x)") != std::string::npos);
  CHECK(ir::print(*lowered).find("bar.sync") != std::string::npos);
  const testing::Reference reference(*norm);
  for (uint64_t seed = 1; seed < 4; ++seed) reference.check(*lowered, "norm_cuda", seed);
}
