#include "tcc/analysis/next_panel.h"

#include <algorithm>
#include <vector>

#include "tcc/analysis/lanes.h"

namespace tcc::analysis {
namespace {

using namespace ir;

// The address of one access as a sum, and how loops move it.
class Address {
 public:
  explicit Address(Expr flat) {
    if (const Sum* s = as<Sum>(flat)) {
      constant = s->constant;
      terms.assign(s->terms.begin(), s->terms.end());
    } else {
      terms.push_back({1, flat});
    }
  }

  bool moves_with(Id loop) const {
    return std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return mentions(t.atom, loop); });
  }
  // The one term with the loop; nullptr: there are several, or none.
  const Term* only_term(Id loop) const {
    const Term* found = nullptr;
    for (const Term& t : terms) {
      if (!mentions(t.atom, loop)) continue;
      if (found != nullptr) return nullptr;
      found = &t;
    }
    return found;
  }
  // By how much an iteration of the loop moves it; nullopt: not by the same amount each time, or backwards.
  std::optional<int64_t> step(Id loop) const {
    const Term* t = only_term(loop);
    if (t == nullptr) return moves_with(loop) ? std::nullopt : std::optional<int64_t>(0);
    if (as<Var>(t->atom) == nullptr || t->coefficient < 0) return std::nullopt;
    return t->coefficient;
  }
  void drop(Id loop) {
    std::erase_if(terms, [&](const Term& t) { return mentions(t.atom, loop); });
  }

  int64_t constant = 0;
  std::vector<Term> terms;
};

// For how many iterations a loop that was fused from others leaves `atom` alone: of `i // d` and `i // d % e`.
std::optional<int64_t> period(Expr atom, Id loop) {
  const auto divided = [&](Expr e) -> std::optional<int64_t> {
    const Binary* division = e->kind == ExprKind::kFloorDiv ? as<Binary>(e) : nullptr;
    if (division == nullptr || !is_int(division->b)) return std::nullopt;
    const Var* v = as<Var>(division->a);
    return v != nullptr && v->id == loop ? std::optional(int_value(division->b)) : std::nullopt;
  };
  const Binary* rest = atom->kind == ExprKind::kFloorMod ? as<Binary>(atom) : nullptr;
  return divided(rest != nullptr && is_int(rest->b) ? rest->a : atom);
}

class PanelFinder {
 public:
  PanelFinder(Builder& b, std::span<const Loop* const> around, const Loop& l) : b_(b), around_(around), l_(l) {}

  // Of an access with this address; its buffer is not known here.
  std::optional<NextPanel> find(Expr flat) {
    Address address(flat);
    if (address.step(l_.id).value_or(0) == 0) return std::nullopt;
    elements_ = span_ = count_ = 1;
    order_.clear();
    bool linear = true;
    const auto sweep = [&](const Loop& l) {
      const std::optional<int64_t> step = is_int(l.extent) ? address.step(l.id) : std::nullopt;
      linear = linear && step.has_value();
      if (step.value_or(0) == 0) return;
      elements_ *= int_value(l.extent);
      span_ += *step * (int_value(l.extent) - 1);
      address.drop(l.id);
    };
    visit(l_.body, [&](Stmt s) {
      if (const Loop* inner = as<Loop>(s)) sweep(*inner);
      return true;
    });
    sweep(l_);
    add_place(b_.var(l_.id), l_.extent);
    size_t left = around_.size();
    for (; left > 0 && is_swept(address, *around_[left - 1]); --left) {
      sweep(*around_[left - 1]);
      add_place(b_.var(around_[left - 1]->id), around_[left - 1]->extent);
    }
    if (!linear || elements_ != span_) return std::nullopt;
    const std::optional<int64_t> ahead = find_next(address, left);
    if (!ahead) return std::nullopt;
    NextPanel panel;
    panel.elements = span_;
    panel.iterations = count_;
    panel.each = (span_ + count_ - 1) / count_;
    for (const Term& place : order_) address.terms.push_back({place.coefficient * panel.each, place.atom});
    panel.address = b_.sum(address.constant + *ahead, address.terms);
    return panel;
  }

 private:
  static bool is_once(const Loop& l) { return is_int(l.extent) && int_value(l.extent) == 1; }
  static bool is_swept(const Address& address, const Loop& l) {
    return is_once(l) || (l.loop_kind == LoopKind::kSerial && address.step(l.id).value_or(0) > 0);
  }
  // Iterations are counted from the inside.
  void add_place(Expr index, Expr extent) {
    if (int_value(extent) == 1) return;
    order_.push_back({count_, index});
    count_ *= int_value(extent);
  }

  // Passes the loops that repeat the sweep, of the first `left` ones. How far the next panel is; nullopt: none repeats.
  std::optional<int64_t> find_next(const Address& address, size_t left) {
    const int64_t swept = count_;
    for (; left > 0; --left) {
      const Loop& l = *around_[left - 1];
      if (is_once(l)) continue;
      if (address.moves_with(l.id)) {
        const Term* term = address.only_term(l.id);
        if (term == nullptr) return std::nullopt;
        if (const std::optional<int64_t> repeats = period(term->atom, l.id))
          add_place(b_.floor_mod(b_.var(l.id), b_.integer(*repeats)), b_.integer(*repeats));
        else if (as<Var>(term->atom) == nullptr)
          return std::nullopt;
        return count_ > swept ? std::optional(term->coefficient) : std::nullopt;
      }
      if (l.loop_kind != LoopKind::kSerial || !is_int(l.extent)) break;
      add_place(b_.var(l.id), l.extent);
    }
    return count_ > swept ? std::optional(span_) : std::nullopt;
  }

  Builder& b_;
  std::span<const Loop* const> around_;
  const Loop& l_;
  int64_t elements_ = 1, span_ = 1;  // of a panel, counted and from the first to the last
  int64_t count_ = 1;                // iterations of all sweeps
  std::vector<Term> order_;          // whose sum is the number of the iteration among these
};

}  // namespace

std::optional<NextPanel> next_panel(Builder& b, const Kernel& kernel, const Ranges& ranges,
                                    std::span<const Loop* const> around, const Loop& l,
                                    FunctionRef<bool(Id)> is_meant) {
  if (!is_int(l.extent)) return std::nullopt;
  std::optional<NextPanel> largest;
  PanelFinder finder(b, around, l);
  visit_loads(l.body, [&](const Load& load) {
    if (!is_meant(load.buffer)) return;
    const Buffer& buffer = *kernel.buffer(load.buffer);
    if (buffer.layout != nullptr && !buffer.layout->xors.empty()) return;
    std::optional<NextPanel> panel = finder.find(flatten(b, buffer, row_major_strides(buffer), load.indices, ranges));
    if (!panel || (largest && largest->elements >= panel->elements)) return;
    panel->buffer = &buffer;
    largest = panel;
  });
  return largest;
}

}  // namespace tcc::analysis
