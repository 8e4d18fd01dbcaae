#include "schedule/metaschedule/index_map.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace tcc::schedule {
namespace {

using PlainJson = nlohmann::json;

constexpr size_t kMaxNodes = 1024, kMaxInputs = 16, kMaxTerms = 64;
constexpr int64_t kMaxNumber = int64_t{1} << 40;  // of coefficients and constants

// constant + the sum of coefficient * digit.
struct MapTerm {
  IterDigit digit;
  int64_t coefficient;
};
struct Form {
  std::vector<MapTerm> terms;
  int64_t constant = 0;
};

class MapReader {
 public:
  Result<IndexMap> read(const PlainJson& json) {
    if (!json.is_object() || !json.contains("nodes") || !json["nodes"].is_array() || !json.contains("root_index"))
      return input_error("no index map: {{\"root_index\": ..., \"nodes\": [...]}} is expected, as TVM 0.27 writes it");
    nodes_ = &json["nodes"];
    if (nodes_->size() > kMaxNodes) return input_error("an index map of more than {} nodes", kMaxNodes);
    TCC_TRY(size_t root, number_of(json["root_index"]));
    if (kind(root) != "IndexMap") return input_error("the root of the index map is of type '{}'", kind(root));
    TCC_TRY(std::vector<size_t> initial, list(root, "initial_indices"));
    TCC_TRY(std::vector<size_t> final, list(root, "final_indices"));
    if (initial.size() > kMaxInputs || final.size() > kMaxTerms)
      return input_error("an index map from {} to {} indices is too large", initial.size(), final.size());
    IndexMap map{initial.size(), {}};
    for (size_t i = 0; i < initial.size(); ++i) known_[initial[i]] = {{{{static_cast<int64_t>(i), 1, 0}, 1}}, 0};
    for (size_t i = 0; i < final.size(); ++i) {
      Result<std::vector<IterDigit>> digits = output(final[i]);
      if (!digits) return input_error("output {} of the index map: {}", i, digits.error().message);
      map.outputs.push_back(std::move(*digits));
    }
    return map;
  }

 private:
  Result<size_t> number_of(const PlainJson& at) const {
    if (!at.is_number_integer() || at.get<int64_t>() < 0 || static_cast<size_t>(at.get<int64_t>()) >= nodes_->size() ||
        !(*nodes_)[at.get<size_t>()].is_object())
      return input_error("the index map refers to a node that is not there");
    return at.get<size_t>();
  }
  // Without the name space, which differs from release to release.
  std::string kind(size_t node) const {
    const PlainJson& n = (*nodes_)[node];
    if (!n.contains("type") || !n["type"].is_string()) return {};
    std::string type = n["type"].get<std::string>();
    return type.substr(type.find_last_of('.') + 1);
  }
  Result<size_t> child(size_t node, const char* name) const {
    const PlainJson& n = (*nodes_)[node];
    if (!n.contains("data") || !n["data"].is_object() || !n["data"].contains(name))
      return input_error("a node of type '{}' has no {}", kind(node), name);
    return number_of(n["data"][name]);
  }
  Result<std::vector<size_t>> list(size_t node, const char* name) const {
    TCC_TRY(size_t at, child(node, name));
    const PlainJson& array = (*nodes_)[at];
    if (kind(at) != "Array" || !array.contains("data") || !array["data"].is_array())
      return input_error("the index map's {}: expected a list", name);
    std::vector<size_t> out;
    for (const PlainJson& entry : array["data"]) {
      TCC_TRY(size_t n, number_of(entry));
      out.push_back(n);
    }
    return out;
  }

  Result<int64_t> integer(size_t node) const {
    TCC_TRY(size_t at, child(node, "value"));
    const PlainJson& n = (*nodes_)[at];
    if (!n.contains("data") || !n["data"].is_number_integer())
      return input_error("the index map's constant: expected an integer");
    const int64_t value = n["data"].get<int64_t>();
    if (value < 0 || value > kMaxNumber) return input_error("the constant {} is negative or too large", value);
    return value;
  }

  // Nodes are shared: each is read once. One that is met again while it is read refers to itself.
  Result<Form> form(size_t node) {
    if (auto it = known_.find(node); it != known_.end()) return it->second;
    if (!open_.emplace(node, true).second) return input_error("a node refers to itself");
    TCC_TRY(Form made, make_form(node));
    known_[node] = made;
    return made;
  }
  Result<Form> make_form(size_t node) {
    const std::string type = kind(node);
    if (type == "IntImm") {
      TCC_TRY(int64_t value, integer(node));
      return Form{{}, value};
    }
    if (type == "Cast") {
      TCC_TRY(size_t value, child(node, "value"));
      return form(value);
    }
    if (type == "Var") return input_error("the index map uses a variable that is not one of its inputs");
    if (type != "Add" && type != "Mul" && type != "FloorDiv" && type != "FloorMod")
      return input_error("'{}' is neither a sum, a product, a floor quotient nor a remainder", type);
    TCC_TRY(size_t left, child(node, "a"));
    TCC_TRY(size_t right, child(node, "b"));
    TCC_TRY(Form a, form(left));
    TCC_TRY(Form b, form(right));
    if (type == "Add") return sum(std::move(a), b);
    if (type == "Mul" && a.terms.empty()) std::swap(a, b);
    if (!b.terms.empty()) return input_error("{}: expected a constant on the right", type);
    if (type == "Mul") return scaled(std::move(a), b.constant);
    if (b.constant == 0) return input_error("{} by zero", type);
    return divided(a, b.constant, type == "FloorMod");
  }

