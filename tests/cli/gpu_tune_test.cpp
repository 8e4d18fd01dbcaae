// Tuning for a GPU that is not here.
#include <catch2/catch.hpp>

#include "cli/runner.h"

using namespace cli_test;

TEST_CASE("a model is tuned for a GPU by predictions", "[cli]") {
  Sandbox box;
  Outcome tune = box.tcc({"tune", "zoo:mlp", "--target", "a100", "--db", "records.db", "--trials", "3"});
  INFO(tune.out << tune.err);
  if (tune.exit_code != 0) {  // the one thing that it needs
    CHECK_THAT(tune.err, Catch::Contains("NVRTC"));
    return;
  }
  CHECK_THAT(tune.out + tune.err, Catch::Contains("are predicted") && Catch::Contains("none was run or checked"));
  CHECK_THAT(tune.out + tune.err, Catch::Contains("3 compiled for a100"));
  Outcome stats = box.tcc({"db", "export", "--db", "records.db", "-o", "records.txt"});
  INFO(stats.out << stats.err);
  REQUIRE(stats.exit_code == 0);
  CHECK_THAT(slurp(box.path("records.txt")), Catch::Contains("predicted") && Catch::Contains("sm_80"));
  // An architecture that this toolkit does not know any longer says which one does.
  Outcome old = box.tcc({"tune", "zoo:mlp", "--target", "k80", "--db", "records.db", "--trials", "3"});
  CHECK(old.exit_code == 1);
  CHECK_THAT(old.err, Catch::Contains("sm_37") && Catch::Contains("CUDA Toolkit 11.8 or older compiles it"));
}
