// Messages of tcc, one row each: the object at fault, the expectation, the finding, and the action for the user.
#include <fmt/format.h>

#include "model_bytes.h"
#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

struct Message {
  std::string command;  // words, separated by blanks
  int exit_code;
  std::string object, expected, found, action;  // pieces of the message
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// A NumPy file of zeros. `bytes`: of the numbers.
std::string npy(const std::string& type, const std::string& shape, size_t bytes) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 255);
  text += static_cast<char>(header.size() >> 8);
  return text + header + std::string(bytes, '\0');
}

// The files that the commands below name.
void fill(const Sandbox& box) {
  REQUIRE(box.tcc({"zoo", "mlp", "-o", "mlp.onnx", "-q"}).exit_code == 0);
  REQUIRE(box.tcc({"build", "mlp.onnx", "-o", "out", "-q"}).exit_code == 0);
  spill(box.path("x.npy"), npy("<f4", "(1, 784)", 4 * 784));
  spill(box.path("two.npy"), npy("<f4", "(2, 784)", 8 * 784));
  spill(box.path("double.npy"), npy("<f8", "(1, 784)", 8 * 784));
  spill(box.path("words.npy"), npy("<U1", "(2,)", 8));
  spill(box.path("cut.npy"), npy("<f4", "(1, 784)", 100));
  spill(box.path("letter.onnx"), "a letter to a friend\n");
  spill(box.path("empty.onnx"), "");
  spill(box.path("new_op.onnx"), chain_model({"Relu", "Frobnicate"}));
  spill(box.path("noise.db"), std::string(5000, 'x'));
  spill(box.path("typo.toml"), "trails = 3\n");
  spill(box.path("section.toml"), "[tnue]\ntrials = 3\n");
  spill(box.path("flag.toml"), "fresh = maybe\n");
  spill(box.path("colour.json"), R"({"name": "mine", "base": "a100", "colour": 3})");
  spill(box.path("base.json"), R"({"name": "mine", "base": "a1000"})");
  spill(box.path("cut.json"), R"({"name": "mine", "base": )");
  spill(box.path("many.json"), R"({"name": "mine", "base": "a100", "cuda": {"sm_count": "many"}})");
  spill(box.path("cache.json"), R"({"name": "mine", "base": "host", "cpu": {"l1_bytes": 3}})");
  spill(box.path("no_name.json"), R"({"base": "a100"})");
  spill(box.path("list.jsonl"), "[1, 2]\n");
  spill(box.path("task.jsonl"), "{\"workload\": 3}\n");
  spill(box.path("no_times.json"), "{}");
  spill(box.path("typo.trace"), "v0 = get_blok(\"gemm\")\n");
  spill(box.path("block.trace"), "v0 = get_block(\"gemn\")\n");
  spill(
      box.path("mended.trace"),
      "gemm = get_block(\"gemm\")\nm, n, k = get_loops(gemm)\ntile, rest = sample_perfect_tile(n) max_innermost=8 <4, "
      "4>\na, b = split(n, tile, rest)\n");
  spill(box.path("order.trace"), "gemm = get_block(\"gemm\")\nparallel(m)\n");
  spill(box.path("dims.onnx"), sum_model("batch"));
  spill(box.path("chain.trace"),
        "v0 = get_block(\"gemm\")\nv1, v2, v3 = get_loops(v0)\nv4, v5 = split(v1, _, 5)\nv6 = fuse(v2, v5)\n");
}

