// A region is straight-line code: the body of a loop that is not written out, without the bodies of such loops inside.
// Accesses of a region are of one group when they differ by a constant number of columns. Each group is the columns
// that the written-out loops give it; a group with enough neighboring ones marks the loops that its accesses come from.
#include "lower/cpu/transpose_accesses.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "lower/cpu/loop_forms.h"
#include "tcc/analysis/lanes.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxCopies = 4096;  // of one access

// Buffer, is it a store, the address without written-out loops, places of the lanes.
using GroupKey = std::tuple<Id, bool, uint64_t, std::vector<int64_t>>;
struct Group {
  std::set<int64_t> columns;
  std::set<Id> loops;  // the outermost ones of the region around the accesses
};
using Region = std::map<GroupKey, Group>;

int64_t longest_run(const std::set<int64_t>& numbers) {
  int64_t longest = 0, run = 0, last = 0;
  for (int64_t n : numbers) {
    run = run > 0 && n == last + 1 ? run + 1 : 1;
    longest = std::max(longest, run);
    last = n;
  }
  return longest;
}

bool may_be_in_registers(const Buffer& buffer) {
  if (buffer.scope != Scope::kLocal) return is_on_stack(buffer);
  int64_t bytes = type_bytes(buffer.type);
  for (Expr extent : buffer.shape)
    if (!is_int(extent) || (bytes *= int_value(extent)) > analysis::kMostInRegisters) return false;
  return true;
}

class TransposeFinder {
 public:
  TransposeFinder(const Kernel& kernel, Arena& arena, RegisterFile registers)
      : kernel_(kernel), b_(arena), ranges_(kernel), registers_(registers) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  // Rows and columns of the largest square, by loop.
  std::map<Id, int64_t> find() {
    region(kernel_.root, kNoId);
    return std::move(widths_);
  }

 private:
  void region(Stmt body, Id owner) {
    Region region;
    std::vector<const Loop*> copied;
    std::swap(region, region_);
    std::swap(copied, copied_);
    const Id top = std::exchange(top_, owner);
    const bool inside = std::exchange(inside_, false);
    collect(body);
    close();
    std::swap(region, region_);
    std::swap(copied, copied_);
    top_ = top;
    inside_ = inside;
  }

  void close() {
    for (const auto& [key, group] : region_) {
      const int64_t bytes = type_bytes(kernel_.buffer(std::get<Id>(key))->type);
      const auto& places = std::get<std::vector<int64_t>>(key);
      const int64_t lanes = std::ssize(places);
      const auto run = static_cast<uint64_t>(longest_run(group.columns));
      const int64_t width = std::min({registers_.bytes / bytes, lanes, static_cast<int64_t>(std::bit_floor(run))});
      if (width < analysis::least_transposed(places, std::get<bool>(key))) continue;
      for (Id loop : group.loops) widths_[loop] = std::max(widths_[loop], width);
    }
  }

  void collect(Stmt s) {
    if (const Loop* l = as<Loop>(s)) return loop(*l);
    if (const Store* st = as<Store>(s)) return store(*st);
    if (const If* branch = as<If>(s); branch != nullptr && !is_decided(branch->condition)) {
      // Masked lanes, or code of its own.
      if (lanes_ == nullptr) visit_children(s, [&](Stmt c) { region(c, kNoId); });
      return;
    }
    visit_children(s, [&](Stmt c) { collect(c); });
  }

  void loop(const Loop& l) {
    const bool becomes_vectors = lanes_ == nullptr && is_int(l.extent) && becomes_lanes(l);
    if (!becomes_vectors && !is_copied(l)) return region(l.body, l.id);
    const bool outermost = !std::exchange(inside_, true);
    const Id owner = top_;
    if (outermost) top_ = l.id;
    if (becomes_vectors)
      lanes_ = &l;
    else
      copied_.push_back(&l);
    collect(l.body);
    if (becomes_vectors)
      lanes_ = nullptr;
    else
      copied_.pop_back();
    if (outermost) top_ = owner, inside_ = false;
  }

  int64_t copies_of(const Loop& l) const {
    return is_int(l.extent) ? int_value(l.extent) : ranges_.bounds(l.extent).high;
  }
  bool is_copied(const Loop& l) const { return is_written_out(l) && copies_of(l) <= kMaxCopies; }
  // The same in every execution of one copy.
  bool is_decided(Expr e) const {
    return !mentions_any(
        e, [&](Id id) { return std::none_of(copied_.begin(), copied_.end(), [&](auto* l) { return l->id == id; }); });
  }

  void store(const Store& st) {
    // Accesses with conditions, those of a select among them, are masked.
    if (lanes_ == nullptr || st.predicate != nullptr) return;
    access(st.buffer, st.indices, true);
    visit(st.value, [&](Expr e) {
      const Load* load = as<Load>(e);
      if (load != nullptr && load->predicate == nullptr) access(load->buffer, load->indices, false);
      return e->kind != ExprKind::kSelect;
    });
  }

