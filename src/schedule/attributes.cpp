// The table of instructions at work: attributes from numbers to names and back, checked on the way.
#include "schedule/attributes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tcc/ir/names.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::schedule {

using ir::reject;
using ir::RejectReason;

namespace {

using Kind = Attribute::Kind;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxReads = 1 << 16;
constexpr int64_t kMaxFactors = 16;
constexpr std::string_view kTailNames[] = {"mask", "peel", "pad"};  // by bit: ir::TailMode
constexpr size_t kDigitNumbers = 3;

// The instructions in the order of the first record files, whose hashes hold positions. Never add to it: later
// instructions count with the hash of their name.
constexpr std::string_view kFirst =
    "get_block get_loops get_producers get_consumers sample_perfect_tile sample_tile sample_categorical "
    "sample_compute_location split fuse reorder compute_at reverse_compute_at compute_inline reverse_compute_inline "
    "cache_read cache_write decompose_reduction parallel vectorize unroll bind annotate transform_layout rfactor "
    "pad_einsum tensorize set_scope storage_align unannotate add_unit_loop blockize get_child_blocks get_output_blocks "
    "read_at write_at reindex decompose_padding transform_block_layout stream_reduction";

tl::unexpected<Reject> bad(const std::string& text) {
  return reject(RejectReason::kBadDecision, text);
}

bool is_word(Kind kind) {
  return kind == Kind::kScope || kind == Kind::kAxis || kind == Kind::kKey;
}
const std::vector<std::string_view>& words(Kind kind) {
  if (kind == Kind::kScope) return ir::names<ir::Scope>();
  return kind == Kind::kAxis ? ir::names<ir::Axis>() : ir::names<ir::AnnotationKey>();
}
template <class E>
std::optional<int64_t> number_of(std::optional<E> e) {
  return e ? std::optional(static_cast<int64_t>(*e)) : std::nullopt;
}
std::optional<int64_t> from_word(Kind kind, std::string_view word) {
  if (kind == Kind::kScope) return number_of(ir::from_name<ir::Scope>(word));
  return kind == Kind::kAxis ? number_of(ir::from_name<ir::Axis>(word))
                             : number_of(ir::from_name<ir::AnnotationKey>(word));
}
std::optional<int64_t> from_first_number(Kind kind, int64_t code) {
  if (kind == Kind::kScope) return number_of(ir::from_stored_code<ir::Scope>(code));
  return kind == Kind::kAxis ? number_of(ir::from_stored_code<ir::Axis>(code))
                             : number_of(ir::from_stored_code<ir::AnnotationKey>(code));
}
uint64_t stored_word(Kind kind, int64_t value) {
  if (kind == Kind::kScope) return ir::stored_code(static_cast<ir::Scope>(value));
  return kind == Kind::kAxis ? ir::stored_code(static_cast<ir::Axis>(value))
                             : ir::stored_code(static_cast<ir::AnnotationKey>(value));
}

// "a scope (global, shared)", for messages.
std::string expectation(const Attribute& a) {
  auto range = [&](const char* what) {
    if (a.low == kLowest) return std::string(what);
    return a.high == kHighest ? fmt::format("{} of at least {}", what, a.low)
                              : fmt::format("{} from {} to {}", what, a.low, a.high);
  };
  switch (a.kind) {
    case Kind::kInteger:
      return range("an integer");
    case Kind::kRead:
      return a.low < 0 ? "the number of a read, or result" : "the number of a read";
    case Kind::kScope:
    case Kind::kAxis:
    case Kind::kKey:
      return fmt::format("{} ({})",
                         a.kind == Kind::kScope  ? "a scope"
                         : a.kind == Kind::kAxis ? "an axis"
                                                 : "an annotation",
                         fmt::join(words(a.kind), ", "));
    case Kind::kTails:
      return fmt::format("a list of tail modes ({})", fmt::join(kTailNames, ", "));
    case Kind::kCounted:
    case Kind::kHalf:
    case Kind::kList:
      return fmt::format("a list, each item {}", range("an integer"));
    case Kind::kPairs:
      return "a list of pairs of integers";
    case Kind::kDigits:
      return "for each iterator a list of [iterator, divisor, extent]";
    case Kind::kFactors:
      return fmt::format("1 to {} factors, each of them a result", kMaxFactors);
    case Kind::kName:
      return "a name";
  }
  return {};
}

// Takes the numbers of one attribute, of `total` of the instruction, off `rest`; nullopt: they are too few.
std::optional<std::span<const int64_t>> take(const Attribute& a, size_t total, std::span<const int64_t>& rest) {
  size_t skip = 0, n = 1;
  switch (a.kind) {
    case Kind::kName:
      n = 0;
      break;
    case Kind::kCounted:
      if (rest.empty() || rest[0] < 0 || static_cast<size_t>(rest[0]) >= rest.size()) return std::nullopt;
      skip = 1, n = static_cast<size_t>(rest[0]);
      break;
    case Kind::kHalf:
      n = total / 2;
      break;
    case Kind::kList:
    case Kind::kPairs:
    case Kind::kDigits:
      n = rest.size();
      break;
    default:
      break;
  }
  if (rest.size() < skip + n) return std::nullopt;
  const std::span<const int64_t> out = rest.subspan(skip, n);
  rest = rest.subspan(skip + n);
  return out;
}

// The numbers of each attribute of a row.
class Slots {
 public:
  void add(std::span<const int64_t> numbers) {
    TCC_CHECK(size_ < all_.size(), "more than {} attributes", all_.size());
    all_[size_++] = numbers;
  }
  std::span<const int64_t> operator[](size_t i) const { return all_[i]; }
  size_t size() const { return size_; }

