// The two text forms of traces. Lines for people:
//   v3 = cache_read(v1) read=0 scope=local
//   v4, v5 = sample_perfect_tile(v2) max_innermost=16 <8, 4>
// where results have any names (print_trace numbers them), and JSON for records: {"version": 2, "instructions": [[op,
// inputs, {attribute: value}, outputs]...], "decisions"}. Version 1 had numbers for names: `cache_read(v1) [0, 7]` and
// [op, inputs, [numbers], text, outputs]. Both are read.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "schedule/attributes.h"
#include "tcc/support/text.h"

namespace tcc::schedule {

namespace {

constexpr int kVersion = 2;
constexpr size_t kMaxTextInstructions = 4096;

std::string print_input(const Input& i) {
  switch (i.kind) {
    case Input::Kind::kVariable:
      return fmt::format("v{}", i.value);
    case Input::Kind::kLiteral:
      return fmt::format("{}", i.value);
    case Input::Kind::kInferred:
      return "_";
  }
  return "";
}

// How many decision slots an instruction has.
int decision_length(const Instruction& in) {
  if (!is_sampling(in.op)) return 0;
  return in.op == Op::kSamplePerfectTile || in.op == Op::kSampleTile ? in.outputs : 1;
}

// Numbers outputs and decision slots in order; what the files do not repeat.
Result<void> number(Trace& trace, const std::string& where) {
  trace.variables = 0;
  int slots = 0;
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    Instruction& in = trace.instructions[i];
    if (in.outputs < 0 || in.outputs > 256)
      return input_error("{}: instruction {} ({}) has {} outputs", where, i, op_name(in.op), in.outputs);
    for (const Input& input : in.inputs)
      if (input.kind == Input::Kind::kVariable && (input.value < 0 || input.value >= trace.variables))
        return input_error("{}: instruction {} ({}) uses v{}, which is not defined before it", where, i, op_name(in.op),
                           input.value);
    in.first_output = trace.variables;
    trace.variables += in.outputs;
    in.decision_length = decision_length(in);
    in.decision = in.decision_length > 0 ? slots : -1;
    slots += in.decision_length;
  }
  if (static_cast<size_t>(slots) != trace.decisions.size())
    return input_error("{}: the instructions need {} decisions, {} are given", where, slots, trace.decisions.size());
  return {};
}

// The variables of the lines so far, by their names.
using Names = std::map<std::string, int, std::less<>>;

class LineParser {
 public:
  LineParser(std::string_view line, std::string_view file, int number) : line_(line), file_(file), number_(number) {}

