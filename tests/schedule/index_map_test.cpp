// Index maps in TVM's JSON: their digits, and the refusals.
#include "schedule/metaschedule/index_map.h"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

using Json = nlohmann::json;

// Nodes as TVM numbers them: an expression is the number of its node.
class MapWriter {
 public:
  explicit MapWriter(int64_t inputs) {
    for (int64_t i = 0; i < inputs; ++i) inputs_.push_back(node("ir.Var", {{"name", 0}}));
  }
  int64_t operator[](size_t i) const { return inputs_[i]; }
  int64_t number(int64_t v) {
    nodes_.push_back({{"type", "int"}, {"data", v}});
    return node("ir.IntImm", {{"value", std::ssize(nodes_) - 1}});
  }
  int64_t cast(int64_t x) { return node("prim.Cast", {{"value", x}}); }
  int64_t op(const char* type, int64_t a, int64_t b) { return node(type, {{"a", a}, {"b", b}}); }
  int64_t add(int64_t a, int64_t b) { return op("prim.Add", a, b); }
  int64_t mul(int64_t a, int64_t v) { return op("prim.Mul", a, number(v)); }
  int64_t div(int64_t a, int64_t v) { return op("prim.FloorDiv", a, number(v)); }
  int64_t mod(int64_t a, int64_t v) { return op("prim.FloorMod", a, number(v)); }
  Json& nodes() { return nodes_; }

  std::string text(const std::vector<int64_t>& outputs) {
    const int64_t initial = array(inputs_), final = array(outputs);
    const int64_t root = node("tirx.IndexMap", {{"initial_indices", initial}, {"final_indices", final}});
    return Json{{"root_index", root}, {"nodes", nodes_}}.dump();
  }

 private:
  int64_t node(const char* type, Json data) {
    nodes_.push_back({{"type", type}, {"data", std::move(data)}});
    return std::ssize(nodes_) - 1;
  }
  int64_t array(const std::vector<int64_t>& of) {
    nodes_.push_back({{"type", "ffi.Array"}, {"data", of}});
    return std::ssize(nodes_) - 1;
  }
  Json nodes_ = Json::array({{{"type", "None"}}});
  std::vector<int64_t> inputs_;
};

// "iter/divisor%extent" of each digit, outputs apart.
std::string digits_of(const std::string& text) {
  auto map = parse_index_map(text);
  if (!map) return map.error().message;
  std::string out;
  for (const auto& digits : map->outputs) {
    out += &digits == &map->outputs[0] ? "" : " | ";
    for (size_t i = 0; i < digits.size(); ++i)
      out += fmt::format("{}{}/{}%{}", i == 0 ? "" : " ", digits[i].iter, digits[i].divisor, digits[i].extent);
  }
  return out;
}

int64_t value_of(const std::vector<IterDigit>& digits, const std::vector<int64_t>& at,
                 const std::vector<int64_t>& shape) {
  int64_t value = 0;
  for (const IterDigit& d : digits) {
    const auto i = static_cast<size_t>(d.iter);
    const int64_t extent = d.extent == 0 ? (shape[i] + d.divisor - 1) / d.divisor : d.extent;
    value = value * extent + at[i] / d.divisor % extent;
  }
  return value;
}

}  // namespace

TEST_CASE("an index map is read as digits") {
  MapWriter m(3);
  CHECK(digits_of(m.text({m.div(m.cast(m[0]), 4), m[1], m.mod(m[0], 4)})) == "0/4%0 | 1/1%0 | 0/1%4");
  CHECK(digits_of(m.text({m.add(m.mul(m[0], 8), m[1])})) == "0/1%0 1/1%8");
  CHECK(digits_of(m.text({m.add(m[1], m.mul(m[0], 8))})) == "0/1%0 1/1%8");
  CHECK(digits_of(m.text({m.div(m.mod(m[2], 8), 4), m.mod(m.mod(m[2], 8), 4)})) == "2/4%2 | 2/1%4");
  // A fused index taken apart at another place.
  const int64_t fused = m.add(m.mul(m[0], 16), m[1]);
  CHECK(digits_of(m.text({m.div(fused, 4), m.mod(fused, 4)})) == "0/1%0 1/4%4 | 1/1%4");
  const int64_t bounded = m.add(m.mul(m[0], 16), m.mod(m[1], 16));
  CHECK(digits_of(m.text({m.div(bounded, 32), m.mod(bounded, 32)})) == "0/2%0 | 0/1%2 1/1%16");
  CHECK(digits_of(m.text({m.add(m.mul(m.add(m.mul(m[0], 6), m[1]), 5), m[2])})) == "0/1%0 1/1%6 2/1%5");
  CHECK(digits_of(m.text({m.mul(m[0], 0), m[1]})) == " | 1/1%0");
}