// clang-format off
const std::vector<Message> kMessages = {
    // The command line.
    {"tnue zoo:mlp", 2, "command", "did you mean", "'tnue'", "'tune'"},
    {"--verbose tune zoo:mlp", 2, "option", "expected a command", "'--verbose'", "commands are tune, build"},
    {"tune", 2, "tcc tune", "needs MODEL", "an ONNX file, or zoo:NAME", "tcc tune --help"},
    {"tune zoo:mlp zoo:mlp", 2, "tcc tune", "takes MODEL and options", "not 'zoo:mlp'", "tcc tune --help"},
    {"tune zoo:mlp --trails 3", 2, "tcc tune", "has no option", "'--trails'", "did you mean '--trials'"},
    {"tune --verison", 2, "tcc tune", "has no option", "'--verison'", "tcc tune --help"},
    {"tune zoo:mlp --trials 0", 2, "--trials", "a number above 0", "not '0'", "tcc tune --help"},
    {"tune zoo:mlp --seed 1.5", 2, "--seed", "a whole number", "not '1.5'", "tcc tune --help"},
    {"tune zoo:mlp --seed -3", 2, "--seed", "from 0 on", "not '-3'", "tcc tune --help"},
    {"tune zoo:mlp --time soon", 2, "--time", "a time above 0", "'soon'", "90s, 10m or 1h30m"},
    {"tune zoo:mlp --tasks 99", 2, "task '99'", "a number from 0 to 2", "does not exist", "`tcc show`"},
    {"tune zoo:mlp --strategy evolutionery", 2, "strategy", "expected a search strategy", "'evolutionery'", "'evolutionary'"},
    {"tune zoo:mlp --strategy genser", 2, "strategy", "expected a search strategy", "'genser'", "'gensor'"},
    {"tune zoo:mlp --measure-top 3", 2, "--measure-top", "belongs to --strategy roller and gensor", "'evolutionary'", "choose roller or gensor"},
    {"tune zoo:mlp --strategy prunner", 2, "strategy", "expected a search strategy", "'prunner'", "'pruner'"},
    {"tune zoo:mlp --strategy moa-prune", 2, "strategy", "expected a search strategy", "'moa-prune'", "'moa-pruner'"},
    {"tune zoo:mlp --verify-generations 1", 2, "--verify-generations", "belongs to --strategy pruner and moa-pruner", "'evolutionary'", "choose pruner or moa-pruner"},
    {"tune zoo:mlp --strategy mh --no-lse", 2, "--no-lse", "belongs to --strategy pruner and moa-pruner", "'mh'", "choose pruner or moa-pruner"},
    {"tune zoo:mlp --strategy pruner --draft papr", 2, "draft model", "unknown draft model", "'papr'", "did you mean 'paper'"},
    {"tune zoo:mlp --strategy pruner --draft-without cahce", 2, "draft model", "expected penalties", "'cahce'", "cache"},
    {"tune zoo:mlp --strategy pruner --no-lse --drafts 64", 2, "--drafts", "with --no-lse nothing is drafted", "--drafts", "leave --drafts or --no-lse out"},
    {"tune zoo:mlp --strategy pruner --pretrained auto --adapt moa", 2, "--adapt moa", "pruner with momentum adaptation", "moa-pruner", "choose --strategy moa-pruner"},
    {"tune zoo:mlp --strategy moa-pruner --adapt finetune", 2, "moa-pruner", "adapts its checkpoint by momentum", "another adaptation", "--strategy pruner"},
    {"tune zoo:mlp --strategy moa-pruner --pretrained none", 2, "moa-pruner", "a cost model that begins with a checkpoint", "'pacm' without one", "--pretrained FILE"},
    {"tune zoo:mlp --cost-model mlp --no-dataflow", 2, "cost model", "only the cost model 'pacm'", "found 'mlp'", "--cost-model pacm"},
    {"tune zoo:mlp --strategy pruner --no-dataflow --no-statements", 2, "branches", "without both branches", "'pacm'", "leave one branch out at most"},
    {"tune zoo:mlp --strategy moa-pruner --no-statements --pretrained auto", 2, "checkpoint", "learned with both branches", "left out", "keep both branches"},
    {"tune zoo:mlp --strategy gensor --reading printed", 2, "--reading", "literal or recommended", "not 'printed'", "tcc tune --help"},
    {"tune zoo:mlp --task-scheduler grad", 2, "scheduler", "expected a task scheduler", "'grad'", "'gradient'"},
    {"tune zoo:mlp --space row_tilin", 2, "--space", "default, wide or modules of host", "'row_tilin'", "did you mean 'row_tiling'"},
    {"tune zoo:mlp --threads 0", 2, "--threads", "a number from 1 to 1024", "not '0'", "tcc tune --help"},
    {"show zoo:mlp --layouts dense", 2, "--layouts", "plain or blocked or auto", "not 'dense'", "tcc show --help"},
    {"show zoo:mlp --precision half", 2, "--precision", "f32 or tf32 or f16 or bf16", "not 'half'", "tcc show --help"},
    {"tune zoo:mlp --target t4 --precision bf16", 2, "--precision bf16", "expected a target that multiplies bf16", "found t4", "use --precision f16"},
    {"build zoo:mlp -o o --precision f16 --target x86-64-v3", 2, "--precision f16", "expected a target that multiplies f16", "found x86-64-v3", "use --precision f32"},
    {"show zoo:mlp --trace", 2, "--trace", "one task", "--task is missing", "add --task K"},
    {"explain zoo:mlp", 2, "tcc explain", "needs --task K", "number or key", "tcc explain --help"},
    {"build zoo:mlp", 2, "tcc build", "needs --output DIR", "folder", "tcc build --help"},
    {"build zoo:mlp -o o --emit objs", 2, "--emit", "obj, llvm, asm, ir, trace", "not 'objs'", "did you mean 'obj'"},
    {"build zoo:mlp -o o --emit cubin", 2, "--emit", "expected a GPU", "found a CPU", "add --target a100"},
    {"build zoo:mlp -o o --allow-jit", 2, "--allow-jit", "expected a GPU", "found a CPU", "add --target a100"},
    {"build zoo:mlp -o o --target rtx-3080ti,rtx-3090", 2, "--target", "one code for each architecture", "both sm_86", "build a library for each"},
    {"verify zoo:mlp --emulate", 2, "--emulate", "expected a GPU as target", "not host", "add --target a100"},
    {"verify out/libmlp.so --emulate --target a100", 2, "--emulate", "expected a model", "the library 'out/libmlp.so'", "name the model"},
    {"bench", 2, "tcc bench", "needs MODEL", "a library built by tcc, or a model", "tcc bench --help"},
    {"bench zoo:mlp --schedule typo.trace", 2, "--schedule", "one task", "--task is missing", "add --task K"},
    {"bench --compare a.json", 2, "tcc bench", "needs --compare A.json B.json", "two files", "tcc bench --help"},
    {"tune zoo:mlp --effort 0 --adapt moa", 2, "--adapt", "does not go with --effort 0", "measures nothing", "leave --adapt out"},
    {"tune zoo:mlp --effort 0 --no-statements", 2, "--no-statements", "does not go with --effort 0", "measures nothing", "leave --no-statements out"},
    {"tune zoo:mlp --effort 0 --no-dataflow", 2, "--no-dataflow", "does not go with --effort 0", "measures nothing", "leave --no-dataflow out"},
    {"show zoo:mlp --db=", 2, "tcc show", "needs --db FILE", "file of tuning records", "tcc show --help"},
    {"db show x", 2, "tcc db show", "the number of a record", "'x'", "tcc explain"},
    {"bench zoo:mlp --record 3 --task 1", 2, "--record", "names a task", "--task", "leave --record or --task out"},
    {"ops Cov", 1, "operator", "tcc reads no operator", "'Cov'", "did you mean 'Conv'"},
    {"--foo", 2, "tcc", "has no option '--foo'", "a command comes first", "commands are tune, build"},
    {"db stat", 2, "tcc db", "stats, show, diff, merge, prune, export or import", "not 'stat'", "did you mean 'stats'"},
    {"db merge a.db", 2, "tcc db merge", "needs -o FILE", "the file to write", "-o all.db"},
    {"db import", 2, "tcc db import", "needs FILES", "the text of records", "tcc db export"},
    {"dataset stat", 2, "tcc dataset", "collect, stats, split, export, import, merge or pack", "not 'stat'",
     "did you mean 'stats'"},
    {"dataset merge a.pool", 2, "tcc dataset merge", "needs -o FILE", "the pool that grows", "-o a.pool"},
    {"dataset stats", 2, "tcc dataset stats", "needs FILES", "pools", "tcc dataset --help"},
    {"dataset stats noise.db", 1, "noise.db", "a pool of programs", "does not begin as such a file does",
     "tcc dataset collect"},
    {"dataset split a.pool -o b.pool --held-out c.pool --share 2", 2, "--share", "a number between 0 and 1", "not 2",
     "--share 0.1"},
    {"zoo mlp", 2, "tcc zoo mlp", "needs -o FILE", "the file to write", "-o mlp.onnx"},
    {"targets a100 --probe", 2, "--probe", "this machine", "not a100", "tcc targets host --probe"},
    {"completion powershell", 2, "tcc completion", "bash, zsh or fish", "not 'powershell'", "tcc completion bash"},
    {"man tnue", 2, "command", "did you mean", "'tnue'", "'tune'"},
    // Files of options.
    {"tune zoo:mlp --config typo.toml", 2, "'typo.toml'", "the name of an option", "not 'trails'", "did you mean 'trials'"},
    {"tune zoo:mlp --config section.toml", 2, "'section.toml'", "a command as section", "not 'tnue'", "did you mean 'tune'"},
    {"tune zoo:mlp --config flag.toml", 2, "'flag.toml'", "true or false", "'fresh'", "write fresh = true"},
    // Models.
    {"tune zoo:resnet19", 1, "'zoo:resnet19'", "the zoo has no model", "'resnet19'", "did you mean 'resnet18'"},
    {"inspect nowhere.onnx", 1, "'nowhere.onnx'", "cannot open", "No such file", "check the name"},
    {"inspect letter.onnx", 1, "'letter.onnx'", "an ONNX model", "is not", "written by an ONNX exporter"},
    {"inspect mlp.onnx --batch 8", 2, "--batch", "a model of the zoo", "not 'mlp.onnx'", "--shape NAME=DIMS"},
    {"inspect mlp.onnx --shape input=1xx2", 2, "--shape", "NAME=1x3x224x224", "not 'input=1xx2'", "tcc inspect"},
    {"inspect mlp.onnx --shape inptu=1x784", 2, "'inptu'", "an input of 'mlp.onnx'", "is not", "did you mean 'input'"},
    {"inspect mlp.onnx --batch 1", 2, "--batch", "a model of the zoo", "not 'mlp.onnx'", "--shape NAME=DIMS"},
    {"inspect mlp.onnx --dim btch=8", 2, "--dim btch", "a dimension of an input of 'mlp.onnx'", "btch", "--shape NAME=DIMS"},
    {"inspect dims.onnx --dim btch=8", 2, "--dim btch", "a dimension of an input of 'dims.onnx'", "btch", "did you mean 'batch'"},
    {"inspect dims.onnx --dim batch=3 --dim batch=4", 2, "--dim", "each name once", "'batch=4'", "leave one of the two out"},
    {"inspect dims.onnx", 2, "'dims.onnx'", "inputs without a fixed shape", "'batch'", "for example: --dim batch=1"},
    {"inspect mlp.onnx --dim batch", 2, "--dim", "NAME=8", "not 'batch'", "a number from 0 on"},
    {"inspect dims.onnx --dim batch=8..2", 2, "--dim batch=8..2", "a highest size above 8", "found 2", "--dim batch=1..64@8,32"},
    {"inspect dims.onnx --dim batch=1..8@9", 2, "--dim batch=1..8@9", "sizes to tune for from 1 to 8", "found 9", "LOW..HIGH@A,B"},
    {"inspect mlp.onnx --freeze input=x.npy", 2, "--freeze", "NAME=@FILE.npy", "not 'input=x.npy'", "put an @"},
    {"zoo mlpp -o y.onnx", 1, "the zoo", "has no model", "'mlpp'", "did you mean 'mlp'"},
    // Data.
    {"run out/libmlp.so", 2, "input 'input'", "f32 1x784", "1 of 1 inputs are not given", "--input input=FILE.npy"},
    {"run out/libmlp.so --input inptu=x.npy", 2, "the model", "input 'input'", "'inptu'", "did you mean 'input'"},
    {"run out/libmlp.so --input input", 2, "--input", "NAME=FILE", "not 'input'", "tcc inspect"},
    {"run out/libmlp.so --input input=x.npy --input input=x.npy", 2, "--input", "each name once", "'input=x.npy'", "leave one of the two out"},
    {"run out/libmlp.so --input input=two.npy", 1, "'two.npy'", "needs 1x784", "has shape 2x784", "reshape the array"},
    {"run out/libmlp.so --input input=double.npy", 1, "'double.npy'", "needs f32", "holds f64", "convert it first"},
    {"run out/libmlp.so --input input=words.npy", 1, "'words.npy'", "does not read", "type '<U1'", "convert it first"},
    {"run out/libmlp.so --input input=cut.npy", 1, "'cut.npy'", "needs 3136", "holds 100 bytes", "write it again"},
    {"run out/libmlp.so --input input=x.txt", 2, "'x.txt'", "a .npy or .pb file", "to read", "numpy.save"},
    {"run out/libmlp.so --inputs x.npy", 1, "'x.npy'", "a NumPy archive", "is not", "numpy.savez"},
    {"run out/libmlp.so --random -o y.npy", 2, "--output", "a .npz file", "y.npy", "--save NAME=FILE"},
    // Libraries.
    {"run out/libnone.so --random", 1, "'out/libnone.so'", "expected a library", "does not exist", "tcc build"},
    {"verify out/libmlp.so --precision f16", 2, "--precision", "expected a model", "found the library 'out/libmlp.so'", "tcc build MODEL --precision"},
    {"verify out/libmlp.so --fast-math", 2, "--fast-math", "expected a model", "found the library 'out/libmlp.so'", "tcc build MODEL --fast-math"},
    {"bench out/libmlp.so --db mine.db", 2, "--db", "expected a model", "found the library 'out/libmlp.so'", "leave --db out"},
    {"run out/libmlp.so --random --batch 1", 2, "--batch", "expected a model", "found the library 'out/libmlp.so'", "leave --batch out"},
    {"build zoo:mlp -o x.npy", 1, "'x.npy'", "folder", "cannot create", "check the name"},
    {"verify out/libmlp.so --model zoo:resnet18", 1, "'zoo:resnet18'", "the model that the library was built from", "its hash is", "--model FILE"},
    {"bench --compare no_times.json no_times.json", 1, "'no_times.json'", "the times of a library", "has no \"samples\"", "tcc bench LIB --json"},
    // Records.
    // Efforts.
    {"tune zoo:mlp --effort 3", 2, "--effort", "0, 1 or 2", "'3'", "0 measures nothing"},
    {"tune zoo:mlp --effort 0 --trials 5", 2, "--trials", "--effort 0", "measures nothing", "use --effort 1 or 2"},
    {"tune zoo:mlp --effort 1 --trials-per-task 5", 2, "--trials-per-task", "--effort 1", "sets the number of trials", "use --effort 2"},
    {"tune zoo:mlp --effort 0 --strategy gensor", 2, "--strategy", "--effort 0", "measures nothing", "leave --strategy out"},
    {"build zoo:mlp -o o --effort full", 2, "--effort", "0, 1 or 2", "'full'", "0 measures nothing"},
    {"tune zoo:mlp --target a100 --baseline", 2, "--baseline", "a CPU as target", "'a100'", "leave --baseline out"},
    {"build zoo:mlp -o o --require-tuned", 1, "gemm 1x512x784", "3 of 3 kernels", "not tuned", "run `tcc tune`"},
    {"db stats none.db", 1, "'none.db'", "a file of tuning records", "does not exist", "`tcc tune` makes one"},
    {"tune zoo:mlp --also none.db", 1, "'none.db'", "a file of tuning records", "does not exist", "tcc tune --db FILE"},
    {"db export noise.db", 1, "'noise.db'", "a store of records", "not a database", "name another file"},
    {"db import list.jsonl", 1, "'list.jsonl', line 1", "a JSON object", "nothing was imported", "tcc db export"},
    {"db import task.jsonl", 1, "'task.jsonl', line 1", "'task'", "is missing", "tcc db export"},
    // Targets.
    {"tune zoo:mlp --target hsot", 2, "target", "the name of a target", "not 'hsot'", "did you mean 'host'"},
    {"show zoo:mlp --target-file colour.json", 1, "colour.json", "target description", "'colour'", "key"},
    {"show zoo:mlp --target-file base.json", 1, "base.json", "the name of a target", "not 'a1000'", "did you mean 'a100'"},
    {"show zoo:mlp --target-file cut.json", 1, "cut.json", "not JSON", "at byte", "tcc targets"},
    {"show zoo:mlp --target-file no_name.json", 1, "no_name.json", "'name'", "is missing", "give the machine a name"},
    // Traces.
    {"bench zoo:mlp --task 2 --schedule typo.trace", 1, "typo.trace:1:6:", "expected an instruction", "1:6", "did you mean 'get_block'"},
    {"bench zoo:mlp --task 2 --schedule block.trace", 1, "block.trace", "the kernel has 'gemm', 'bias'", "'gemn'", "instruction 0 (get_block)"},
    {"bench zoo:mlp --task 2 --schedule mended.trace", 1, "mended.trace: instruction 2 (sample_perfect_tile)", "does not fit the loop", "<4, 4>", "the nearest that fits is <"},
    {"bench zoo:mlp --task 2 --schedule order.trace", 1, "order.trace:2:", "a result of a line above", "not 'm'", "expected"},
    {"bench zoo:mlp --task 2 --schedule chain.trace", 1, "chain.trace", "the only child", "'m_1'", "instruction 3 (fuse)"},
};
// clang-format on

}  // namespace

