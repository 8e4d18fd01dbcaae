// Links objects into a shared library: with lld inside this process where it is compiled in, else with a program.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::package {

struct LinkRequest {
  std::vector<std::string> objects;  // paths
  std::string output;
  std::string soname;
  std::string exported;  // the one symbol that stays visible
  std::string scratch;   // an existing folder for the version script and messages
};

// `linker` as in PackageOptions. Returns what linked ("lld", "ld.lld", ...). Errors (environment): no linker, no C
// library, or what the linker said.
Result<std::string> link_library(const LinkRequest& request, const std::string& linker);

}  // namespace tcc::package
