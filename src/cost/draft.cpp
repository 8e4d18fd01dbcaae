#include "tcc/cost/draft.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cost/draft_parts.h"
#include "tcc/cost/draft_family.h"
#include "tcc/ir/query.h"
#include "tcc/support/text.h"

namespace tcc::cost {

namespace {

constexpr std::string_view kNames[] = {
#define TCC_X(kind, name, summary) name,
    TCC_DRAFT_KINDS(TCC_X)
#undef TCC_X
};
constexpr std::string_view kPenalties[] = {
#define TCC_X(penalty, name) name,
    TCC_DRAFT_PENALTIES(TCC_X)
#undef TCC_X
};

}  // namespace

std::string_view draft_name(DraftKind kind) {
  return kNames[static_cast<size_t>(kind)];
}
std::span<const std::string_view> draft_names() {
  return kNames;
}
std::string_view penalty_name(DraftPenalty penalty) {
  return kPenalties[static_cast<size_t>(penalty)];
}
Result<DraftKind> find_draft(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<DraftKind>(i);
  const std::vector<std::string> known(std::begin(kNames), std::end(kNames));
  return make_error(ErrorClass::kUsage, fmt::format("unknown draft model '{}'", sanitize(std::string(name))),
                    suggest(std::string(name), known));
}

std::vector<std::string> penalty_words() {
  std::vector<std::string> words(std::begin(kPenalties), std::end(kPenalties));
  words.insert(words.end(), {"pc", "pm"});
  return words;
}

Result<uint32_t> find_penalties(std::string_view list) {
  uint32_t bits = 0;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const auto at = std::find(std::begin(kPenalties), std::end(kPenalties), word);
    if (at != std::end(kPenalties))
      bits |= 1U << static_cast<uint32_t>(at - std::begin(kPenalties));
    else if (word == "pc")
      bits |= kComputePenalties;
    else if (word == "pm")
      bits |= kMemoryPenalties;
    else
      return make_error(ErrorClass::kUsage,
                        fmt::format("expected penalties of the draft model, found '{}'", sanitize(word)),
                        fmt::format("there are: {}", fmt::join(penalty_words(), ", ")));
  }
  return bits;
}

Column share_among_cores(ColumnBuilder& b, Column cycles, Column parallel, double cores, const DraftOptions& o) {
  if (parallel == kNoColumn || cores == 1) return cycles;
  if (leaves_out(o, DraftPenalty::kCores)) return b.mul(cycles, b.constant(1 / cores));
  // Cores get whole iterations, as evenly as possible.
  const Column rounds = b.ceil_div(parallel, b.constant(cores));
  return b.mul(cycles, b.div(rounds, parallel));
}

Column draft_seconds(ColumnBuilder& b, const analysis::NestColumns& nest, const target::Target& target, int64_t threads,
                     const DraftOptions& o, std::vector<DraftTerms>* terms) {
  switch (o.kind) {
    case DraftKind::kPaper:
      return draft_paper(b, nest, target, threads, o);
    case DraftKind::kReleased:
      return draft_released(b, nest, target, threads, o);
    case DraftKind::kTcc:
      if (target.cuda.sm_count > 0) return draft_gpu(b, nest, target, o);
      return draft_cpu(b, nest, target, threads, o, terms);
  }
  return kNoColumn;
}

Column draft_family(ColumnBuilder& b, const NestColumns& nest) {
  // Sums over the statements, so that loops of one iteration do not count.
  Column outer = b.constant(0), inner = outer, bytes = outer;
  for (const StatementColumns& s : nest.statements) {
    Column grid = b.constant(1), tile = grid;
    for (int32_t at : s.loops) {
      const LoopColumns& l = nest.loops[static_cast<size_t>(at)];
      const ir::LoopKind kind = l.loop->loop_kind;
      if (kind == ir::LoopKind::kParallel || ir::is_grid(l.loop->axis))
        grid = b.mul(grid, l.extent);
      else if (kind != ir::LoopKind::kSerial)
        tile = b.mul(tile, l.extent);
    }
    outer = b.add(outer, grid), inner = b.add(inner, tile);
  }
  for (const analysis::BufferColumns& s : nest.buffers)
    if (s.buffer->role == ir::BufferRole::kTemp)
      bytes = b.add(bytes, b.mul(s.elements, b.constant(static_cast<double>(ir::type_bytes(s.buffer->type)))));
  return b.mix(b.mix(b.mix(b.constant(1), outer), inner), bytes);
}

}  // namespace tcc::cost
