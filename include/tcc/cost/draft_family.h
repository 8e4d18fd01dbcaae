// Which drafts are alike.
#pragma once

#include "tcc/analysis/nest_columns.h"

namespace tcc::cost {

// A hash (bits) that is equal for programs which differ in little: they have the same grid, the same threads or
// vectors, and the same bytes of storage.
analysis::Column draft_family(analysis::ColumnBuilder& b, const analysis::NestColumns& nest);

}  // namespace tcc::cost
