// mma.sync and ldmatrix. Which lane and register holds which element of a product's fragments comes from the layouts of
// the instruction table; products are exact, their sum is rounded once.
#include <algorithm>

#include "emulation/ptx_fragment.h"
#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/layout.h"
#include "tcc/support/arena.h"
#include "tcc/support/check.h"

namespace tcc::emulation {
namespace {

struct Product {
  std::string_view opcode;  // of PTX
  Fragment d, a, b;
};

Fragment read_fragment(const ir::OperandSpec& spec) {
  Arena arena;
  const auto layout = ir::parse_layout(arena, spec.layout);
  TCC_CHECK(layout.has_value(), "operand layout '{}'", spec.layout);
  Fragment f;
  f.rows = spec.tile[0];
  f.columns = spec.tile[1];
  f.type = spec.type;
  const int64_t per_word = 4 / ir::type_bytes(spec.type);
  for (int64_t i = 0; i < f.rows; ++i) {
    for (int64_t j = 0; j < f.columns; ++j) {
      const int64_t index[] = {i, j};
      const ir::PhysicalIndex p = ir::apply(**layout, index);
      f.at.push_back({static_cast<uint8_t>(p.lane), static_cast<uint8_t>(p.reg / per_word),
                      static_cast<uint8_t>(p.reg % per_word)});
      f.registers = std::max(f.registers, static_cast<int>(p.reg / per_word) + 1);
    }
  }
  return f;
}
// One for each mma instruction of the table; rows that differ in the order of B in memory only are the same
// instruction.
const std::vector<Product>& products() {
  static const std::vector<Product> all = [] {
    std::vector<Product> out;
    for (const ir::Instruction& row : ir::instruction_table()) {
      if (row.family != ir::Family::kMma || ir::reads_transposed(row, 2)) continue;
      const auto& o = row.operands;
      out.push_back(
          {row.ptx.substr(0, row.ptx.find(' ')), read_fragment(o[0]), read_fragment(o[1]), read_fragment(o[2])});
    }
    return out;
  }();
  return all;
}

double element_value(ir::Type type, uint32_t word, int part) {
  if (type == ir::Type::kF16) return interp::f16_value(static_cast<uint16_t>(word >> (16 * part)));
  if (type == ir::Type::kBF16) return interp::bf16_value(static_cast<uint16_t>(word >> (16 * part)));
  if (type == ir::Type::kI8) return static_cast<int8_t>(word >> (8 * part));
  if (type == ir::Type::kI32) return static_cast<int32_t>(word);
  return static_cast<double>(std::bit_cast<float>(word));
}

}  // namespace

void gather(const Warp& w, const Fragment& f, const int32_t* places, bool tf32, std::vector<double>& out) {
  out.resize(f.at.size());
  for (size_t e = 0; e < f.at.size(); ++e) {
    const Fragment::At at = f.at[e];
    uint32_t word = w.source<uint32_t>(places[at.reg])[at.lane];
    if (tf32) word &= 0xffffe000u;
    out[e] = element_value(f.type, word, at.part);
  }
}

void scatter(Warp& w, const Fragment& f, const int32_t* places, const std::vector<double>& values) {
  for (size_t e = 0; e < f.at.size(); ++e) {
    const Fragment::At at = f.at[e];
    uint32_t& word = w.row<uint32_t>(places[at.reg])[at.lane];
    if (f.type == ir::Type::kF32) word = std::bit_cast<uint32_t>(static_cast<float>(values[e]));
    if (f.type == ir::Type::kI32) word = static_cast<uint32_t>(static_cast<int64_t>(values[e]));
    if (f.type == ir::Type::kF16)
      word = (word & (at.part == 0 ? 0xffff0000u : 0xffffu)) | static_cast<uint32_t>(Half::bits(values[e]))
                                                                   << (16 * at.part);
  }
}

void add_product(const std::vector<double>& a, const std::vector<double>& b, std::vector<double>& c, int64_t m,
                 int64_t n, int64_t k) {
  for (int64_t row = 0; row < m; ++row) {
    double* sums = c.data() + row * n;
    for (int64_t q = 0; q < k; ++q) {
      const double x = a[static_cast<size_t>(row * k + q)];
      const double* y = b.data() + q * n;
      for (int64_t column = 0; column < n; ++column) sums[column] += x * y[column];
    }
  }
}

void take_registers(Selector& x, size_t n, int count, bool result) {
  const Operand& o = x.at(n);
  const std::vector<Operand> parts = o.kind == Operand::Kind::kVector ? o.parts : std::vector<Operand>{o};
  if (static_cast<int>(parts.size()) != count)
    return x.fail(fmt::format("operand {} of {} has {} registers, not {}", n + 1, x.s.opcode, parts.size(), count));
  for (const Operand& p : parts) x.code.extra.push_back(result ? x.result_of(p, 4) : x.value(p, 4));
}

namespace {

// mode: the number of the product; extra: registers of D, A, B, C.
void run_mma(Warp& w, const Ins& i, uint32_t) {
  const Product& p = products()[i.mode];
  const int32_t* places = w.extra + i.extra;
  thread_local std::vector<double> a, b, c;
  const bool tf32 = p.a.type == ir::Type::kF32;
  gather(w, p.a, places + p.d.registers, tf32, a);
  gather(w, p.b, places + p.d.registers + p.a.registers, tf32, b);
  gather(w, p.d, places + p.d.registers + p.a.registers + p.b.registers, false, c);
  add_product(a, b, c, p.d.rows, p.d.columns, p.a.columns);
  scatter(w, p.d, places, c);
}

// count matrices of 8 x 8 halves; lane 8 * m + r names row r of matrix m. mode 1: transposed.
void run_ldmatrix(Warp& w, const Ins& i, uint32_t) {
  uint16_t rows[32][8] = {};
  const int matrices = i.count;
  for (int lane = 0; lane < 8 * matrices; ++lane) {
    const std::byte* p = read_place(w, i, lane, Space::kShared, lane_address(w, i, lane), 16);
    if (p != nullptr) std::memcpy(rows[lane], p, 16);
  }
  for (int m = 0; m < matrices; ++m) {
    uint32_t* d = w.row<uint32_t>(w.extra[i.extra + m]);
    for (int l = 0; l < kLanes; ++l) {
      const int r = l / 4, c = 2 * (l % 4);
      const uint32_t low = i.mode != 0 ? rows[8 * m + c][r] : rows[8 * m + r][c];
      const uint32_t high = i.mode != 0 ? rows[8 * m + c + 1][r] : rows[8 * m + r][c + 1];
      d[l] = low | high << 16;
    }
  }
}

void select_ldmatrix(Selector& x) {
  const int count = x.op.take_one({"x1", "x2", "x4"});
  x.ins.mode = x.op.take("trans");
  const bool known = x.op.take("sync") && x.op.take("aligned") && x.op.take("m8n8") && x.op.take("b16");
  if (!known || count < 0 || x.op.take_one({"shared", "shared::cta"}) < 0 || !x.op.done()) return;
  x.need(2);
  x.ins.kind = Kind::kCollective;
  x.ins.run = &run_ldmatrix;
  x.ins.count = static_cast<uint8_t>(1 << count);
  x.ins.bytes = 16;
  x.ins.aligned = true;
  x.note_shared(16);
  x.begin_extra();
  take_registers(x, 0, 1 << count, true);
  x.address(1);
}

}  // namespace

void select_matrix(Selector& x) {
  if (x.op.base() == "ldmatrix") return select_ldmatrix(x);
  for (size_t row = 0; row < products().size(); ++row) {
    const Product& p = products()[row];
    if (p.opcode != x.s.opcode) continue;
    x.need(4);
    x.ins.kind = Kind::kCollective;
    x.ins.run = &run_mma;
    x.ins.aligned = true;
    x.ins.mode = static_cast<uint8_t>(row);
    x.begin_extra();
    take_registers(x, 0, p.d.registers, true);
    take_registers(x, 1, p.a.registers, false);
    take_registers(x, 2, p.b.registers, false);
    take_registers(x, 3, p.d.registers, false);
    return;
  }
}

}  // namespace tcc::emulation
