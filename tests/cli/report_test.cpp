// Pages to look at: `tcc report`, by its data, by its errors, with hostile names, and in a browser.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator_bytes.h"
#include "skip.h"
#include "tcc/record/store.h"
#include "tcc/search/search.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

const std::string kHostile = "</script><script>alert('x')</script><img src=x onerror=alert(2)>&amp;";

// Two products whose nodes have hostile names.
std::string hostile_model() {
  const auto matrix = [](const std::string& name) { return f32_value(name, {32, 32}); };
  const std::string graph = node(kHostile, "MatMul", {"x", "w"}, "p") + node("relu", "Relu", {"p"}, "r") +
                            node("second", "MatMul", {"r", "w"}, "y") + field(2, kHostile) +
                            constant("w", {32, 32}, 0.25F) + field(11, matrix("x")) + field(12, matrix("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

// A sandbox with hostile.onnx, tuned with a few trials into r.db.
Sandbox tuned_box() {
  Sandbox box;
  spill(box.path("hostile.onnx"), hostile_model());
  const Outcome tuned = box.tcc({"tune", "hostile.onnx", "--threads", "1", "--trials", "12", "--db", "r.db", "-q"});
  CAPTURE(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  return box;
}

// The block of JSON of a page.
Json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  REQUIRE(at > begin.size());
  return Json::parse(page.substr(at, page.find("</script>", at) - at));
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// False, and the case is reported as skipped: tcc was built without d3.
bool has_page(const Sandbox& box) {
  const Outcome made = box.tcc({"report", "absent.db"});
  if (made.err.find("built without the report page") == std::string::npos) return true;
  tcc::testing::report_skip("tcc was built without d3 (package node-d3)");
  return false;
}

Json written(const Sandbox& box, std::vector<std::string> words, const std::string& file) {
  words.insert(words.begin(), "report");
  words.insert(words.end(), {"-o", file, "--json"});
  const Outcome made = box.tcc(words);
  CAPTURE(made.err);
  REQUIRE(made.exit_code == 0);
  const Json summary = Json::parse(made.out);
  CHECK(summary.at("file") == file);
  CHECK(summary.at("bytes") == slurp(box.path(file)).size());
  return summary;
}

}  // namespace

TEST_CASE("a model's report has its tasks, programs and trials", "[report]") {
  if (Sandbox empty; !has_page(empty)) return;
  const Sandbox box = tuned_box();
  const Json summary = written(box, {"hostile.onnx", "--db", "r.db", "--threads", "1"}, "m.html");
  CHECK(summary.at("kind") == "model");
  const std::string page = slurp(box.path("m.html"));
  // Names cannot leave the block of data: the page has its own elements and no others.
  CHECK(times_in(page, "<script") == 3);
  CHECK(times_in(page, "<img") == 0);
  CHECK(times_in(page, "alert(") == times_in(page, "\\u003cscript\\u003ealert(") + times_in(page, "onerror=alert("));
  CHECK_THAT(page, Contains("default-src 'none'") && Contains("Mike Bostock") && !Contains("src=\"http"));
  const Json data = data_of(page);
  REQUIRE(data.at("tasks").size() == summary.at("tasks"));
  bool named = false;
  int64_t trials = 0;
  for (const Json& t : data.at("tasks")) {
    CAPTURE(t.at("workload"));
    for (const Json& group : t.at("nodes"))
      for (const Json& n : group) named = named || n.at("name") == kHostile;
    trials += static_cast<int64_t>(t.at("trials").size());
    CHECK(t.at("tuned") == true);
    CHECK(t.at("seconds") > 0);
    CHECK(t.at("flops") > 0);
    CHECK(t.at("bytes") >= 2 * 32 * 32 * 4);
    CHECK_FALSE(t.at("bound").at("by").get<std::string>().empty());
    for (const char* text : {"loops", "program", "code", "nest", "schedule_text"})
      CHECK_FALSE(t.at(text).get<std::string>().empty());
    CHECK(std::any_of(t.at("trials").begin(), t.at("trials").end(),
                      [](const Json& r) { return r.at(2) > 0 && r.at(3) > 0; }));
  }
  CHECK(named);
  CHECK(trials >= 12);
  CHECK_FALSE(data.at("roofs").at("compute").empty());
  CHECK(data.at("provenance").size() > 5);
}

TEST_CASE("reports of libraries, of two libraries and of records", "[report]") {
  if (Sandbox empty; !has_page(empty)) return;
  const Sandbox box = tuned_box();
  REQUIRE(box.tcc({"build", "hostile.onnx", "--db", "r.db", "-o", "a", "-q"}).exit_code == 0);
  REQUIRE(box.tcc({"build", "hostile.onnx", "--db", "none.db", "-o", "b", "-q"}).exit_code != 0);
  REQUIRE(box.tcc({"build", "hostile.onnx", "-o", "b", "-q"}).exit_code == 0);
  CHECK(written(box, {"a/libhostile.so"}, "l.html").at("kind") == "library");
  const Json library = data_of(slurp(box.path("l.html")));
  for (const Json& t : library.at("tasks")) CHECK(t.at("seconds") > 0);
  CHECK_THAT(library.at("tasks").at(0).at("nodes").dump(), Contains("onerror"));

  CHECK(written(box, {"a/libhostile.so", "b/libhostile.so"}, "p.html").at("kind") == "pair");
  const Json pair = data_of(slurp(box.path("p.html")));
  REQUIRE(pair.at("pairs").size() == library.at("tasks").size());
  for (const Json& p : pair.at("pairs")) CHECK((p.contains("a") && p.contains("b") && p.at("a").at("seconds") > 0));

  CHECK(written(box, {"r.db"}, "d.html").at("kind") == "store");
  const Json store = data_of(slurp(box.path("d.html")));
  CHECK(store.at("tasks").size() >= library.at("tasks").size());
  for (const Json& t : store.at("tasks")) CHECK_FALSE(t.at("trials").empty());
}

TEST_CASE("errors of report", "[report]") {
  Sandbox box;
  if (!has_page(box)) return;
  check_error(box.tcc({"report"}), 2, "needs MODEL");
  check_error(box.tcc({"report", "absent.onnx"}), 1, "absent.onnx");
  check_error(box.tcc({"report", "absent.db"}), 1, "absent.db");
  check_error(box.tcc({"report", "absent.so"}), 1, "absent.so");
  check_error(box.tcc({"report", "a.so", "zoo:mlp"}), 1, "a.so");
  spill(box.path("bad.so"), "not a library");
  check_error(box.tcc({"report", "bad.so"}), 1, "bad.so");
  check_error(box.tcc({"report", "zoo:mlp", "zoo:mlp"}), 2, "expected two libraries, found 'zoo:mlp'");
  check_error(box.tcc({"report", "zoo:mlp", "-o", "no/such/folder/r.html"}), 1, "no/such/folder");
  CHECK_FALSE(fs::exists(box.path("report.html")));
}

namespace {

// Why pages cannot be looked at; "": they can.
std::string why_no_browser(const Sandbox& box) {
  return box.run({"sh", "-c", "command -v chromium"}).exit_code == 0 ? "" : "no chromium to look at pages";
}

// The page as the browser has drawn it. A picture of it is kept. A console error fails the test.
std::string drawn_page(const Sandbox& box, const std::string& page) {
  CAPTURE(page);
  const fs::path kept = fs::path(TCC_BINARY_DIR) / "tests" / "report_screenshots";
  fs::create_directories(kept);
  const std::string file = box.str(page + ".html");
  const std::vector<std::string> browser = {"chromium",
                                            "--headless=new",
                                            "--no-sandbox",
                                            "--disable-gpu",
                                            "--disable-dev-shm-usage",
                                            "--user-data-dir=" + box.str("browser"),
                                            "--enable-logging=stderr",
                                            "--window-size=1280,3000",
                                            "--virtual-time-budget=3000"};
  std::vector<std::string> look = browser;
  look.insert(look.end(), {"--screenshot=" + (kept / (page + ".png")).string(), "file://" + file});
  const Outcome seen = box.run(look);
  CAPTURE(seen.err);
  CHECK(seen.exit_code == 0);
  CHECK_THAT(seen.err, !Contains("CONSOLE"));
  CHECK(fs::file_size(kept / (page + ".png")) > 10000);
  std::vector<std::string> dump = browser;
  dump.insert(dump.end(), {"--dump-dom", "file://" + file});
  return box.run(dump).out;
}

void check_plots(const std::string& drawn, size_t plots) {
  CHECK_THAT(drawn, Contains("data-ready=\"" + std::to_string(plots) + "\""));
  CHECK(times_in(drawn, "<svg") == plots);
  CHECK(times_in(drawn, "<img") == 0);
}

// Records of made-up programs: `tasks` tasks with `trials` each.
void spill_records(const fs::path& path, int tasks, int trials) {
  auto store = tcc::record::Store::open(path.string());
  if (!store) FAIL(store.error().message);
  for (int t = 0; t < tasks; ++t)
    for (int i = 0; i < trials; ++i) {
      tcc::record::Record r;
      r.task = 1 + static_cast<uint64_t>(t), r.nest_hash = static_cast<uint64_t>(1000 * t + i);
      r.target = "x86-64-v3", r.platform = "made up", r.tool_version = "test", r.trace = "[]";
      r.workload = fmt::format("matmul {}x{}x64", 64 + t, 64 * (1 + t % 7));
      r.median = r.low = r.high = 1e-3 / (1 + i % 17), r.unix_time = 1700000000 + 60 * t + i, r.threads = 1;
      if (i % 9 == 8) r.status = tcc::record::Status::kWrong, r.failure = "off by 1";
      REQUIRE((*store)->add(r).has_value());
    }
}

}  // namespace

TEST_CASE("a browser draws every plot without an error", "[report]") {
  if (Sandbox empty; !has_page(empty)) return;
  const Sandbox box = tuned_box();
  if (const std::string why = why_no_browser(box); !why.empty()) SKIP(why);
  REQUIRE(box.tcc({"build", "hostile.onnx", "--db", "r.db", "-o", "a", "-q"}).exit_code == 0);
  written(box, {"hostile.onnx", "--db", "r.db", "--threads", "1"}, "m.html");
  written(box, {"a/libhostile.so"}, "l.html");
  written(box, {"a/libhostile.so", "a/libhostile.so"}, "p.html");
  written(box, {"r.db"}, "d.html");
  // The plots of a page without open details.
  for (const auto& [page, plots] : {std::pair("m", 6), {"l", 2}, {"p", 2}, {"d", 0}})
    check_plots(drawn_page(box, page), static_cast<size_t>(plots));
}

TEST_CASE("a report's trials are those of all forms of a convolution", "[report]") {
  Sandbox box;
  if (!has_page(box)) return;
  spill(box.path("net.onnx"), two_convolutions());
  const std::vector<std::string> records = {"net.onnx", "--threads", "1", "--db", "r.db"};
  std::vector<std::string> tune = {"tune", "--trials", "16", "-q"};
  tune.insert(tune.end(), records.begin(), records.end());
  const Outcome tuned = box.tcc(tune);
  CAPTURE(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  auto store = tcc::record::Store::open(box.str("r.db"), tcc::record::Store::Mode::kReadOnly);
  REQUIRE(store.has_value());
  written(box, records, "forms.html");
  const Json data = data_of(slurp(box.path("forms.html")));
  REQUIRE(data.at("tasks").size() == 2);
  size_t several = 0;
  for (const Json& t : data.at("tasks")) {
    CAPTURE(t.at("workload"));
    const Json& forms = t.at("forms");
    REQUIRE_FALSE(forms.empty());
    std::vector<int64_t> counted(forms.size()), built;
    for (const Json& trial : t.at("trials")) ++counted.at(trial.at(4).get<size_t>());
    for (size_t f = 0; f < forms.size(); ++f) {
      const auto all = (*store)->all(tcc::search::task_hash(forms[f].at("key").get<std::string>()));
      REQUIRE(all.has_value());
      CHECK(counted[f] == std::count_if(all->begin(), all->end(), [](const auto& r) { return !is_untimed(r.kind); }));
      CHECK(counted[f] == forms[f].at("trials"));
      CHECK(counted[f] > 0);
      if (forms[f].at("built") == true) built.push_back(static_cast<int64_t>(f));
    }
    REQUIRE(built.size() == 1);
    CHECK(forms.at(built[0]).at("key") == t.at("key"));
    CHECK(forms.at(built[0]).at("best_seconds") == t.at("seconds"));
    several += forms.size() > 1 ? 1 : 0;
  }
  CHECK(several == 1);
  if (const std::string why = why_no_browser(box); !why.empty()) SKIP(why);
  const std::string drawn = drawn_page(box, "forms");
  for (const std::string name : {"direct", "winograd4"}) {
    CHECK(times_in(drawn, "class=\"dot " + name + "\"") > 0);
    CHECK(times_in(drawn, "class=\"key " + name + "\"") == 1);
  }
}

TEST_CASE("a page of 100 tasks has all of them, and is small", "[report]") {
  Sandbox box;
  if (!has_page(box)) return;
  spill_records(box.path("many.db"), 100, 16);
  const Json summary = written(box, {"many.db"}, "many.html");
  CHECK(summary.at("tasks") == 100);
  CHECK(summary.at("bytes") < 4 << 20);
  const Json data = data_of(slurp(box.path("many.html")));
  REQUIRE(data.at("tasks").size() == 100);
  for (const Json& t : data.at("tasks")) CHECK(t.at("trials").size() == 16);
  if (const std::string why = why_no_browser(box); !why.empty()) SKIP(why);
  const std::string drawn = drawn_page(box, "many");
  CHECK(times_in(drawn, "<tr class=\"task\"") == 100);
  CHECK(times_in(drawn, "off by 1") > 0);
  check_plots(drawn, 1);  // failures by reason
}

TEST_CASE("libraries for GPUs show registers, occupancy, bank conflicts and roles without a device", "[report]") {
  Sandbox box;
  if (!has_page(box)) return;
  for (const std::string target : {"a100", "h200"}) {
    CAPTURE(target);
    const Outcome built =
        box.tcc({"build", "zoo:mlp", "--batch", "512", "--target", target, "--precision", "f16", "-o", target, "-q"});
    CAPTURE(built.err);
    if (built.exit_code != 0) {
      CHECK_THAT(built.err, Contains("NVRTC"));
      SKIP("no compiler for GPUs (NVRTC)");
    }
    written(box, {target + "/libmlp.so"}, target + ".html");
    const Json data = data_of(slurp(box.path(target + ".html")));
    size_t launches = 0;
    std::string roles;
    for (const Json& t : data.at("tasks")) {
      CHECK(t.at("facts").at("registers") > 0);
      REQUIRE_FALSE(t.at("launch_models").empty());
      for (const Json& l : t.at("launch_models")) {
        ++launches;
        CHECK(l.at("registers") > 0);
        CHECK((l.at("occupancy") > 0 && l.at("occupancy") <= 1));
        CHECK((l.at("bank_conflicts") >= 0 && l.at("bank_conflicts") < 1));
        CHECK(l.at("stages") >= 1);
        int64_t warps = 0;
        for (const Json& r : l.at("roles")) warps += r.at("warps").get<int64_t>();
        CHECK(32 * warps >= l.at("threads").get<int64_t>());
        roles += l.at("roles").dump();
      }
    }
    CHECK(launches >= data.at("tasks").size());
    if (target == "h200") CHECK_THAT(roles, Contains("copies") && Contains("products"));
    if (!why_no_browser(box).empty()) continue;
    const std::string drawn = drawn_page(box, target);
    CHECK_THAT(drawn, Contains("bank conflicts") && Contains("id=\"gpu-table\""));
    CHECK(times_in(drawn, "plot timeline") == data.at("tasks").size());
  }
  if (const std::string why = why_no_browser(box); !why.empty()) SKIP(why);
}