  Result<Instruction> parse(std::vector<int64_t>& decisions, Names& names) {
    Instruction in{};
    std::vector<std::string> results;
    skip();
    // "v3, v4 = " or nothing.
    size_t equals = line_.find('=');
    size_t open = line_.find('(');
    if (equals != std::string_view::npos && equals < open) {
      do {
        skip();
        const size_t start = at_;
        const std::string_view name = variable_name();
        if (name.empty()) return fail("a result's name, as 'v1' or 'tile'");
        at_ = start;
        if (names.contains(name) || std::find(results.begin(), results.end(), name) != results.end())
          return fail(fmt::format("a new name, and '{}' names a result already", name));
        variable_name();
        results.emplace_back(name);
        ++in.outputs;
        skip();
      } while (eat(','));
      if (!eat('=')) return fail("'='");
      skip();
    }
    size_t begin = at_;
    const std::string_view name = word();
    std::optional<Op> op = op_from_name(name);
    if (!op) {
      at_ = begin;
      std::vector<std::string> known = all_op_names();
      std::string hint = suggest(name, known);
      return fail("an instruction" + (hint.empty() ? "" : ", " + hint));
    }
    in.op = *op;
    if (!eat('(')) return fail("'('");
    skip();
    while (!eat(')')) {
      if (!in.inputs.empty() || !in.text.empty()) {
        if (!eat(',')) return fail("',' or ')'");
        skip();
      }
      const size_t start = at_;
      if (eat('_')) {
        in.inputs.push_back(kInferred);
      } else if (const std::string_view name = variable_name(); !name.empty()) {
        const auto found = names.find(name);
        if (found == names.end()) {
          at_ = start;
          return unknown(name, names);
        }
        in.inputs.push_back(variable(found->second));
      } else if (eat('"')) {
        size_t end = line_.find('"', at_);
        if (end == std::string_view::npos) return fail("a closing '\"'");
        in.text = std::string(line_.substr(at_, end - at_));
        at_ = end + 1;
      } else {
        TCC_TRY(int64_t v, integer());
        in.inputs.push_back(literal(v));
      }
      skip();
    }
    skip();
    TCC_TRY_VOID(attributes(in));
    if (eat('<')) {
      std::vector<int64_t> d;
      TCC_TRY_VOID(list('>', d));
      in.decision_length = static_cast<int>(d.size());
      if (in.decision_length != decision_length(in)) return fail(fmt::format("{} decisions", decision_length(in)));
      decisions.insert(decisions.end(), d.begin(), d.end());
    } else if (decision_length(in) > 0) {
      return fail("a decision '<...>'");
    }
    skip();
    if (at_ < line_.size()) return fail("the end of the line");
    for (std::string& name : results) names.emplace(std::move(name), static_cast<int>(names.size()));
    return in;
  }

 private:
  void skip() {
    while (at_ < line_.size() && std::isspace(static_cast<unsigned char>(line_[at_])) != 0) ++at_;
  }
  bool eat(char c) {
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<int64_t> integer() {
    int64_t v = 0;
    auto [end, code] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), v);
    if (code != std::errc{}) return fail("an integer");
    at_ = static_cast<size_t>(end - line_.data());
    return v;
  }
  std::string_view word() {
    const size_t begin = at_;
    while (at_ < line_.size() &&
           (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 || line_[at_] == '_' || line_[at_] == '.'))
      ++at_;
    return line_.substr(begin, at_ - begin);
  }
  // A letter, then letters, digits and '_'; otherwise "".
  std::string_view variable_name() {
    const size_t begin = at_;
    if (at_ < line_.size() && std::isalpha(static_cast<unsigned char>(line_[at_])) != 0)
      while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 || line_[at_] == '_'))
        ++at_;
    return line_.substr(begin, at_ - begin);
  }
  tl::unexpected<Error> unknown(std::string_view name, const Names& names) {
    std::vector<std::string> known;
    for (const auto& [other, variable] : names) known.push_back(other);
    const std::string hint = suggest(name, known);
    return fail(fmt::format("the name of a result of a line above, not '{}'{}", sanitize(name),
                            hint.empty() ? "" : "; " + hint));
  }
  // `name=value` for each attribute, `value` for a nameless one, or the numbers of version 1 in brackets.
  Result<void> attributes(Instruction& in) {
    const size_t begin = at_;
    Legal<void> done = {};
    if (eat('[')) {
      std::vector<int64_t> numbers;
      TCC_TRY_VOID(list(']', numbers));
      done = set_first_attributes(in, std::move(numbers));
    } else {
      Json values = Json::object();
      for (const Attribute& a : op_row(in.op).attributes)
        if (a.kind == Attribute::Kind::kName) values[std::string(a.name)] = in.text;
      const bool none = op_row(in.op).attributes.empty();
      for (skip(); !none && at_ < line_.size() && line_[at_] != '<'; skip()) {
        const size_t start = at_;
        std::string name(word());
        if (name.empty()) return fail("an attribute, '<' or the end of the line");
        Json value;
        if (eat('=')) {
          TCC_TRY(value, json_value(0));
        } else if (const Attribute* a = nameless_attribute(in.op)) {
          value = std::exchange(name, std::string(a->name));
        } else {
          return fail("'=' and the attribute's value");
        }
        if (values.contains(name)) {
          at_ = start;
          return fail(fmt::format("attribute {} once", name));
        }
        values[name] = std::move(value);
      }
      done = set_attributes(in, values);
    }
    skip();
    if (!done) return input_error("{}:{}:{}: {}: {}", file_, number_, begin + 1, op_name(in.op), done.error().text);
    return {};
  }
  Result<Json> json_value(int depth) {
    if (eat('[')) {
      if (depth > 3) return fail("a value that is not nested so deeply");
      Json out = Json::array();
      for (skip(); !eat(']'); skip()) {
        if (!out.empty()) {
          if (!eat(',')) return fail("',' or ']'");
          skip();
        }
        TCC_TRY(Json item, json_value(depth + 1));
        out.push_back(std::move(item));
      }
      return out;
    }
    if (at_ < line_.size() && (std::isdigit(static_cast<unsigned char>(line_[at_])) != 0 || line_[at_] == '-')) {
      TCC_TRY(const int64_t v, integer());
      return Json(v);
    }
    const std::string_view text = word();
    if (text.empty()) return fail("a value");
    return Json(std::string(text));
  }
  Result<void> list(char close, std::vector<int64_t>& out) {
    skip();
    while (!eat(close)) {
      if (!out.empty()) {
        if (!eat(',')) return fail(fmt::format("',' or '{}'", close));
        skip();
      }
      TCC_TRY(int64_t v, integer());
      out.push_back(v);
      skip();
    }
    return {};
  }
  tl::unexpected<Error> fail(const std::string& expected) {
    return input_error("{}:{}:{}: expected {}", file_, number_, at_ + 1, expected);
  }

  std::string_view line_, file_;
  int number_;
  size_t at_ = 0;
};

}  // namespace

