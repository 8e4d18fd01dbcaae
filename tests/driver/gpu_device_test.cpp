// Tuning on a real device; skipped without one.
#include <catch2/catch.hpp>

#include "skip.h"
#include "tcc/driver/compile.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/model.h"
#include "tcc/driver/tune.h"

using namespace tcc;
using namespace tcc::driver;

TEST_CASE("a model is tuned on the device, and nothing that is measured is wrong", "[gpu]") {
  auto target = driver::find_target("cuda", {});
  if (!target) SKIP("no CUDA device: " + target.error().message);
  ModelSource source;
  source.model = "zoo:mlp";
  auto model = load_model(source);
  REQUIRE(model);
  auto program = make_program(*model, *target);
  REQUIRE(program);
  auto store = record::Store::open(":memory:");
  REQUIRE(store);
  TuneRequest request;
  request.target = *target;
  request.options.trials = 48;
  auto report = tune_program(*program, **store, request);
  if (!report) FAIL(report.error().message);
  CHECK_FALSE(report->predicted);
  CHECK(report->counts.measured > 0);
  CHECK(report->counts.wrong == 0);
  CHECK(report->counts.crashed == 0);
  CHECK(report->counts.hung == 0);
  CHECK(report->best_seconds > 0);
  for (const TunedTask& task : report->tasks) {
    auto records = (*store)->all(search::task_hash(task.result.key));
    REQUIRE(records);
    for (const record::Record& r : *records)
      if (r.kind == record::Kind::kMeasured && r.status == record::Status::kOk) CHECK(r.cache == "cold");
  }
}
