#include "tcc/analysis/next_panel.h"

#include <vector>

#include "analysis/moving_address.h"
#include "tcc/analysis/lanes.h"

namespace tcc::analysis {
namespace {

using namespace ir;

class PanelFinder {
 public:
  PanelFinder(Builder& b, std::span<const Loop* const> around, const Loop& l) : b_(b), around_(around), l_(l) {}

  // Of an access with this address; its buffer is not known here.
  std::optional<NextPanel> find(Expr flat) {
    MovingAddress address(flat);
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
  static bool is_swept(const MovingAddress& address, const Loop& l) {
    return is_once(l) || (l.loop_kind == LoopKind::kSerial && address.step(l.id).value_or(0) > 0);
  }
  // Iterations are counted from the inside.
  void add_place(Expr index, Expr extent) {
    if (int_value(extent) == 1) return;
    order_.push_back({count_, index});
    count_ *= int_value(extent);
  }

  // Passes the loops that repeat the sweep, of the first `left` ones. How far the next panel is; nullopt: none repeats.
  std::optional<int64_t> find_next(const MovingAddress& address, size_t left) {
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