 private:
  std::array<std::span<const int64_t>, 8> all_;
  size_t size_ = 0;
};

// nullopt: the numbers are too few or too many.
std::optional<Slots> slots_of(const Instruction& in) {
  Slots out;
  std::span<const int64_t> rest = in.attrs;
  for (const Attribute& a : op_row(in.op).attributes) {
    const std::optional<std::span<const int64_t>> own = take(a, in.attrs.size(), rest);
    if (!own) return std::nullopt;
    out.add(*own);
  }
  if (!rest.empty()) return std::nullopt;
  return out;
}

// Are the numbers of kDigits lists of triples, each after its length?
bool are_digits(std::span<const int64_t> numbers) {
  if (numbers.empty()) return false;
  for (size_t i = 0; i < numbers.size();) {
    const int64_t n = numbers[i++];
    if (n < 0 || n > 64 || static_cast<size_t>(n) * kDigitNumbers > numbers.size() - i) return false;
    i += static_cast<size_t>(n) * kDigitNumbers;
  }
  return true;
}

bool is_legal(const Attribute& a, std::span<const int64_t> numbers, int outputs) {
  auto in_range = [&](int64_t v) { return v >= a.low && v <= a.high; };
  switch (a.kind) {
    case Kind::kInteger:
    case Kind::kRead:
    case Kind::kTails:
      return in_range(numbers[0]);
    case Kind::kScope:
    case Kind::kAxis:
    case Kind::kKey:
      return numbers[0] >= 0 && numbers[0] < std::ssize(words(a.kind));
    case Kind::kFactors:
      return numbers[0] >= 1 && numbers[0] <= kMaxFactors && numbers[0] + a.low == outputs;
    case Kind::kCounted:
      return std::all_of(numbers.begin(), numbers.end(), in_range);
    case Kind::kHalf:
    case Kind::kList:
      return !numbers.empty() && std::all_of(numbers.begin(), numbers.end(), in_range);
    case Kind::kPairs:
      return numbers.size() % 2 == 0;
    case Kind::kDigits:
      return are_digits(numbers);
    case Kind::kName:
      return true;
  }
  return false;
}

Json value_of(const Attribute& a, std::span<const int64_t> numbers) {
  switch (a.kind) {
    case Kind::kInteger:
    case Kind::kFactors:
      return numbers[0];
    case Kind::kRead:
      return numbers[0] == -1 ? Json("result") : Json(numbers[0]);
    case Kind::kScope:
    case Kind::kAxis:
    case Kind::kKey: {
      const std::vector<std::string_view>& all = words(a.kind);
      const auto i = static_cast<size_t>(numbers[0]);
      return i < all.size() ? Json(all[i]) : Json(numbers[0]);
    }
    case Kind::kTails: {
      Json out = Json::array();
      for (size_t i = 0; i < std::size(kTailNames); ++i)
        if ((numbers[0] >> i & 1) != 0) out.push_back(kTailNames[i]);
      return out;
    }
    case Kind::kCounted:
    case Kind::kHalf:
    case Kind::kList:
      return Json(std::vector<int64_t>(numbers.begin(), numbers.end()));
    case Kind::kPairs: {
      Json out = Json::array();
      for (size_t i = 0; i + 1 < numbers.size(); i += 2) out.push_back({numbers[i], numbers[i + 1]});
      return out;
    }
    case Kind::kDigits: {
      Json out = Json::array();
      if (!are_digits(numbers)) return out;
      for (size_t i = 0; i < numbers.size();) {
        Json digits = Json::array();
        for (int64_t n = numbers[i++]; n > 0; --n, i += kDigitNumbers)
          digits.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
        out.push_back(digits);
      }
      return out;
    }
    case Kind::kName:
      break;
  }
  return {};
}

bool append_integers(const Json& list, size_t exactly, std::vector<int64_t>& out) {
  if (!list.is_array() || (exactly > 0 && list.size() != exactly)) return false;
  for (const Json& v : list) {
    if (!v.is_number_integer()) return false;
    out.push_back(v.get<int64_t>());
  }
  return true;
}

// Appends the attribute's numbers; false: the value has another form.
bool append_numbers(const Attribute& a, const Json& value, std::vector<int64_t>& out) {
  switch (a.kind) {
    case Kind::kScope:
    case Kind::kAxis:
    case Kind::kKey: {
      const std::optional<int64_t> n = value.is_string() ? from_word(a.kind, value.get<std::string>()) : std::nullopt;
      if (n) out.push_back(*n);
      return n.has_value();
    }
    case Kind::kTails: {
      int64_t bits = 0;
      for (const Json& v : value.is_array() ? value : Json::array()) {
        const auto* found = v.is_string()
                                ? std::find(std::begin(kTailNames), std::end(kTailNames), v.get<std::string>())
                                : std::end(kTailNames);
        if (found == std::end(kTailNames)) return false;
        bits |= int64_t{1} << (found - std::begin(kTailNames));
      }
      out.push_back(bits);
      return true;
    }
    case Kind::kCounted:
      if (!value.is_array()) return false;
      out.push_back(static_cast<int64_t>(value.size()));
      return append_integers(value, 0, out);
    case Kind::kHalf:
    case Kind::kList:
      return append_integers(value, 0, out);
    case Kind::kPairs:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [&](const Json& v) { return append_integers(v, 2, out); });
    case Kind::kDigits:
      return value.is_array() && std::all_of(value.begin(), value.end(), [&](const Json& digits) {
               if (!digits.is_array()) return false;
               out.push_back(static_cast<int64_t>(digits.size()));
               return std::all_of(digits.begin(), digits.end(),
                                  [&](const Json& v) { return append_integers(v, kDigitNumbers, out); });
             });
    case Kind::kRead:
      if (a.low < 0 && value == "result") {
        out.push_back(-1);
        return true;
      }
      [[fallthrough]];
    case Kind::kInteger:
    case Kind::kFactors:
      if (!value.is_number_integer()) return false;
      out.push_back(value.get<int64_t>());
      return true;
    case Kind::kName:
      break;
  }
  return false;
}

