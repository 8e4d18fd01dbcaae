// The table: the families one after the other, found by name; semantics parsed once.
#include <algorithm>
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

int32_t instruction_row(Family family, Behaviour behaviour, int32_t num_args) {
  const int32_t row = find_instruction(family, [&](const Instruction& in) {
    return in.behaviour == behaviour && (num_args < 0 || in.num_args == num_args);
  });
  TCC_CHECK(row >= 0, "family {} has no row of behavior {} with {} arguments", static_cast<int>(family),
            static_cast<int>(behaviour), num_args);
  return row;
}

std::vector<int32_t> find_products(Type type, Participants participants) {
  const std::span<const Instruction> rows = instruction_table();
  std::vector<int32_t> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const OperandSpec> o = rows[i].operands;
    if (rows[i].flops > 0 && rows[i].participants == participants && o.size() == 3 && o[1].type == type &&
        type_bytes(o[0].type) == 4)
      out.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](int32_t a, int32_t b) { return instruction(a).flops > instruction(b).flops; });
  return out;
}

bool reads_transposed(const Instruction& row, size_t operand) {
  const std::string_view name = row.operands[operand].name;
  for (std::string_view indices : {"A[k, i]", "B[j, k]", "S[m, c, r]"})
    if (indices.starts_with(name) && row.semantics.find(indices) != std::string_view::npos) return true;
  return false;
}

namespace {
bool same_tile(const OperandSpec& a, const OperandSpec& b) {
  return a.type == b.type && a.scope == b.scope && a.rank == b.rank && std::equal(a.tile, a.tile + a.rank, b.tile) &&
         a.layout == b.layout;
}
}  // namespace

int32_t find_tile_load(Family family, const OperandSpec& tile) {
  return find_instruction(family, [&](const Instruction& in) {
    return in.flops == 0 && in.operands.size() == 2 && in.operands[0].access == Access::kWrite &&
           same_tile(in.operands[0], tile);
  });
}
int32_t find_tile_zero(Family family, const OperandSpec& tile) {
  return find_instruction(
      family, [&](const Instruction& in) { return in.operands.size() == 1 && same_tile(in.operands[0], tile); });
}
int32_t find_tile_store(Family family, const OperandSpec& tile) {
  return find_instruction(family, [&](const Instruction& in) {
    return in.flops == 0 && in.operands.size() == 2 && same_tile(in.operands[1], tile);
  });
}
int32_t find_shuffle(Type type) {
  return find_instruction(Family::kWarp, [&](const Instruction& in) {
    return in.behaviour == Behaviour::kShuffle && in.operands[0].type == type;
  });
}
int32_t find_tensor_copy(Type type, Scope to, bool multicast) {
  return find_instruction(Family::kTensorCopy, [&](const Instruction& in) {
    return !in.operands.empty() && in.operands[0].type == type && in.operands[0].scope == to &&
           (in.multicast_arg >= 0) == multicast;
  });
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
