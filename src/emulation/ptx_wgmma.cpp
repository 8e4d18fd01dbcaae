// wgmma.mma_async (PTX manual, "Asynchronous Warpgroup Level Matrix Instructions"). Each warp of a warpgroup has 16 of
// the 64 rows and computes them by itself; that all four take part is looked at when the block ends. A product reads
// shared memory and writes its accumulators when the warp waits for it, the last moment allowed; until then both belong
// to it. Products are exact, their sum is rounded once.
//
// A descriptor: bits 0-13 the beginning, 16-29 the leading and 32-45 the stride offset, all in 16 bytes; 62-63 the
// swizzle, 1: 128 bytes, 2: 64, 3: 32, 0: none.
#include <algorithm>

#include "emulation/ptx_lanes.h"
#include "emulation/ptx_numbers.h"
#include "emulation/ptx_select.h"
#include "emulation/shared_tile.h"

namespace tcc::emulation {
namespace {

constexpr int kMaxDepth = 16;  // k

MatrixTile tile_of(uint64_t descriptor, const ProductCode& code) {
  constexpr int64_t kSwizzles[] = {0, 128, 64, 32};
  const auto field = [&](int bit) { return static_cast<int64_t>(descriptor >> bit & 0x3fff) << 4; };
  return {field(0), field(16), field(32), kSwizzles[descriptor >> 62], ir::type_bytes(code.type)};
}

double half_of(ir::Type type, uint16_t bits) {
  return type == ir::Type::kBF16 ? interp::bf16_value(bits) : interp::f16_value(bits);
}

// The pieces of one matrix are there, ordered and fenced.
bool look_at(Warp& w, const Ins& i, const ProductCode& code, const MatrixTile& d, int first, int rows, bool transposed,
             std::vector<int64_t>& pieces) {
  Machine& m = *w.machine;
  Region& shared = w.block->shared;
  if (!d.begins_well()) {
    m.report(FindingKind::kMisaligned, w, 0, i,
             fmt::format("{}: the matrix does not begin in the first row of a swizzle of {} bytes",
                         m.place_text(shared, d.start), d.swizzle));
    return false;
  }
  if (d.swizzle == 0 && transposed) {
    m.report(FindingKind::kWrongParticipants, w, 0, i, "a transposed matrix without a swizzle is not supported");
    return false;
  }
  std::vector<int64_t> mine;
  for (int r = first; r < first + rows; ++r)
    for (int64_t k = 0; k < code.depth(); ++k) mine.push_back(d.at(r, k, transposed) / kSwizzleBytes * kSwizzleBytes);
  std::sort(mine.begin(), mine.end());
  mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
  for (int64_t at : mine) {
    int64_t offset = 0;
    if (shared_region(w, i, 0, static_cast<uint64_t>(at), kSwizzleBytes, offset, nullptr) == nullptr) return false;
    check_contents(w, i, 0, shared, at, kSwizzleBytes);
    m.check_proxy(w, 0, i, shared, at, kSwizzleBytes, true);
    ++shared.reading[static_cast<size_t>(at / kSwizzleBytes)];
    pieces.push_back(at);
  }
  return true;
}

void run_issue(Warp& w, const Ins& i, uint32_t) {
  Machine& m = *w.machine;
  const ProductCode& code = m.kernel->products[static_cast<size_t>(i.imm)];
  PendingProduct p;
  p.code = &code;
  p.ins = &i;
  p.group = w.product_group;
  p.b = w.source<uint64_t>(code.b)[0];
  if (!code.a_in_registers) p.a = w.source<uint64_t>(code.a)[0];
  p.add = code.add < 0 || ((w.preds[code.add] & 1) != 0) != code.add_negated;
  for (int32_t n : code.accumulators) {
    const auto at = static_cast<size_t>(n);
    if (w.in_flight[at] == 0 && w.touched_at[at] == w.fences)
      m.report(FindingKind::kRace, w, 0, i, "no wgmma.fence between another use of the accumulators and this product");
    ++w.in_flight[at];
  }
  const int first = w.index % 4 * 16;
  bool fine = code.a_in_registers || look_at(w, i, code, tile_of(p.a, code), first, 16, code.transpose_a, p.pieces);
  fine = look_at(w, i, code, tile_of(p.b, code), 0, code.columns, code.transpose_b, p.pieces) && fine;
  if (!fine) m.stopped = true;
  ++w.product_count;
  w.products.push_back(std::move(p));
}

double element(const Warp& w, const ProductCode& code, const MatrixTile& d, int row, int k, bool transposed) {
  const std::byte* place = w.block->shared.data + d.at(row, k, transposed);
  if (code.type == ir::Type::kF32) {
    float single = 0;
    std::memcpy(&single, place, sizeof single);
    return cut_to_tf32(single);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, place, sizeof bits);
  return half_of(code.type, bits);
}

void finish(Warp& w, const PendingProduct& p) {
  Machine& m = *w.machine;
  const ProductCode& code = *p.code;
  const MatrixTile da = tile_of(p.a, code), db = tile_of(p.b, code);
  const int n = code.columns, first = w.index % 4 * 16, depth = static_cast<int>(code.depth());
  double a[16][kMaxDepth];
  for (int r = 0; r < 16; ++r) {
    for (int k = 0; k < depth; ++k) {
      if (code.a_in_registers) {
        // "Register Fragments for wgmma.mma_async.m64nNk16", matrix A.
        const int reg = r / 8 + k / 8 * 2, lane = r % 8 * 4 + k % 8 / 2;
        const uint32_t word = w.source<uint32_t>(w.extra[code.a + reg])[lane];
        a[r][k] = half_of(code.type, static_cast<uint16_t>(word >> (16 * (k % 2))));
      } else {
        a[r][k] = element(w, code, da, first + r, k, code.transpose_a);
      }
      if (code.negate_a != code.negate_b) a[r][k] = -a[r][k];
    }
  }
  for (int column = 0; column < n; ++column) {
    double b[kMaxDepth];
    for (int k = 0; k < depth; ++k) b[k] = element(w, code, db, column, k, code.transpose_b);
    for (int r = 0; r < 16; ++r) {
      // Matrix D: eight columns have four registers.
      const int reg = column / 8 * 4 + r / 8 * 2 + column % 2, lane = r % 8 * 4 + column % 8 / 2;
      float& d = w.row<float>(w.extra[code.d + reg])[lane];
      double sum = p.add ? static_cast<double>(d) : 0.0;
      for (int k = 0; k < depth; ++k) sum += a[r][k] * b[k];
      d = static_cast<float>(sum);
    }
  }
  Region& shared = w.block->shared;
  for (int64_t at : p.pieces) {
    --shared.reading[static_cast<size_t>(at / kSwizzleBytes)];
    if (m.races) m.note_agent_read(shared, at, kSwizzleBytes, *w.block, w);
  }
  for (int32_t number : code.accumulators) --w.in_flight[static_cast<size_t>(number)];
}

void run_fence(Warp& w, const Ins&, uint32_t) {
  ++w.fences;
}
void run_commit(Warp& w, const Ins&, uint32_t) {
  ++w.product_group;
}
void run_wait(Warp& w, const Ins& i, uint32_t lanes) {
  size_t done = 0;
  while (done < w.products.size() && w.products[done].group < w.product_group - i.imm) finish(w, w.products[done++]);
  w.products.erase(w.products.begin(), w.products.begin() + static_cast<std::ptrdiff_t>(done));
  if (done > 0) w.machine->know_agent(w, lanes);
}

std::optional<bool> sign(Selector& x, size_t n) {
  const auto v = x.literal(n);
  if (v && (*v == 1 || *v == -1)) return *v < 0;
  x.fail("a matrix is taken as it is (1) or negated (-1)");
  return std::nullopt;
}
bool flag(Selector& x, size_t n) {
  const auto v = x.literal(n);
  if (!v || (*v != 0 && *v != 1)) x.fail("a matrix is transposed (1) or not (0)");
  return v.value_or(0) == 1;
}

void take_vector(Selector& x, size_t n, size_t count, bool result) {
  const std::vector<Operand>& parts = x.at(n).parts;
  if (x.at(n).kind != Operand::Kind::kVector || parts.size() != count)
    return x.fail(fmt::format("operand {} of {} has {} registers, not {}", n + 1, x.s.opcode, parts.size(), count));
  for (const Operand& part : parts) x.code.extra.push_back(result ? x.result_of(part, 4) : x.value(part, 4));
}

void select_product(Selector& x) {
  constexpr std::pair<const char*, ir::Type> kTypes[] = {
      {"f16", ir::Type::kF16}, {"bf16", ir::Type::kBF16}, {"tf32", ir::Type::kF32}};
  ProductCode code;
  int64_t depth = 0;
  for (int n = 8; n <= 256 && code.columns == 0; n += 8)
    for (int64_t k : {16, 8})
      if (x.op.take(fmt::format("m64n{}k{}", n, k))) code.columns = n, depth = k;
  if (code.columns == 0 || !x.op.take("sync") || !x.op.take("aligned") || !x.op.take("f32")) return;
  const int type = x.op.take_one({kTypes[0].first, kTypes[1].first, kTypes[2].first});
  if (type < 0 || !x.op.take(kTypes[type].first) || !x.op.done()) return;
  code.type = kTypes[type].second;
  if (depth != code.depth()) return x.fail(fmt::format("{} multiplies {} of k", kTypes[type].first, code.depth()));
  x.ins.run = &run_issue;
  x.ins.kind = Kind::kCollective;
  x.ins.aligned = true;
  code.a_in_registers = x.at(1).kind == Operand::Kind::kVector;
  const bool halves = code.type != ir::Type::kF32;  // others are not transposed
  if (!halves && code.a_in_registers) return x.fail("floats of A in registers are not supported");
  const size_t operands = !halves ? 6 : code.a_in_registers ? 7 : 8;
  x.need(operands, operands);
  code.d = static_cast<int32_t>(x.code.extra.size());
  take_vector(x, 0, static_cast<size_t>(code.columns) / 2, true);
  if (x.failed()) return;
  code.a = static_cast<int32_t>(x.code.extra.size());
  if (code.a_in_registers)
    take_vector(x, 1, 4, false);
  else
    code.a = x.value(1, 8);
  code.b = x.value(2, 8);
  code.add = x.predicate(3, code.add_negated);
  code.negate_a = sign(x, 4).value_or(false);
  code.negate_b = sign(x, 5).value_or(false);
  if (halves && !code.a_in_registers) code.transpose_a = flag(x, 6);
  if (halves) code.transpose_b = flag(x, code.a_in_registers ? 6 : 7);
  x.note_shared(16);
  x.code.async_proxy = true;
  x.ins.imm = static_cast<int64_t>(x.code.products.size());
  x.code.products.push_back(std::move(code));
}

}  // namespace

// An instruction outside of a product names accumulators.
void Machine::note_uses(Warp& w, const Ins& ins) {
  for (int32_t n : kernel->uses[static_cast<size_t>(ins.uses)]) {
    if (w.in_flight[static_cast<size_t>(n)] > 0)
      report(FindingKind::kRace, w, 0, ins, "it names an accumulator of a product that has not been waited for");
    w.touched_at[static_cast<size_t>(n)] = w.fences;
  }
}

void select_wgmma(Selector& x) {
  if (x.op.take("mma_async")) return select_product(x);
  const int kind = x.op.take_one({"fence", "commit_group", "wait_group"});
  if (kind < 0 || !x.op.take("sync") || !x.op.take("aligned") || !x.op.done()) return;
  x.ins.kind = Kind::kCollective;
  x.ins.aligned = true;
  x.ins.run = kind == 0 ? &run_fence : kind == 1 ? &run_commit : &run_wait;
  x.need(kind == 2 ? 1 : 0, kind == 2 ? 1 : 0);
  if (kind == 2) x.ins.imm = std::clamp<int64_t>(x.literal(0).value_or(0), 0, 1 << 20);
}

}  // namespace tcc::emulation
