#include "space/padding.h"

#include "space/access.h"
#include "tcc/ir/walk.h"

namespace tcc::space {

using namespace ir;
using schedule::ExprRv;
using schedule::lit;
using schedule::LoopRv;
using schedule::Schedule;

namespace {

constexpr int64_t kMaxCopy = 64;

// The loop, or the inner part of it where it is too long to be written out: a divisor, because masked stores are
// slow.
LoopRv short_vector(Schedule& s, LoopRv loop) {
  const Loop* l = find_loop(s.kernel().root, s.id(loop));
  if (l == nullptr || !is_int(l->extent) || int_value(l->extent) <= kMaxCopy) return loop;
  int64_t size = best_divisor(int_value(l->extent), kMaxCopy);
  return s.split(loop, std::vector<ExprRv>{{}, lit(size >= kMaxCopy / 4 ? size : kMaxCopy)}).back();
}

}  // namespace

bool has_padding(const Schedule& s) {
  return schedule::find_block_by_name(s.kernel(), kPadBlock) != kNoId;
}

bool stage_padding(Schedule& s, LoopRv loop) {
  schedule::BlockRv pad = s.get_block(kPadBlock);
  s.compute_at(pad, loop);
  std::vector<LoopRv> loops = s.get_loops(pad);
  if (!s.ok() || loops.empty()) return false;
  s.vectorize(short_vector(s, loops.back()));
  return s.ok();
}

void copy_padding(Schedule& s, size_t row_dims) {
  if (!has_padding(s)) return;
  Schedule trial = s;
  std::vector<LoopRv> loops = trial.get_loops(trial.get_block(kPadBlock));
  if (!trial.ok() || loops.size() <= row_dims) return;
  LoopRv lanes = short_vector(trial, loops.back());
  if (!trial.ok()) return;
  trial.vectorize(lanes);
  loops.resize(loops.size() - row_dims);
  fuse_parallel(trial, loops);
  if (trial.ok()) s = std::move(trial);
}

}  // namespace tcc::space
