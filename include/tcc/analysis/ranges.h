// Bounds of index expressions: every loop variable and block iterator v is in [0, extent(v)), every scalar in its
// declared range. Constant bounds are found without allocating; symbolic bounds are polynomials in decision symbols.
#pragma once

#include <vector>

#include "tcc/ir/build.h"
#include "tcc/ir/interval.h"

namespace tcc::analysis {

class Ranges {
 public:
  explicit Ranges(const ir::Kernel& kernel);

  // Declares v in [0, extent) for as long as it is set; returns the previous extent (nullptr: none).
  ir::Expr set(ir::Id v, ir::Expr extent);
  ir::Expr extent(ir::Id v) const {
    return static_cast<size_t>(v) < extents_.size() ? extents_[static_cast<size_t>(v)] : nullptr;
  }

  // Constant bounds; unknown for loads and unknown variables.
  ir::Interval bounds(ir::Expr e) const;
  // Inclusive bounds with the variables for which inner(v) holds eliminated; other variables stay. nullptr: none.
  // Assumes what is true of all index variables here: they are not negative.
  template <class Inner>
  ir::Expr upper(ir::Builder& b, ir::Expr e, const Inner& inner) const {
    return bound(b, e, true, Predicate(inner));
  }
  template <class Inner>
  ir::Expr lower(ir::Builder& b, ir::Expr e, const Inner& inner) const {
    return bound(b, e, false, Predicate(inner));
  }

  // True only when certain.
  bool prove_less(ir::Builder& b, ir::Expr x, ir::Expr y) const;   // x < y
  bool prove_equal(ir::Builder& b, ir::Expr x, ir::Expr y) const;  // with the product facts of the kernel
  bool prove_non_negative(ir::Builder& b, ir::Expr x) const;
  // At most this, constants of the scalars' ranges and of the product facts considered; Interval::kUnbounded: unknown.
  int64_t most(ir::Expr e) const;
  // Does the value depend on a decision, through the extents of the loops in it too? Then numbers may show more of it.
  bool depends_on_decisions(ir::Expr e) const;
  // Replaces whole products of decision symbols by what their facts say.
  ir::Expr apply_products(ir::Builder& b, ir::Expr e) const;

 private:
  struct Predicate {
    template <class F>
    Predicate(const F& f) : object(&f), call([](const void* o, ir::Id v) { return (*static_cast<const F*>(o))(v); }) {}
    bool operator()(ir::Id v) const { return call(object, v); }
    const void* object;
    bool (*call)(const void*, ir::Id);
  };
  ir::Expr bound(ir::Builder& b, ir::Expr e, bool up, const Predicate& inner) const;

  const ir::Kernel* kernel_;
  std::vector<ir::Expr> extents_;
};

}  // namespace tcc::analysis
