// --denormals: of commands that run a library.
#pragma once

#include <string>

#include "cli/options.h"

namespace tcc::cli {

inline void add_denormals(Options& options, std::string& word) {
  options
      .option("--denormals", word,
              "Numbers below the smallest normal one, on a CPU: flush makes them 0; keep keeps sums, products and "
              "quotients, and is slower where they occur")
      .one_of({"flush", "keep"})
      .show_default();
}

}  // namespace tcc::cli
