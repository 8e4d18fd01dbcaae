// A sketch: the kernel a skeleton gives while its integer decisions stay symbols, brought to Stage::Nest once by the
// same lowering. instantiate() substitutes decisions: the everyday path of search. Its definition is replay() +
// lower(): both give the same hash.
#pragma once

#include <vector>

#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::space {

struct Sketch {
  schedule::Trace trace;        // the skeleton; its decisions are those the sketch was made with
  ir::Kernel start;             // Stage::Built
  ir::Kernel nest;              // Stage::Nest, decisions as scalars; valid when `symbolic`
  std::vector<ir::Id> symbols;  // scalar of each decision slot; kNoId: structural, fixed in this sketch
  bool symbolic = false;        // false: instantiate() replays, which takes longer
  std::string concrete;         // why it is not symbolic
  bool disagrees = false;       // the symbolic kernel is not the one that replay gives: a defect of the compiler
  uint64_t key = 0;             // hash of skeleton and structural decisions
  // Extents of the loops at which blocks are computed by a decision, where they are symbols. Decisions that make one of
  // them 1 take the place away (docs/primitives.md, sample_compute_location): instantiate() replays those.
  std::vector<ir::Expr> places;
};

// Hash of the skeleton and of the decisions that change the structure (compute locations): equal for programs of one
// sketch.
uint64_t structural_key(const schedule::Trace& trace, std::span<const int64_t> decisions);

// The trace, then the same skeleton with its blocks computed at other legal places; at most 16, each of which has legal
// decisions. This is how a search moves compute locations: each combination is a sketch of its own.
std::vector<schedule::Trace> structural_variants(const schedule::Trace& trace, const ir::Kernel& start,
                                                 const target::Target& target);

// Never fails for a trace that replays: where the symbolic kernel cannot be made, the sketch is not symbolic.
ir::Legal<Sketch> make_sketch(const schedule::Trace& trace, const ir::Kernel& start, const target::Target& target);

// The kernel at Stage::Nest for these decisions (limits checked), in `arena`. Decisions must be legal for the sketch
// (perfect tiles divide); draw_decisions and mutate make such ones where no extent depends on an earlier decision.
// Others are repaired as replay repairs them. `used`, where given, receives the decisions that the kernel has;
// structural ones stay those of the sketch, also where replay moves a place.
ir::Legal<ir::Kernel> instantiate(const Sketch& sketch, std::span<const int64_t> decisions,
                                  const target::Target& target, const ArenaPtr& arena,
                                  std::vector<int64_t>* used = nullptr);

// The definition of instantiate(): the trace replayed with numbers, lowered to Stage::Nest, which takes longer. Records
// hold hashes of these kernels. Index expressions of instantiate() may differ from them in form.
ir::Legal<ir::Kernel> replay_to_nest(const Sketch& sketch, std::span<const int64_t> decisions,
                                     const target::Target& target, const ArenaPtr& arena,
                                     std::vector<int64_t>* used = nullptr);

// Fresh legal decisions; structural slots keep the sketch's values.
void draw_decisions(const Sketch& sketch, std::span<int64_t> decisions, Rng& rng);

}  // namespace tcc::space
