// A multistage software pipeline (CUTLASS, "Efficient GEMM in CUDA": pipelining; TVM's software pipeline pass has the
// same prologue and body). With D versions of the buffers and iterations 0 .. N-1:
//
//   for s in D - 1 { copy(s -> version s); commit }
//   for k in N {
//     wait until at most D - 2 groups are on their way      iteration k has arrived, of this thread's copies
//     barrier                                               of all threads'; and all have done with iteration k - 1
//     if k + D - 1 < N { copy(k + D - 1 -> version (k + D - 1) % D) }        which iteration k - 1 used
//     commit                                                an empty group at the end keeps the count
//     work(version k % D)
//   }
#include "lower/gpu/expand_pipeline.h"

#include <algorithm>
#include <optional>

#include "lower/gpu/async_copies.h"
#include "lower/gpu/edit.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxStaged = 64;   // registers of a thread for copies on their way
constexpr int64_t kStagedShare = 4;  // and at most this part of those that it has
constexpr int64_t kRegisterBytes = 4;

class PipelineExpander {
 public:
  PipelineExpander(Edit& edit, const target::Target& target)
      : edit_(edit), b_(edit.b), ranges_(edit.k), target_(target) {
    visit(edit.k.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  Stmt rewrite(Stmt s, int64_t threads) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->loop_kind == LoopKind::kBound && is_thread(l->axis)) threads *= int_value(l->extent);
    Stmt out = rewrite_children(b_, s, [&](Stmt c) { return rewrite(c, threads); });
    l = as<Loop>(out);
    if (l == nullptr || !has_annotation(*l, AnnotationKey::kPipelineDepth) || !verdict_) return out;
    return expand(*l, threads);
  }

  Legal<Kernel> finish(Stmt root) {
    if (!verdict_) return tl::make_unexpected(verdict_.error());
    edit_.k.root = root;
    edit_.add_buffers(staged_);
    edit_.map_buffers([&](Buffer& fields) {
      auto depth = versions_.find(fields.id);
      if (depth == versions_.end()) return false;
      std::vector<Expr> shape = {b_.integer(depth->second)};
      shape.insert(shape.end(), fields.shape.begin(), fields.shape.end());
      if (fields.layout != nullptr) fields.layout = with_versions(*fields.layout, depth->second);
      if (fields.padding.dim >= 0) ++fields.padding.dim;
      fields.shape = b_.arena().copy(shape);
      return true;
    });
    return edit_.k;
  }

 private:
  struct Parts {
    std::vector<Id> locals;  // allocated by the body
    std::vector<Stmt> copies, work;
    std::set<Id> buffers;  // that the copies fill
  };

  Stmt fail(Stmt s, RejectReason reason, const std::string& text) {
    if (verdict_) verdict_ = reject(reason, text);
    return s;
  }
  std::string name(Id id) const { return name_hint(edit_.k, id); }

  const Layout* with_versions(const Layout& old, int64_t depth) {
    Layout layout = old;
    std::vector<int64_t> shape = {depth};
    shape.insert(shape.end(), old.shape.begin(), old.shape.end());
    std::vector<Digit> digits = {{0, 1, 0, Place::kAddress, old.size}};
    for (Digit d : old.digits) {
      ++d.dim;
      digits.push_back(d);
    }
    layout.shape = shape;
    layout.digits = digits;
    layout.size = old.size * depth;
    return copy_layout(b_.arena(), layout);
  }

  // Fills shared buffers from other memory and nothing else.
  bool is_copy(Stmt s) const {
    bool plain = true;
    visit(s, [&](Stmt x) {
      plain &= x->kind == StmtKind::kStore || x->kind == StmtKind::kLoop || x->kind == StmtKind::kIf ||
               x->kind == StmtKind::kSeq;
      return plain;
    });
    const Touched t = touched_buffers(s);
    for (Id id : t.writes) plain &= edit_.k.buffer(id)->scope == Scope::kShared && !t.reads.contains(id);
    for (Id id : t.reads)
      plain &= edit_.k.buffer(id)->scope != Scope::kShared && edit_.k.buffer(id)->scope != Scope::kLocal;
    return plain && !t.writes.empty();
  }