  void access(Id id, std::span<const Expr> indices, bool store) {
    const Buffer* buffer = kernel_.buffer(id);
    const bool xors = buffer->layout != nullptr && !buffer->layout->xors.empty();
    const int64_t extent = int_value(lanes_->extent), lanes = lanes_together(extent, store);
    if (may_be_in_registers(*buffer) || xors || top_ == kNoId || lanes < analysis::kMinTransposed) return;
    const Expr flat = analysis::flatten(b_, *buffer, analysis::row_major_strides(*buffer), indices, ranges_);
    const auto split = analysis::split_lanes(b_, flat, {lanes_->id, 0, lanes, extent});
    if (!split || !analysis::lanes_are_apart(split->offsets, type_bytes(buffer->type), store)) return;
    Expr place = nullptr;
    const Expr base = without_copies(split->uniform, place);
    std::set<int64_t> columns;
    int64_t copies = 0;
    if (!values_of(place, 0, copies, columns)) return;
    Group& group = region_[{id, store, base->hash, split->offsets}];
    group.columns.merge(columns);
    group.loops.insert(top_);
  }

  // Lanes that the code generator handles together: of f32 four registers; 0: it masks them, and reads them so.
  int64_t lanes_together(int64_t extent, bool store) const {
    const int64_t most = registers_.bytes, vector = registers_.bytes / 4;
    const auto lanes = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(extent, most))));
    const bool masked = lanes < extent && lanes < vector && extent <= most;
    return !masked ? lanes : store ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent))) : 0;
  }

  // The terms that do not depend on written-out loops; `place`: the others and the constant.
  Expr without_copies(Expr e, Expr& place) {
    std::vector<Term> base, moved;
    int64_t constant = 0;
    auto add = [&](const Term& t) {
      const bool moves = std::any_of(copied_.begin(), copied_.end(), [&](auto* l) { return mentions(t.atom, l->id); });
      (moves ? moved : base).push_back(t);
    };
    if (const Sum* sum = as<Sum>(e)) {
      constant = sum->constant;
      for (const Term& t : sum->terms) add(t);
    } else if (is_int(e)) {
      constant = int_value(e);
    } else {
      add({1, e});
    }
    place = b_.sum(constant, moved);
    return b_.sum(0, base);
  }

  // The values of `e` in all copies; false where one is not constant, or there are too many.
  bool values_of(Expr e, size_t at, int64_t& copies, std::set<int64_t>& values) {
    if (is_int(e)) return values.insert(int_value(e)), ++copies <= kMaxCopies;
    if (at == copied_.size()) return false;
    const Loop& l = *copied_[at];
    if (!mentions(e, l.id)) return values_of(e, at + 1, copies, values);
    for (int64_t i = 0; i < copies_of(l); ++i) {
      Substitution copy;
      copy.set(l.id, b_.integer(i));
      if (!values_of(substitute(b_, e, copy), at + 1, copies, values)) return false;
    }
    return true;
  }

  const Kernel& kernel_;
  Builder b_;
  analysis::Ranges ranges_;
  RegisterFile registers_;
  std::map<Id, int64_t> widths_;
  Region region_;
  std::vector<const Loop*> copied_;  // written-out loops around, within the region
  const Loop* lanes_ = nullptr;      // the loop around that is the lanes of vectors
  Id top_ = kNoId;                   // the outermost loop of the region around; before it, the region's own
  bool inside_ = false;              // a loop of the region
};

class AccessMarker {
 public:
  AccessMarker(const std::map<Id, int64_t>& widths, Arena& arena) : widths_(widths), b_(arena) {}

  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    Stmt body = rewrite(l->body);
    const auto width = widths_.find(l->id);
    if (width == widths_.end() || has_annotation(*l, AnnotationKey::kTransposeAccesses)) return b_.with_body(*l, body);
    std::vector<Annotation> annotations(l->annotations.begin(), l->annotations.end());
    annotations.push_back({AnnotationKey::kTransposeAccesses, b_.integer(width->second)});
    return b_.loop(l->id, l->extent, body, l->loop_kind, l->axis, annotations);
  }

 private:
  const std::map<Id, int64_t>& widths_;
  Builder b_;
};

}  // namespace

Kernel transpose_accesses(const Kernel& kernel, const ArenaPtr& arena, RegisterFile registers) {
  const std::map<Id, int64_t> widths = TransposeFinder(kernel, *arena, registers).find();
  Kernel k = kernel;
  k.arena = arena;
  if (!widths.empty()) k.root = AccessMarker(widths, *arena).rewrite(kernel.root);
  return k;
}

}  // namespace tcc::lower
