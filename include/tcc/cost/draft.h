// The draft model: seconds of programs by formulas over columns (tcc/analysis/columns.h), a million a second and core,
// without kernels. Searches draft with it what a learned model then verifies.
//
// It is the symbol-based analyzer of Pruner (Qiao et al., "Pruner: a draft-then-verify exploration mechanism", section
// 4.1), in three readings:
//
//   paper     symbols S1 to S8 and penalties as the paper prints them, per innermost statement:
//               L = sum over statements of S8 / U_p + S5 / U_m,  U_p = peak * product of P_c,  U_m = bandwidth *
//               product of P_m.  P_l0,c is used in its normalized form r / (1 + r), r = S2 / S1: as printed it exceeds
//               the peak.
//   released  what the public code computes: the larger of both terms, a bounded reuse term, a register penalty, no
//             shared memory, no transactions, elements for bytes.
//   tcc       the same idea with the levels of the target's description: on CPUs registers, lanes, L1, L2, L3, memory
//             and cores; on GPUs registers, shared memory, L2, memory, schedulers and tensor cores.
//
// Symbols of a GPU on a CPU: lanes of a vector are the threads of a warp, a register tile is what a thread holds,
// iterations of the parallel loop are blocks, cores are multiprocessors, the second-level cache is shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/analysis/nest_columns.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::cost {

// X(Kind, name, summary)
// clang-format off
#define TCC_DRAFT_KINDS(X) \
  X(Paper, "paper", "symbols and penalties as Pruner's paper prints them") \
  X(Released, "released", "what Pruner's public code computes") \
  X(Tcc, "tcc", "penalties of the target's own levels of storage")
// X(Penalty, name): parts of the model `tcc` that can be left out.
#define TCC_DRAFT_PENALTIES(X) \
  X(Latency, "latency")      /* too few independent sums for the units */ \
  X(Registers, "registers")  /* register tiles that spill, operands that are loaded again for each product */ \
  X(Lanes, "lanes")          /* vectors that are not full, strided, gathered or masked */ \
  X(Loops, "loops")          /* counters, branches, sums that leave the registers */ \
  X(Cache, "cache")          /* traffic into the first-level and the second-level cache */ \
  X(Memory, "memory")        /* traffic into the last-level cache and from memory */ \
  X(Lines, "lines")          /* lines of which only a part is used */ \
  X(Cores, "cores")          /* idle cores, launches */
// clang-format on

enum class DraftKind : uint8_t {
#define TCC_X(kind, name, summary) k##kind,
  TCC_DRAFT_KINDS(TCC_X)
#undef TCC_X
};
enum class DraftPenalty : uint8_t {
#define TCC_X(penalty, name) k##penalty,
  TCC_DRAFT_PENALTIES(TCC_X)
#undef TCC_X
};
// Penalties of arithmetic and of memory, as bits: Pruner's P_c and P_m.
inline constexpr uint32_t draft_bit(DraftPenalty p) {
  return 1U << static_cast<uint32_t>(p);
}
inline constexpr uint32_t kComputePenalties = draft_bit(DraftPenalty::kLatency) | draft_bit(DraftPenalty::kLanes) |
                                              draft_bit(DraftPenalty::kLoops) | draft_bit(DraftPenalty::kCores);
inline constexpr uint32_t kMemoryPenalties = draft_bit(DraftPenalty::kRegisters) | draft_bit(DraftPenalty::kCache) |
                                             draft_bit(DraftPenalty::kMemory) | draft_bit(DraftPenalty::kLines);
std::string_view draft_name(DraftKind kind);
std::span<const std::string_view> draft_names();
std::string_view penalty_name(DraftPenalty penalty);
// Error (usage): no such draft model; names the nearest one.
Result<DraftKind> find_draft(std::string_view name);
// Names of penalties, and "pc" and "pm", which are all of P_c and of P_m.
std::vector<std::string> penalty_words();
// Bits of the penalties that a list names, separated by commas; "": none. Error (usage): not a penalty; names the
// nearest one.
Result<uint32_t> find_penalties(std::string_view list);

struct DraftOptions {
  DraftKind kind = DraftKind::kTcc;
  uint32_t without = 0;  // bit of each DraftPenalty that is left out
};

// Parts of the model `tcc` for one statement, for those who want to see more than the sum. In vector instructions, but
// for strided, loops (cycles), wait (a factor) and the bytes.
struct DraftTerms {
  using Column = analysis::Column;
  Column operations, wait;  // arithmetic; how much longer it takes with as few independent sums
  Column loads, spills;     // of operands; of sums that have no register
  Column sums, copies;      // loads and stores of sums around their loops; stores of the rest
  Column strided, loops;    // extra cycles of strided and gathered accesses; of counters and branches
  Column l1, l2, memory;    // bytes that move into the caches, and from memory
  Column tile, trip, code;  // registers with sums; iterations over which they stay; statements written out
  Column vectors;           // executions, a vector at a time
};

// Expected seconds. Less is better; the model only ranks programs of one task, of one sketch or of several.
// `terms`: receives the parts of the model `tcc` of a CPU, one entry a statement, where it is not nullptr.
analysis::Column draft_seconds(analysis::ColumnBuilder& b, const analysis::NestColumns& nest,
                               const target::Target& target, int64_t threads, const DraftOptions& options = {},
                               std::vector<DraftTerms>* terms = nullptr);

// The seconds of one program, by its kernel at Stage::Nest; nothing: it has a part that columns do not know.
std::optional<double> draft_kernel_seconds(const ir::Kernel& nest, const target::Target& target, int64_t threads,
                                           const DraftOptions& options = {});

}  // namespace tcc::cost
