#include "tcc/analysis/overwrites.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tcc/analysis/lanes.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {
namespace {

using namespace ir;

// How often a buffer's elements are stored. Loops are run only where conditions on the stores depend on them.
class StoreCounter {
 public:
  explicit StoreCounter(Id buffer) : buffer_(buffer) {}

  // nullopt: it depends on data, or takes too long to say.
  std::optional<int64_t> count(Stmt s) {
    if (!stores(s)) return 0;
    if (--steps_ < 0) return std::nullopt;
    if (const Store* store = as<Store>(s)) return holds(store->predicate);
    if (const If* branch = as<If>(s)) return count_branch(*branch);
    if (const Loop* loop = as<Loop>(s)) return count_loop(*loop);
    if (as<Seq>(s) == nullptr && as<Alloc>(s) == nullptr) return std::nullopt;
    int64_t sum = 0;
    bool known = true;
    visit_children(s, [&](Stmt child) {
      const std::optional<int64_t> n = known ? count(child) : std::nullopt;
      known = n.has_value();
      sum += n.value_or(0);
    });
    return known ? std::optional(sum) : std::nullopt;
  }

 private:
  static constexpr int64_t kMostSteps = 200'000;

  bool stores(Stmt s) {
    const auto [at, fresh] = stores_.try_emplace(s, false);
    if (fresh) at->second = touched_buffers(s).writes.contains(buffer_);
    return at->second;
  }
  std::optional<int64_t> holds(Expr condition) const {
    return condition == nullptr ? std::optional<int64_t>(1) : evaluate(condition, values_);
  }
  std::optional<int64_t> count_branch(const If& branch) {
    const std::optional<int64_t> taken = holds(branch.condition);
    if (!taken) return std::nullopt;
    const Stmt chosen = *taken != 0 ? branch.then_case : branch.else_case;
    return chosen == nullptr ? std::optional<int64_t>(0) : count(chosen);
  }
  std::optional<int64_t> count_loop(const Loop& loop) {
    const std::optional<int64_t> extent = evaluate(loop.extent, values_);
    if (!extent || *extent < 0) return std::nullopt;
    if (!decides(loop)) {
      const std::optional<int64_t> once = count(loop.body);
      return once ? std::optional(*once * *extent) : std::nullopt;
    }
    int64_t sum = 0;
    values_.emplace_back(loop.id, 0);
    for (int64_t i = 0; i < *extent; ++i) {
      assign(values_, loop.id, i);
      const std::optional<int64_t> n = count(loop.body);
      if (!n) return std::nullopt;
      sum += *n;
    }
    values_.pop_back();
    return sum;
  }
  // Does a condition on stores, or how often a loop around them runs, depend on the loop's variable?
  bool decides(const Loop& loop) {
    const auto [at, fresh] = decides_.try_emplace(&loop, false);
    if (!fresh) return at->second;
    bool found = false;
    visit(loop.body, [&](Stmt s) {
      if (found || !stores(s)) return false;
      const Store* store = as<Store>(s);
      const If* branch = as<If>(s);
      const Loop* inner = as<Loop>(s);
      found = (store != nullptr && mentions(store->predicate, loop.id)) ||
              (branch != nullptr && mentions(branch->condition, loop.id)) ||
              (inner != nullptr && mentions(inner->extent, loop.id));
      return !found;
    });
    decides_[&loop] = found;
    return found;
  }

  Id buffer_;
  int64_t steps_ = kMostSteps;
  Assignment values_;
  std::map<Stmt, bool> stores_, decides_;
};

std::optional<int64_t> elements_of(const Buffer& buffer) {
  int64_t elements = 1;
  for (Expr extent : buffer.shape) {
    if (!is_int(extent)) return std::nullopt;
    elements *= int_value(extent);
  }
  return elements;
}

// The places in the output for which an input is read, and whether it is read for anything else.
class Readers {
 public:
  Readers(const Kernel& kernel, const Buffer& output) : kernel_(kernel), b_(arena_), ranges_(kernel), output_(output) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  // Is each element read for the store of the element in its place only?
  bool only_in_place(const Buffer& input) {
    bool only = true;
    visit(kernel_.root, [&](Stmt s) {
      if (!only) return false;
      const Store* store = as<Store>(s);
      if (store != nullptr && store->buffer == output_.id) {
        const Expr place = address(output_, store->indices);
        visit_loads(store->value, [&](const Load& load) {
          only = only && (load.buffer != input.id || equal(address(input, load.indices), place));
        });
        for (Expr index : store->indices) only = only && !loads_from(index, input.id);
        only = only && (store->predicate == nullptr || !loads_from(store->predicate, input.id));
        return false;
      }
      if (const InstrCall* call = as<InstrCall>(s))
        for (const Operand& o : call->operands) only = only && o.buffer != input.id;
      visit_own_loads(s, [&](const Load& load) { only = only && load.buffer != input.id; });
      return only;
    });
    return only;
  }

 private:
  // Those of the statement itself, not of the statements in it.
  static void visit_own_loads(Stmt s, FunctionRef<void(const Load&)> f) {
    if (as<Seq>(s) != nullptr || as<Alloc>(s) != nullptr || as<Roles>(s) != nullptr) return;
    if (const Loop* loop = as<Loop>(s)) return visit_loads(loop->extent, f);
    if (const If* branch = as<If>(s)) return visit_loads(branch->condition, f);
    visit_loads(s, f);
  }
  Expr address(const Buffer& buffer, std::span<const Expr> indices) {
    return flatten(b_, buffer, row_major_strides(buffer), indices, ranges_);
  }

  const Kernel& kernel_;
  Arena arena_;
  Builder b_;
  Ranges ranges_;
  const Buffer& output_;
};

}  // namespace

std::vector<int> overwritable_inputs(const Kernel& lowered) {
  const Buffer* output = nullptr;
  std::vector<const Buffer*> params;
  for (const Buffer* buffer : lowered.buffers) {
    if (buffer->role == BufferRole::kTemp) continue;
    params.push_back(buffer);
    if (buffer->role != BufferRole::kOutput) continue;
    if (output != nullptr) return {};
    output = buffer;
  }
  if (output == nullptr || output->layout != nullptr) return {};
  if (touched_buffers(lowered.root).reads.contains(output->id)) return {};  // by instructions, too
  const std::optional<int64_t> elements = elements_of(*output);
  std::vector<int> found;
  std::optional<Readers> readers;
  for (size_t i = 0; i < params.size() && elements; ++i) {
    const Buffer& input = *params[i];
    if (input.role != BufferRole::kInput || input.layout != nullptr || elements_of(input) != elements) continue;
    if (type_bytes(input.type) != type_bytes(output->type)) continue;
    if (!readers) readers.emplace(lowered, *output);
    if (readers->only_in_place(input)) found.push_back(static_cast<int>(i));
  }
  if (found.empty() || StoreCounter(output->id).count(lowered.root) != elements) return {};
  return found;
}

}  // namespace tcc::analysis
