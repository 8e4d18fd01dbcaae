// Einsum: any equation, as diagonals, sums, transposes and matrix products.
//
//   "bhid,bhjd->bhij"   MatMul(a, transpose(b)), batch axes b and h
//   "ii->i"             every (n + 1)th element of the matrix as a vector
//   "ij,jk,kl->il"      two products, the cheaper pair first
//
// Each operand is a tensor whose axes have letters. Letters that a later operand or the result does not need are summed
// as soon as possible. Axes that two operands share and the rest needs are batch axes of the product.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// Letters are characters; the axes of an ellipsis are 256 + their position from the right.
using Letters = std::vector<int>;
constexpr int kEllipsis = 256;

struct Term {
  ValueId value;
  Letters axes;  // one for each axis of the value, all different
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
  bool explicit_result = false;
};

Result<Equation> parse(const std::string& text, size_t inputs) {
  std::string plain;
  for (char ch : text)
    if (!std::isspace(static_cast<unsigned char>(ch))) plain += ch;
  Equation e;
  std::string left = plain;
  if (size_t arrow = plain.find("->"); arrow != std::string::npos) {
    left = plain.substr(0, arrow);
    e.result = plain.substr(arrow + 2);
    e.explicit_result = true;
  }
  for (size_t at = 0; at <= left.size();) {
    size_t end = std::min(left.find(',', at), left.size());
    e.operands.push_back(left.substr(at, end - at));
    at = end + 1;
  }
  if (e.operands.size() != inputs)
    return input_error("equation '{}' has {} operands, {} are given", sanitize(text), e.operands.size(), inputs);
  return e;
}

// The letters of one side's term; `dots` is the number of axes that its ellipsis stands for.
Result<Letters> read_letters(const std::string& term, int64_t dots) {
  Letters letters;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      letters.push_back(static_cast<unsigned char>(term[i]));
    } else if (term.compare(i, 3, "...") == 0 && !seen) {
      for (int64_t k = dots; k > 0; --k) letters.push_back(kEllipsis + static_cast<int>(k) - 1);
      seen = true;
      i += 2;
    } else {
      return input_error("term '{}' has a character that is neither a letter nor '...'", sanitize(term));
    }
  }
  return letters;
}

bool contains(const Letters& letters, int letter) {
  return std::find(letters.begin(), letters.end(), letter) != letters.end();
}

class Contraction {
 public:
  Contraction(NodeContext& c, Letters result) : c_(c), result_(std::move(result)) {}

  // Reads an operand: extents agree with those of the same letter elsewhere, where none is 1.
  Result<void> note(const Letters& letters, const Shape& shape) {
    for (size_t i = 0; i < letters.size(); ++i) {
      int64_t& extent = extents_.try_emplace(letters[i], 1).first->second;
      if (shape[i] == 1) continue;
      if (extent != 1 && extent != shape[i])
        return input_error("an axis has extents {} and {} in its operands", extent, shape[i]);
      extent = shape[i];
    }
    return {};
  }

  // Repeated letters become one axis, axes of extent 1 that others broadcast are left out.
  Result<Term> prepare(ValueId value, Letters letters) {
    for (size_t i = 0; i < letters.size(); ++i) {
      for (size_t k = i + 1; k < letters.size();) {
        if (letters[k] != letters[i]) {
          ++k;
          continue;
        }
        TCC_TRY(value, diagonal(value, static_cast<int64_t>(i), static_cast<int64_t>(k)));
        letters.erase(letters.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
    Shape kept;
    Letters axes;
    const Shape shape = c_.value(value).shape;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (shape[i] == 1 && extents_.at(letters[i]) != 1) continue;
      kept.push_back(shape[i]);
      axes.push_back(letters[i]);
    }
    TCC_TRY(value, c_.emit_reshape(value, kept));
    return Term{value, axes};
  }

  Result<Term> run(std::vector<Term> terms) {
    for (size_t i = 0; i < terms.size(); ++i) TCC_TRY_VOID(sum_unneeded(terms, i));
    while (terms.size() > 1) {
      auto [a, b] = cheapest(terms);
      const Term left = terms[a], right = terms[b];
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(b));
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(a));
      TCC_TRY(Term product, multiply(left, right, terms));
      terms.insert(terms.begin() + static_cast<std::ptrdiff_t>(a), product);
      TCC_TRY_VOID(sum_unneeded(terms, a));
    }
    return terms[0];
  }

  Result<ValueId> finish(const Term& term) {
    // Letters that every operand has with extent 1 only, or that broadcasting dropped, are in no term any more.
    Letters axes = term.axes;
    TCC_TRY(ValueId value, ordered(term, common(result_, axes)));
    Shape shape;
    for (int letter : result_) shape.push_back(extents_.at(letter));
    return c_.emit_reshape(value, shape);
  }

