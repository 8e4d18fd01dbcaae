// From simulated programs to a network that a search uses: tcc dataset, tcc model and tune --pretrained.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/runner.h"

using namespace cli_test;
using Json = nlohmann::json;

namespace {

// Pools of the same tasks on two simulated GPUs, and a network that was trained on the first one.
struct Trained {
  Sandbox box;
  Outcome first, second, train;
  Trained()
      : first(collect("1", "a.pool")),
        second(collect("2", "b.pool")),
        train(box.tcc({"model", "train", "a.pool", "--network", "mlp", "--epochs", "4", "--held-out", "0.4", "-o",
                       "mlp.tccnet", "--curve", "loss.svg", "--json"})) {}
  Outcome collect(const std::string& seed, const std::string& file) {
    return box.tcc({"dataset", "collect", "zoo:mlp", "--batch", "64", "--target", "a100", "--simulate", seed,
                    "--per-task", "40", "-o", file});
  }
  static Trained& get() {
    static Trained trained;
    REQUIRE(trained.first.exit_code == 0);
    REQUIRE(trained.second.exit_code == 0);
    INFO(trained.train.err);
    REQUIRE(trained.train.exit_code == 0);
    return trained;
  }
};

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("a network is trained on a pool, judged on tasks it has not seen, and drawn", "[cli]") {
  Trained& t = Trained::get();
  const std::vector<Json> events = lines_of(t.train.out);
  REQUIRE(events.size() == 5);  // one for each epoch, and the result
  CHECK(events[0]["event"] == "epoch");
  CHECK(events[3]["epoch"] == 4);
  CHECK(events[3]["loss"] < events[0]["loss"]);
  const Json& result = events.back();
  CHECK(result["parameters"] == 249601);  // 242,433 and the 28 columns of the row
  for (const char* who : {"held_out", "held_out_prior"}) {
    CHECK(result[who]["top1"] > 0.0);
    CHECK(result[who]["top5"] >= result[who]["top1"]);
    CHECK(result[who]["top5"] <= 1.0);
  }
  CHECK_THAT(slurp(t.box.path("loss.svg")),
             Catch::StartsWith("<svg") && Catch::Contains("validation") && Catch::EndsWith("</svg>\n"));
  // The same call gives the same bytes.
  Outcome again = t.box.tcc({"model", "train", "a.pool", "--network", "mlp", "--epochs", "4", "--held-out", "0.4", "-o",
                             "again.tccnet", "-q"});
  REQUIRE(again.exit_code == 0);
  CHECK(slurp(t.box.path("again.tccnet")) == slurp(t.box.path("mlp.tccnet")));
}

TEST_CASE("a network is trained by SGD", "[cli]") {
  Trained& t = Trained::get();
  auto train = [&](const char* optimizer, const char* file) {
    const Outcome out = t.box.tcc({"model", "train", "a.pool", "--network", "mlp", "--epochs", "4", "--optimizer",
                                   optimizer, "--rate", "0.01", "-o", file, "--json"});
    INFO(out.err);
    REQUIRE(out.exit_code == 0);
    const std::vector<Json> events = lines_of(out.out);
    CHECK(events[3]["loss"] < events[0]["loss"]);
    return slurp(t.box.path(file));
  };
  CHECK(train("sgd", "sgd.tccnet") != train("adam", "adam.tccnet"));
  const std::string card = Json::parse(t.box.tcc({"model", "info", "sgd.tccnet", "--json"}).out)[0]["card"];
  CHECK_THAT(card, Catch::Contains("--optimizer sgd"));
  const Outcome unknown = t.box.tcc({"model", "train", "a.pool", "--optimizer", "sgdm", "-o", "x.tccnet"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Catch::Contains("--optimizer") && Catch::Contains("adam"));
}

TEST_CASE("checkpoints say what they are, and are judged and adapted on another pool", "[cli]") {
  Trained& t = Trained::get();
  Outcome info = t.box.tcc({"model", "info", "mlp.tccnet", "--json"});
  REQUIRE(info.exit_code == 0);
  const Json card = Json::parse(info.out)[0];
  CHECK(card["network"] == "mlp");
  CHECK(card["platform"] == "sm_80, 108 multiprocessors, simulated 1");
  CHECK_THAT(card["features"].get<std::string>(), Catch::Contains("statements"));
  CHECK_THAT(card["card"].get<std::string>(), Catch::Contains("seed 1"));
  Outcome eval = t.box.tcc({"model", "eval", "mlp.tccnet", "b.pool", "--json"});
  INFO(eval.err);
  REQUIRE(eval.exit_code == 0);
  const Json judged = Json::parse(eval.out);
  CHECK(judged["network"]["tasks"].size() == judged["prior"]["tasks"].size());
  Outcome adapt = t.box.tcc({"model", "adapt", "mlp.tccnet", "b.pool", "--network", "mlp", "--share", "0.5",
                             "--sampler", "rdu", "--epochs", "2", "-o", "adapted.tccnet", "--json"});
  INFO(adapt.err);
  REQUIRE(adapt.exit_code == 0);
  CHECK(slurp(t.box.path("adapted.tccnet")) != slurp(t.box.path("mlp.tccnet")));
}

TEST_CASE("knowledge of one platform is distilled for another", "[cli]") {
  Trained& t = Trained::get();
  Outcome distill = t.box.tcc({"model", "distill", "a.pool", "b.pool", "--epochs", "3", "-o", "d.tccnet", "-q"});
  INFO(distill.err);
  REQUIRE(distill.exit_code == 0);
  Outcome info = t.box.tcc({"model", "info", "d.tccnet"});
  CHECK_THAT(info.out, Catch::Contains("mamba-adapter") &&
                           Catch::Contains("simulated 1; sm_80, 108 multiprocessors, simulated 2"));
  Outcome eval = t.box.tcc({"model", "eval", "d.tccnet", "b.pool"});
  INFO(eval.err);
  CHECK(eval.exit_code == 0);
}

TEST_CASE("networks are trained in the form of their papers", "[cli]") {
  Trained& t = Trained::get();
  Outcome train = t.box.tcc({"model", "train", "a.pool", "--network", "mlp", "--form", "paper", "--epochs", "2",
                             "--held-out", "0.4", "-o", "paper.tccnet", "--json"});
  INFO(train.err);
  REQUIRE(train.exit_code == 0);
  const Json result = lines_of(train.out).back();
  CHECK(result["parameters"] == 242433);
  CHECK(result["held_out"]["top1"] > 0.0);
  const Json card = Json::parse(t.box.tcc({"model", "info", "paper.tccnet", "--json"}).out)[0];
  CHECK_THAT(card["features"].get<std::string>(), Catch::StartsWith("statements-tenset"));
  // Eval, adapt and a search read the form from the checkpoint.
  CHECK(t.box.tcc({"model", "eval", "paper.tccnet", "b.pool"}).exit_code == 0);
  Outcome adapt = t.box.tcc(
      {"model", "adapt", "paper.tccnet", "b.pool", "--network", "mlp", "--epochs", "1", "-o", "paper2.tccnet", "-q"});
  INFO(adapt.err);
  CHECK(adapt.exit_code == 0);
  Outcome tuned = t.box.tcc({"tune", "zoo:mlp", "--batch", "64", "--target", "a100", "--simulate", "2", "--trials",
                             "20", "--cost-model", "mlp", "--pretrained", "paper.tccnet", "--db", "paper.db", "-q"});
  INFO(tuned.err);
  CHECK(tuned.exit_code == 0);
  Outcome distill = t.box.tcc(
      {"model", "distill", "a.pool", "b.pool", "--form", "paper", "--epochs", "3", "-o", "paper-d.tccnet", "-q"});
  INFO(distill.err);
  CHECK(distill.exit_code == 0);
  CHECK(t.box.tcc({"model", "eval", "paper-d.tccnet", "b.pool"}).exit_code == 0);
}

TEST_CASE("a search begins with a checkpoint and adapts it", "[cli]") {
  Trained& t = Trained::get();
  const auto tune = [&](const std::string& db, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"tune", "zoo:mlp",  "--batch", "64",   "--target", "a100", "--simulate",
                                      "2",    "--trials", "60",      "--db", db,         "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return t.box.tcc(words);
  };
  for (const char* adapt : {"moa", "finetune", "none"}) {
    Outcome tuned =
        tune(std::string(adapt) + ".db", {"--cost-model", "mlp", "--pretrained", "mlp.tccnet", "--adapt", adapt});
    INFO(tuned.err);
    CHECK(tuned.exit_code == 0);
  }
  Outcome trees = tune("t.db", {"--pretrained", "mlp.tccnet"});
  CHECK(trees.exit_code == 2);
  CHECK_THAT(trees.err, Catch::Contains("cost model 'trees' has no checkpoints"));
  Outcome other = tune("o.db", {"--cost-model", "tlp", "--pretrained", "mlp.tccnet"});
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Catch::Contains("trace-gpu") && Catch::Contains("statements"));
  Outcome adapt = tune("o.db", {"--cost-model", "mlp", "--pretrained", "mlp.tccnet", "--adapt", "mao"});
  CHECK(adapt.exit_code == 2);
  CHECK_THAT(adapt.err, Catch::Contains("moa"));
}

TEST_CASE("a checkpoint's card says what it learned from, how well it ranks, and by which call", "[cli]") {
  Trained& t = Trained::get();
  const std::string card = Json::parse(t.box.tcc({"model", "info", "mlp.tccnet", "--json"}).out)[0]["card"];
  const Json held_out = lines_of(t.train.out).back()["held_out"];
  CHECK_THAT(card, Catch::Contains("held out 0.4 of the tasks, drawn by seed 1: " +
                                   fmt::format("top-1 {:.4f}", held_out["top1"].get<double>())));
  CHECK_THAT(card, Catch::EndsWith("; command: tcc model train a.pool --network mlp --epochs 4 --held-out 0.4"));
}

TEST_CASE("simulated and measured times never mix", "[cli][errors]") {
  Trained& t = Trained::get();
  // The same pool as if a device had been measured.
  std::string text = t.box.tcc({"dataset", "export", "b.pool"}).out;
  const std::string from = "\"kind\":\"simulated\"", to = "\"kind\":\"measured\"";
  REQUIRE(text.find(from) != std::string::npos);
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  spill(t.box.path("device.jsonl"), text);
  REQUIRE(t.box.tcc({"dataset", "import", "device.jsonl", "-o", "device.pool", "-q"}).exit_code == 0);
  REQUIRE(t.box.tcc({"dataset", "collect", "zoo:mlp", "--per-task", "4", "-o", "cpu.pool", "-q"}).exit_code == 0);
  struct Case {
    std::vector<std::string> words;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{"model", "train", "a.pool", "device.pool", "--network", "mlp", "-o", "x.tccnet"}, "never mix"},
      {{"model", "eval", "mlp.tccnet", "a.pool", "device.pool"}, "never mix"},
      {{"model", "adapt", "mlp.tccnet", "device.pool", "--network", "mlp", "-o", "x.tccnet"}, "never mix"},
      {{"model", "distill", "a.pool", "device.pool", "-o", "x.tccnet"}, "simulated GPUs apart from devices"},
      {{"model", "distill", "a.pool", "cpu.pool", "-o", "x.tccnet"}, "distill CPUs apart from GPUs"},
      {{"tune", "zoo:mlp", "--target", "a100", "--cost-model", "mlp", "--pretrained", "mlp.tccnet", "--trials", "4",
        "--db", "x.db"},
       "found one of a simulated GPU"}};
  for (const Case& c : cases) {
    Outcome outcome = t.box.tcc(c.words);
    INFO(c.words[0] << " " << c.words[1] << ": " << outcome.err);
    CHECK(outcome.exit_code == 1);
    CHECK_THAT(outcome.err, Catch::Contains(c.part));
  }
  CHECK(slurp(t.box.path("mlp.tccnet")).size() > 0);
  CHECK_FALSE(std::filesystem::exists(t.box.path("x.tccnet")));
}

