// Instructions that compute: operand tiles in, the row's semantics, tiles out.
#include <algorithm>
#include <array>
#include <numeric>

#include "interp/launch.h"
#include "interp/rows.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

constexpr size_t kMaxRank = 16;

bool in_shared(ir::Scope scope) {
  return scope == ir::Scope::kShared || scope == ir::Scope::kClusterShared;
}

// Calls f(linear index, tile index) for every element of a tile.
template <class F>
void for_tile(std::span<const int64_t> shape, F f) {
  const int64_t total = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < total; ++i) {
    f(i, std::span<const int64_t>(index));
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

struct Tile {
  Memory memory;
  std::vector<uint8_t> touched;
  std::vector<ElementRef> refs;
};

void gather(Machine& m, const Deferred& d, size_t operand, const RowProgram& program, Tile& tile) {
  const ir::OperandSpec& spec = program.row->operands[operand];
  const std::vector<int64_t> shape = tile_shape(spec, d.args);
  const int64_t total = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  Memory& t = tile.memory;
  t.make(static_cast<int32_t>(operand), spec.type, total);
  t.track_contents(true);
  tile.touched.assign(static_cast<size_t>(total), 0);
  t.touched = tile.touched.data();
  tile.refs.resize(static_cast<size_t>(total));
  for_tile(shape, [&](int64_t i, std::span<const int64_t> index) {
    const ElementRef ref = find_element(m, d, operand, index);
    tile.refs[static_cast<size_t>(i)] = ref;
    if (ref.at < 0) {
      if (!spec.zero_fill) t.contents[i] = kOutside;
      return;
    }
    if (ref.memory->contents != nullptr) t.contents[i] = ref.memory->contents[ref.at];
    if (spec.access != ir::Access::kWrite) {
      store_element(spec.type, t.data, i, load_element(ref.memory->type, ref.memory->data, ref.at));
    } else if (t.contents[i] == kPending) {
      t.contents[i] = kUndefined;
    }
  });
}

void scatter(Machine& m, const Deferred& d, const RowProgram& program, size_t operand, Tile& tile, const Epoch& as) {
  const ir::OperandSpec& spec = program.row->operands[operand];
  for (size_t i = 0; i < tile.refs.size(); ++i) {
    const ElementRef& ref = tile.refs[i];
    const uint8_t touched = tile.touched[i];
    if (touched == 0 || ref.at < 0) continue;
    const bool async = program.row->proxy == ir::Proxy::kAsync && ref.memory->history != nullptr;
    if ((touched & 1) != 0) m.note_read(*ref.memory, ref.at, *ref.lane, d.at, async);
    if ((touched & 2) == 0) continue;
    m.note_write(*ref.memory, ref.at, *ref.lane, d.at, async, as);
    if (ref.memory->contents != nullptr) ref.memory->contents[ref.at] = kDefined;
    store_element(ref.memory->type, ref.memory->data, ref.at,
                  load_element(spec.type, tile.memory.data, static_cast<int64_t>(i)));
  }
}

void check_alignment(Machine& m, const Deferred& d, const RowProgram& program) {
  const CallSite& site = m.region->calls[static_cast<size_t>(d.call)];
  for (size_t o = 0; o < site.operands.size(); ++o) {
    const ir::OperandSpec& spec = program.row->operands[o];
    if (spec.alignment <= ir::type_bytes(spec.type)) continue;
    const BufferShape& shape = m.shapes[static_cast<size_t>(site.operands[o].slot)];
    const size_t lanes = program.layouts[o] != nullptr ? d.lanes.size() : 1;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto& index = d.indices[lane * site.operands.size() + o];
      bool inside = true;
      for (size_t i = 0; i < index.size(); ++i) inside = inside && index[i] >= 0 && index[i] < shape.shape[i];
      if (!inside) continue;
      const int64_t at = shape.address(index);
      if (at * ir::type_bytes(spec.type) % spec.alignment == 0) continue;
      m.report(Finding::Kind::kMisaligned, *d.lanes[lane], d.at, site.operands[o].slot, at,
               fmt::format("operand {} of {} must start at a multiple of {} bytes", spec.name, program.row->name,
                           spec.alignment));
    }
  }
}

}  // namespace

