// A library's contract on threads, under ThreadSanitizer: contexts of one model run at the same time, right and without
// a data race. Covered are the runtime as it ships (src/rt compiled with -fsanitize=thread), the model's plan and
// weights, and the kernels: LLVM's own pass instruments their IR, after vector accesses, which it would leave alone,
// were made scalar. Not covered: the C library, of which the tool knows the functions that it intercepts.
#include "runner.h"
#include "skip.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

Outcome shell(const Sandbox& box, const std::string& line) {
  return box.run({"sh", "-c", line});
}

void must(const Sandbox& box, const std::string& line) {
  const Outcome outcome = shell(box, line);
  CAPTURE(line, outcome.out, outcome.err);
  REQUIRE(outcome.exit_code == 0);
}

bool has_thread_sanitizer(const Sandbox& box) {
  spill(box.path("empty.c"), "int main(void) { return 0; }\n");
  return shell(box, std::string(TCC_C_COMPILER) + " -fsanitize=thread empty.c -o empty").exit_code == 0;
}

// GCC 12's ThreadSanitizer does not start where the system spreads addresses widely.
std::string launcher(const Sandbox& box) {
  for (const std::string prefix : {"setarch -R ", ""})
    if (shell(box, prefix + "./empty").exit_code == 0) return prefix;
  return "no";
}

void instrument_kernels(const Sandbox& box) {
  const std::string tools = TCC_LLVM_TOOLS;
  int kernels = 0;
  for (const auto& entry : fs::directory_iterator(box.path("out/kernels"))) {
    if (entry.path().extension() != ".ll") continue;
    const std::string base = "out/kernels/" + entry.path().stem().string();
    const std::string text = slurp(entry.path());
    REQUIRE_THAT(text, Contains("attributes #0 = {"));
    must(box, "sed -i 's/^\\(attributes #[0-9]* = {\\)/\\1 sanitize_thread/' " + base + ".ll");
    must(box, tools +
                  "/opt -scalarize-load-store -passes='function(scalarize-masked-mem-intrin,scalarizer),tsan-module,"
                  "function(tsan)' " +
                  base + ".ll -o " + base + ".bc");
    must(box, tools + "/llc -relocation-model=pic -filetype=obj " + base + ".bc -o " + base + ".o");
    must(box, tools + "/llvm-nm -u " + base + ".o | grep -q __tsan_write4");
    ++kernels;
  }
  REQUIRE(kernels >= 3);
}

}  // namespace

TEST_CASE("threads with contexts of their own: right, and no data race", "[cli]") {
  Sandbox box;
  if (!has_thread_sanitizer(box)) SKIP("the C compiler has no -fsanitize=thread");
  if (!fs::exists(TCC_LLVM_TOOLS "/opt") || !fs::exists(TCC_LLVM_TOOLS "/llc"))
    SKIP("LLVM's opt and llc are not installed");
  const std::string prefix = launcher(box);
  if (prefix == "no") SKIP("ThreadSanitizer does not start here");
  REQUIRE(box.tcc({"build", "zoo:mlp", "-q", "--batch", "4", "-o", "out", "--emit", "obj,llvm", "--target", "x86-64-v2",
                   "--id", "net"})
              .exit_code == 0);
  instrument_kernels(box);
  fs::remove(box.path("out/kernels/rt.o"));  // its sources take its place
  const std::string source = TCC_SOURCE_DIR;
  const std::string line =
      std::string(TCC_C_COMPILER) + " -std=gnu11 -g -O1 -fsanitize=thread -Wno-tsan -I" + source + "/include -I" +
      source + "/src -Iout -DMODEL_HEADER='\"net.h\"' -DMODEL_QUERY=tcc_net_query " + source +
      "/tests/cli/two_threads.c out/kernels/*.o " + source + "/src/rt/*.c -o threads -lpthread -lm -ldl";
  must(box, line);

  const Outcome separate = shell(box, prefix + "./threads separate");
  CAPTURE(separate.out, separate.err);
  CHECK(separate.exit_code == 0);
  CHECK_THAT(separate.err, !Contains("ThreadSanitizer"));
  CHECK_THAT(separate.out, Contains("0 failures"));

  const Outcome shared = shell(box, prefix + "./threads shared");
  CAPTURE(shared.exit_code);
  CHECK(shared.exit_code == 66);  // what ThreadSanitizer ends with
  CHECK_THAT(shared.err, Contains("ThreadSanitizer: data race") && Contains("tcc_k"));
}