std::string print_trace(const Trace& trace) {
  std::string out;
  for (const Instruction& in : trace.instructions) {
    for (int i = 0; i < in.outputs; ++i) out += fmt::format("{}v{}", i == 0 ? "" : ", ", in.first_output + i);
    if (in.outputs > 0) out += " = ";
    out += fmt::format("{}(", op_name(in.op));
    if (!in.text.empty()) out += fmt::format("\"{}\"", in.text);
    for (size_t i = 0; i < in.inputs.size(); ++i)
      out += (i > 0 || !in.text.empty() ? ", " : "") + print_input(in.inputs[i]);
    out += ")";
    if (const std::string text = print_attributes(in); !text.empty()) out += " " + text;
    if (in.decision >= 0) {
      auto first = trace.decisions.begin() + in.decision;
      out += fmt::format(" <{}>", fmt::join(first, first + in.decision_length, ", "));
    }
    out += "\n";
  }
  return out;
}

Result<Trace> parse_trace(std::string_view text, std::string_view file) {
  Trace trace;
  int number_of_line = 0;
  Names names;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    ++number_of_line;
    size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (trace.instructions.size() >= kMaxTextInstructions)
      return input_error("{}:{}: more than {} instructions", file, number_of_line, kMaxTextInstructions);
    TCC_TRY(Instruction in, LineParser(line, file, number_of_line).parse(trace.decisions, names));
    trace.instructions.push_back(std::move(in));
  }
  TCC_TRY_VOID(number(trace, std::string(file)));
  return trace;
}

std::string trace_to_json(const Trace& trace) {
  Json instructions = Json::array();
  for (const Instruction& in : trace.instructions) {
    Json inputs = Json::array(), attributes = Json::object();
    for (const Input& i : in.inputs) inputs.push_back(print_input(i));
    for (const Attribute& a : op_row(in.op).attributes)
      if (std::optional<Json> value = attribute_value(in, a)) attributes[std::string(a.name)] = std::move(*value);
    instructions.push_back(Json::array({op_name(in.op), inputs, attributes, in.outputs}));
  }
  return Json{{"version", kVersion}, {"instructions", instructions}, {"decisions", trace.decisions}}.dump();
}

