// tcc-opt as a user runs it: results on stdout, messages with file, line and column on stderr, documented exit codes.
#include <sys/wait.h>
#include <catch2/catch.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;

namespace {

struct Run {
  int status;
  std::string out, err;
};

class Workplace {
 public:
  Workplace() : folder_(std::move(*TemporaryDirectory::create("tcc_opt"))) {}

  std::string file(const std::string& name, const std::string& text) const {
    std::string path = folder_->path() + "/" + name;
    REQUIRE(write_file(path, text).has_value());
    return path;
  }
  Run run(const std::string& arguments, const std::string& input = "") const {
    std::string in = file("stdin", input), out = folder_->path() + "/out", err = folder_->path() + "/err";
    std::string command = std::string(TCC_OPT) + " " + arguments + " <" + in + " >" + out + " 2>" + err;
    int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    return {WEXITSTATUS(status), *read_file(out), *read_file(err)};
  }

 private:
  std::unique_ptr<TemporaryDirectory> folder_;
};

const char* const kKernel = R"(kernel built {
  input A: f32[8, 6]
  output B: f32[8]
  for i in 8 {
    for k in 6 {
      block sum(vi: spatial 8 = i, vk: reduce 6 = k) reduce(sum) {
        init {
          B[vi] = 0.0
        }
        B[vi] = B[vi] + A[vi, vk]
      }
    }
  }
}
)";
const char* const kTrace = "v0 = get_block(\"sum\")\nv1, v2 = get_loops(v0)\nv3, v4 = split(v1, 2, 4)\nparallel(v3)\n";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("prints what it reads, from a file and from standard input") {
  Workplace w;
  Run r = w.run(w.file("k.tir", kKernel));
  CHECK(r.status == 0);
  CHECK(r.out == kKernel);
  CHECK(r.err.empty());
  CHECK(w.run("-", kKernel).out == kKernel);
  CHECK(w.run("--verify -", kKernel).status == 0);
}

TEST_CASE("applies a trace, then lowers") {
  Workplace w;
  std::string k = w.file("k.tir", kKernel), t = w.file("t.trace", kTrace);
  Run r = w.run("--verify --trace " + t + " " + k);
  CHECK(r.status == 0);
  CHECK(has(r.out, "kernel scheduled {"));
  CHECK(has(r.out, "for i_0 in 2 parallel {"));
  Run nest = w.run("--verify --trace " + t + " --to nest " + k);
  CHECK(nest.status == 0);
  CHECK(has(nest.out, "kernel nest {"));
  CHECK_FALSE(has(nest.out, "block"));
  Run lowered = w.run("--verify --trace " + t + " --to nest --to lowered " + k);
  CHECK(lowered.status == 0);
  CHECK(has(lowered.out, "kernel lowered {"));
  // Its own output is input again.
  CHECK(w.run("--verify -", lowered.out).out == lowered.out);
}

TEST_CASE("a kernel of empty loops lowers to one that does nothing") {
  Workplace w;
  std::string empty = kKernel;
  empty.replace(empty.find("for i in 8"), 10, "for i in 0");
  for (const char* stage : {"nest", "lowered"}) {
    Run r = w.run(std::string("--verify --to ") + stage + " -", empty);
    INFO(r.err);
    CHECK(r.status == 0);
    CHECK(has(r.out, "for i in 0 {"));
  }
}

TEST_CASE("the passes one by one give what --to nest gives") {
  Workplace w;
  std::string k = w.file("k.tir", kKernel);
  Run passes = w.run("--pass place_inits --pass inline_blocks --pass compact_buffers --pass fold " + k);
  CHECK(passes.status == 0);
  CHECK(passes.out == w.run("--to nest " + k).out);
}

TEST_CASE("--list-passes knows every pass of the lowering") {
  Workplace w;
  const std::string listed = w.run("--list-passes").out + w.run("--list-passes --target a100").out;
  auto source = read_file(std::string(TCC_SOURCE_DIR) + "/src/lower/lower.cpp");
  REQUIRE(source.has_value());
  int found = 0;
  for (size_t at = 0; (at = source->find("#include \"", at)) != std::string::npos; ++at) {
    std::string header = source->substr(at + 10, source->find('"', at + 10) - at - 10);
    if (header.rfind("tcc/", 0) == 0 || header == "lower/pipelines.h" || header == "lower/limit_columns.h") continue;
    std::string name = header.substr(header.rfind('/') + 1);
    name.resize(name.size() - 2);
    INFO(name);
    CHECK(has("\n" + listed, "\n" + name + "\n"));
    ++found;
  }
  CHECK(found >= 20);
  CHECK_FALSE(has(w.run("--list-passes --target x86-64-v3").out, "insert_barriers"));
}