  Parts take_apart(Stmt body) {
    Parts p;
    for (; const Alloc* a = as<Alloc>(body); body = a->body)
      p.locals.insert(p.locals.end(), a->buffers.begin(), a->buffers.end());
    std::vector<Stmt> stmts = {body};
    if (const Seq* s = as<Seq>(body)) stmts.assign(s->stmts.begin(), s->stmts.end());
    // A copy behind work that touches neither its source nor its target may as well run ahead of it.
    std::set<Id> read, written;
    for (Stmt s : stmts) {
      const Touched t = touched_buffers(s);
      if (is_copy(s) && !meet(t.writes, read) && !meet(t.writes, written) && !meet(t.reads, written)) {
        p.buffers.insert(t.writes.begin(), t.writes.end());
        p.copies.push_back(s);
      } else {
        p.work.push_back(s);
        read.insert(t.reads.begin(), t.reads.end());
        written.insert(t.writes.begin(), t.writes.end());
      }
    }
    return p;
  }

  // The buffers are the loop's own, and its work only reads them.
  bool owns(const Loop& l, const Parts& p) {
    for (Stmt s : p.work)
      for (Id id : touched_buffers(s).writes)
        if (p.buffers.contains(id)) return false;
    int64_t inside = 0, everywhere = 0;
    auto count = [&](Stmt root, int64_t& n) {
      visit(root, [&](Stmt s) {
        if (const Store* st = as<Store>(s)) n += p.buffers.contains(st->buffer) ? 1 : 0;
        if (const InstrCall* c = as<InstrCall>(s))
          for (const Operand& o : c->operands) n += p.buffers.contains(o.buffer) ? 1 : 0;
        return true;
      });
      visit_loads(root, [&](const Load& load) { n += p.buffers.contains(load.buffer) ? 1 : 0; });
    };
    count(l.body, inside);
    count(edit_.k.root, everywhere);
    return inside == everywhere;
  }

