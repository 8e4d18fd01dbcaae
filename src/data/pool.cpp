#include "tcc/data/pool.h"

#include <algorithm>
#include <set>

#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::data {

uint64_t Platform::hash() const {
  uint64_t h = combine_hash(hash_bytes(name), hash_bytes(target.name));
  return combine_hash(combine_hash(h, static_cast<uint64_t>(threads)), hash_bytes(record::kind_name(kind)));
}

uint64_t Group::key() const {
  return combine_hash(combine_hash(hash_bytes(task.key), platform.hash()), hash_bytes(space));
}

double Group::best_seconds() const {
  double best = 0;
  for (const Entry& e : entries)
    if (e.seconds > 0 && (best == 0 || e.seconds < best)) best = e.seconds;
  return best;
}

int64_t Pool::entries() const {
  int64_t n = 0;
  for (const Group& g : groups) n += std::ssize(g.entries);
  return n;
}

Result<void> check_programs(const Pool& pool) {
  if (pool.entries() > 0) return {};
  return make_error(ErrorClass::kInput, "expected pools with programs, found none",
                    "collect programs with `tcc dataset collect MODEL -o FILE`");
}

int64_t Pool::add(const Group& group) {
  const uint64_t key = group.key();
  auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.key() == key; });
  if (found == groups.end()) {
    groups.push_back({group.task, group.platform, group.space, {}, {}});
    found = groups.end() - 1;
  }
  // A program is its skeleton and its decisions.
  std::set<std::pair<int32_t, std::vector<int64_t>>> known;
  for (const Entry& e : found->entries) known.emplace(e.sketch, e.decisions);
  std::vector<int32_t> sketches(group.sketches.size(), -1);
  int64_t added = 0;
  for (const Entry& e : group.entries) {
    int32_t& at = sketches[static_cast<size_t>(e.sketch)];
    if (at < 0) {
      const schedule::Trace& trace = group.sketches[static_cast<size_t>(e.sketch)];
      const auto same = std::find_if(found->sketches.begin(), found->sketches.end(),
                                     [&](const schedule::Trace& t) { return t.instructions == trace.instructions; });
      at = static_cast<int32_t>(same - found->sketches.begin());
      if (same == found->sketches.end()) found->sketches.push_back(trace);
    }
    if (!known.emplace(at, e.decisions).second) continue;
    found->entries.push_back(e);
    found->entries.back().sketch = at;
    ++added;
  }
  return added;
}

Split split_by_task(const Pool& pool, double share, uint64_t seed) {
  // Tasks in the order of a number that the seed and their key give.
  std::set<std::pair<uint64_t, std::string>> order;
  for (const Group& g : pool.groups) order.emplace(combine_hash(seed, hash_bytes(g.task.key)), g.task.key);
  const auto count = static_cast<double>(order.size());
  const auto held = static_cast<size_t>(std::clamp(share * count, std::min(count, 1.0), count));
  std::set<std::string> held_out;
  for (const auto& [number, key] : order)
    if (held_out.size() < held) held_out.insert(key);
  Split out;
  for (const Group& g : pool.groups) (held_out.contains(g.task.key) ? out.held_out : out.train).groups.push_back(g);
  return out;
}

}  // namespace tcc::data
