// What follows tuning: records as files, explanations, timing in the model, comparing, schedules of one's own.
#include <nlohmann/json.hpp>

#include "model_bytes.h"
#include "skip.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("tuning chosen tasks, and what can be done with their records", "[cli]") {
  Sandbox box;
  CHECK_THAT(box.tcc({"tune", "zoo:mlp", "--tasks", "list"}).out, Contains("gemm 1x512x784"));
  check_error(box.tcc({"tune", "zoo:mlp", "--tasks", "7"}), 2, "'7'");
  check_error(box.tcc({"tune", "zoo:mlp", "--tasks", "2-0"}), 2, "2-0");
  // One thread: on a machine that does other things two threads wait for each other, and the program as written may
  // win.
  Outcome tuned =
      box.tcc({"tune", "zoo:mlp", "--tasks", "0,2", "--trials", "8", "--threads", "1", "--db", "a.db", "--json"});
  CAPTURE(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  const std::string trimmed = tuned.out.substr(0, tuned.out.find_last_not_of('\n') + 1);
  const json summary = json::parse(trimmed.substr(trimmed.rfind('\n') + 1));
  CHECK(summary.at("tasks").size() == 2);
  CHECK(summary.at("trials") == 8);
  REQUIRE_FALSE(summary.at("curve").empty());
  CHECK(summary.at("curve").back().at("best_seconds") > 0);

  const json stats = json::parse(box.tcc({"db", "stats", "a.db", "--json"}).out).at("stores").at(0);
  CHECK(stats.at("records") >= 8);
  CHECK(stats.at("tasks").size() == 2);
  CHECK(box.tcc({"inspect", "a.db"}).out == box.tcc({"db", "stats", "a.db"}).out);
  REQUIRE(box.tcc({"db", "export", "a.db", "-o", "a.jsonl"}).exit_code == 0);
  REQUIRE(box.tcc({"db", "import", "a.jsonl", "--db", "b.db"}).exit_code == 0);
  CHECK(box.tcc({"db", "export", "b.db"}).out == slurp(box.path("a.jsonl")));
  CHECK(json::parse(box.tcc({"db", "merge", "a.db", "-o", "b.db", "--json"}).out).at("added") == 0);
  CHECK(json::parse(box.tcc({"db", "prune", "a.db", "--keep", "1", "-o", "c.db", "--json"}).out).at("kept") == 2);
  for (const char* db : {"a.db", "b.db", "c.db"}) {  // the best is in all of them
    CAPTURE(db);
    const json shown = json::parse(box.tcc({"show", "zoo:mlp", "--db", db, "--json"}).out).at("tasks");
    const json own = json::parse(box.tcc({"db", "stats", db, "--json"}).out).at("stores").at(0).at("tasks");
    CHECK(shown.at(0).at("best_seconds") == own.at(1).at("best_seconds"));
    // Which program won the pairs of the finals is not in the texts of records: there the fastest counts.
    CHECK(own.at(1).at("best_seconds") <= stats.at("tasks").at(1).at("best_seconds"));
  }
  spill(box.path("bad.jsonl"), slurp(box.path("a.jsonl")) + "{\"task\": 3}\n");
  check_error(box.tcc({"db", "import", "bad.jsonl", "--db", "d.db"}), 1, "bad.jsonl");
  check_error(box.tcc({"db", "stats", "nowhere.db"}), 1, "nowhere.db");
  check_error(box.tcc({"db", "prune", "a.db", "-o", "b.db"}), 1, "exists");
  check_error(box.tcc({"db", "merge", "a.db"}), 2, "-o");
  check_error(box.tcc({"db", "stat"}), 2, "stats");

  const json why =
      json::parse(box.tcc({"explain", "zoo:mlp", "--task", "0", "--threads", "1", "--db", "a.db", "--json"}).out);
  CHECK(why.at("tuned") == true);
  REQUIRE_FALSE(why.at("steps").empty());
  for (const json& step : why.at("steps")) CHECK_FALSE(step.at("module").get<std::string>().empty());
  CHECK_THAT(why.at("loops").get<std::string>(), Contains("vectorized"));
  int64_t rejects = 0;
  for (const json& reject : why.at("rejects")) rejects += reject.at("count").get<int64_t>();
  CHECK(why.at("draws").get<int64_t>() == why.at("legal").get<int64_t>() + rejects);
  // Ways that modules gave up, spaces that were left out, and spaces whose programs are replayed step by step.
  for (const char* name : {"module_rejects", "dropped_spaces", "replayed_spaces"}) CHECK(why.at(name).is_array());
  CHECK(why.at("scalar_vector_loops") == 0);
  for (const json& module : why.at("module_rejects"))
    for (const json& reject : module.at("rejects")) CHECK(reject.at("count").get<int64_t>() > 0);
  // What the run itself proposed and rejected, and why there is no matrix instruction in a product of f32.
  const json& counts = summary.at("tasks").at(0).at("counts");
  for (const char* name : {"proposed", "duplicate", "rejected"}) CHECK(why.at("recorded").at(name) == counts.at(name));
  CHECK(why.at("recorded").at("rejects").size() == counts.at("rejected_by_reason").size());
  for (const json& reject : why.at("recorded").at("rejects")) {
    CHECK(reject.at("count") == counts.at("rejected_by_reason").at(reject.at("reason").get<std::string>()));
    CHECK_FALSE(reject.at("example").get<std::string>().empty());
  }
  CHECK(why.at("records").at(0).at("status") == "ok");
  CHECK_THAT(why.at("no_matrix_instruction").dump(), Contains("multiplies f32 by f32 into f32"));

  const json task =
      json::parse(box.tcc({"show", "zoo:mlp", "--task", "0", "--threads", "1", "--db", "a.db", "--json"}).out);
  const std::string mine =
      box.tcc({"show", "zoo:mlp", "--task", "0", "--threads", "1", "--db", "a.db", "--trace", "-q"}).out;
  CHECK(mine == task.at("trace").get<std::string>());
  check_error(box.tcc({"show", "zoo:mlp", "--trace"}), 2, "--trace");
  spill(box.path("mine.trace"), mine);
  Outcome timed = box.tcc({"bench", "zoo:mlp", "--task", "0", "--schedule", "mine.trace", "--json"});
  CAPTURE(timed.err);
  REQUIRE(timed.exit_code == 0);
  CHECK(json::parse(timed.out).at("status") == "ok");
  // A schedule for a CPU is refused for a GPU, whether a GPU is here or not.
  check_error(box.tcc({"bench", "zoo:mlp", "--task", "0", "--schedule", "mine.trace", "--target", "h100"}), 1,
              "mine.trace");
  // A trace of another kernel, by the file's own number.
  const std::string theirs = std::string(TCC_SOURCE_DIR) + "/tests/schedule/metaschedule/gemm_cpu.json";
  check_error(box.tcc({"bench", "zoo:mlp", "--task", "0", "--schedule", theirs}), 1,
              "instruction 11 (here get_consumers)");
  spill(box.path("bad.trace"), "v0 = get_block(\"nothing\")\n");
  check_error(box.tcc({"bench", "zoo:mlp", "--task", "0", "--schedule", "bad.trace"}), 1, "bad.trace");
  check_error(box.tcc({"bench", "zoo:mlp", "--schedule", "mine.trace"}), 2, "--task");
}

