// What users ran into. The tag of a case is the number of the finding.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "model_bytes.h"
#include "skip.h"
#include "terminal.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

// A convolution with a batch norm and a Relu twice, by an exporter that names nodes, and one that does not name the
// last.
std::string named_model() {
  auto constant = [](const std::string& name, const std::vector<uint64_t>& dims, float value) {
    std::string bytes, elements;
    uint64_t count = 1;
    for (uint64_t dim : dims) bytes += number(1, dim), count *= dim;
    for (uint64_t i = 0; i < count; ++i) elements.append(reinterpret_cast<const char*>(&value), sizeof value);
    return field(5, bytes + number(2, 1) + field(8, name) + field(9, elements));
  };
  auto node = [](const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& output) {
    std::string bytes;
    for (const std::string& input : inputs) bytes += field(1, input);
    bytes += field(2, output);
    if (!name.empty()) bytes += field(3, name);
    return field(1, bytes + field(4, op));
  };
  auto image = [](const std::string& name) {
    std::string dims;
    for (uint64_t dim : {1, 4, 8, 8}) dims += field(1, number(1, dim));
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, dims)));
  };
  std::string graph;
  std::string from = "x";
  for (const std::string layer : {"one", "two"}) {
    graph += node("/" + layer + "/conv", "Conv", {from, "w"}, layer + "c") +
             node("/" + layer + "/bn", "BatchNormalization", {layer + "c", "s", "b", "m", "v"}, layer + "n") +
             node("/" + layer + "/relu", "Relu", {layer + "n"}, layer + "r");
    from = layer + "r";
  }
  graph += node("", "Softmax", {from}, "y");
  graph += field(2, "named") + constant("w", {4, 4, 1, 1}, 0.25F) + constant("s", {4}, 1) + constant("b", {4}, 0.5F) +
           constant("m", {4}, 0) + constant("v", {4}, 1) + field(11, image("x")) + field(12, image("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

// What bash offers for these words, the last of which is being typed.
std::string completed(const Sandbox& box, const std::string& words) {
  std::istringstream stream(words);
  int count = -1;
  for (std::string word; stream >> word;) ++count;
  if (words.ends_with(" ")) ++count;
  spill(box.path("ask.sh"), "source ./completion.bash; COMP_WORDBREAKS=' :='; COMP_WORDS=(" + words +
                                (words.ends_with(" ") ? "''" : "") + "); COMP_CWORD=" + std::to_string(count) +
                                "; _tcc; echo ${COMPREPLY[*]}\n");
  std::string out = box.run({"bash", "ask.sh"}).out;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

size_t files_that_end(const fs::path& folder, const std::string& ending) {
  size_t n = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) n += entry.path().string().ends_with(ending);
  return n;
}

}  // namespace

TEST_CASE("the model's nodes are named wherever a task is", "[cli][U6]") {
  Sandbox box;
  spill(box.path("named.onnx"), named_model());
  REQUIRE(box.tcc({"tune", "named.onnx", "--trials", "6", "-q"}).exit_code == 0);
  // The two layers are one task; the last node has no name, and its output stands for it.
  const std::string layers = "/one/conv: Conv+BatchNormalization+Relu, 1 more";
  const std::string show = box.tcc({"show", "named.onnx"}).out;
  CHECK_THAT(show, Contains(layers) && Contains("y: Softmax"));
  CHECK_THAT(box.tcc({"tune", "named.onnx", "--trials", "2"}).out, Contains(layers));
  REQUIRE(box.tcc({"build", "named.onnx", "-o", "out", "-q"}).exit_code == 0);
  CHECK_THAT(box.tcc({"inspect", "out/libnamed.so"}).out, Contains(layers));
  CHECK_THAT(box.tcc({"bench", "out/libnamed.so", "--per-kernel", "--seconds", "0.02"}).out, Contains(layers));
  const Json expected = Json::parse(R"([
    [{"name": "/one/conv", "type": "Conv"}, {"name": "/one/bn", "type": "BatchNormalization"},
     {"name": "/one/relu", "type": "Relu"}],
    [{"name": "/two/conv", "type": "Conv"}, {"name": "/two/bn", "type": "BatchNormalization"},
     {"name": "/two/relu", "type": "Relu"}]])");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"show", "named.onnx", "--json"},
        {"bench", "out/libnamed.so", "--per-kernel", "--seconds", "0.02", "--json"},
        {"inspect", "out/libnamed.so", "--json"},
        {"build", "named.onnx", "-o", "out", "--json", "-q"}}) {
    CAPTURE(words);
    const Json json = Json::parse(box.tcc(words).out);
    const Json& tasks = json.contains("tasks") ? json["tasks"] : json["kernels"];
    REQUIRE(tasks.size() == 2);
    CHECK(tasks[0]["nodes"] == expected);
  }
}

