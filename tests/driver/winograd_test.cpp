// Models built with convolutions by tiles, held against the reference of the model as it was imported.
#include <catch2/catch.hpp>

#include "tcc/driver/compile.h"
#include "tcc/driver/library.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::driver;

namespace {

Model resnet(int64_t winograd) {
  auto model = load_model({"zoo:resnet18", {}, {1, 64, 1}, {}});
  REQUIRE(model.has_value());
  model->source.winograd = winograd;
  return std::move(*model);
}

int64_t winograd_tasks(const Program& program) {
  int64_t count = 0;
  for (const task::Task& task : program.tasks.tasks) count += task.workload.find("winograd") != std::string::npos;
  return count;
}

}  // namespace

TEST_CASE("a model with convolutions by tiles verifies against its direct convolutions") {
  auto folder = TemporaryDirectory::create("tcc-winograd-test-");
  REQUIRE(folder.has_value());
  BuildOptions options;
  options.folder = (*folder)->path();
  options.targets = {target::host_target()};
  auto report = build_model(resnet(4), options);
  if (!report) FAIL(report.error().message);
  auto verified = verify_library(report->package.library, {});
  REQUIRE(verified.has_value());
  CHECK(verified->passed());
  REQUIRE(verified->outputs.size() == 1);
  CHECK(verified->outputs[0].max_error < 1e-3);
}

TEST_CASE("winograd is an option of the model, off by default") {
  auto direct = make_program(resnet(0)), tiles = make_program(resnet(2));
  REQUIRE(direct.has_value());
  REQUIRE(tiles.has_value());
  CHECK(ModelSource{}.winograd == kAutoForm);
  CHECK(winograd_tasks(*direct) == 0);
  CHECK(winograd_tasks(*tiles) >= 1);
  CHECK(tiles->flops < direct->flops);
  auto other = make_program(resnet(3));
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message.find("winograd") != std::string::npos);
}
