// A library that is built once for all cases of a file: tuned by predictions, then compiled for the named devices.
#pragma once

#include <functional>

#include "cli/runner.h"
#include "skip.h"

namespace cli_test {

struct GpuLibrary {
  Sandbox box;
  Outcome build;
  bool here = false;  // false: there is no compiler for GPUs

  // `prepare` writes what the commands read; the words are those of `tcc tune` and `tcc build`.
  GpuLibrary(const std::function<void(const Sandbox&)>& prepare, const std::vector<std::string>& tune_words,
             const std::vector<std::string>& build_words) {
    prepare(box);
    Outcome tune = box.tcc(tune_words);
    if (tune.exit_code != 0) {
      CHECK_THAT(tune.err, Catch::Contains("NVRTC"));
      return;
    }
    build = box.tcc(build_words);
    INFO(build.err);
    REQUIRE(build.exit_code == 0);
    here = true;
  }
};

}  // namespace cli_test
