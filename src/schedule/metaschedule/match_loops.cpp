#include "schedule/metaschedule/match_loops.h"

#include <limits>

#include "tcc/ir/query.h"

namespace tcc::schedule {

using namespace ir;

namespace {
// Without the number that tells it from others of the name.
std::string base_name(const Kernel& kernel, Id id) {
  const std::string name = name_hint(kernel, id);
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < name.size() && name[end] == '_' ? name.substr(0, end) : name;
}
}  // namespace

std::vector<LoopFacts> loop_facts(const Kernel& kernel, Id block_id, std::span<const Id> loops) {
  const Block* block = find_block(kernel.root, block_id);
  std::vector<LoopFacts> out;
  for (Id id : loops) {
    const Loop* loop = find_loop(kernel.root, id);
    LoopFacts facts;
    facts.id = id;
    if (is_int(loop->extent)) facts.extent = int_value(loop->extent);
    size_t fed = 0;
    for (const Iter& it : block->iters) {
      bool feeds = false;
      visit(it.binding, [&](Expr e) {
        const Var* v = as<Var>(e);
        feeds |= v != nullptr && v->id == id;
        return !feeds;
      });
      if (!feeds) continue;
      (it.kind == IterKind::kSpatial ? facts.spatial : facts.ordered) = true;
      facts.only = ++fed == 1 ? it.id : kNoId;
    }
    out.push_back(std::move(facts));
  }
  return out;
}

namespace {

// Calls f(buffer, indices) for what the blocks read and write.
template <class F>
void each_access(const Kernel& kernel, const F& f) {
  visit(kernel.root, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) f(store->buffer, store->indices);
    return true;
  });
  visit_loads(kernel.root, [&](const Load& load) { f(load.buffer, load.indices); });
}

}  // namespace

void join_alike(const Kernel& kernel, JoinedIters& joined) {
  if (joined.empty()) return;
  std::set<std::pair<std::string, std::string>> names;
  for (const auto& [x, y] : joined) names.emplace(base_name(kernel, x), base_name(kernel, y));
  for (const Block* block : collect_blocks(kernel.root))
    for (size_t i = 1; i < block->iters.size(); ++i) {
      const Id x = block->iters[i - 1].id, y = block->iters[i].id;
      if (names.contains({base_name(kernel, x), base_name(kernel, y)})) joined.emplace(x, y);
    }
  // Dimensions d and d + 1 of buffers that joined iterators go along.
  std::set<std::pair<Id, size_t>> dimensions;
  auto each_pair = [&](const auto& f) {
    each_access(kernel, [&](Id buffer, std::span<const Expr> indices) {
      for (size_t d = 1; d < indices.size(); ++d) {
        const Var *x = as<Var>(indices[d - 1]), *y = as<Var>(indices[d]);
        if (x != nullptr && y != nullptr) f(std::pair(buffer, d - 1), std::pair(x->id, y->id));
      }
    });
  };
  each_pair([&](const auto& place, const auto& iters) {
    if (joined.contains(iters)) dimensions.insert(place);
  });
  each_pair([&](const auto& place, const auto& iters) {
    if (dimensions.contains(place)) joined.insert(iters);
  });
}

namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

// Is the run of loops one of the file's, of this extent?
bool is_one(std::span<const LoopFacts> run, int64_t extent, const JoinedIters& joined) {
  if (run.empty()) return extent == 1;
  if (run.size() == 1) return extent == 0 || run[0].extent == 0 || run[0].extent == extent;
  if (extent == 0) {
    for (size_t i = 1; i < run.size(); ++i)
      if (!joined.contains({run[i - 1].only, run[i].only})) return false;
    return true;
  }
  int64_t product = 1;
  bool spatial = false, ordered = false;
  for (const LoopFacts& l : run) {
    if (l.extent < 1 || l.extent > extent / product) return false;
    product *= l.extent;
    spatial |= l.spatial, ordered |= l.ordered;
  }
  return product == extent && !(spatial && ordered);
}

}  // namespace

std::optional<std::vector<std::vector<size_t>>> match_loops(std::span<const LoopFacts> own,
                                                            std::span<const int64_t> file, const JoinedIters& joined) {
  const size_t n = own.size(), m = file.size();
  // cost[i][j]: differences between the first i of the kernel's loops and the first j of the file's.
  std::vector<std::vector<size_t>> cost(n + 1, std::vector<size_t>(m + 1, kNever)), run = cost;
  cost[0][0] = 0;
  for (size_t j = 1; j <= m; ++j)
    for (size_t i = 0; i <= n; ++i)
      for (size_t length = 0; length <= i; ++length) {
        const size_t before = cost[i - length][j - 1], differences = length == 0 ? 1 : length - 1;
        if (before == kNever || before + differences >= cost[i][j]) continue;
        if (!is_one(own.subspan(i - length, length), file[j - 1], joined)) continue;
        cost[i][j] = before + differences;
        run[i][j] = length;
      }
  if (cost[n][m] == kNever) return std::nullopt;
  std::vector<std::vector<size_t>> out(m);
  for (size_t i = n, j = m; j > 0; --j) {
    const size_t length = run[i][j];
    for (size_t at = i - length; at < i; ++at) out[j - 1].push_back(at);
    i -= length;
  }
  return out;
}

}  // namespace tcc::schedule
