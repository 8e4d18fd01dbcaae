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

TEST_CASE("a curve has the best after each trial, as late as the trial's round") {
  auto with_code = [](double seconds, uint64_t code) {
    record::Record r = trial(seconds);
    r.code = code;
    return r;
  };
  const std::vector<record::Record> records = {trial(0, record::Status::kWrong),
                                               with_code(8, 1),
                                               trial(0, record::Status::kRejected),
                                               with_code(8, 1),
                                               with_code(4, 2),
                                               with_code(5, 3)};
  const std::pair<double, double> rounds[] = {{2, 10}, {4, 30}};
  const benchmarks::Curve curve = benchmarks::curve_of(records, rounds, 0.5);
  REQUIRE(curve.size() == 3);
  CHECK(curve[0].trials == 2);
  CHECK(curve[0].seconds == 11);
  CHECK(curve[0].value == 8);
  CHECK(curve[1].trials == 3);
  CHECK(curve[1].seconds == 31.5);
  CHECK(curve[1].value == 4);
  CHECK(curve[2].value == 4);
  CHECK(benchmarks::value_after(curve, 1) == HUGE_VAL);
  CHECK(benchmarks::value_after(curve, 2) == 8);
  CHECK(benchmarks::value_after(curve, 100) == 4);
  CHECK(benchmarks::first_with(curve, 6)->trials == 3);
  CHECK_FALSE(benchmarks::first_with(curve, 3));
}

TEST_CASE("operators together: geometric means, from where all have a program, and sums of seconds") {
  const benchmarks::Curve a = {{1, 1, 8}, {4, 4, 2}}, b = {{2, 3, 8}};
  const std::vector<benchmarks::Curve> both = {a, b};
  const benchmarks::Curve sum = benchmarks::together(both);
  REQUIRE(sum.size() == 2);
  CHECK(sum[0].trials == 2);
  CHECK(sum[0].value == Approx(8));
  CHECK(sum[0].seconds == Approx(4));
  CHECK(sum[1].trials == 4);
  CHECK(sum[1].value == Approx(4));
  CHECK(sum[1].seconds == Approx(7));
  CHECK(benchmarks::mean_of_runs(both)[1].seconds == Approx(3.5));
}

TEST_CASE("a curve survives as values: its improvements and its end") {
  const benchmarks::Curve curve = {{1, 0.5, 9}, {2, 1, 9}, {30, 7, 3}, {31, 8, 3}, {640, 9, 3}};
  const benchmarks::Curve back = benchmarks::from_values(benchmarks::to_values(curve));
  REQUIRE(back.size() == 3);
  CHECK(back[0].trials == 1);
  CHECK(back[1].trials == 30);
  CHECK(back[1].seconds == 7);
  CHECK(back[2].trials == 640);
  CHECK(back[2].value == 3);
}
