// The limits of check_limits.h as columns. Private to the room.
#pragma once

#include "tcc/lower/limit_columns.h"

namespace tcc::lower {

using analysis::BufferColumns;
using analysis::Column;
using analysis::ColumnBuilder;
using analysis::kNoColumn;

bool cpu_limit_columns(ColumnBuilder& b, const ir::Kernel& nest, const analysis::NestColumns& columns,
                       const target::Target& target, LimitColumns& out, std::string& why);
// Launches whose warps have roles have no columns.
bool cuda_limit_columns(ColumnBuilder& b, const ir::Kernel& nest, const analysis::NestColumns& columns,
                        const target::Target& target, LimitColumns& out, std::string& why);

}  // namespace tcc::lower
