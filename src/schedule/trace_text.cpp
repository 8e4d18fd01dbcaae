// The two text forms of traces. Lines for people:
//   v3, v4 = split(v1, v7, _) [attrs] <decision>
// and JSON for records: {"version", "instructions": [[op, inputs, attrs, text, outputs]...], "decisions": [...]}.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tcc/schedule/trace.h"
#include "tcc/support/text.h"

namespace tcc::schedule {

namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxInstructions = 4096;

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

std::optional<Op> op_from_name(std::string_view name) {
  constexpr Op kAll[] = {
#define TCC_X(kind, text) Op::k##kind,
      TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
  };
  for (Op op : kAll)
    if (op_name(op) == name) return op;
  return std::nullopt;
}

std::vector<std::string> all_op_names() {
  return {
#define TCC_X(kind, text) text,
      TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
  };
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

class LineParser {
 public:
  LineParser(std::string_view line, std::string_view file, int number) : line_(line), file_(file), number_(number) {}

  Result<Instruction> parse(std::vector<int64_t>& decisions, int variables) {
    Instruction in{};
    skip();
    // "v3, v4 = " or nothing.
    size_t equals = line_.find('=');
    size_t open = line_.find('(');
    if (equals != std::string_view::npos && equals < open) {
      do {
        skip();
        if (!eat('v')) return fail("a result 'v<number>'");
        TCC_TRY(int64_t v, integer());
        if (v != variables + in.outputs)
          return fail(fmt::format("'v{}': results are numbered in order", variables + in.outputs));
        ++in.outputs;
        skip();
      } while (eat(','));
      if (!eat('=')) return fail("'='");
      skip();
    }
    size_t begin = at_;
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 || line_[at_] == '_'))
      ++at_;
    std::string_view word = line_.substr(begin, at_ - begin);
    std::optional<Op> op = op_from_name(word);
    if (!op) {
      at_ = begin;
      std::vector<std::string> known = all_op_names();
      std::string hint = suggest(word, known);
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
      if (eat('_')) {
        in.inputs.push_back(kInferred);
      } else if (eat('v')) {
        TCC_TRY(int64_t v, integer());
        in.inputs.push_back(variable(static_cast<int>(std::min<int64_t>(v, 1 << 30))));
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
    if (eat('[')) TCC_TRY_VOID(list(']', in.attrs));
    skip();
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
    if (!in.attrs.empty()) out += fmt::format(" [{}]", fmt::join(in.attrs, ", "));
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
  int number_of_line = 0, variables = 0;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    ++number_of_line;
    size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (trace.instructions.size() >= kMaxInstructions)
      return input_error("{}:{}: more than {} instructions", file, number_of_line, kMaxInstructions);
    TCC_TRY(Instruction in, LineParser(line, file, number_of_line).parse(trace.decisions, variables));
    variables += in.outputs;
    trace.instructions.push_back(std::move(in));
  }
  TCC_TRY_VOID(number(trace, std::string(file)));
  return trace;
}

std::string trace_to_json(const Trace& trace) {
  nlohmann::json instructions = nlohmann::json::array();
  for (const Instruction& in : trace.instructions) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const Input& i : in.inputs) inputs.push_back(print_input(i));
    instructions.push_back({op_name(in.op), inputs, in.attrs, in.text, in.outputs});
  }
  return nlohmann::json{{"version", kVersion}, {"instructions", instructions}, {"decisions", trace.decisions}}.dump();
}

Result<Trace> trace_from_json(std::string_view text, std::string_view file) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  auto bad = [&](const std::string& what) { return input_error("{}: not a trace: {}", file, what); };
  if (json.is_discarded() || !json.is_object()) return bad("no JSON object");
  if (!json.contains("version") || !json["version"].is_number_integer() || json["version"] != kVersion)
    return bad(fmt::format("version {} is expected", kVersion));
  if (!json.contains("instructions") || !json["instructions"].is_array() || !json.contains("decisions") ||
      !json["decisions"].is_array())
    return bad("'instructions' and 'decisions' are expected");
  if (json["instructions"].size() > kMaxInstructions) return bad("too many instructions");
  auto integers = [](const nlohmann::json& list, std::vector<int64_t>& out) {
    if (!list.is_array()) return false;
    for (const auto& v : list) {
      if (!v.is_number_integer()) return false;
      out.push_back(v.get<int64_t>());
    }
    return true;
  };
  Trace trace;
  if (!integers(json["decisions"], trace.decisions)) return bad("decisions are integers");
  for (const auto& row : json["instructions"]) {
    if (!row.is_array() || row.size() != 5 || !row[0].is_string() || !row[1].is_array() || !row[3].is_string() ||
        !row[4].is_number_integer())
      return bad("an instruction is [op, inputs, attrs, text, outputs]");
    Instruction in{};
    std::string name = row[0].get<std::string>();
    std::optional<Op> op = op_from_name(name);
    if (!op) return bad("unknown instruction '" + sanitize(name, 40) + "'");
    in.op = *op;
    for (const auto& i : row[1]) {
      if (!i.is_string()) return bad("inputs are strings");
      std::string s = i.get<std::string>();
      int64_t v = 0;
      const char* begin = s.data() + (!s.empty() && s[0] == 'v' ? 1 : 0);
      if (s == "_") {
        in.inputs.push_back(kInferred);
      } else if (auto [end, code] = std::from_chars(begin, s.data() + s.size(), v);
                 code != std::errc{} || end != s.data() + s.size()) {
        return bad("input '" + sanitize(s, 40) + "'");
      } else {
        in.inputs.push_back({begin == s.data() ? Input::Kind::kLiteral : Input::Kind::kVariable, v});
      }
    }
    if (!integers(row[2], in.attrs)) return bad("attributes are integers");
    in.text = row[3].get<std::string>();
    in.outputs = static_cast<int>(std::clamp<int64_t>(row[4].get<int64_t>(), -1, 1 << 20));
    trace.instructions.push_back(std::move(in));
  }
  TCC_TRY_VOID(number(trace, std::string(file)));
  return trace;
}

}  // namespace tcc::schedule
