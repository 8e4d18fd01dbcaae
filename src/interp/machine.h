// State of a run: memories, threads, findings.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "interp/bytecode.h"
#include "interp/compile.h"
#include "interp/conflicts.h"
#include "tcc/interp/clock.h"
#include "tcc/interp/interp.h"
#include "tcc/support/rng.h"

namespace tcc::interp {

// State of an element's contents. kPending: an asynchronous copy was issued that the program has not waited for.
// kOutside appears in operand tiles only: the element is outside its buffer.
enum Contents : uint8_t { kUndefined = 0, kDefined = 1, kPending = 2, kOutside = 3 };

struct Memory {
  int32_t slot = -1;
  ir::Type type = ir::Type::kF32;
  int64_t size = 0;
  std::byte* data = nullptr;
  uint8_t* contents = nullptr;        // Contents; nullptr: not tracked
  SeqShadow* strands = nullptr;       // sequential runs with check_races
  ElementHistory* history = nullptr;  // thread runs with check_races
  uint8_t* touched = nullptr;         // operand tiles: bit 0 read, bit 1 written
  std::vector<std::byte> storage;
  std::vector<uint8_t> contents_storage;
  std::vector<SeqShadow> strand_storage;
  std::vector<ElementHistory> history_storage;

  void make(int32_t buffer_slot, ir::Type element, int64_t elements);
  void track_contents(bool defined);
  void reset();  // undefined again, no history
};

// Shapes with the scalars filled in.
struct BufferShape {
  std::vector<int64_t> shape, data;    // of a parameter's tensor: smaller where a constant has room for more
  const ir::Layout* layout = nullptr;  // address layouts only
  int64_t elements = 0;                // physical
  int64_t address(std::span<const int64_t> index) const;
  std::vector<int64_t> index_of(int64_t address) const;
};

struct Machine;
struct BlockState;
struct WarpState;

// What an instruction left unfinished: it runs when the program has waited for it.
struct Deferred {
  const struct RowProgram* program = nullptr;
  int32_t call;
  std::vector<struct Thread*> lanes;
  std::vector<std::vector<int64_t>> indices;  // row lane * operands + operand: where the operand starts
  std::vector<int64_t> args;
  std::vector<std::pair<Memory*, int64_t>> pending;  // elements marked kPending
  std::vector<uint8_t> before;                       // their Contents
  BlockState* target = nullptr;  // whose shared memory is written: another block's of the cluster; nullptr: own
  int64_t bytes = 0;             // what an mbarrier is told
  Epoch writer;                  // tick 0: the lane itself
  const Ins* at = nullptr;
};

struct Thread {
  enum class State : uint8_t { kReady, kDone, kCollective, kBarrier, kMbarrier };
  const Ins* pc = nullptr;
  Reg* regs = nullptr;
  Memory** mems = nullptr;
  State state = State::kReady;
  uint32_t id = 0;       // in the launch
  int32_t in_block = 0;  // linear thread id
  BlockState* block = nullptr;
  int64_t barrier = 0, barrier_count = 0;  // kBarrier
  Memory* mbarrier = nullptr;              // kMbarrier
  int64_t mbarrier_at = 0, parity = 0;
  Clock clock, fenced;       // what happened before; generic writes made visible to the asynchronous proxy
  Clock finished;            // reads, and writes by copies, that an arrival in another block said have ended
  Clock released, acquired;  // device-wide fences: released by the last, to be acquired by the next
  std::vector<Deferred> copies, multiplies;  // not yet committed
  std::deque<std::vector<Deferred>> copy_groups, multiply_groups;
  std::vector<Reg> reg_storage;
  std::vector<Memory*> mem_storage;
  std::vector<std::unique_ptr<Memory>> own;
};

struct MbarrierState {
  int64_t expected = 0, pending = 0, bytes = 0;
  int64_t phase = 0;
  Clock gathering, complete[2], fenced_gathering, fenced_complete[2];
  Clock finished_gathering, finished_complete[2];  // told by threads of other blocks
  std::vector<Deferred> copies;
};

class Findings {
 public:
  Findings(int max, std::vector<Finding>& out) : max_(max), out_(out) {}
  // True when this one is new and its text is wanted.
  bool wanted(Finding::Kind kind, ir::Stmt stmt, int32_t slot);
  void add(Finding::Kind kind, ir::Stmt stmt, int32_t slot, std::string text);

 private:
  int max_;
  std::vector<Finding>& out_;
  std::map<std::tuple<int, ir::Stmt, int32_t>, size_t> known_;
};

enum class Stop : uint8_t { kDone, kBlocked, kSlice, kLimit };

// One region in one run.
struct Machine {
  const KernelInfo* info = nullptr;
  const Region* region = nullptr;
  const Options* options = nullptr;
  Findings* findings = nullptr;
  std::vector<BufferShape> shapes;  // by slot
  Strands strands;
  bool races = false;
  int64_t steps = 0, operations = 0;
  int64_t steps_left = 0;
  bool stopped = false;
  // Operand tiles of an instruction's semantics: findings name the instruction's own thread and statement.
  const Machine* outer = nullptr;
  const Thread* outer_thread = nullptr;
  const Ins* outer_at = nullptr;
  const std::vector<std::string>* operand_names = nullptr;
  const std::unordered_map<int32_t, std::shared_ptr<const struct RowProgram>>* rows = nullptr;
  // Threads. Barriers in global memory keep their state from launch to launch.
  std::map<std::pair<Memory*, int64_t>, MbarrierState>* global_barriers = nullptr;
  class Launch* launch = nullptr;
  std::vector<std::vector<Epoch>> reader_sets;
  std::vector<int32_t> free_reader_sets;

  void report(Finding::Kind kind, const Thread& t, const Ins* at, int32_t slot, int64_t address,
              const std::string& what);
  std::string where(const Thread& t, const Ins* at) const;
  std::string element(int32_t slot, int64_t address) const;

  void check_read(Memory& m, int64_t at, Thread& t, const Ins* ins);
  void check_write(Memory& m, int64_t at, Thread& t, const Ins* ins);
  // The parts of the two above that are about order, for accesses whose contents are looked after elsewhere.
  void note_read(Memory& m, int64_t at, Thread& t, const Ins* ins, bool async);
  void note_write(Memory& m, int64_t at, Thread& t, const Ins* ins, bool async, const Epoch& as);
  void check_order_read(Memory& m, int64_t at, Thread& t, const Ins* ins, bool async);
  void check_order_write(Memory& m, int64_t at, Thread& t, const Ins* ins, bool async, bool atomic, const Epoch& as);
};

// Runs a thread until it is done, blocks at a collective, or has run `slice` loop iterations.
// Checked: contents, histories and strands are tracked wherever a Memory has them.
template <bool kChecked>
Stop execute(Machine& m, Thread& t, int64_t slice);

}  // namespace tcc::interp