// ", did you mean 'local'?"
std::string hint(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = suggest(word, known);
  return near.empty() ? "" : ", " + near;
}

tl::unexpected<Reject> unexpected_value(const Attribute& a, const Json& value) {
  std::vector<std::string> known;
  if (is_word(a.kind)) known.assign(words(a.kind).begin(), words(a.kind).end());
  if (a.kind == Kind::kTails) known.assign(std::begin(kTailNames), std::end(kTailNames));
  const Json& word = value.is_array() && !value.empty() ? value.back() : value;
  return bad(fmt::format("attribute {}: expected {}, found {}{}", a.name, expectation(a),
                         sanitize(print_value(value), 60),
                         word.is_string() ? hint(word.get<std::string>(), known) : std::string()));
}

}  // namespace

const std::vector<OpRow>& op_table() {
  using enum Attribute::Kind;
  using enum Flag;
  static const std::vector<OpRow> rows = {
#define TCC_X(kind, name, least, most, flag, ...) OpRow{Op::k##kind, #name, least, most, flag, {__VA_ARGS__}},
      TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
  };
  return rows;
}

std::optional<Op> op_from_name(std::string_view name) {
  for (const OpRow& row : op_table())
    if (row.name == name) return row.op;
  return std::nullopt;
}
std::vector<std::string> all_op_names() {
  std::vector<std::string> out;
  for (const OpRow& row : op_table()) out.emplace_back(row.name);
  return out;
}