TEST_CASE("--dump-ir names every step and prints changes only") {
  Workplace w;
  Run r = w.run("--dump-ir --pass place_inits --pass place_inits --pass inline_blocks -", kKernel);
  CHECK(r.status == 0);
  CHECK(has(r.out, "# after pass place_inits\nkernel built {"));
  CHECK(has(r.out, "# after pass place_inits (unchanged)\n# after pass inline_blocks\nkernel built {"));
}

TEST_CASE("bad input is one message with its place and exit code 1") {
  Workplace w;
  std::string k = w.file("k.tir", kKernel);
  auto check = [&](const Run& r, const std::string& what) {
    INFO(r.err);
    CHECK(r.status == 1);
    CHECK(has(r.err, what));
    CHECK(r.out.empty());
    CHECK_FALSE(has(r.err, "internal error"));
  };
  check(w.run("/nowhere/k.tir"), "/nowhere/k.tir");
  std::string broken = kKernel;
  broken.replace(broken.find("in 6 {"), 6, "of 6 {");
  std::string b = w.file("broken.tir", broken);
  check(w.run(b), b + ":5:11: expected");
  check(w.run("-", ""), "<stdin>:1:1: expected");
  check(w.run("-",
              "\x7f"
              "ELF\x02\x01"),
        "<stdin>:1:1: expected");
  std::string racing = kKernel;
  racing.replace(racing.find("for k in 6"), 10, "for k in 6 parallel");
  check(w.run("--verify -", racing), "does not verify");
  check(w.run("--to nest -", racing), "does not verify");
  check(w.run("--trace /nowhere/t.trace " + k), "/nowhere/t.trace");
  std::string misspelt = w.file("m.trace", "v0 = get_block(\"sum\")\nv1, v2 = get_lops(v0)\n");
  check(w.run("--trace " + misspelt + " " + k), misspelt + ":2:10: expected an instruction, did you mean 'get_loops'");
  std::string racy = w.file("r.trace", "v0 = get_block(\"sum\")\nv1, v2 = get_loops(v0)\nparallel(v2)\n");
  Run rejected = w.run("--trace " + racy + " " + k);
  check(rejected, "rejected (reduction would race): instruction 2 (parallel)");
  check(w.run("--pass split_tails " + k), "split_tails needs a kernel at stage nest");
  check(w.run("--pass inline_blocks " + k), "run place_inits first");
  Run nest = w.run("--to nest " + k);
  check(w.run("--to nest -", nest.out), "the kernel is at stage nest already");
  check(w.run("--trace " + w.file("t.trace", kTrace) + " -", nest.out),
        "a trace needs a kernel at stage built or scheduled");
}

TEST_CASE("a wrong command line is exit code 2") {
  Workplace w;
  auto check = [&](const std::string& arguments, const std::string& what) {
    Run r = w.run(arguments, kKernel);
    INFO(r.err);
    CHECK(r.status == 2);
    CHECK(has(r.err, what));
    CHECK(has(r.err, "tcc-opt --help"));
    CHECK(r.out.empty());
  };
  check("", "no input file");
  check("--verfy -", "did you mean '--verify'");
  check("--to lowerd -", "nest or lowered");
  check("--pass split_tail -", "did you mean 'split_tails'");
  check("--pass", "--pass needs the name of a pass");
  check("--target x86-64-v9 -", "x86-64-v");
  check("- -", "one input file only");
  CHECK(w.run("--help").status == 0);
}

TEST_CASE("edited input never ends in a crash", "[fuzz]") {
  Workplace w;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    std::string text = kKernel, trace = kTrace;
    for (int i = 0; i < 3; ++i) {
      text[static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())))] = static_cast<char>(32 + rng.below(95));
      if (rng.below(2) == 0)
        trace[static_cast<size_t>(rng.below(static_cast<int64_t>(trace.size())))] =
            static_cast<char>(32 + rng.below(95));
    }
    std::string t = w.file("f.trace", trace);
    Run r = w.run("--verify --trace " + t + " --to lowered -", text);
    INFO("seed " << seed << "\n" << text << trace << r.err);
    CHECK((r.status == 0 || r.status == 1));
    CHECK(r.out.empty() == (r.status != 0));
    CHECK(r.err.empty() == (r.status == 0));
  }
}
