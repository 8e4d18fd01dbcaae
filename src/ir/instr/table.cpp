// The table: the families one after the other, found by name; semantics parsed once.
#include <array>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ir/instr/rows.h"
#include "tcc/ir/text.h"
#include "tcc/support/check.h"

namespace tcc::ir {
namespace {

struct Table {
  std::vector<Instruction> rows;
  std::unordered_map<std::string_view, int32_t> by_name;

  Table() {
    for (auto family : {x86_vector_rows(), amx_rows(), mma_rows(), matrix_move_rows(), async_copy_rows(), warp_rows(),
                        barrier_rows(), wgmma_rows(), tensor_copy_rows(), wmma_rows()})
      rows.insert(rows.end(), family.begin(), family.end());
    for (size_t i = 0; i < rows.size(); ++i) {
      bool fresh = by_name.emplace(rows[i].name, static_cast<int32_t>(i)).second;
      TCC_CHECK(fresh, "two instructions are called {}", rows[i].name);
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

std::string semantics_text(const Instruction& row) {
  std::string text = "kernel built {\n";
  for (int32_t i = 0; i < row.num_args; ++i) text += fmt::format("param ${} in -281474976710656..281474976710656\n", i);
  for (const OperandSpec& o : row.operands) {
    std::string shape;
    for (int32_t d = 0; d < o.rank; ++d)
      shape +=
          fmt::format("{}{}", d == 0 ? "" : ", ", o.tile[d] == 0 ? fmt::format("${}", d) : std::to_string(o.tile[d]));
    text += fmt::format("{} {}: {}[{}]\n", o.access == Access::kRead ? "input" : "output", o.name, type_name(o.type),
                        shape);
  }
  return text + std::string(row.semantics) + "\n}\n";
}

}  // namespace

std::span<const Instruction> instruction_table() {
  return table().rows;
}

int32_t find_instruction(std::string_view name) {
  auto found = table().by_name.find(name);
  return found == table().by_name.end() ? -1 : found->second;
}

const Instruction& instruction(int32_t row) {
  TCC_CHECK(row >= 0 && static_cast<size_t>(row) < table().rows.size(), "instruction {}", row);
  return table().rows[static_cast<size_t>(row)];
}

const Kernel& instruction_semantics(int32_t row) {
  static std::mutex mutex;
  static std::unordered_map<int32_t, Kernel> parsed;
  const Instruction& spec = instruction(row);
  TCC_CHECK(spec.behaviour == Behaviour::kCompute, "{} has no semantics", spec.name);
  std::lock_guard lock(mutex);
  auto found = parsed.find(row);
  if (found != parsed.end()) return found->second;
  auto kernel = parse(semantics_text(spec), spec.name);
  TCC_CHECK(kernel.has_value(), "{}", kernel.error().message);
  return parsed.emplace(row, std::move(*kernel)).first->second;  // nodes of the map stay in place
}

}  // namespace tcc::ir
