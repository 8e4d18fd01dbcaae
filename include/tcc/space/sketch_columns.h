// A sketch as an array program: what its kernel at Stage::Nest says of thousands of candidates, without making the
// kernels. The definition is instantiate(): extents, footprints and limits are those of its kernels.
#pragma once

#include <string>

#include "tcc/analysis/nest_columns.h"
#include "tcc/lower/limit_columns.h"
#include "tcc/space/sketch.h"

namespace tcc::space {

struct SketchColumns {
  // Callers add what they want to know (a score, a footprint) and finish the program. Input i is decision slot i: the
  // decision as the trace has it, of categorical ones the number of the candidate.
  analysis::ColumnBuilder builder;
  analysis::ColumnValues symbols;  // values of the decision scalars
  analysis::NestColumns nest;
  analysis::Column legal = analysis::kNoColumn;  // 1: instantiate() gives a kernel; 0: it rejects the decisions
  // 0: `legal` and `nest` say nothing of these decisions, instantiate() must be asked. It replays the trace for them,
  // or a limit depends on a structure that they change.
  analysis::Column decided = analysis::kNoColumn;
  lower::LimitColumns limits;  // what `legal` is made of
  // A hash of the program, equal for decisions that give the same one; its bits, not its value, are the hash.
  analysis::Column identity = analysis::kNoColumn;
};

// False where instantiate() has to serve all decisions: the sketch is not symbolic, or something in it has no form as
// columns. `why` then says so. `sketch` must outlive `out`.
bool sketch_columns(const Sketch& sketch, const target::Target& target, SketchColumns& out, std::string& why);

}  // namespace tcc::space