TEST_CASE("explain names the bound of a kernel, the other programs that were tried, and the user's options",
          "[cli][U6]") {
  Sandbox box;
  REQUIRE(box.tcc({"tune", "zoo:mlp", "--tasks", "0", "--trials", "24", "--threads", "1", "-q"}).exit_code == 0);
  const Outcome said = box.tcc({"explain", "zoo:mlp", "--task", "0", "--threads", "1"});
  CAPTURE(said.out);
  CHECK(said.exit_code == 0);
  CHECK_THAT(said.out, Contains("-- what it computes of the model") && Contains("-- what bounds it") &&
                           Contains("at the least, by rates measured here: ") && Contains("arithmetic") &&
                           Contains("to change: ") && Contains("more trials: the records hold "));
  // Beside other work the winner of the pairs may have been slower when each was timed alone.
  CHECK_THAT(said.out, Contains("-- the fastest other programs that were measured") &&
                           (Contains("% slower") || Contains("% faster alone")));
  const Json json = Json::parse(box.tcc({"explain", "zoo:mlp", "--task", "0", "--threads", "1", "--json"}).out);
  const Json& bound = json["bound"];
  REQUIRE(bound["limits"].size() >= 2);
  CHECK(bound["share"].get<double>() > 0);
  CHECK(bound["beaten"] == (bound["share"].get<double>() > 1.25));
  CHECK(bound["share"].get<double>() ==
        Approx(bound["limits"][0]["seconds"].get<double>() / json["seconds"].get<double>()));
  for (size_t i = 1; i < bound["limits"].size(); ++i)
    CHECK(bound["limits"][i - 1]["seconds"] >= bound["limits"][i]["seconds"]);
  REQUIRE(!json["tried"].empty());
  // A record that is named can be looked at and timed.
  const std::string id = std::to_string(json["tried"][0]["record"].get<int64_t>());
  const Outcome record = box.tcc({"db", "show", id});
  CHECK(record.exit_code == 0);
  CHECK_THAT(record.out, Contains("gemm 1x512x784") && Contains("-- its schedule") && Contains("get_block("));
  const Outcome timed = box.tcc({"bench", "zoo:mlp", "--record", id, "--threads", "1"});
  CHECK(timed.exit_code == 0);
  CHECK_THAT(timed.out, Contains("GFLOP/s; checked"));
  check_error(box.tcc({"bench", "zoo:mlp", "--record", "99999"}), 1, "no record 99999");
  // For a GPU the model's parts are the limits.
  const Outcome gpu = box.tcc({"explain", "zoo:mlp", "--task", "0", "--target", "a100"});
  CHECK_THAT(gpu.out, Contains("-- what bounds it") && Contains("nominal rates"));
}

