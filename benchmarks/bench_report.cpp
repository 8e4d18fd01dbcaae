// Pages of `tcc report`.
//   report.write            seconds of the report of a tuned network with some 30 tasks
//   report.megabytes        size of that page
//   report.load             milliseconds until a browser has drawn it; needs chromium
//   report.load.100tasks    the same for a file of records of 100 tasks with 64 programs each
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench.h"
#include "tcc/record/store.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {

#ifdef TCC_PROGRAM_PATH

namespace {

constexpr int kLoads = 5;

// What the command prints; nothing where it fails.
std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  TCC_CHECK(pipe != nullptr, "no pipe");
  std::string out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  if (pclose(pipe) != 0) return std::nullopt;
  return out;
}

void spill_records(const std::string& path) {
  const auto store = record::Store::open(path);
  TCC_CHECK(store.has_value(), "{}", store.error().message);
  for (uint64_t t = 0; t < 100; ++t)
    for (uint64_t i = 0; i < 64; ++i) {
      record::Record r;
      r.task = 1 + t, r.nest_hash = 1000 * t + i;
      r.target = "x86-64-v3", r.platform = "made up", r.tool_version = "bench", r.trace = "[]";
      r.workload = fmt::format("matmul {}x{}x64", 64 + t, 64 * (1 + t % 7));
      r.median = r.low = r.high = 1e-3 / static_cast<double>(1 + i % 17);
      r.unix_time = static_cast<int64_t>(1700000000 + 60 * t + i);
      TCC_CHECK((*store)->add(r).has_value(), "a record is not stored");
    }
}

// Milliseconds from the beginning of the navigation until the page's script has drawn everything; 0: no browser.
double load_milliseconds(const std::string& folder, const std::string& page) {
  std::vector<double> times;
  for (int i = 0; i < kLoads; ++i) {
    const auto drawn = output_of(fmt::format(
        "chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir={0}/browser "
        "--window-size=1280,3000 --dump-dom file://{0}/{1}",
        folder, page));
    const std::string mark = "data-ms=\"";
    const size_t at = drawn ? drawn->find(mark) : std::string::npos;
    if (at == std::string::npos) return 0;
    times.push_back(std::atof(drawn->c_str() + at + mark.size()));
  }
  return median(times);
}

}  // namespace

std::vector<Row> run_report_suite(double) {
  std::vector<Row> rows;
  const auto folder = TemporaryDirectory::create("tcc-bench-report-");
  TCC_CHECK(folder.has_value(), "no folder");
  const std::string at = (*folder)->path(), tcc = TCC_PROGRAM_PATH;
  const auto add_load = [&](const std::string& name, const std::string& page) {
    const double ms = load_milliseconds(at, page);
    if (ms > 0)
      rows.push_back({name, ms, "ms"});
    else
      rows.push_back({name, 0, "ms", "absent: no chromium that draws the page"});
  };
  if (wanted("report.write") || wanted("report.megabytes") || wanted("report.load")) {
    constexpr const char* kModel = "zoo:mobilenet_v2";
    const std::string db = at + "/r.db";
    TCC_CHECK(output_of(fmt::format("{} tune {} --threads 1 --trials 128 --time 120s --db {} -q", tcc, kModel, db)),
              "the tuning failed");
    const auto told =
        output_of(fmt::format("{} report {} --threads 1 --db {} -o {}/model.html --json", tcc, kModel, db, at));
    TCC_CHECK(told.has_value(), "no report was written; tcc needs d3");
    const auto summary = nlohmann::json::parse(*told);
    const auto tasks = summary.at("tasks").get<double>();
    rows.push_back({"report.tasks", tasks, "tasks"});
    rows.push_back({"report.write", summary.at("seconds").get<double>(), "s"});
    rows.push_back({"report.megabytes", summary.at("bytes").get<double>() / 1e6, "MB"});
    add_load("report.load", "model.html");
  }
  if (wanted("report.load.100tasks")) {
    spill_records(at + "/many.db");
    TCC_CHECK(output_of(fmt::format("{0} report {1}/many.db -o {1}/many.html -q", tcc, at)), "no report was written");
    add_load("report.load.100tasks", "many.html");
  }
  return rows;
}

#else

std::vector<Row> run_report_suite(double) {
  return {{"report", 0, "s", "absent: this build has no program tcc"}};
}

#endif

}  // namespace tcc::benchmarks
