// The machine's rates: measured on the first tuning run, kept in the cache folder, in the records, shown on demand.
#include "model_bytes.h"
#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

// tcc with a cache folder of its own.
Outcome with_cache(const Sandbox& box, const std::string& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {"env", "XDG_CACHE_HOME=" + box.str(folder), std::string(TCC_BINARY_DIR) + "/tools/tcc"});
  return box.run(words);
}

size_t count(const std::string& text, const std::string& piece) {
  size_t n = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("tuning measures the machine once and records name its rates", "[cli]") {
  Sandbox box;
  const std::vector<std::string> tune = {"tune", "zoo:mlp", "--tasks", "2", "--trials", "1", "--db", "a.db"};
  Outcome first = with_cache(box, "cache", tune);
  CAPTURE(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK_THAT(first.err, Contains("GFLOP/s") && Contains("measured now"));
  Outcome again = with_cache(box, "cache", tune);
  CHECK(again.exit_code == 0);
  // What other programs disturbed is measured again.
  const bool disturbed = count(first.err, "other programs ran during") > 0;
  if (!disturbed) CHECK_THAT(again.err, Contains("kept from an earlier run"));
  Outcome records = box.tcc({"db", "export", "a.db"});
  CHECK_THAT(records.out, Contains("\\\"measured\\\": true") || Contains("\\\"measured\\\":true"));

  // The same facts on demand, and from when they are.
  Outcome shown = with_cache(box, "cache", {"targets", "--probe"});
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Contains("L2 read") && Contains("parallel launch"));
  if (shown.err.find("other programs ran during") == std::string::npos && !disturbed)
    CHECK_THAT(shown.out, Contains("--refresh"));
  const std::string kept = with_cache(box, "cache", {"targets", "--probe", "--json"}).out;
  CHECK_THAT(kept, Contains("\"cached\": true") || !Contains("\"disturbed\": 0.0"));
  CHECK_THAT(with_cache(box, "cache", {"targets", "--probe", "--refresh"}).out, Contains("measured now and kept in"));
  check_error(box.tcc({"targets", "--refresh"}), 2, "--probe");
  check_error(box.tcc({"targets", "a100", "--probe"}), 2, "this machine");
}

TEST_CASE("a cache folder that cannot be written is reported once and tuning goes on", "[cli][errors]") {
  Sandbox box;
  spill(box.path("cache"), "a file where a folder should be");
  Outcome tuned = with_cache(box, "cache", {"tune", "zoo:mlp", "--tasks", "2", "--trials", "1", "--db", "a.db"});
  CAPTURE(tuned.err);
  CHECK(tuned.exit_code == 0);
  CHECK(count(tuned.err, "could not be kept") == 1);
  CHECK_THAT(box.tcc({"db", "export", "a.db"}).out, Contains("\"ok\""));
}