TEST_CASE("sizes of zoo models and unknown dimensions are refused", "[cli][U9]") {
  Sandbox box;
  spill(box.path("dims.onnx"), sum_model("batch"));
  for (const char* flag : {"--batch", "--image", "--sequence", "--width", "--zoo-seed"})
    check_error(box.tcc({"build", "dims.onnx", "-o", "out", flag, "1"}), 2, flag);
  // Sizes that a model of the zoo lacks would do nothing, whatever their value.
  for (const auto& [model, flag, value, belongs] :
       {std::tuple("mlp", "--image", "224", "resnet18"), std::tuple("mlp", "--sequence", "16", "bert-tiny"),
        std::tuple("resnet18", "--sequence", "128", "bert-base"),
        std::tuple("resnet50", "--width", "50", "mobilenet_v2"), std::tuple("bert-tiny", "--image", "64", "vgg16")}) {
    CAPTURE(model, flag);
    const Outcome refused = box.tcc({"show", std::string("zoo:") + model, flag, value});
    check_error(refused, 2, std::string(flag) + ": zoo: '" + model + "' has no size");
    CHECK_THAT(refused.err, Contains(belongs));
    check_error(box.tcc({"zoo", model, "-o", "m.onnx", flag, value}), 2, flag);
  }
  check_error(box.tcc({"zoo", "dims.onnx", "-o", "m.onnx", "--reseed-weights", "1", "--batch", "2"}), 2, "--batch");
  CHECK(box.tcc({"zoo", "mlp", "-o", "m.onnx", "--batch", "2", "--zoo-seed", "2"}).exit_code == 0);
  // Of several models it is enough that one has the size.
  check_error(box.tcc({"dataset", "collect", "zoo:mlp", "zoo:resnet18", "--sequence", "8", "-o", "d.pool"}), 2,
              "--sequence");
  CHECK(box.tcc({"dataset", "collect", "zoo:mlp", "zoo:bert-tiny", "--sequence", "8", "--per-task", "1", "--heaviest",
                 "1", "-o", "d.pool", "-q"})
            .exit_code == 0);
  check_error(box.tcc({"build", "dims.onnx", "-o", "out", "--dim", "btch=8"}), 2, "did you mean 'batch'");
  check_error(box.tcc({"build", "dims.onnx", "-o", "out", "--dim", "batch=3", "--dim", "batch=4"}), 2,
              "each name once");
  check_error(box.tcc({"build", "dims.onnx", "-o", "out", "--dim", "batch=3", "--shape", "a=3", "--shape", "b=3"}), 2,
              "leave --dim out");
  CHECK(box.tcc({"build", "dims.onnx", "-o", "out", "-q", "--dim", "batch=3"}).exit_code == 0);
}