uint64_t stored_code(Op op) {
  static const std::vector<uint64_t> codes = [] {
    std::vector<uint64_t> out;
    for (const OpRow& row : op_table()) out.push_back(ir::stored_code(kFirst, row.name));
    return out;
  }();
  return codes[static_cast<size_t>(op)];
}

std::vector<uint64_t> stored_codes(const Instruction& in) {
  std::vector<uint64_t> out(in.attrs.begin(), in.attrs.end());
  const auto slots = slots_of(in);
  if (!slots) return out;
  const std::vector<Attribute>& attributes = op_row(in.op).attributes;
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (!is_word(attributes[i].kind) || !is_legal(attributes[i], (*slots)[i], in.outputs)) continue;
    out[static_cast<size_t>((*slots)[i].data() - in.attrs.data())] = stored_word(attributes[i].kind, (*slots)[i][0]);
  }
  return out;
}

std::span<const int64_t> attribute(const Instruction& in, std::string_view name) {
  std::span<const int64_t> rest = in.attrs;
  for (const Attribute& a : op_row(in.op).attributes) {  // replay asks often: nothing behind the name is looked at
    const std::optional<std::span<const int64_t>> own = take(a, in.attrs.size(), rest);
    TCC_CHECK(own.has_value(), "{} with {} numbers", op_name(in.op), in.attrs.size());
    if (a.name == name) return *own;
  }
  TCC_UNREACHABLE("{} has no attribute {}", op_name(in.op), name);
}

Legal<void> check_form(const Instruction& in, size_t decision, size_t values) {
  const OpRow& r = op_row(in.op);
  auto wrong = [&](const std::string& what) { return bad(fmt::format("{}: {}", r.name, what)); };
  const int n = static_cast<int>(in.inputs.size());
  if (n < r.min_inputs || (r.max_inputs != kAny && n > r.max_inputs))
    return wrong(r.min_inputs == r.max_inputs ? fmt::format("{} inputs instead of {}", n, r.min_inputs)
                                              : fmt::format("{} inputs are too few or too many", n));
  if (in.first_output < 0 || in.first_output > 1 << 20 || in.outputs > 1 << 16)
    return wrong("more outputs than there may be variables");
  for (const Input& i : in.inputs)
    if (i.kind == Input::Kind::kVariable && (i.value < 0 || static_cast<size_t>(i.value) >= values))
      return wrong(fmt::format("v{} is not defined before it", i.value));
  if (r.attributes.empty() && in.attrs.empty() && r.flag != Flag::kSampling) return {};
  const auto slots = slots_of(in);
  if (!slots) return wrong(fmt::format("{} numbers do not fill its attributes", in.attrs.size()));
  for (size_t i = 0; i < r.attributes.size(); ++i) {
    const Attribute& a = r.attributes[i];
    if (!is_legal(a, (*slots)[i], in.outputs))
      return wrong(fmt::format("attribute {}: expected {}, found {}", a.name, expectation(a),
                               print_value(value_of(a, (*slots)[i]))));
  }
  if (r.flag != Flag::kSampling) return {};
  if (static_cast<int>(decision) != in.decision_length) return wrong("missing decision");
  const bool tile = in.op == Op::kSamplePerfectTile || in.op == Op::kSampleTile;
  if (in.decision_length != (tile ? in.outputs : 1))
    return wrong(fmt::format("expected {} decisions, found {}", tile ? in.outputs : 1, in.decision_length));
  if (in.op == Op::kSampleCategorical &&
      std::all_of((*slots)[1].begin(), (*slots)[1].end(), [](int64_t w) { return w == 0; }))
    return wrong("attribute weights: expected one above 0, found none");
  return {};
}