TEST_CASE("tasks whose programs all failed teach nothing, and the user is told", "[cli][errors]") {
  Trained& t = Trained::get();
  // The pool with failures in place of the times, from the given task on.
  const auto spoil = [&](int first, const std::string& file) {
    std::istringstream lines(t.box.tcc({"dataset", "export", "b.pool"}).out);
    std::string text;
    int group = -1;
    for (std::string line; std::getline(lines, line);) {
      Json json = Json::parse(line);
      if (!json.contains("decisions")) ++group;
      if (json.contains("seconds") && group >= first) json.erase("seconds"), json["failed"] = "wrong";
      text += json.dump() + "\n";
    }
    spill(t.box.path("spoiled.jsonl"), text);
    const Outcome imported = t.box.tcc({"dataset", "import", "spoiled.jsonl", "-o", file, "-q"});
    INFO(imported.err);
    REQUIRE(imported.exit_code == 0);
  };
  spoil(1, "some.pool");
  const Outcome some =
      t.box.tcc({"model", "train", "some.pool", "--network", "mlp", "--epochs", "1", "-o", "s.tccnet"});
  INFO(some.err);
  CHECK(some.exit_code == 0);
  CHECK_THAT(some.err, Catch::Contains("2 tasks: every program failed"));
  spoil(0, "none.pool");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "none.pool", "-o", "x.tccnet"},
        {"eval", "mlp.tccnet", "none.pool"},
        {"adapt", "mlp.tccnet", "none.pool", "--network", "mlp", "-o", "x.tccnet"},
        {"distill", "a.pool", "none.pool", "-o", "x.tccnet"}}) {
    std::vector<std::string> all = {"model"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome none = t.box.tcc(all);
    INFO(words[0] << ": " << none.err);
    CHECK(none.exit_code == 1);
    CHECK_THAT(none.err, Catch::Contains("expected programs that ran, found 120, which all failed"));
  }
  CHECK_FALSE(std::filesystem::exists(t.box.path("x.tccnet")));
}