TEST_CASE("the warning for another CPU names its target", "[cli][U10]") {
  Sandbox box;
  const Outcome outcome = box.tcc({"build", "zoo:mlp", "-o", "out", "--target", "x86-64-v3"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, Contains("run: tcc tune zoo:mlp --target x86-64-v3"));
}

TEST_CASE("a kernel can be seen at every stage", "[cli][U12]") {
  Sandbox box;
  CHECK(fs::exists(fs::path(TCC_BINARY_DIR) / "tools/tcc-opt"));
  REQUIRE(box.tcc({"build", "zoo:mlp", "-o", "out", "-q", "--emit", "asm"}).exit_code == 0);
  CHECK(files_that_end(box.path("out"), ".s") == 3);
  REQUIRE(box.tcc({"build", "zoo:mlp", "-o", "all", "-q", "--dump-after", "all"}).exit_code == 0);
  for (const char* ending : {".ll", ".s", ".o", "k0.00-plain.tir", "k2.01-scheduled.tir"}) {
    CAPTURE(ending);
    CHECK(files_that_end(box.path("all"), ending) > 0);
  }
  CHECK(files_that_end(box.path("all"), ".tir") > 20);
  const std::string text = box.tcc({"show", "zoo:mlp", "--task", "0", "--dump-after", "all"}).out;
  CHECK_THAT(text, Contains("# plain\n") && Contains("# split_tails\n"));
}

TEST_CASE("a program finds its library wherever the two are", "[cli][U13]") {
  Sandbox box;
  if (box.run({"sh", "-c", "command -v cc && command -v pkg-config"}).exit_code != 0)
    return tcc::testing::report_skip("no C compiler with pkg-config");
  for (const std::string folder : {"out", "my out"}) {
    CAPTURE(folder);
    const Outcome built = box.tcc({"build", "zoo:mlp", "-o", folder, "-q"});
    REQUIRE(built.exit_code == 0);
    const size_t at = built.out.find("\ncc ");
    REQUIRE(at != std::string::npos);
    const std::string command = built.out.substr(at + 1, built.out.find('\n', at + 1) - at - 1);
    CAPTURE(command);
    CHECK(box.run({"sh", "-c", command}).exit_code == 0);
    const Outcome ran = box.run({"sh", "-c", "cd / && exec '" + box.str(folder) + "/example'"});
    CHECK(ran.exit_code == 0);
    CHECK_THAT(ran.out, Contains("output"));
  }
}

TEST_CASE("shells complete zoo models, lists with commas, and values behind =", "[cli][U14]") {
  Sandbox box;
  if (box.run({"sh", "-c", "command -v bash"}).exit_code != 0) return tcc::testing::report_skip("no bash");
  spill(box.path("completion.bash"), box.tcc({"completion", "bash"}).out);
  spill(box.path("zoo"), "");
  spill(box.path("results.npz"), "");
  CHECK(completed(box, "tcc tune zoo : resn") == "resnet18 resnet34 resnet50 resnext50 resnet3d18");
  CHECK(completed(box, "tcc tune zoo : res") == "resnet18 resnet34 resnet50 resnext50 resnet3d18");  // and no file
  CHECK(completed(box, "tcc tu") == "tune");
  CHECK(completed(box, "tcc tune --tri") == "--trials --trials-per-task");
  CHECK(completed(box, "tcc tune zoo : mlp --strategy moa") == "moa-pruner");
  CHECK(completed(box, "tcc tune --strategy = moa") == "moa-pruner");
  CHECK(completed(box, "tcc zoo mobilen") == "mobilenet_v2 mobilenet_v3 mobilenet_v2-int8");
  CHECK(completed(box, "tcc targets x86-64-v3") == "x86-64-v3");
  CHECK(completed(box, "tcc man expl") == "explain");
  CHECK(completed(box, "tcc build --emit obj,ll") == "obj,llvm");
  CHECK(completed(box, "tcc build --emit cub") == "cubin");
  CHECK(completed(box, "tcc build --target a100,h10") == "a100,h100");
  CHECK(completed(box, "tcc build --layouts bl") == "blocked");
  CHECK(completed(box, "tcc build --winograd 4") == "4");
  CHECK(completed(box, "tcc tune --space auto_inl") == "auto_inline");
  CHECK(completed(box, "tcc db sta") == "stats");
  CHECK_THAT(completed(box, "tcc db stats "), Contains("results.npz") && !Contains("merge"));
  CHECK_THAT(completed(box, "tcc tune --db "), Contains("results.npz") && !Contains("zoo:mlp"));
  CHECK(completed(box, "tcc tune --trials ").empty());
}

TEST_CASE("fish completes the same", "[cli][U14]") {
  Sandbox box;
  if (box.run({"sh", "-c", "command -v fish"}).exit_code != 0) return tcc::testing::report_skip("no fish");
  spill(box.path("tcc.fish"), box.tcc({"completion", "fish"}).out);
  spill(box.path("results.npz"), "");
  const auto offered = [&](const std::string& line) {
    const Outcome said =
        box.run({"env", "HOME=" + box.str("home"), "fish", "-N", "-c",
                 "function tcc; end; source tcc.fish; complete -C '" + line + "' | string split -f1 \\t"});
    std::string words = said.out;
    std::replace(words.begin(), words.end(), '\n', ' ');
    return words.substr(0, words.find_last_not_of(' ') + 1);
  };
  CHECK(offered("tcc tune zoo:resn") == "zoo:resnet3d18 zoo:resnet18 zoo:resnet34 zoo:resnet50 zoo:resnext50");
  CHECK(offered("tcc tu") == "tune");
  CHECK(offered("tcc tune --tri") == "--trials --trials-per-task");
  CHECK(offered("tcc tune --strategy moa") == "moa-pruner");
  CHECK(offered("tcc tune --strategy=moa") == "--strategy=moa-pruner");
  CHECK(offered("tcc build --emit obj,ll") == "obj,llvm");
  CHECK(offered("tcc build --target a100,h10") == "a100,h100");
  CHECK(offered("tcc db sta") == "stats");
  CHECK_THAT(offered("tcc db stats "), Contains("results.npz") && !Contains("merge"));
  CHECK_THAT(offered("tcc tune --db "), Contains("results.npz") && !Contains("zoo:mlp"));
}

TEST_CASE("zsh completes the same", "[cli][U14]") {
  Sandbox box;
  if (box.run({"sh", "-c", "command -v zsh"}).exit_code != 0) return tcc::testing::report_skip("no zsh");
  fs::create_directory(box.path("functions"));
  spill(box.path("functions/_tcc"), box.tcc({"completion", "zsh"}).out);
  // A shell on a terminal of its own: a tab completes what is unique, and the line shows it.
  spill(box.path("ask.zsh"),
        "zmodload zsh/zpty\nexport TERM=dumb\nzpty shell zsh -f -i\n"
        "zpty -w shell \"PROMPT='%% '; unsetopt zle_bracketed_paste; fpath=($PWD/functions \\$fpath); autoload -U "
        "compinit; compinit -u -D; tcc() { }; echo rea''dy\"\n"
        "zpty -r shell said '*ready*'\nzpty -w -n shell \"$1\"$'\\t'\nzpty -r shell said \"*$2*\" && echo "
        "completed\n");
  for (const auto& [line, shown] :
       {std::pair("tcc tu", "tcc tune"), std::pair("tcc tune zoo:resnet1", "zoo:resnet18"),
        std::pair("tcc tune --trials-p", "--trials-per-task"),
        std::pair("tcc tune --strategy=moa", "--strategy=moa-pruner"), std::pair("tcc build --emit obj,ll", "obj,llvm"),
        std::pair("tcc db sta", "db stats"), std::pair("tcc man expl", "man explain")}) {
    CAPTURE(line);
    const Outcome said = box.run({"timeout", "60", "zsh", "-f", "ask.zsh", line, shown});
    CHECK_THAT(said.out, Contains("completed"));
  }
}

TEST_CASE("schedules that people write are taken as written or refused", "[cli][U15]") {
  Sandbox box;
  const auto timed = [&](const std::string& text) {
    spill(box.path("mine.trace"), text);
    return box.tcc({"bench", "zoo:mlp", "--task", "0", "--threads", "1", "--schedule", "mine.trace"});
  };
  // Any names, in any order of lines; comments.
  const std::string good =
      "# mine\ngemm = get_block(\"gemm\")\nrows, columns, terms = get_loops(gemm)\n"
      "outer, inner = sample_perfect_tile(columns) max_innermost=64 <8, 64>\nblocks, tile = split(columns, outer, "
      "inner)\n";
  CHECK(timed(good).exit_code == 0);
  CHECK(timed("# only a line is gone\nv7 = get_block(\"gemm\")\nv9, v8, v3 = get_loops(v7)\n").exit_code == 0);
  // A tile that does not divide.
  std::string bad = good;
  bad.replace(bad.find("<8, 64>"), 7, "<9, 64>");
  const Outcome mended = timed(bad);
  check_error(mended, 1, "mine.trace: instruction 2 (sample_perfect_tile)");
  CHECK_THAT(mended.err, Contains("<9, 64> does not fit the loop") && Contains("the nearest that fits is <"));
  // A name that is not there, one that is there twice.
  check_error(timed("g = get_block(\"gemm\")\nparallel(h)\n"), 1, "mine.trace:2:10: expected the name of a result");
  check_error(timed("g = get_block(\"gemm\")\ng = get_block(\"gemm\")\n"), 1, "'g' names a result already");
  check_error(timed("g = get_block(\"gem\")\n"), 1, "no block is named 'gem'; did you mean 'gemm'");
  const Outcome empty = timed("");
  CHECK(empty.exit_code == 0);
  CHECK_THAT(empty.err, Contains("has no steps: the plain loops are timed"));
}

TEST_CASE("an interrupted run with other options is told of", "[cli][U16]") {
  Sandbox box;
  const pid_t pid = box.start({std::string(TCC_BINARY_DIR) + "/tools/tcc", "tune", "zoo:mlp", "--trials", "400"});
  for (int i = 0; i < 600 && slurp(box.path("stderr")).find(" measured") == std::string::npos; ++i) usleep(50'000);
  kill(pid, SIGINT);
  const Outcome stopped = box.wait(pid);
  REQUIRE(stopped.exit_code == 3);
  const Outcome other = box.tcc({"tune", "zoo:mlp", "--trials", "6", "--seed", "5"});
  CHECK(other.exit_code == 0);
  CHECK_THAT(other.err, Contains("a run of these tasks was interrupted, with other options (") &&
                            Contains("--trials 400 there, 6 here") && Contains("--seed 1 there, 5 here"));
  CHECK_THAT(box.tcc({"tune", "zoo:mlp", "--trials", "7"}).err, !Contains("with other options"));
}

TEST_CASE("JSON has a version, one document a command, and errors", "[cli][U17]") {
  Sandbox box;
  REQUIRE(box.tcc({"tune", "zoo:mlp", "--trials", "3", "-q", "--db", "a.db"}).exit_code == 0);
  fs::copy_file(box.path("a.db"), box.path("b.db"));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"show", "zoo:mlp", "--json"},
                                                {"db", "stats", "a.db", "b.db", "--json"},
                                                {"db", "show", "1", "--db", "a.db", "--json"},
                                                {"inspect", "a.db", "--json"},
                                                {"zoo", "--json"},
                                                {"zoo", "mlp", "-o", "mlp.onnx", "--json"},
                                                {"ops", "--json"},
                                                {"targets", "--json"}}) {
    CAPTURE(words);
    const Json json = Json::parse(box.tcc(words).out, nullptr, false);
    REQUIRE(json.is_object());
    CHECK(json["schema_version"] == 1);
  }
  CHECK(Json::parse(box.tcc({"db", "stats", "a.db", "b.db", "--json"}).out)["stores"].size() == 2);
  for (const auto& [words, status] : {std::pair(std::vector<std::string>{"show", "zoo:mpl", "--json"}, 1),
                                      std::pair(std::vector<std::string>{"show", "zoo:mlp", "--jsn", "--json"}, 2),
                                      std::pair(std::vector<std::string>{"verify", "nowhere.onnx", "--json"}, 1)}) {
    CAPTURE(words);
    const Outcome outcome = box.tcc(words);
    CHECK(outcome.exit_code == status);
    const Json json = Json::parse(outcome.out, nullptr, false);
    REQUIRE(json.is_object());
    CHECK(json["event"] == "error");
    CHECK(json["exit_status"] == status);
    CHECK((json["class"] == "usage") == (status == 2));
    CHECK_FALSE(json["message"].get<std::string>().empty());
    CHECK_THAT(outcome.err, Contains(json["message"].get<std::string>()));
  }
}

