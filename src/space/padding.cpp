#include "space/padding.h"

#include "space/access.h"
#include "tcc/ir/walk.h"

namespace tcc::space {

namespace {

constexpr int64_t kMaxCopy = 64;

// The loop, or the inner part of it where it is too long to be written out: a divisor, because masked stores are
// slow.
LoopRv short_vector(Schedule& s, LoopRv loop) {
  const Loop* l = find_loop(s.kernel().root, s.id(loop));
  if (l == nullptr || !is_int(l->extent) || int_value(l->extent) <= kMaxCopy) return loop;
  int64_t size = best_divisor(int_value(l->extent), kMaxCopy);
  return s.split(loop, {{}, lit(size >= kMaxCopy / 4 ? size : kMaxCopy)}).back();
}

}  // namespace

bool has_padding(const Schedule& s) {
  return schedule::find_block_by_name(s.kernel(), kPadBlock) != kNoId;
}

int64_t gathered_row(const Kernel& k) {
  const Id id = schedule::find_block_by_name(k, kPadBlock);
  const Block* pad = id == kNoId ? nullptr : find_block(k.root, id);
  int64_t row = 0;
  if (pad == nullptr || pad->iters.empty()) return row;
  visit_roots(pad->body, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (e->kind == ExprKind::kFloorMod && mentions(e, pad->iters.back().id) && is_int(as<Binary>(e)->b))
        row = int_value(as<Binary>(e)->b);
      return row == 0;
    });
  });
  return row;
}

bool stage_padding(Schedule& s, LoopRv loop) {
  schedule::BlockRv pad = s.get_block(kPadBlock);
  s.compute_at(pad, loop);
  std::vector<LoopRv> loops = s.get_loops(pad);
  if (!s.ok() || loops.empty()) return false;
  s.vectorize(short_vector(s, loops.back()));
  return s.ok();
}

void copy_padding(Schedule& s, size_t row_dims, int64_t phases) {
  if (!has_padding(s)) return;
  Schedule trial = s;
  std::vector<LoopRv> loops = trial.get_loops(trial.get_block(kPadBlock));
  if (!trial.ok() || loops.size() <= row_dims) return;
  if (int64_t row = gathered_row(s.kernel()); row > 0) {
    std::vector<LoopRv> rows = trial.split(loops.back(), {{}, lit(row)});
    if (!trial.ok()) return;
    loops.back() = rows[0];
    loops.push_back(rows[1]);
    ++row_dims;
  }
  if (phases > 1) {
    std::vector<LoopRv> parts = trial.split(loops.back(), {{}, lit(phases)});
    if (!trial.ok()) return;
    trial.reorder(std::vector<LoopRv>{parts[1], parts[0]});
    loops.back() = parts[1];
    loops.push_back(parts[0]);
    ++row_dims;
  }
  LoopRv lanes = short_vector(trial, loops.back());
  if (!trial.ok()) return;
  trial.vectorize(lanes);
  loops.resize(loops.size() - row_dims);
  fuse_parallel(trial, loops);
  if (trial.ok()) s = std::move(trial);
}

}  // namespace tcc::space
