// PaCM's dataflow rows (Pruner, section 4.3): one row of 23 numbers for each access on the way of the data through the
// memories of the machine.
//
//   C.local = 0                     the accumulator is set
//   A.shared = A, B.shared = B      each operand comes from global memory, two rows a copy
//   C.local += A.shared * B.shared  the operands are read, the accumulator is updated
//
// kDataflowPruner follows the released code: exactly this pattern of a GPU program, or no rows. The code finds it by a
// substring search whose order depends on a map; here the order is fixed: the accumulator's init, the copies of each
// operand in the order in which the update reads them, the reads, the update. An operand may pass a register fragment
// on its way (section on tensor cores), and any number of operands is allowed. At most 10 rows.
//
// kDataflow starts at the statement with most arithmetic of any program, on CPUs too. It follows each operand back to a
// parameter or to the computation that made it, through copies of every kind, and the result forward to the output. The
// write-back is not part of Pruner's rows. At most 24 rows.
#include <algorithm>

#include "features/workspace.h"

namespace tcc::features {

using namespace ir;

namespace {

constexpr int64_t kMaxRows = 24;
constexpr int64_t kMaxPrunerRows = 8;  // as Pruner: 8 rows, the rest zeros
constexpr int kMaxSteps = 6;           // of one operand's way

constexpr std::string_view kColumns[] = {"real_operations",
                                         "global",
                                         "shared",
                                         "local",
                                         "read",
                                         "write",
                                         "update",
                                         "bytes",
                                         "unique_bytes",
                                         "lines",
                                         "unique_lines",
                                         "reuse_loop",
                                         "reuse_serial",
                                         "reuse_none",
                                         "reuse_iterations",
                                         "reuse_bytes",
                                         "reuse_count",
                                         "bytes_per_reuse",
                                         "unique_bytes_per_reuse",
                                         "lines_per_reuse",
                                         "unique_lines_per_reuse",
                                         "stride",
                                         "alloc_bytes"};

// Global memory 0, shared memory 1, registers and what belongs to one thread 2.
size_t location(const Buffer& b) {
  switch (b.scope) {
    case Scope::kGlobal:
    case Scope::kWorkspace:
    case Scope::kConst:
      return 0;
    case Scope::kShared:
    case Scope::kClusterShared:
      return 1;
    case Scope::kLocal:
    case Scope::kAmxTile:
      return 2;
  }
  return 0;
}

class Flow {
 public:
  Flow(const NestReader& nest, int64_t max_rows, std::vector<float>& out)
      : nest_(nest), end_(out.size() + static_cast<size_t>(max_rows) * std::size(kColumns)), out_(out) {}

  void pruner() {
    const size_t start = out_.size();
    for (const NestStatement& s : nest_.statements()) {
      if (!is_update(s) || location(nest_.buffer(s.stored)) != 2) continue;
      if (follow(s, true)) return;
      out_.resize(start);
    }
  }

  void whole() {
    const NestStatement* hot = nullptr;
    double most = -1;
    for (const NestStatement& s : nest_.statements())
      if (const double work = s.executions * (s.ops.reals() + 1e-3); work > most) most = work, hot = &s;
    if (hot == nullptr) return;
    follow(*hot, false);
    write_back(*hot);
  }

 private:
  bool is_update(const NestStatement& s) const {
    const NestAccess& store = nest_.accesses(s).front();
    return store.read && store.write && s.ops.reals() > 0;
  }

  // The last statement before `s` that writes the buffer, `constant` or not; nullptr: none does.
  const NestStatement* writer(const NestStatement& s, int32_t buffer, bool constant) const {
    const NestStatement* found = nullptr;
    for (const NestStatement& other : nest_.statements()) {
      if (&other == &s) break;
      if (other.stored == buffer && other.constant == constant) found = &other;
    }
    return found;
  }

  // Of the copy, the access that it reads; nullptr: the statement computes, or reads several buffers.
  const NestAccess* source(const NestStatement& copy) const {
    const std::span<const NestAccess> accesses = nest_.accesses(copy);
    return accesses.size() == 2 && !accesses[0].read && accesses[1].read ? &accesses[1] : nullptr;
  }