 private:
  int64_t extent(int letter) const { return extents_.at(letter); }
  static Letters common(const Letters& order, const Letters& in) {
    Letters both;
    for (int letter : order)
      if (contains(in, letter)) both.push_back(letter);
    return both;
  }
  bool needed(int letter, const std::vector<Term>& others, size_t except) const {
    if (contains(result_, letter)) return true;
    for (size_t i = 0; i < others.size(); ++i)
      if (i != except && contains(others[i].axes, letter)) return true;
    return false;
  }

  // Axes i < k of one extent n become one: every (n + 1)th element of n * n.
  Result<ValueId> diagonal(ValueId value, int64_t i, int64_t k) {
    const Shape shape = c_.value(value).shape;
    const int64_t n = shape[static_cast<size_t>(i)];
    if (shape[static_cast<size_t>(k)] != n)
      return input_error("a diagonal needs axes of one extent, got {} and {}", n, shape[static_cast<size_t>(k)]);
    std::vector<int64_t> perm;
    Shape joined, reduced;
    for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
      if (axis == k) continue;
      perm.push_back(axis);
      if (axis == i) perm.push_back(k);
      joined.push_back(axis == i ? n * n : shape[static_cast<size_t>(axis)]);
      reduced.push_back(shape[static_cast<size_t>(axis)]);
    }
    Made x = c_.emit_reshape(c_.emit(Op::kTranspose, graph::TransposeAttrs{perm}, {value}), joined);
    graph::SliceAttrs attrs{std::vector<int64_t>(joined.size(), 0), std::vector<int64_t>(joined.size(), 1), reduced};
    attrs.steps[static_cast<size_t>(i)] = n + 1;
    return c_.emit(Op::kSlice, attrs, {x});
  }

  Result<void> sum_unneeded(std::vector<Term>& terms, size_t at) {
    Term& term = terms[at];
    std::vector<int64_t> axes;
    Letters rest;
    for (size_t i = 0; i < term.axes.size(); ++i) {
      if (needed(term.axes[i], terms, at))
        rest.push_back(term.axes[i]);
      else
        axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return {};
    TCC_TRY(term.value, c_.reduce(Op::kReduceSum, term.value, axes, false));
    term.axes = rest;
    return {};
  }

  // The pair whose product touches the fewest index combinations; of equals the first.
  std::pair<size_t, size_t> cheapest(const std::vector<Term>& terms) const {
    std::pair<size_t, size_t> best{0, 1};
    double least = -1;
    for (size_t a = 0; a < terms.size(); ++a) {
      for (size_t b = a + 1; b < terms.size(); ++b) {
        std::set<int> all(terms[a].axes.begin(), terms[a].axes.end());
        all.insert(terms[b].axes.begin(), terms[b].axes.end());
        double cost = 1;
        for (int letter : all) cost *= static_cast<double>(extent(letter));
        if (least < 0 || cost < least) {
          least = cost;
          best = {a, b};
        }
      }
    }
    return best;
  }

  // The term with its axes in the given order, which names all of them.
  Made ordered(const Term& term, const Letters& order) {
    if (order == term.axes) return term.value;
    std::vector<int64_t> perm;
    for (int letter : order) perm.push_back(std::find(term.axes.begin(), term.axes.end(), letter) - term.axes.begin());
    return c_.emit(Op::kTranspose, graph::TransposeAttrs{perm}, {term.value});
  }

  int64_t product_of(const Letters& letters) const {
    int64_t n = 1;
    for (int letter : letters) n *= extent(letter);
    return n;
  }

  Result<Term> multiply(const Term& a, const Term& b, const std::vector<Term>& others) {
    Letters batch, rows, columns, summed;
    for (int letter : a.axes) {
      if (!contains(b.axes, letter))
        rows.push_back(letter);
      else if (needed(letter, others, others.size()))
        batch.push_back(letter);
      else
        summed.push_back(letter);
    }
    for (int letter : b.axes)
      if (!contains(a.axes, letter)) columns.push_back(letter);
    // As the result has them, so that the last transpose moves little.
    auto by_result = [&](Letters& letters) {
      std::stable_sort(letters.begin(), letters.end(), [&](int x, int y) {
        return std::find(result_.begin(), result_.end(), x) < std::find(result_.begin(), result_.end(), y);
      });
    };
    by_result(batch);
    by_result(rows);
    by_result(columns);
    if (summed.empty() || !graph::is_float(c_.value(a.value).dtype)) return elementwise(a, b, summed);
    Letters left = batch, right = batch, out = batch;
    left.insert(left.end(), rows.begin(), rows.end());
    left.insert(left.end(), summed.begin(), summed.end());
    right.insert(right.end(), summed.begin(), summed.end());
    right.insert(right.end(), columns.begin(), columns.end());
    out.insert(out.end(), rows.begin(), rows.end());
    out.insert(out.end(), columns.begin(), columns.end());
    Shape heads, shape;
    for (int letter : batch) heads.push_back(extent(letter));
    for (int letter : out) shape.push_back(extent(letter));
    auto matrix = [&](int64_t m, int64_t n) {
      Shape s = heads;
      s.insert(s.end(), {m, n});
      return s;
    };
    const int64_t m = product_of(rows), k = product_of(summed), n = product_of(columns);
    Made x = c_.emit_reshape(ordered(a, left), matrix(m, k));
    Made y = c_.emit_reshape(ordered(b, right), matrix(k, n));
    Made product = c_.emit(Op::kMatMul, graph::MatMulAttrs{}, {x, y});
    TCC_TRY(ValueId value, c_.emit_reshape(product, shape));
    return Term{value, out};
  }

  // Products of single elements, then the sum.
  Result<Term> elementwise(const Term& a, const Term& b, const Letters& summed) {
    Letters all = a.axes;
    for (int letter : b.axes)
      if (!contains(all, letter)) all.push_back(letter);
    auto wide = [&](const Term& term) {
      Shape shape;
      for (int letter : all) shape.push_back(contains(term.axes, letter) ? extent(letter) : 1);
      return c_.emit_reshape(ordered(term, common(all, term.axes)), shape);
    };
    TCC_TRY(ValueId value, c_.arithmetic(Op::kMul, wide(a), wide(b)));
    Term product{value, all};
    if (summed.empty()) return product;
    std::vector<int64_t> axes;
    Letters rest;
    for (size_t i = 0; i < all.size(); ++i) {
      if (contains(summed, all[i]))
        axes.push_back(static_cast<int64_t>(i));
      else
        rest.push_back(all[i]);
    }
    TCC_TRY(product.value, c_.reduce(Op::kReduceSum, product.value, axes, false));
    product.axes = rest;
    return product;
  }

  NodeContext& c_;
  Letters result_;
  std::map<int, int64_t> extents_;
};

}  // namespace