std::shared_ptr<const RowProgram> compile_row(int32_t number) {
  auto program = std::make_shared<RowProgram>();
  const ir::Instruction& row = ir::instruction(number);
  program->row = &row;
  program->arena = std::make_shared<Arena>();
  for (const ir::OperandSpec& spec : row.operands) {
    program->names.emplace_back(spec.name);
    const ir::Layout* layout = nullptr;
    if (!spec.layout.empty()) {
      auto parsed = ir::parse_layout(*program->arena, spec.layout);
      TCC_CHECK(parsed.has_value(), "{}, operand {}: {}", row.name, spec.name, parsed.error().message);
      layout = *parsed;
    }
    program->layouts.push_back(layout);
  }
  if (row.behaviour == ir::Behaviour::kCompute) {
    program->info = inspect_kernel(ir::instruction_semantics(number));
    program->region = compile_region(program->info, program->info.kernel.root);
  }
  return program;
}

std::vector<int64_t> tile_shape(const ir::OperandSpec& spec, std::span<const int64_t> args) {
  std::vector<int64_t> shape;
  for (int32_t d = 0; d < spec.rank; ++d) {
    shape.push_back(spec.tile[d] != 0 ? spec.tile[d] : args[static_cast<size_t>(d)]);
  }
  return shape;
}

ElementRef find_element(Machine& m, const Deferred& d, size_t operand, std::span<const int64_t> tile_index) {
  const CallSite& site = m.region->calls[static_cast<size_t>(d.call)];
  const RowProgram& program = *d.program;
  const ir::OperandSpec& spec = program.row->operands[operand];
  const int32_t slot = site.operands[operand].slot;
  const BufferShape& shape = m.shapes[static_cast<size_t>(slot)];
  const ir::Layout* layout = m.region->simt ? program.layouts[operand] : nullptr;
  size_t lane = 0;
  int64_t offset = 0;
  if (layout != nullptr) {
    const ir::PhysicalIndex place = ir::apply(*layout, tile_index);
    lane = static_cast<size_t>(place.warp * kWarpLanes + place.lane);
    offset = place.reg + place.address;
  }
  const std::vector<int64_t>& start = d.indices[lane * site.operands.size() + operand];
  std::array<int64_t, kMaxRank> storage;
  TCC_CHECK(start.size() <= kMaxRank, "a buffer of rank {}", start.size());
  const std::span<int64_t> index(storage.data(), start.size());
  std::copy(start.begin(), start.end(), index.begin());
  if (layout != nullptr) {
    if (!index.empty()) index.back() += offset;
  } else {
    TCC_CHECK(tile_index.size() <= index.size(), "{}, operand {}: a tile of rank {} in a buffer of rank {}",
              program.row->name, spec.name, tile_index.size(), index.size());
    const size_t first = index.size() - tile_index.size();
    for (size_t i = 0; i < tile_index.size(); ++i) index[first + i] += tile_index[i];
  }
  Thread* thread = d.lanes[lane];
  Memory* memory = thread->mems[slot];
  const bool remote = d.target != nullptr && spec.access != ir::Access::kRead;
  if (remote && in_shared(m.info->slots[static_cast<size_t>(slot)]->scope)) {
    memory = d.target->by_slot[static_cast<size_t>(slot)];
  }
  for (size_t i = 0; i < index.size(); ++i)
    if (index[i] < 0 || index[i] >= shape.shape[i]) return {memory, -1, thread};
  return {memory, shape.address(index), thread};
}

Deferred gather_call(Machine& m, std::span<Thread* const> lanes, const Ins* at) {
  Deferred d;
  d.call = at->e;
  d.at = at;
  d.program = m.rows->at(m.region->calls[static_cast<size_t>(at->e)].stmt->instr).get();
  d.lanes.assign(lanes.begin(), lanes.end());
  const CallSite& site = m.region->calls[static_cast<size_t>(at->e)];
  for (Thread* lane : lanes) {
    for (const CallOperand& o : site.operands) {
      auto& index = d.indices.emplace_back();
      for (int32_t reg : o.indices) index.push_back(lane->regs[reg].i);
    }
  }
  for (int32_t reg : site.args) d.args.push_back(lanes[0]->regs[reg].i);
  check_alignment(m, d, *d.program);
  return d;
}