TEST_CASE("help begins with the usual options and fits its terminal", "[cli][U18]") {
  Sandbox box;
  const std::string help = box.tcc({"tune", "--help"}).out;
  CHECK(help.find("--trials") < help.find("--strategy"));
  CHECK(help.find("--trials") < help.find("--winograd"));
  CHECK(help.find("\nUsual options:\n") < help.find("\nSearch:\n"));
  CHECK(help.find("\nOutput:\n") > help.find("\nRecords:\n"));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  for (const char* command : {"tune", "build", "bench", "db"})
    for (int width : {40, 60, 80, 120}) {
      CAPTURE(command, width);
      Screen screen(static_cast<size_t>(width));
      screen.feed(run_on_terminal(box, {command, "--help"}, width).bytes);
      CHECK(screen.wraps() == 0);
    }
  CHECK(box.tcc({"help", "tune"}).out == help);
  CHECK_THAT(box.tcc({"help"}).out, Contains("\n  tune"));
}

TEST_CASE("values that a shell left empty are refused, and a lost connection stops a run", "[cli][U19]") {
  Sandbox box;
  check_error(box.tcc({"tune", "zoo:mlp", "--db", ""}), 2, "--db: expected a value, not ''");
  check_error(box.tcc({"tune", "zoo:mlp", "--also", ""}), 2, "--also: expected a value, not ''");
  const Outcome relative = box.run(
      {"env", "-u", "XDG_DATA_HOME", "HOME=rel", std::string(TCC_BINARY_DIR) + "/tools/tcc", "tune", "zoo:mlp"});
  check_error(relative, 1, "a folder, from / on, in XDG_DATA_HOME or HOME");
  const pid_t pid = box.start({std::string(TCC_BINARY_DIR) + "/tools/tcc", "tune", "zoo:mlp", "--trials", "4000"});
  for (int i = 0; i < 600 && slurp(box.path("stderr")).find(" measured") == std::string::npos; ++i) usleep(50'000);
  kill(pid, SIGHUP);
  const Outcome stopped = box.wait(pid);
  CHECK(stopped.exit_code == 3);
  CHECK_THAT(stopped.err, Contains("the same call goes on from here"));
}

TEST_CASE("tasks that failed beside others that did not have an exit status of their own", "[cli][U20]") {
  Sandbox box;
  // Shared memory counts as a file: the weights of the first two tasks do not fit one of 800,000 bytes, the last does.
  const std::vector<std::string> limited = {
      "prlimit", "--fsize=800000", std::string(TCC_BINARY_DIR) + "/tools/tcc", "tune", "zoo:mlp", "--trials", "9"};
  const Outcome said = box.run(limited);
  CAPTURE(said.out, said.err);
  CHECK(said.exit_code == 5);
  CHECK_THAT(said.err, Contains("tcc: warning: gemm 1x512x784") && Contains("cannot share") && !Contains("tcc: error"));
  CHECK_THAT(said.out, Contains("gemm 1x10x512"));
  std::vector<std::string> words = limited;
  words.insert(words.end(), {"--json", "-q", "--fresh"});
  const Outcome told = box.run(words);
  CHECK(told.exit_code == 5);
  std::istringstream lines(told.out);
  Json summary;
  for (std::string line; std::getline(lines, line);)
    if (const Json event = Json::parse(line); event["event"] == "summary") summary = event;
  REQUIRE(summary["tasks"].size() == 3);
  CHECK_THAT(summary["tasks"][0]["failure"].get<std::string>(), Contains("cannot share"));
  CHECK(summary["tasks"][2]["failure"] == "");
  CHECK(summary["tasks"][2]["best_seconds"] > 0);
  // Without the limit the same call measures them all.
  CHECK(box.tcc({"tune", "zoo:mlp", "--trials", "9", "-q"}).exit_code == 0);
  CHECK_THAT(box.tcc({"tune", "--help"}).out + box.tcc({"man", "tune"}).out, Contains("some tasks failed"));
}

TEST_CASE("one library holds code for several kinds of CPUs, and takes what this one runs", "[cli]") {
  Sandbox box;
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "-q", "--target", "x86-64-v2,x86-64-v4,x86-64-v3"});
  CAPTURE(built.err);
  REQUIRE(built.exit_code == 0);
  const Json metadata = Json::parse(box.tcc({"inspect", "out/libmlp.so", "--json"}).out);
  CHECK(metadata["target"]["name"] == "x86-64-v4");
  REQUIRE(metadata["older_targets"].size() == 2);
  CHECK(metadata["older_targets"][0]["name"] == "x86-64-v3");
  CHECK(metadata["older_targets"][1]["name"] == "x86-64-v2");
  CHECK_THAT(metadata["older_targets"][0]["features"].dump(), Contains("fma") && !Contains("avx512"));
  CHECK_THAT(metadata["older_targets"][1]["features"].dump(), !Contains("avx"));
  CHECK_THAT(box.tcc({"inspect", "out/libmlp.so"}).out, Contains("or       x86-64-v3"));
  CHECK(box.tcc({"verify", "out/libmlp.so"}).exit_code == 0);
  // Without AVX-512, or without AVX: the others run. An emulator of such CPUs shows it where there is one.
  if (box.run({"sh", "-c", "command -v qemu-x86_64 && command -v cc && command -v pkg-config"}).exit_code != 0)
    return tcc::testing::report_skip("no qemu-x86_64: the code for older CPUs is not run");
  REQUIRE(box.run({"sh", "-c", "cc out/example.c -o out/run $(PKG_CONFIG_PATH=out pkg-config --cflags --libs mlp)"})
              .exit_code == 0);
  for (const char* cpu : {"Haswell", "Nehalem"}) CHECK(box.run({"qemu-x86_64", "-cpu", cpu, "out/run"}).exit_code == 0);
}