  // A statement with loops of its own: ids are bound once.
  Stmt renewed(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return renewed(c); });
    const Id fresh = edit_.fresh(l->id);
    ranges_.set(fresh, l->extent);
    Substitution rename;
    rename.set(l->id, b_.var(fresh));
    return b_.loop(fresh, l->extent, renewed(substitute(b_, l->body, rename)), l->loop_kind, l->axis, l->annotations);
  }

  // The statement with `iteration` for the loop's variable, on one version of the buffers.
  Stmt at(Stmt s, const Loop& l, const Parts& p, Expr iteration, Expr version) {
    Substitution subst;
    subst.set(l.id, iteration);
    return reindex(b_, substitute(b_, s, subst), [&](Id id, std::vector<Expr>& indices) {
      if (!p.buffers.contains(id)) return false;
      indices.insert(indices.begin(), version);
      return true;
    });
  }

  // Bytes of registers that hold what one thread copies; nothing where that is not constant. Elements narrower than a
  // register share one only where they are moved as a vector.
  std::optional<int64_t> copied_bytes(Stmt s, bool vector = false) const {
    if (const Store* store = as<Store>(s)) {
      const int64_t bytes = type_bytes(edit_.k.buffer(store->buffer)->type);
      return vector ? bytes : std::max(bytes, kRegisterBytes);
    }
    const Loop* l = as<Loop>(s);
    if (l != nullptr && !is_int(l->extent)) return std::nullopt;
    vector = vector || (l != nullptr && l->loop_kind == LoopKind::kVectorized);
    std::optional<int64_t> bytes = 0;
    visit(s, [&](Stmt c) {
      if (c == s) return true;
      const std::optional<int64_t> inner = copied_bytes(c, vector);
      bytes = bytes && inner ? std::optional(*bytes + *inner) : std::nullopt;
      return false;
    });
    if (bytes && l != nullptr) *bytes *= int_value(l->extent);
    return bytes;
  }

  // A copy in two parts: one reads into registers, the other writes them to memory.
  struct Staged {
    Stmt read = nullptr, write = nullptr;
  };
  Staged staged(Stmt s, std::vector<const Loop*>& around, std::vector<Id>& locals) {
    switch (s->kind) {
      case StmtKind::kSeq: {
        std::vector<Stmt> reads, writes;
        for (Stmt c : as<Seq>(s)->stmts) {
          Staged one = staged(c, around, locals);
          reads.push_back(one.read);
          writes.push_back(one.write);
        }
        return {b_.seq(reads), b_.seq(writes)};
      }
      case StmtKind::kIf: {
        Staged one = staged(as<If>(s)->then_case, around, locals);
        return {b_.if_then(as<If>(s)->condition, one.read), b_.if_then(as<If>(s)->condition, one.write)};
      }
      case StmtKind::kLoop: {
        const Loop& l = *as<Loop>(s);
        around.push_back(&l);
        Staged one = staged(l.body, around, locals);
        around.pop_back();
        // Registers have no addresses.
        const LoopKind kind = l.loop_kind == LoopKind::kSerial ? LoopKind::kUnrolled : l.loop_kind;
        Stmt write = b_.loop(l.id, l.extent, one.write, kind, l.axis, l.annotations);
        return {b_.loop(l.id, l.extent, one.read, kind, l.axis, l.annotations), renewed(write)};
      }
      case StmtKind::kStore:
        break;
      case StmtKind::kAlloc:
      case StmtKind::kInstrCall:
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        TCC_UNREACHABLE("no part of a copy");
    }
    const Store& store = *as<Store>(s);
    const auto [local, place] = local_tile(edit_, *edit_.k.buffer(store.buffer), around);
    staged_.push_back(local);
    locals.push_back(local->id);
    return {b_.store(local->id, place, store.value, store.predicate),
            b_.store(store.buffer, store.indices, b_.load(local->id, local->type, place, nullptr, nullptr),
                     store.predicate)};
  }

  // Bytes of registers that a thread has to spare for copies on their way.
  int64_t most_staged(int64_t threads) const {
    const target::CudaInfo& cuda = target_.cuda;
    int64_t registers = cuda.max_registers_per_thread;
    if (cuda.registers_per_block > 0) registers = std::min(registers, cuda.registers_per_block / threads);
    return kRegisterBytes * std::min(kMaxStaged, registers / kStagedShare);
  }

  Stmt call(Family family, Behaviour behaviour, std::initializer_list<int64_t> values) {
    std::vector<Expr> args;
    for (int64_t v : values) args.push_back(b_.integer(v));
    return b_.instr(instruction_row(family, behaviour), {}, args);
  }

  Stmt expand(const Loop& l, int64_t threads) {
    const Expr wanted = find_annotation(l, AnnotationKey::kPipelineDepth);
    if (!is_int(wanted) || !is_int(l.extent))
      return fail(&l, RejectReason::kNotConstant, "the pipeline of '" + name(l.id) + "'");
    std::vector<Annotation> rest =
        without(l.annotations, {AnnotationKey::kPipelineAsync, AnnotationKey::kPipelineDepth});
    const bool async = target_.cuda.features.cp_async && annotation_or(l, AnnotationKey::kPipelineAsync, 1) != 0;
    const int64_t steps = int_value(l.extent), depth = std::min(int_value(wanted), steps);
    Parts p = take_apart(l.body);
    // A thread by itself runs in order.
    if (threads < 2 || depth < 2 || p.copies.empty() || p.work.empty())
      return b_.loop(l.id, l.extent, l.body, l.loop_kind, l.axis, rest);
    if (!owns(l, p))
      return fail(&l, RejectReason::kUnsupported, "'" + name(l.id) + "' shares the buffers of its pipeline");
    for (Id id : p.buffers) versions_[id] = depth;

    Expr k = b_.var(l.id), ahead = b_.offset(k, depth - 1), turns = b_.integer(depth);
    const Id stage = edit_.fresh(l.id);
    ranges_.set(stage, b_.integer(depth - 1));
    std::vector<Stmt> first, reads, writes, body;
    bool groups = false;
    int64_t staged_bytes = 0;
    for (Stmt copy : p.copies) {
      Stmt before = renewed(at(copy, l, p, b_.var(stage), b_.var(stage)));
      Stmt later = renewed(at(copy, l, p, ahead, b_.floor_mod(ahead, turns)));
      Stmt started = async ? as_async_copies(edit_, ranges_, later, versions_) : nullptr;
      Stmt filled = started != nullptr ? as_async_copies(edit_, ranges_, before, versions_) : nullptr;
      if (filled != nullptr) {
        groups = true;
        first.push_back(filled);
        reads.push_back(started);
        continue;
      }
      first.push_back(before);
      const std::optional<int64_t> bytes = copied_bytes(later);
      if (!bytes || staged_bytes + *bytes > most_staged(threads)) {
        reads.push_back(later);
        continue;
      }
      staged_bytes += *bytes;
      std::vector<const Loop*> around;
      Staged one = staged(later, around, p.locals);
      reads.push_back(one.read);
      writes.push_back(one.write);
    }
    if (groups) {
      first.push_back(call(Family::kCopyAsync, Behaviour::kCopyCommit, {}));
      body.push_back(call(Family::kCopyAsync, Behaviour::kCopyWait, {depth - 2}));
    }
    Expr more = b_.lt(ahead, l.extent);
    body.push_back(call(Family::kSync, Behaviour::kBarSync, {0, threads}));
    body.push_back(b_.if_then(more, b_.seq(reads)));
    if (groups) body.push_back(call(Family::kCopyAsync, Behaviour::kCopyCommit, {}));
    for (Stmt s : p.work) body.push_back(at(s, l, p, k, b_.floor_mod(k, turns)));
    if (!writes.empty()) body.push_back(b_.if_then(more, b_.seq(writes)));
    rest.push_back({AnnotationKey::kPipelineDepth, turns});
    Stmt both[2] = {b_.loop(stage, b_.integer(depth - 1), b_.seq(first)),
                    b_.loop(l.id, l.extent, b_.alloc(p.locals, b_.seq(body)), l.loop_kind, l.axis, rest)};
    return b_.seq(both);
  }

  Edit& edit_;
  Builder& b_;
  analysis::Ranges ranges_;
  const target::Target& target_;
  std::map<Id, int64_t> versions_;  // of shared buffers
  std::vector<const Buffer*> staged_;
  Legal<void> verdict_ = {};
};

}  // namespace

