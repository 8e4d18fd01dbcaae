// Files of records that are joined or cut down keep the winners of paired comparisons.
#include <catch2/catch.hpp>

#include "tcc/driver/records.h"
#include "tcc/record/store.h"
#include "tcc/support/files.h"

using namespace tcc;

namespace {

record::Record program(uint64_t nest, double seconds) {
  record::Record r;
  r.task = 7;
  r.target = "x86-64-v4";
  r.target_features = 9;
  r.nest_hash = nest;
  r.threads = 1;
  r.samples = {seconds};
  r.median = r.low = r.high = seconds;
  return r;
}

std::unique_ptr<record::Store> store_with(const std::string& path, const std::vector<record::Record>& records) {
  auto store = record::Store::open(path);
  REQUIRE(store.has_value());
  REQUIRE((*store)->add_all(records).has_value());
  return std::move(*store);
}

uint64_t winner_of(const record::Store& store) {
  auto best = store.confirmed_best(7, 9, 1);
  REQUIRE((best.has_value() && best->has_value()));
  return (*best)->nest_hash;
}

}  // namespace

TEST_CASE("files of records that are joined or cut down keep the winners of paired comparisons", "[driver]") {
  auto folder = TemporaryDirectory::create("tcc-merge-");
  REQUIRE(folder.has_value());
  const auto path = [&](const char* name) { return (*folder)->path() + "/" + name; };
  // Program 2 seems slower alone, and won in turns.
  const auto from = store_with(path("from.db"), {program(1, 1.00e-6), program(2, 1.02e-6), program(3, 1.10e-6)});
  REQUIRE(from->save_session(record::confirmed_best_key(7, 9, 1), record::hash_text(2)).has_value());
  REQUIRE(winner_of(*from) == 2);

  const auto joined = store_with(path("joined.db"), {});
  REQUIRE(driver::merge_records(*from, *joined) == 3);
  CHECK(winner_of(*joined) == 2);
  const auto pruned = store_with(path("pruned.db"), {});
  REQUIRE(driver::prune_records(*from, 2, *pruned) == 2);
  CHECK(winner_of(*pruned) == 2);

  // It was not compared with the program that is there already.
  const auto other = store_with(path("other.db"), {program(4, 0.95e-6)});
  REQUIRE(driver::merge_records(*from, *other) == 3);
  CHECK(winner_of(*other) == 4);
}