TEST_CASE("a library demands the features that its code uses, not those of its target", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  REQUIRE(box.tcc({"build", "sum.onnx", "-o", "out", "-q", "--target", "x86-64-v3"}).exit_code == 0);
  const Json target = Json::parse(box.tcc({"inspect", "out/libsum.so", "--json"}).out)["target"];
  const std::string needed = target["features"], allowed = target["compiled_for"];
  for (const char* unused : {"+bmi2", "+fma", "+f16c", "+popcnt", "+movbe"}) {
    CHECK_THAT(needed, !Contains(unused));
    CHECK_THAT(allowed, Contains(unused));
  }
  CHECK_THAT(needed, Contains("+avx"));
  CHECK_THAT(box.tcc({"inspect", "out/libsum.so"}).out,
             Contains("target   x86-64-v3; its code needs " + needed + "\n"));
  // For the oldest CPUs nothing is left to demand.
  REQUIRE(box.tcc({"build", "sum.onnx", "-o", "old", "-q", "--target", "x86-64-v2"}).exit_code == 0);
  CHECK_THAT(box.tcc({"inspect", "old/libsum.so"}).out, Contains("its code needs no more than x86-64\n"));
  CHECK(box.tcc({"verify", "old/libsum.so"}).exit_code == 0);
}