Legal<Kernel> expand_pipeline(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  bool any = false;
  visit(kernel.root, [&](Stmt s) {
    any |= as<Loop>(s) != nullptr && has_annotation(*as<Loop>(s), AnnotationKey::kPipelineDepth);
    return !any;
  });
  if (!any) return kernel;
  Edit edit(kernel, arena);
  PipelineExpander expander(edit, target);
  return expander.finish(expander.rewrite(kernel.root, 1));
}

std::set<Id> pipelined_buffers(const Kernel& kernel, const Loop& loop) {
  std::set<Id> out;
  const Expr depth = find_annotation(loop, AnnotationKey::kPipelineDepth);
  if (depth == nullptr) return out;
  const Touched t = touched_buffers(loop.body);
  std::set<Id> others;
  auto look = [&](Id id, std::span<const Expr> indices) {
    const Binary* turn = indices.empty() ? nullptr : as<Binary>(indices[0]);
    const bool versions = indices.size() > 1 && indices[0]->kind == ExprKind::kFloorMod && equal(turn->b, depth) &&
                          mentions_any(turn->a, {loop.id});
    if (!versions) others.insert(id);
  };
  visit(loop.body, [&](Stmt s) {
    if (const Store* st = as<Store>(s)) look(st->buffer, st->indices);
    if (const InstrCall* c = as<InstrCall>(s))
      for (const Operand& o : c->operands) look(o.buffer, o.indices);
    return true;
  });
  visit_loads(loop.body, [&](const Load& load) { look(load.buffer, load.indices); });
  for (Id id : t.writes)
    if (kernel.buffer(id)->scope == Scope::kShared && t.reads.contains(id) && !others.contains(id)) out.insert(id);
  return out;
}

}  // namespace tcc::lower