void run_call(Machine& m, const Deferred& d, const Epoch& as) {
  const RowProgram& program = *d.program;
  std::vector<Tile> tiles(program.row->operands.size());
  Machine sub;
  Thread t;
  std::vector<std::pair<ir::Id, int64_t>> scalars;
  for (size_t i = 0; i < d.args.size(); ++i) scalars.emplace_back(program.info.kernel.scalars[i].id, d.args[i]);
  for (size_t o = 0; o < tiles.size(); ++o) {
    gather(m, d, o, program, tiles[o]);
    t.mem_storage.push_back(&tiles[o].memory);
    BufferShape shape;
    shape.shape = tile_shape(program.row->operands[o], d.args);
    shape.elements = tiles[o].memory.size;
    sub.shapes.push_back(std::move(shape));
  }
  sub.info = &program.info;
  sub.region = &program.region;
  sub.options = m.options;
  sub.findings = m.findings;
  sub.steps_left = m.steps_left;
  sub.outer = &m;
  sub.outer_thread = d.lanes[0];
  sub.outer_at = d.at;
  sub.operand_names = &program.names;
  t.reg_storage = program.region.initial;
  t.regs = t.reg_storage.data();
  for (const auto& [reg, id] : program.region.scalars) {
    for (const auto& [scalar, value] : scalars)
      if (scalar == id) t.regs[reg].i = value;
  }
  t.mems = t.mem_storage.data();
  t.pc = program.region.code.ins.data();
  execute<true>(sub, t, sub.steps_left);
  m.steps_left = sub.steps_left;
  m.steps += sub.steps;
  m.operations += sub.operations;
  for (size_t o = 0; o < tiles.size(); ++o) scatter(m, d, program, o, tiles[o], as);
}

void issue_call(Machine& m, Deferred& d, const Epoch& as) {
  const RowProgram& program = *d.program;
  const bool async = program.row->proxy == ir::Proxy::kAsync;
  for (size_t o = 0; o < program.row->operands.size(); ++o) {
    const ir::OperandSpec& spec = program.row->operands[o];
    if (spec.type == ir::Type::kBarrier) continue;
    for_tile(tile_shape(spec, d.args), [&](int64_t, std::span<const int64_t> index) {
      const ElementRef ref = find_element(m, d, o, index);
      if (ref.at < 0) return;
      const uint8_t state = ref.memory->contents != nullptr ? ref.memory->contents[ref.at] : uint8_t{kDefined};
      if (spec.access == ir::Access::kRead) {
        // The copy may read from now on. Masks may leave elements of a generic copy unread.
        if (!async) return;
        if (state != kDefined) {
          m.report(Finding::Kind::kUninitialised, *ref.lane, d.at, ref.memory->slot, ref.at,
                   state == kPending ? "an asynchronous copy to the element has not been waited for"
                                     : "nothing has written the element");
        }
        if (ref.memory->history != nullptr) m.note_read(*ref.memory, ref.at, *ref.lane, d.at, true);
        return;
      }
      if (spec.access == ir::Access::kWrite && ref.memory->history != nullptr) {
        m.note_write(*ref.memory, ref.at, *ref.lane, d.at, async, as);
      }
      if (ref.memory->contents != nullptr) {
        d.pending.emplace_back(ref.memory, ref.at);
        d.before.push_back(state);
        ref.memory->contents[ref.at] = kPending;
      }
    });
  }
}

void finish_call(Machine& m, const Deferred& d, const Epoch& as) {
  for (size_t i = 0; i < d.pending.size(); ++i) {
    const auto& [memory, at] = d.pending[i];
    if (memory->contents[at] == kPending)
      memory->contents[at] = d.before[i] == kPending ? uint8_t{kUndefined} : d.before[i];
  }
  run_call(m, d, as);
}

}  // namespace tcc::interp
