// Where CUPTI is looked for. Private to the room.
#pragma once

#include <memory>
#include <string>

#include "tcc/support/dynlib.h"

namespace tcc::runtime {

// name "": libcupti.so.13 or .12 by the loader's rules, then in /usr/local/cuda.
Result<std::shared_ptr<DynamicLibrary>> open_cupti(const std::string& name);

}  // namespace tcc::runtime
