// A file of records as a table; for `db stats` and `inspect`.
#pragma once

#include "cli/arguments.h"

namespace tcc::cli {

Result<int> print_store(const Common& common, const std::string& path);

}  // namespace tcc::cli
