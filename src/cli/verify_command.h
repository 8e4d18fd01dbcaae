// The two ways of `tcc verify`. Private to the room.
#pragma once

#include "cli/arguments.h"
#include "tcc/support/result.h"

namespace tcc::cli {

struct VerifyArguments {
  Common common;
  LibraryArguments library;
  std::string original;  // --model
  double tolerance = 0;  // 0 = by type and sums
  uint64_t seed = 1;
  std::vector<std::string> seeds, ranges;  // NAME=7, NAME=-1:1
  std::string inputs, expected;            // .npz
  std::string against, python = "python3";
  std::string denormals = "flush";
  bool emulate = false;
};

// `tcc verify MODEL --emulate`: runs the PTX of the model's kernels without a GPU.
Result<int> verify_by_emulation(const VerifyArguments& arguments);

}  // namespace tcc::cli
