// check_limits() of a symbolic kernel, for all candidates at once.
#pragma once

#include "tcc/analysis/nest_columns.h"
#include "tcc/target/target.h"

namespace tcc::lower {

struct LimitColumns {
  // 1: check_limits() accepts the kernel that these decisions give; 0: it rejects it.
  analysis::Column legal = analysis::kNoColumn;
  // 0: only the kernel itself tells, and `legal` says nothing.
  analysis::Column decided = analysis::kNoColumn;
  // Bytes of what the limits are about: of local buffers on a CPU's stack, in the registers of a GPU's thread; on a CPU
  // of temporaries in memory; on a GPU of a block's shared memory, at least, and the threads of a block.
  analysis::Column local_bytes = analysis::kNoColumn, temporary_bytes = analysis::kNoColumn;
  analysis::Column shared_bytes = analysis::kNoColumn, threads = analysis::kNoColumn;
};

// `columns`: those of `nest`, a kernel before fold() (lower/nest.h) whose decisions are scalars. False where the
// target's limits have no form as columns; `why` then says so.
bool limit_columns(analysis::ColumnBuilder& b, const ir::Kernel& nest, const analysis::NestColumns& columns,
                   const target::Target& target, LimitColumns& out, std::string& why);

}  // namespace tcc::lower