const Attribute* nameless_attribute(Op op) {
  const std::vector<Attribute>& all = op_row(op).attributes;
  return all.size() == 1 && is_word(all[0].kind) ? all.data() : nullptr;
}

std::optional<Json> attribute_value(const Instruction& in, const Attribute& a) {
  if (a.kind == Kind::kFactors) return std::nullopt;
  if (a.kind == Kind::kName) return Json(in.text);
  const std::span<const int64_t> numbers = attribute(in, a.name);
  if (a.otherwise && numbers[0] == *a.otherwise) return std::nullopt;
  return value_of(a, numbers);
}

std::string print_value(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string out;
  for (const Json& v : value) out += (out.empty() ? "" : ", ") + print_value(v);
  return "[" + out + "]";
}

std::string print_attributes(const Instruction& in) {
  std::string out;
  if (!slots_of(in)) return fmt::format("{}", fmt::join(in.attrs, " "));  // not well-formed: for messages
  for (const Attribute& a : op_row(in.op).attributes) {
    const std::optional<Json> value = a.kind == Kind::kName ? std::nullopt : attribute_value(in, a);
    if (!value) continue;
    if (!out.empty()) out += " ";
    if (&a != nameless_attribute(in.op)) out += fmt::format("{}=", a.name);
    out += print_value(*value);
  }
  return out;
}

Legal<void> set_attributes(Instruction& in, const Json& values) {
  const std::vector<Attribute>& attributes = op_row(in.op).attributes;
  std::vector<std::string> known;
  for (const Attribute& a : attributes)
    if (a.kind != Kind::kFactors) known.emplace_back(a.name);
  for (const auto& [name, value] : values.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      return bad(fmt::format("expected {}, found attribute '{}'{}",
                             known.empty() ? "no attribute" : fmt::format("{}", fmt::join(known, ", ")),
                             sanitize(name, 40), hint(name, known)));
  std::optional<size_t> half;  // length of the first of two lists
  for (const Attribute& a : attributes) {
    if (a.kind == Kind::kFactors) {
      in.attrs.push_back(in.outputs - a.low);
      continue;
    }
    const auto found = values.find(std::string(a.name));
    if (found == values.end() && a.otherwise) {
      in.attrs.push_back(*a.otherwise);
      continue;
    }
    if (found == values.end()) return bad(fmt::format("attribute {} is missing: expected {}", a.name, expectation(a)));
    if (a.kind == Kind::kName) {
      if (!found->is_string()) return unexpected_value(a, *found);
      in.text = found->get<std::string>();
      continue;
    }
    if (a.kind == Kind::kHalf && half && *half != found->size())
      return bad(fmt::format("attribute {}: expected as many items as {} has, found {}", a.name, attributes[0].name,
                             found->size()));
    if (a.kind == Kind::kHalf) half = found->size();
    const size_t before = in.attrs.size();
    if (!append_numbers(a, *found, in.attrs)) return unexpected_value(a, *found);
    const std::span<const int64_t> own =
        std::span<const int64_t>(in.attrs).subspan(before + (a.kind == Kind::kCounted));
    if (a.kind != Kind::kFactors && !is_legal(a, own, in.outputs)) return unexpected_value(a, *found);
  }
  return {};
}

Legal<void> set_first_attributes(Instruction& in, std::vector<int64_t> numbers) {
  in.attrs = std::move(numbers);
  const auto slots = slots_of(in);
  if (!slots)
    return bad(fmt::format("expected numbers for {} attributes, found {} numbers", op_row(in.op).attributes.size(),
                           in.attrs.size()));
  for (size_t i = 0; i < slots->size(); ++i) {
    const Attribute& a = op_row(in.op).attributes[i];
    if (!is_word(a.kind)) continue;
    const std::optional<int64_t> now = from_first_number(a.kind, (*slots)[i][0]);
    if (!now)
      return bad(fmt::format("attribute {}: expected {}, found number {}", a.name, expectation(a), (*slots)[i][0]));
    in.attrs[static_cast<size_t>((*slots)[i].data() - in.attrs.data())] = *now;
  }
  return {};
}

}  // namespace tcc::schedule
