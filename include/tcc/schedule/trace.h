// Trace: the one record of a schedule. A skeleton of instructions and the decisions of its sampling instructions
// (MetaSchedule, section 4). Everything that makes a program makes a trace; everything else replays it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tcc/schedule/ops.h"
#include "tcc/schedule/primitives.h"
#include "tcc/support/result.h"
#include "tcc/support/rng.h"

namespace tcc::schedule {

// An input: a random variable of the trace, an integer literal, or "inferred" (split factors only).
struct Input {
  enum class Kind : uint8_t { kVariable = 0, kLiteral = 1, kInferred = 2 } kind;  // stored hashes hold the numbers
  int64_t value;
  bool operator==(const Input&) const = default;
};
inline Input variable(int rv) {
  return {Input::Kind::kVariable, rv};
}
inline Input literal(int64_t v) {
  return {Input::Kind::kLiteral, v};
}
inline constexpr Input kInferred{Input::Kind::kInferred, 0};

struct Instruction {
  Op op;
  std::vector<Input> inputs;
  std::vector<int64_t> attrs;  // the values of the row's attributes, one after the other: see attribute()
  std::string text;            // the attribute of kind kName
  int first_output = 0;        // outputs are variables first_output .. first_output + outputs - 1
  int outputs = 0;
  int decision = -1;  // sampling: offset into the decisions
  int decision_length = 0;
  bool operator==(const Instruction&) const = default;
};

// The numbers of one attribute of a well-formed instruction (check_form), by its name in the table.
std::span<const int64_t> attribute(const Instruction& in, std::string_view name);
inline int64_t integer(const Instruction& in, std::string_view name) {
  return attribute(in, name)[0];
}
template <class E>
E enumerator(const Instruction& in, std::string_view name) {
  return static_cast<E>(integer(in, name));
}
// "read=0 scope=local"; a primitive's only attribute is written without its name where it is a word: "unroll_max".
std::string print_attributes(const Instruction& in);
// Is the instruction as its row of the table says, with a decision of this many numbers and inputs among the `values`
// variables defined so far? Rejects name the attribute, the expected value and the found one.
Legal<void> check_form(const Instruction& in, size_t decision, size_t values);

struct Trace {
  std::vector<Instruction> instructions;
  std::vector<int64_t> decisions;  // of all sampling instructions, in order
  int variables = 0;

  bool operator==(const Trace&) const = default;
};
// Hash of the instructions alone. Names count, not the order of enumerators: record files hold this hash.
uint64_t skeleton_hash(const Trace& trace);

// What a variable holds during execution: a loop, a block or an integer expression.
struct Value {
  Id id = ir::kNoId;
  Expr expr = nullptr;
};

enum class Mode : uint8_t {
  kSample,    // draw decisions from the generator
  kReplay,    // take decisions from the trace; sample_perfect_tile repairs lists that no longer divide
  kSymbolic,  // integer decisions become decision scalars of the kernel; structural ones are taken from the trace
};

// Runs instructions on a kernel. The kernel's new nodes go to `arena`, which keeps the start kernel's arena alive.
class Executor {
 public:
  Executor(const Kernel& start, const ArenaPtr& arena, Mode mode, Rng* rng);

  // decision: in (kReplay, kSymbolic) and out (what was used).
  Legal<void> run(const Instruction& instruction, std::span<int64_t> decision);

  const Kernel& kernel() const { return kernel_; }
  Kernel& kernel() { return kernel_; }
  const Value& value(int rv) const { return values_[static_cast<size_t>(rv)]; }
  // Symbolic mode: scalar id of each decision slot, kNoId for structural ones.
  const std::vector<Id>& symbols() const { return symbols_; }
  // Number of outputs the last get_loops, get_producers, ... produced (recording needs it).
  int last_outputs() const { return last_outputs_; }

 private:
  friend struct Step;
  Kernel kernel_;
  Mode mode_;
  Rng* rng_;
  std::vector<Value> values_;
  std::vector<Id> symbols_;
  int last_outputs_ = 0;
};

// Replays a trace with the given decisions (normally trace.decisions). `used` receives the repaired decisions if given.
Legal<Kernel> replay(const Trace& trace, std::span<const int64_t> decisions, const Kernel& start, const ArenaPtr& arena,
                     std::vector<int64_t>* used = nullptr);
// The same with every decision drawn afresh; the drawn decisions replace `decisions`.
Legal<Kernel> sample(const Trace& trace, std::vector<int64_t>& decisions, const Kernel& start, const ArenaPtr& arena,
                     Rng& rng);

// Redraws every decision that is not structural, without running the trace: `decisions` must be those of a successful
// replay, whose tiles tell the extents.
void draw_decisions(const Trace& trace, std::span<int64_t> decisions, Rng& rng);

// Changes one decision of `decisions` at random so that it stays in range; false when the trace has nothing to mutate.
// Weights by kind as in MetaSchedule's mutators (tile 0.9, rest shared).
bool mutate(const Trace& trace, std::span<int64_t> decisions, Rng& rng);

// Text (for people) and JSON (for records); both round-trip. The first version's form, which holds numbers instead of
// names, is read too. Errors give line or instruction, the expected and the found value, the nearest name.
std::string print_trace(const Trace& trace);
Result<Trace> parse_trace(std::string_view text, std::string_view file = "<trace>");
std::string trace_to_json(const Trace& trace);
Result<Trace> trace_from_json(std::string_view text, std::string_view file = "<trace>");

}  // namespace tcc::schedule