TEST_CASE("a checkpoint of another platform is used with a note", "[cli]") {
  Trained& t = Trained::get();
  const std::string note =
      "learned on 'sm_80, 108 multiprocessors, simulated 1', not on this platform, 'sm_80, 108 "
      "multiprocessors, simulated 2'";
  CHECK_THAT(t.box.tcc({"model", "eval", "mlp.tccnet", "b.pool"}).err, Catch::Contains(note));
  CHECK_THAT(t.box.tcc({"model", "eval", "mlp.tccnet", "a.pool"}).err, !Catch::Contains("not on this platform"));
  const auto tune = [&](const std::string& seed) {
    return t.box.tcc({"tune", "zoo:mlp", "--batch", "64", "--target", "a100", "--simulate", seed, "--trials", "4",
                      "--db", seed + ".db", "--cost-model", "mlp", "--pretrained", "mlp.tccnet"});
  };
  CHECK_THAT(tune("2").err, Catch::Contains(note));
  CHECK_THAT(tune("1").err, !Catch::Contains("not on this platform"));
}

TEST_CASE("tcc model says what is wrong with its files", "[cli][errors]") {
  Trained& t = Trained::get();
  const std::string whole = slurp(t.box.path("mlp.tccnet"));
  spill(t.box.path("short.tccnet"), whole.substr(0, whole.size() / 2));
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
  spill(t.box.path("flipped.tccnet"), flipped);
  spill(t.box.path("empty.pool"), "");
  REQUIRE(t.box.tcc({"dataset", "collect", "zoo:mlp", "--batch", "8", "--per-task", "2", "-o", "cpu.pool"}).exit_code ==
          0);
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{"model", "info", "short.tccnet"}, 1, "short.tccnet"},
      {{"model", "info", "flipped.tccnet"}, 1, "flipped.tccnet"},
      {{"model", "info", "missing.tccnet"}, 1, "missing.tccnet"},
      {{"model", "eval", "mlp.tccnet", "mlp.tccnet"}, 1, "mlp.tccnet"},
      {{"model", "eval", "mlp.tccnet"}, 2, "expected a checkpoint and pools"},
      {{"model", "train", "empty.pool", "-o", "x.tccnet"}, 1, "empty.pool"},
      {{"model", "train", "a.pool"}, 2, "expected a file for the checkpoint"},
      {{"model", "train", "a.pool", "--network", "mambo", "-o", "x.tccnet"}, 2, "mamba"},
      {{"model", "train", "a.pool", "--sampler", "rud", "-o", "x.tccnet"}, 2, "rdu"},
      {{"model", "train", "a.pool", "--form", "papr", "-o", "x.tccnet"}, 2, "paper"},
      {{"model", "distill", "a.pool", "cpu.pool", "-o", "x.tccnet"}, 1, "apart"},
      {{"model", "adapt", "d.none", "b.pool", "-o", "x.tccnet"}, 1, "d.none"},
      {{"model", "distill", "a.pool", "b.pool", "--state", "s", "-o", "x.tccnet"}, 2, "keeps no state"},
      {{"model", "trian", "a.pool"}, 2, "train"}};
  for (const Case& c : cases) {
    Outcome outcome = t.box.tcc(c.words);
    INFO(c.words[1] << " " << c.words[2] << ": " << outcome.err);
    CHECK(outcome.exit_code == c.code);
    CHECK_THAT(outcome.err, Catch::Contains(c.part));
  }
}