namespace {

bool append_integers(const Json& list, std::vector<int64_t>& out) {
  if (!list.is_array()) return false;
  for (const Json& v : list) {
    if (!v.is_number_integer()) return false;
    out.push_back(v.get<int64_t>());
  }
  return true;
}

std::optional<Input> input_from(const Json& json) {
  const std::string s = json.is_string() ? json.get<std::string>() : "";
  if (s == "_") return kInferred;
  const char* begin = s.data() + (!s.empty() && s[0] == 'v' ? 1 : 0);
  int64_t v = 0;
  const auto [end, code] = std::from_chars(begin, s.data() + s.size(), v);
  if (code != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return Input{begin == s.data() ? Input::Kind::kLiteral : Input::Kind::kVariable, v};
}

// A row of `version`. The reject's text says what was expected.
Legal<Instruction> instruction_from(const Json& row, int64_t version) {
  auto bad = [](const std::string& what) { return ir::reject(ir::RejectReason::kBadDecision, what); };
  const size_t outputs = version == 1 ? 4 : 3;
  if (!row.is_array() || row.size() != outputs + 1 || !row[0].is_string() || !row[1].is_array() ||
      !row[outputs].is_number_integer())
    return bad(version == 1 ? "an instruction is [op, inputs, attributes, text, outputs]"
                            : "an instruction is [op, inputs, attributes, outputs]");
  Instruction in{};
  const std::string name = row[0].get<std::string>();
  const std::optional<Op> op = op_from_name(name);
  if (!op) {
    const std::string hint = suggest(name, all_op_names());
    return bad(fmt::format("unknown instruction '{}'{}", sanitize(name, 40), hint.empty() ? "" : ", " + hint));
  }
  in.op = *op;
  for (const Json& i : row[1]) {
    const std::optional<Input> input = input_from(i);
    if (!input)
      return bad(
          fmt::format("{}: expected 'v<number>', a number or '_' as input, found {}", name, sanitize(i.dump(), 40)));
    in.inputs.push_back(*input);
  }
  in.outputs = static_cast<int>(std::clamp<int64_t>(row[outputs].get<int64_t>(), -1, 1 << 20));
  Legal<void> done = {};
  if (version == 1) {
    std::vector<int64_t> numbers;
    if (!append_integers(row[2], numbers) || !row[3].is_string()) return bad(name + ": attributes are integers");
    in.text = row[3].get<std::string>();
    done = set_first_attributes(in, std::move(numbers));
  } else if (!row[2].is_object()) {
    return bad(name + ": attributes are an object");
  } else {
    done = set_attributes(in, row[2]);
  }
  if (!done) return bad(fmt::format("{}: {}", name, done.error().text));
  return in;
}

}  // namespace

Result<Trace> trace_from_json(std::string_view text, std::string_view file) {
  const Json json = Json::parse(text, nullptr, false);
  auto bad = [&](const std::string& what) { return input_error("{}: not a trace: {}", file, what); };
  if (json.is_discarded() || !json.is_object()) return bad("no JSON object");
  const Json version = json.value("version", Json());
  if (!version.is_number_integer() || version < 1 || version > kVersion)
    return bad(fmt::format("version 1 to {} is expected", kVersion));
  if (!json.contains("instructions") || !json["instructions"].is_array() || !json.contains("decisions"))
    return bad("'instructions' and 'decisions' are expected");
  if (json["instructions"].size() > kMaxTextInstructions) return bad("too many instructions");
  Trace trace;
  if (!append_integers(json["decisions"], trace.decisions)) return bad("decisions are integers");
  for (const Json& row : json["instructions"]) {
    Legal<Instruction> in = instruction_from(row, version.get<int64_t>());
    if (!in) return bad(fmt::format("instruction {}: {}", trace.instructions.size(), in.error().text));
    trace.instructions.push_back(std::move(*in));
  }
  TCC_TRY_VOID(number(trace, std::string(file)));
  return trace;
}

}  // namespace tcc::schedule