  // Rows of the accumulator's init, the ways of the operands, the reads and the update. `strict`: every operand must
  // come from global memory through shared memory.
  bool follow(const NestStatement& update, bool strict) {
    const std::span<const NestAccess> accesses = nest_.accesses(update);
    const NestStatement* init = writer(update, update.stored, true);
    if (init != nullptr) put(*init, nest_.accesses(*init).front());
    if (strict && init == nullptr) return false;
    bool any = false;
    for (size_t i = 1; i < accesses.size(); ++i) {
      if (!accesses[i].read) continue;
      any = true;
      if (!come(update, accesses[i].buffer, strict)) return false;
    }
    if (strict && !any) return false;
    for (size_t i = 1; i < accesses.size(); ++i) put(update, accesses[i]);
    put(update, accesses[0]);
    return true;
  }

  // The way of an operand, from its first memory on.
  bool come(const NestStatement& update, int32_t buffer, bool strict) {
    const NestStatement* steps[kMaxSteps];
    int n = 0;
    bool shared = location(nest_.buffer(buffer)) == 1;
    const NestStatement* at = &update;
    int32_t here = buffer;
    while (n < kMaxSteps) {
      const NestStatement* made = writer(*at, here, false);
      if (made == nullptr) break;
      const NestAccess* from = source(*made);
      if (from == nullptr) break;
      steps[n++] = made;
      at = made, here = from->buffer;
      shared |= location(nest_.buffer(here)) == 1;
    }
    if (strict && (n == 0 || !shared || location(nest_.buffer(here)) != 0)) return false;
    for (int i = n; i-- > 0;) put(*steps[i], *source(*steps[i])), put(*steps[i], nest_.accesses(*steps[i]).front());
    return true;
  }

  // The statements that read the result, one after the other.
  void write_back(const NestStatement& hot) {
    int32_t buffer = hot.stored;
    bool after = false;
    for (const NestStatement& s : nest_.statements()) {
      if (after)
        for (const NestAccess& a : nest_.accesses(s)) {
          if (a.buffer != buffer || !a.read || s.stored == buffer) continue;
          put(s, a), put(s, nest_.accesses(s).front());
          buffer = s.stored;
          break;
        }
      after |= &s == &hot;
    }
  }

  void put(const NestStatement& s, const NestAccess& a) {
    if (out_.size() >= end_) return;
    auto raw = [&](bool v) { out_.push_back(v ? 1.f : 0.f); };
    auto log = [&](double v) { out_.push_back(slog(v)); };
    const Buffer& b = nest_.buffer(a.buffer);
    log(s.ops.reals() * s.executions);
    for (size_t l = 0; l < 3; ++l) raw(l == location(b));
    raw(a.read && !a.write), raw(a.write && !a.read), raw(a.read && a.write);
    log(a.bytes), log(a.unique_bytes), log(a.lines), log(a.unique_lines);
    for (ReuseType t : {ReuseType::kLoop, ReuseType::kSerial, ReuseType::kNone}) raw(a.reuse == t);
    log(a.reuse_iterations), log(a.reuse_bytes), log(a.reuse_chain);
    const double reuse = a.reuse_chain > 0 ? a.reuse_chain : 0.5;
    for (double v : {a.bytes, a.unique_bytes, a.lines, a.unique_lines}) log(v / reuse);
    log(a.stride), log(nest_.elements(a.buffer) * static_cast<double>(type_bytes(b.type)));
  }

  const NestReader& nest_;
  const size_t end_;
  std::vector<float>& out_;
};

void extract_whole(const Program& program, Workspace& workspace, std::vector<float>& out) {
  Flow(workspace.impl().nest(program), kMaxRows, out).whole();
}
void extract_pruner(const Program& program, Workspace& workspace, std::vector<float>& out) {
  const size_t whole = out.size() + static_cast<size_t>(kMaxPrunerRows) * std::size(kColumns);
  Flow(workspace.impl().nest(program), kMaxPrunerRows, out).pruner();
  out.resize(whole, 0.f);
}

}  // namespace

constinit const Table kDataflow = {
    "dataflow", "23 features of each access on the way of the data", 1, kColumns, kMaxRows, false, extract_whole};
constinit const Table kDataflowPruner = {
    "dataflow-pruner", "the same for Pruner's pattern of GPU programs", 2, kColumns, kMaxPrunerRows, true,
    extract_pruner};

}  // namespace tcc::features