TEST_CASE("data that is not finite is counted", "[cli]") {
  Sandbox box;
  spill(box.path("sum.onnx"), sum_model());
  const float values[] = {NAN, NAN, 1, INFINITY};
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
  header.resize(117, ' ');
  header += '\n';
  spill(box.path("a.npy"), std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header +
                               std::string(reinterpret_cast<const char*>(values), sizeof values));
  const Outcome ran = box.tcc({"run", "sum.onnx", "-q", "--random", "--input", "a=a.npy"});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK_THAT(ran.out, Contains("from 1 to 1, mean 1; 2 NaN; 1 infinite"));
}

TEST_CASE("every member of JSON output is in docs/json.md", "[cli][U17]") {
  Sandbox box;
  const std::string page = slurp(fs::path(TCC_SOURCE_DIR) / "docs/json.md");
  // Members whose names are data.
  const std::set<std::string> data = {"phases",    "by_status",          "by_target", "by_platform",
                                      "operators", "rejected_by_reason", "facts",     "without_columns"};
  std::set<std::string> missing;
  const std::function<void(const Json&)> walk = [&](const Json& json) {
    if (json.is_array())
      for (const Json& item : json) walk(item);
    if (!json.is_object()) return;
    for (const auto& [name, value] : json.items()) {
      if (page.find("`" + name + "`") == std::string::npos) missing.insert(name);
      if (!data.contains(name)) walk(value);
    }
  };
  const auto check = [&](const std::vector<std::string>& words) {
    CAPTURE(words);
    std::istringstream lines(box.tcc(words).out);
    std::string all;
    for (std::string line; std::getline(lines, line);) {
      all += line;
      if (const Json json = Json::parse(all, nullptr, false); !json.is_discarded()) walk(json), all.clear();
    }
    CHECK(all.empty());
  };
  check({"tune", "zoo:mlp", "--trials", "6", "--json", "--baseline"});
  check({"tune", "zoo:mlp", "--trials", "2", "--json", "--strategy", "pruner", "--fresh"});
  check({"build", "zoo:mlp", "-o", "out", "--json"});
  check({"show", "zoo:mlp", "--json"});
  check({"show", "zoo:mlp", "--json", "--task", "0"});
  check({"show", "zoo:mlp", "--json", "--task", "0", "--features", "row"});
  check({"explain", "zoo:mlp", "--json", "--task", "0"});
  check({"bench", "out/libmlp.so", "--json", "--per-kernel", "--seconds", "0.02"});
  check({"inspect", "zoo:mlp", "--json"});
  check({"run", "out/libmlp.so", "--random", "--json"});
  check({"verify", "out/libmlp.so", "--json"});
  check({"db", "stats", "--json"});
  check({"zoo", "--json"});
  check({"ops", "--json"});
  check({"doctor", "--json"});
  check({"targets", "--json"});
  check({"show", "zoo:mpl", "--json"});
  CAPTURE(missing);
  CHECK(missing.empty());
}