// The messages that users meet most, word by word. The file holds a command, what it says, and its exit status.
TEST_CASE("the messages that users meet most are as in the golden file", "[cli][errors]") {
  Sandbox box;
  fill(box);
  const fs::path golden = fs::path(TCC_SOURCE_DIR) / "tests/cli/golden/messages.txt";
  std::istringstream lines(slurp(golden));
  std::string all;
  int64_t commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) all += line + "\n";
    if (!line.starts_with("$ tcc")) continue;
    const Outcome outcome = box.tcc(words_of(line.substr(5)));
    all += fmt::format("{}{}\n{}{}exit {}\n", commands++ == 0 ? "" : "\n", line, outcome.out, outcome.err,
                       outcome.exit_code);
  }
  CHECK(commands >= 40);
  if (getenv("TCC_UPDATE_GOLDEN") != nullptr) spill(golden, all);
  CHECK(all == slurp(golden));
}

TEST_CASE("messages name the object, the expectation, the finding and the action", "[cli][errors]") {
  Sandbox box;
  fill(box);
  CHECK(kMessages.size() >= 40);
  for (const Message& message : kMessages) {
    CAPTURE(message.command);
    const Outcome outcome = box.tcc(words_of(message.command));
    INFO(outcome.err);
    CHECK(outcome.exit_code == message.exit_code);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, Contains("tcc: error: "));
    for (const std::string& piece : {message.object, message.expected, message.found, message.action})
      CHECK_THAT(outcome.err, Contains(piece));
  }
}
