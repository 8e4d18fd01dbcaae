// What tcc can do, for commands that list it: the rooms that the command line sees through this one.
#pragma once

// IWYU pragma: begin_exports
#include "tcc/onnx/importer.h"
#include "tcc/onnx/zoo.h"
#include "tcc/target/probe.h"
#include "tcc/target/target.h"
// IWYU pragma: end_exports

#include <string>

namespace tcc::driver {

// Can code for CUDA be compiled here, and is there a device? One sentence.
std::string describe_cuda();

}  // namespace tcc::driver
