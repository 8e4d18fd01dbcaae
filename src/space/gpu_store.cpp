// Results of matrix instructions leave through shared memory. Lanes hold them in pieces of a few bytes, eight rows a
// warp; from shared memory all threads of the block write them in rows, 16 bytes at a time:
//
//   grid { warps { ...; Cs = f(acc) }; f @cooperative_fetch { C = Cs } }
//
// For results of two bytes or less, of which a lane's piece is less than an eighth of a sector of memory; beside it the
// schedule as it was, which needs no shared memory for them.
#include "space/gpu.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kNarrow = 2;  // bytes

// The block that reads what the matrix instructions of a kernel sum up and writes a narrow output.
std::string copied_out(const Kernel& k) {
  for (const Block* block : collect_blocks(k.root)) {
    const InstrCall* call = as<InstrCall>(block->body);
    if (call == nullptr || instruction(call->instr).participants != Participants::kWarp) continue;
    for (const Block* reader : collect_blocks(k.root)) {
      const std::vector<Id> reads = schedule::read_buffers(k, reader->id);
      if (reader == block || std::find(reads.begin(), reads.end(), call->operands[0].buffer) == reads.end()) continue;
      const Buffer* out = k.buffer(schedule::written_buffer(k, reader->id));
      if (out == nullptr || out->role != BufferRole::kOutput || type_bytes(out->type) > kNarrow) return "";
      return name_hint(k, reader->id);
    }
  }
  return "";
}

bool widen(Schedule& s, const std::string& name) {
  BlockRv block = s.get_block(name);
  BlockRv out = s.cache_write(block, Scope::kShared);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok()) return false;
  size_t grid = 0;
  while (grid < loops.size() && is_grid(find_loop(s.kernel().root, s.id(loops[grid]))->axis)) ++grid;
  if (grid == 0) return false;
  s.reverse_compute_at(out, loops[grid - 1]);
  const Buffer* result = s.ok() ? s.kernel().buffer(schedule::written_buffer(s.kernel(), s.id(out))) : nullptr;
  if (result == nullptr) return false;
  cooperative_fetch(s, out, grid, {16 / type_bytes(result->type)});
  return s.ok();
}

}  // namespace

Ways gpu_store(const Schedule& state, const target::Target&, const SpaceOptions&) {
  const std::string name = copied_out(state.kernel());
  if (name.empty()) return {state};
  Ways ways;
  ways.attempt(state, [&](Schedule& s) { return widen(s, name); });
  return ways.or_also(state);
}

}  // namespace tcc::space