Result<void> import_einsum(NodeContext& c) {
  TCC_TRY(std::string text, c.get_string("equation", ""));
  TCC_TRY(Equation equation, parse(text, c.input_count()));
  std::vector<Letters> operands;
  int64_t widest = 0;
  std::map<int, int> counts;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const std::string& term = equation.operands[i];
    int64_t letters = std::count_if(term.begin(), term.end(), [](char ch) { return ch != '.'; });
    int64_t dots = term.find('.') == std::string::npos ? 0 : c.rank(i) - letters;
    if (dots < 0 || letters + dots != c.rank(i))
      return input_error("term '{}' does not fit operand {} of shape {}", sanitize(term), i,
                         graph::shape_text(c.input_value(i).shape));
    widest = std::max(widest, dots);
    TCC_TRY(Letters read, read_letters(term, dots));
    for (int letter : read) ++counts[letter];
    operands.push_back(std::move(read));
  }
  Letters result;
  if (equation.explicit_result) {
    TCC_TRY(result, read_letters(equation.result, widest));
    for (int letter : result) {
      if (!counts.contains(letter)) return input_error("equation '{}' has a letter in its result only", sanitize(text));
    }
    if (std::set<int>(result.begin(), result.end()).size() != result.size())
      return input_error("equation '{}' repeats a letter in its result", sanitize(text));
  } else {
    // The axes of the ellipsis, then the letters that occur once, by alphabet.
    for (int64_t k = widest; k > 0; --k) result.push_back(kEllipsis + static_cast<int>(k) - 1);
    for (const auto& [letter, count] : counts)
      if (letter < kEllipsis && count == 1) result.push_back(letter);
  }
  Contraction contraction(c, result);
  for (size_t i = 0; i < operands.size(); ++i) TCC_TRY_VOID(contraction.note(operands[i], c.input_value(i).shape));
  std::vector<Term> terms;
  for (size_t i = 0; i < operands.size(); ++i) {
    TCC_TRY(Term term, contraction.prepare(c.input(i), operands[i]));
    terms.push_back(std::move(term));
  }
  TCC_TRY(Term product, contraction.run(std::move(terms)));
  TCC_TRY(ValueId value, contraction.finish(product));
  return c.finish(Op::kIdentity, graph::NoAttrs{}, {value});
}

}  // namespace tcc::onnx
