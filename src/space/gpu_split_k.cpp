// Split-K: a product with few results and long sums leaves multiprocessors idle. Its sums are cut into parts that
// blocks of their own add up, and a second launch adds the parts and does what follows (CUTLASS, "Parallelized
// reductions"):
//
//   partial[s, i, j] = sum of k in part s of a[i, k] * b[k, j]            a product with a batch of s, for other
//   modules grid (i, j...) { threads { sum = 0; s { sum += partial[s, i, j] }; C[i, j] = f(sum) } }
//
// A convolution's sum is over channels and places of its window. Channels are what is cut: a part has all places.
//
// The schedule as it was comes first.
#include <algorithm>
#include <array>
#include <numeric>

#include "space/gpu_product.h"

namespace tcc::space {
namespace {

constexpr int64_t kTile = 64;  // rows and columns of a block that is worth its loads; terms of a part, as many at least

// The last of the blocks that work on the block's result one after the other; a copy of it, where no block reads it.
std::optional<BlockRv> epilogue(Schedule& s, BlockRv block) {
  while (s.ok()) {
    const std::vector<Id> readers = schedule::consumers_of(s.kernel(), s.id(block));
    if (readers.empty()) return s.cache_write(block, Scope::kLocal);
    const std::string name = name_hint(s.kernel(), readers[0]);
    if (readers.size() != 1 || schedule::find_block_by_name(s.kernel(), name) != readers[0]) return std::nullopt;
    BlockRv reader = s.get_block(name);
    if (schedule::consumers_of(s.kernel(), readers[0]).empty()) return reader;
    s.compute_inline(reader);
  }
  return std::nullopt;
}

// `sum`: the iterator that is cut.
bool split(Schedule& s, const ProductForm& form, size_t sum, const std::vector<int64_t>& parts,
           const target::Target& target, const GpuSpaceOptions& options) {
  BlockRv block = s.get_block(form.nest.name);
  std::optional<BlockRv> last = epilogue(s, block);
  if (!s.ok() || !last) return false;
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != form.nest.extents.size()) return false;
  std::vector<LoopRv> k = s.split(loops[sum], std::array{sample_uniform(s, parts), ExprRv{}});
  if (!s.ok()) return false;
  s.rfactor(block, k[0]);
  // Parts one behind the other, not element by element.
  const size_t rank = form.nest.store->indices.size() + 1;
  std::vector<int32_t> order(rank);
  std::iota(order.begin() + 1, order.end(), 0);
  order[0] = static_cast<int32_t>(rank) - 1;
  s.transform_layout(block, 0, order, {});
  std::vector<int64_t> threads;
  for (int64_t n : options.bind_threads)
    if (n <= std::min<int64_t>(256, target.cuda.max_threads_per_block)) threads.push_back(n);
  std::vector<LoopRv> results = s.get_loops(*last);
  if (!s.ok() || results.empty() || threads.empty()) return false;
  std::vector<LoopRv> bound = s.split(fuse_all(s, results), std::array{ExprRv{}, sample_uniform(s, threads)});
  if (!s.ok()) return false;
  s.bind(bound[0], Axis::kGridX);
  s.bind(bound[1], Axis::kThreadX);
  s.compute_at(block, bound[1]);
  s.set_scope(block, Scope::kLocal);
  return s.ok();
}

}  // namespace

Ways gpu_split_k(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  Schedule s = state;
  const std::optional<ProductForm> form = match_gpu_product(s);
  if (!form) return {state};
  int64_t results = 1;
  for (const std::vector<size_t>* group : {&form->batch, &form->rows, &form->columns})
    for (size_t i : *group) results *= form->nest.extents[i];
  const std::vector<int64_t>& extents = form->nest.extents;
  const size_t sum = *std::max_element(form->sums.begin(), form->sums.end(),
                                       [&](size_t a, size_t b) { return extents[a] < extents[b]; });
  int64_t terms = 1;
  for (size_t i : form->sums) terms *= extents[i];
  std::vector<int64_t> parts;
  for (int64_t n : options.gpu.split_k)
    if (extents[sum] % n == 0 && terms / n >= kTile) parts.push_back(n);
  // Warpgroups make larger tiles, of whole steps.
  int64_t tile = kTile;
  const bool allow_tf32 = options.gpu.allow_tf32 || s.kernel().tf32;
  if (has_warpgroups(target) && unmet_conditions_of_warpgroups(s.kernel(), form, allow_tf32).empty()) {
    const int64_t step = warpgroup_terms(form->type);
    const auto whole = [&](int64_t n) { return terms / n % step == 0 && terms / n > step; };
    if (std::any_of(parts.begin(), parts.end(), whole)) std::erase_if(parts, [&](int64_t n) { return !whole(n); });
    tile = 2 * kTile;
  }
  if (results / (tile * tile) >= target.cuda.sm_count || parts.empty()) return {state};
  Ways ways(state);
  ways.attempt(std::move(s), [&](Schedule& t) { return split(t, *form, sum, parts, target, options.gpu); });
  return ways;
}

}  // namespace tcc::space
