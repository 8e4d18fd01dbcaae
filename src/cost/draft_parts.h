// The draft models by kind of target. Private to the room.
#pragma once

#include "tcc/cost/draft.h"

namespace tcc::cost {

inline bool leaves_out(const DraftOptions& o, DraftPenalty penalty) {
  return (o.without >> static_cast<uint32_t>(penalty) & 1) != 0;
}

// Cycles of one core become cycles of all; `parallel`: iterations of the parallel loop around, kNoColumn: none.
analysis::Column share_among_cores(analysis::ColumnBuilder& b, analysis::Column cycles, analysis::Column parallel,
                                   double cores, const DraftOptions& o);

analysis::Column draft_paper(analysis::ColumnBuilder& b, const analysis::NestColumns& nest,
                             const target::Target& target, int64_t threads, const DraftOptions& o);
analysis::Column draft_released(analysis::ColumnBuilder& b, const analysis::NestColumns& nest,
                                const target::Target& target, int64_t threads, const DraftOptions& o);
// The model `tcc`, of a GPU.
analysis::Column draft_gpu(analysis::ColumnBuilder& b, const analysis::NestColumns& nest, const target::Target& target,
                           const DraftOptions& o);
// The model `tcc`, of a CPU.
analysis::Column draft_cpu(analysis::ColumnBuilder& b, const analysis::NestColumns& nest, const target::Target& target,
                           int64_t threads, const DraftOptions& o, std::vector<DraftTerms>* terms);

}  // namespace tcc::cost
