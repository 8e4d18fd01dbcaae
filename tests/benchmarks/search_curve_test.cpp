// What a curve says of a search's records.
#include "search_curve.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tcc;
using benchmarks::best_after;

namespace {
record::Record trial(double seconds, record::Status status = record::Status::kOk) {
  record::Record r;
  r.status = status;
  r.median = seconds;
  return r;
}
}  // namespace

TEST_CASE(
    "the best after n trials is a share of the best; failures are trials, programs that lowering turned down are not") {
  const std::vector<record::Record> records = {trial(0, record::Status::kWrong), trial(0, record::Status::kRejected),
                                               trial(4), trial(8), trial(2)};
  CHECK(best_after(records, 0, 2) == 0.05);
  CHECK(best_after(records, 1, 2) == 0.05);
  CHECK(best_after(records, 2, 2) == 0.5);
  CHECK(best_after(records, 3, 2) == 0.5);
  CHECK(best_after(records, 4, 2) == 1);
  CHECK(best_after(records, 64, 2) == 1);
  CHECK(best_after({}, 8, 2) == 0.05);
}

TEST_CASE("rows of a curve end with the trials, and hold geometric means") {
  benchmarks::Curves one, mean;
  one.evolved.fill(std::log(0.8));
  one.random.fill(std::log(0.2));
  mean.add(one, 0.5), mean.add({}, 0.5);
  std::vector<benchmarks::Row> rows;
  benchmarks::add_curve_rows("task", mean, 8, rows);
  REQUIRE(rows.size() == 4);
  CHECK(rows[3].name == "task.after.8");
  CHECK(rows[3].value == Approx(std::sqrt(0.8)));
  CHECK(rows[3].peer_value == Approx(std::sqrt(0.2)));
  CHECK(rows[3].ratio == Approx(2));
}
