#include "recorded_units.h"

#include <catch2/catch.hpp>

#include "tcc/support/files.h"

using namespace tcc;
using benchmarks::RecordedUnits;

TEST_CASE("units of experiments survive the run that found them") {
  auto folder = TemporaryDirectory::create("recorded");
  REQUIRE(folder.has_value());
  const std::string path = (*folder)->path() + "/results.json";
  {
    auto units = RecordedUnits::open(path);
    REQUIRE(units.has_value());
    CHECK(!units->find("a.1", 7));
    REQUIRE(units->keep("a.1", 7, {{"top1", 0.1}, {"top5", 1.0 / 3}}, 2.5));
    REQUIRE(units->keep("a.2", ~uint64_t{0}, {{"top1", 0.5}}, 1));
  }
  auto again = RecordedUnits::open(path);
  REQUIRE(again.has_value());
  CHECK(again->find("a.1", 7) == RecordedUnits::Values{{"top1", 0.1}, {"top5", 1.0 / 3}});
  CHECK(again->find("a.2", ~uint64_t{0}) == RecordedUnits::Values{{"top1", 0.5}});
  // Other data or settings: to be found again.
  CHECK(!again->find("a.1", 8));
  REQUIRE(again->keep("a.1", 8, {{"top1", 0.2}}, 1));
  CHECK(!again->find("a.1", 7));
  CHECK(again->find("a.1", 8) == RecordedUnits::Values{{"top1", 0.2}});
}

TEST_CASE("two runs keep units in one file") {
  auto folder = TemporaryDirectory::create("recorded");
  REQUIRE(folder.has_value());
  const std::string path = (*folder)->path() + "/results.json";
  auto one = RecordedUnits::open(path), other = RecordedUnits::open(path);
  REQUIRE((one.has_value() && other.has_value()));
  REQUIRE(one->keep("a.1", 7, {{"top1", 0.1}}, 1));
  REQUIRE(other->keep("a.2", 7, {{"top1", 0.2}}, 1));
  REQUIRE(one->keep("a.3", 7, {{"top1", 0.3}}, 1));
  auto all = RecordedUnits::open(path);
  REQUIRE(all.has_value());
  for (const char* name : {"a.1", "a.2", "a.3"}) CHECK(all->find(name, 7).has_value());
}

TEST_CASE("a file of something else is not taken for results") {
  auto folder = TemporaryDirectory::create("recorded");
  REQUIRE(folder.has_value());
  const std::string path = (*folder)->path() + "/results.json";
  for (const char* text : {"", "[1]", "{\"rows\": []}", "{\"units\": 3}"}) {
    REQUIRE(write_file(path, text));
    auto units = RecordedUnits::open(path);
    REQUIRE(!units.has_value());
    CHECK(units.error().message.find("expected results of recorded experiments") != std::string::npos);
  }
  REQUIRE(write_file(path, R"({"units": {"a": {"inputs": "7", "values": {}, "seconds": 1}, "b": {"inputs": 7}}})"));
  auto units = RecordedUnits::open(path);
  REQUIRE(!units.has_value());
  CHECK(units.error().message.find("unit 'b' lacks") != std::string::npos);
}