TEST_CASE("a map that is not made of digits says where and why", "[errors]") {
  MapWriter m(2);
  auto refused = [&](int64_t output) { return digits_of(m.text({m[0], output})); };
  CHECK(refused(m.add(m[1], m.number(1))) == "output 1 of the index map: 1 is added to it");
  CHECK(refused(m.mul(m[1], 2)) == "output 1 of the index map: its values are 2 apart");
  CHECK(refused(m.add(m[0], m[1])) == "output 1 of the index map: its parts overlap or leave gaps: factors 1 and 1");
  CHECK(refused(m.add(m.mul(m[0], 6), m.mod(m[1], 4))) ==
        "output 1 of the index map: its parts overlap or leave gaps: factors 6 and 1");
  CHECK(refused(m.op("prim.Mul", m[0], m[1])) == "output 1 of the index map: Mul: expected a constant on the right");
  CHECK(refused(m.div(m[1], 0)) == "output 1 of the index map: FloorDiv by zero");
  CHECK(refused(m.op("prim.Sub", m[0], m[1])) ==
        "output 1 of the index map: 'Sub' is neither a sum, a product, a floor quotient nor a remainder");
  CHECK(refused(m.div(m.mod(m[1], 6), 4)) == "output 1 of the index map: a part of 6 values does not divide by 4");
  CHECK(refused(m.div(m.mul(m[1], 6), 4)) ==
        "output 1 of the index map: a part counts in steps of 6, which do not divide by 4");
  CHECK(refused(m.div(m.add(m.mul(m[0], 16), m[1]), 32)) ==
        "output 1 of the index map: parts of a sum overlap in its quotient by 32");
  CHECK(refused(m.number(-1)) == "output 1 of the index map: the constant -1 is negative or too large");
  const int64_t self = m.add(m[0], m[1]);
  m.nodes()[static_cast<size_t>(self)]["data"]["a"] = self;
  CHECK(refused(self) == "output 1 of the index map: a node refers to itself");
  m.nodes()[static_cast<size_t>(self)]["data"]["a"] = 100000;
  CHECK(refused(self) == "output 1 of the index map: the index map refers to a node that is not there");
  CHECK(digits_of("[") == "the index map: expected JSON");
  CHECK(digits_of("[]").starts_with("no index map: "));
}

TEST_CASE("a layout of an index map puts elements where the map says") {
  MapWriter m(2);
  const std::vector<int64_t> shape = {12, 16};
  for (const std::vector<int64_t>& outputs : std::vector<std::vector<int64_t>>{
           {m[1], m[0]},
           {m.div(m[1], 8), m.div(m.mod(m[1], 8), 4), m.div(m[0], 2), m.mod(m[1], 4), m.mod(m[0], 2)},
           {m.add(m.mul(m[0], 16), m[1])},
           {m.div(m[0], 3), m.add(m.mul(m.mod(m[0], 3), 16), m[1])}}) {
    auto map = parse_index_map(m.text(outputs));
    REQUIRE(map);
    auto blocked = blocked_order(*map);
    REQUIRE(blocked);
    Arena arena;
    std::vector<int32_t> order(blocked->order.begin(), blocked->order.end());
    std::vector<std::pair<int32_t, int64_t>> tiles;
    for (const auto& [dimension, tile] : blocked->tiles) tiles.emplace_back(static_cast<int32_t>(dimension), tile);
    const ir::Layout* layout = ir::make_blocked(arena, shape, order, tiles);
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j) {
        int64_t address = 0;
        const std::vector<int64_t> at = {i, j}, last = {shape[0] - 1, shape[1] - 1};
        for (const auto& digits : map->outputs)
          address = address * (value_of(digits, last, shape) + 1) + value_of(digits, at, shape);
        REQUIRE(ir::apply(*layout, at).address == address);
      }
  }
  // Quotients without their remainders.
  auto gap = parse_index_map(m.text({m.div(m[0], 4), m[1]}));
  REQUIRE(gap);
  CHECK(blocked_order(*gap).error().message == "the parts of input 0 of the index map overlap or leave gaps");
}

TEST_CASE("edited index maps end in an error or digits", "[fuzz]") {
  MapWriter m(2);
  const int64_t fused = m.add(m.mul(m[0], 16), m.cast(m[1]));
  const std::string good = m.text({m.div(fused, 4), m.mod(fused, 4), m.div(m[1], 8)});
  Rng rng(5);
  int64_t read = 0, refused = 0;
  for (int n = 0; n < 3000; ++n) {
    Json json = Json::parse(good);
    Json& node = json["nodes"][static_cast<size_t>(rng.below(std::ssize(json["nodes"])))];
    const int64_t value =
        rng.below(4) == 0 ? int64_t{1} << rng.below(63) : rng.below(std::ssize(json["nodes"]) + 2) - 1;
    if (node.contains("data") && node["data"].is_object() && !node["data"].empty())
      node["data"].begin().value() = value;
    else if (node.contains("data") && node["data"].is_array() && !node["data"].empty())
      node["data"][0] = value;
    else
      node["data"] = value;
    auto map = parse_index_map(json.dump());
    ++(map ? read : refused);
    if (!map) CHECK_FALSE(map.error().message.empty());
    if (map) blocked_order(*map);
  }
  CHECK(read > 100);
  CHECK(refused > 100);
}
