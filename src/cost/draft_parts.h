// The draft models by kind of target. Private to the room.
#pragma once

#include "tcc/cost/draft.h"

namespace tcc::cost {

using analysis::AccessColumns;
using analysis::Column;
using analysis::ColumnBuilder;
using analysis::kNoColumn;
using analysis::LoopColumns;
using analysis::NestColumns;
using analysis::StatementColumns;

inline bool leaves_out(const DraftOptions& o, DraftPenalty penalty) {
  return (o.without >> static_cast<uint32_t>(penalty) & 1) != 0;
}

// Cycles of one core become cycles of all; `parallel`: iterations of the parallel loop around, kNoColumn: none.
Column share_among_cores(ColumnBuilder& b, Column cycles, Column parallel, double cores, const DraftOptions& o);

Column draft_paper(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, int64_t threads,
                   const DraftOptions& o);
Column draft_released(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, int64_t threads,
                      const DraftOptions& o);
// The model `tcc`, of a GPU.
Column draft_gpu(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, const DraftOptions& o);
// The model `tcc`, of a CPU.
Column draft_cpu(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, int64_t threads,
                 const DraftOptions& o, std::vector<DraftTerms>* terms);

}  // namespace tcc::cost