TEST_CASE("bench times the kernels inside the model and compares two runs", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"build", "zoo:mlp", "-q", "-o", "out"}).exit_code == 0);
  Outcome bench = box.tcc({"bench", "out/libmlp.so", "--per-kernel", "--seconds", "0.1", "--json"});
  CAPTURE(bench.err);
  REQUIRE(bench.exit_code == 0);
  const json times = json::parse(bench.out);
  REQUIRE(times.at("kernels").size() == 3);
  double sum = 0;
  for (const json& k : times.at("kernels")) {
    CHECK(k.at("bytes") > 0);
    sum += k.at("seconds").at("min").get<double>();
  }
  CHECK(sum > 0);
  CHECK(times.at("peak_share") > 0);
  CHECK(times.at("gbytes_per_second") > 0);

  auto file = [&](const char* name, double unit) {
    json samples = json::array();
    for (int i = 0; i < 200; ++i) samples.push_back(unit * (1 + 0.001 * (i * 7 % 13)));
    spill(box.path(name), json{{"samples", samples}}.dump());
  };
  file("a.json", 1e-3);
  file("slow.json", 1.1e-3);
  CHECK_THAT(box.tcc({"bench", "--compare", "a.json", "slow.json"}).out, Contains("slower"));
  CHECK_THAT(box.tcc({"bench", "--compare", "slow.json", "a.json"}).out, Contains("faster"));
  CHECK(json::parse(box.tcc({"bench", "--compare", "a.json", "a.json", "--json"}).out).at("differs") == false);
  spill(box.path("none.json"), "{}");
  check_error(box.tcc({"bench", "--compare", "a.json", "none.json"}), 1, "none.json");
  check_error(box.tcc({"bench", "--compare", "a.json"}), 2, "--compare");
  check_error(box.tcc({"bench"}), 2, "tcc bench needs MODEL: a library built by tcc, or a model");
}

TEST_CASE("the Python example gives what run gives", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-q", "-o", "out"}).exit_code == 0);
  REQUIRE(box.tcc({"run", "out/libsum.so", "--random", "--save", "y=a.npy"}).exit_code == 0);
  const std::string source = TCC_SOURCE_DIR, text = slurp(source + "/docs/examples/run_model.py");
  CHECK(std::count(text.begin(), text.end(), '\n') <= 20);  // as the documentation promises
  for (const std::string& python : {std::string("/usr/bin/python3"), std::string("python3")}) {
    if (box.run({"sh", "-c", python + " -c 'import numpy'"}).exit_code != 0) continue;
    Outcome example = box.run({python, source + "/docs/examples/run_model.py", "out/libsum.so", "a.npy", "a.npy"});
    CAPTURE(example.err);
    CHECK(example.exit_code == 0);
    CHECK_THAT(example.out, Contains("y (4,)"));
    spill(box.path("check.py"),
          "import numpy, subprocess, sys\n"
          "subprocess.check_call([sys.argv[1], 'run', 'out/libsum.so', '--input', 'a=a.npy', '--input', 'b=a.npy',"
          " '--save', 'y=y.npy'])\n"
          "assert str(2 * numpy.load('a.npy')) in open('stdout.txt').read()\n"
          "assert (numpy.load('y.npy') == 2 * numpy.load('a.npy')).all()\n");
    spill(box.path("stdout.txt"), example.out);
    CHECK(box.run({python, "check.py", std::string(TCC_BINARY_DIR) + "/tools/tcc"}).exit_code == 0);
    const Outcome few = box.run({python, source + "/docs/examples/run_model.py", "out/libsum.so", "a.npy"});
    CHECK(few.exit_code == 1);
    CHECK_THAT(few.err, Contains("1 input tensors given, the model has 2"));
    return;
  }
  SKIP("no Python with NumPy");
}