  static Result<Form> sum(Form a, const Form& b) {
    a.constant += b.constant;
    a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
    if (a.terms.size() > kMaxTerms || a.constant > kMaxNumber) return input_error("a sum is too large");
    return a;
  }
  static Result<Form> scaled(Form a, int64_t by) {
    if (by == 0) return Form{};
    auto too_large = [&](int64_t v) { return v > kMaxNumber / by; };
    if (too_large(a.constant)) return input_error("a product is too large");
    a.constant *= by;
    for (MapTerm& t : a.terms) {
      if (too_large(t.coefficient)) return input_error("a product is too large");
      t.coefficient *= by;
    }
    return a;
  }
  // The quotient by `by`, or the remainder: each digit is cut where its multiples reach `by`, and what is below stays
  // below it in sum.
  static Result<Form> divided(const Form& a, int64_t by, bool remainder) {
    Form high, low;
    high.constant = a.constant / by;
    low.constant = a.constant % by;
    int64_t most = low.constant;  // of what is below
    for (const MapTerm& t : a.terms) {
      if (t.coefficient % by == 0) {
        high.terms.push_back({t.digit, t.coefficient / by});
        continue;
      }
      if (by % t.coefficient != 0)
        return input_error("a part counts in steps of {}, which do not divide by {}", t.coefficient, by);
      const int64_t count = by / t.coefficient;
      const IterDigit& d = t.digit;
      const bool whole = d.extent != 0 && d.extent <= count;
      if (!whole) {
        if (d.extent % count != 0) return input_error("a part of {} values does not divide by {}", d.extent, count);
        if (d.divisor > kMaxNumber / count) return input_error("a divisor is too large");
        high.terms.push_back({{d.iter, d.divisor * count, d.extent / count}, 1});
      }
      const int64_t extent = whole ? d.extent : count;
      if (extent > 1) low.terms.push_back({{d.iter, d.divisor, extent}, t.coefficient});
      most += t.coefficient * (extent - 1);
    }
    if (most >= by) return input_error("parts of a sum overlap in its quotient by {}", by);
    return remainder ? low : high;
  }

  Result<std::vector<IterDigit>> output(size_t node) {
    TCC_TRY(Form f, form(node));
    if (f.constant != 0) return input_error("{} is added to it", f.constant);
    std::sort(f.terms.begin(), f.terms.end(),
              [](const MapTerm& x, const MapTerm& y) { return x.coefficient > y.coefficient; });
    std::vector<IterDigit> digits;
    for (size_t i = 0; i < f.terms.size(); ++i) {
      IterDigit d = f.terms[i].digit;
      const int64_t below = f.terms[i].coefficient, above = i == 0 ? 0 : f.terms[i - 1].coefficient;
      if (i + 1 == f.terms.size() && below != 1) return input_error("its values are {} apart", below);
      if (i > 0) {
        if (above % below != 0 || above == below || (d.extent != 0 && d.extent != above / below))
          return input_error("its parts overlap or leave gaps: factors {} and {}", above, below);
        d.extent = above / below;
      }
      digits.push_back(d);
    }
    return digits;
  }

  const PlainJson* nodes_ = nullptr;
  std::map<size_t, Form> known_;
  std::map<size_t, bool> open_;
};

}  // namespace

Result<IndexMap> parse_index_map(std::string_view text) {
  PlainJson json = PlainJson::parse(text, nullptr, false);
  if (json.is_discarded()) return input_error("the index map: expected JSON");
  return MapReader().read(json);
}

Result<BlockedOrder> blocked_order(const IndexMap& map) {
  std::vector<IterDigit> all;  // outermost first
  for (const std::vector<IterDigit>& digits : map.outputs) all.insert(all.end(), digits.begin(), digits.end());
  BlockedOrder out;
  std::vector<int64_t> number(all.size(), 0);  // in `order`, by place in `all`
  const auto rank = static_cast<int64_t>(map.inputs);
  for (int64_t dim = 0; dim < rank; ++dim) {
    std::vector<size_t> own;
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].iter == dim) own.push_back(i);
    if (own.empty()) out.order.push_back(dim);  // of extent one, or the map would give two elements one place
    std::sort(own.begin(), own.end(), [&](size_t x, size_t y) { return all[x].divisor > all[y].divisor; });
    for (size_t i = 0; i < own.size(); ++i) {
      const IterDigit& d = all[own[i]];
      const bool last = i + 1 == own.size();
      if (last ? d.divisor != 1 : d.divisor != all[own[i + 1]].divisor * all[own[i + 1]].extent)
        return input_error("the parts of input {} of the index map overlap or leave gaps", dim);
      number[own[i]] = i == 0 ? dim : rank + static_cast<int64_t>(out.tiles.size());
      if (i > 0) out.tiles.emplace_back(dim, d.extent);
    }
  }
  out.order.insert(out.order.end(), number.begin(), number.end());
  return out;
}

}  // namespace tcc::schedule
