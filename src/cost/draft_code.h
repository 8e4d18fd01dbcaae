// What the loops and buffers of a GPU launch become, on columns: which buffers are in registers or shared memory, which
// loops are straight code, and which values straight code keeps. Private to the room; src/cost/draft_gpu.cpp counts
// what the code costs.
#pragma once

#include <map>

#include "cost/draft_parts.h"

namespace tcc::cost {

class DraftCode {
 public:
  DraftCode(ColumnBuilder& b, const NestColumns& nest, int32_t root, const target::CudaInfo& cuda);

  // Where a buffer is: 1 in the column of its place; in memory where both are 0.
  struct Place {
    Column registers, shared;
    std::vector<int32_t> around;  // loops of the nest around its allocation
  };
  // How a statement's loops become code.
  struct Shape {
    std::vector<const LoopColumns*> loops;
    std::vector<Column> expanded;  // 1: all iterations are one piece of code
    bool copying = false;
    size_t copy = 0;       // the loop whose iterations threads share
    Column times, ahead;   // executions by all threads; steps that a pipeline loads ahead
    Column vector, lanes;  // elements of a copy at a time; those from thread to thread
  };

  // Of the launch.
  const std::vector<const StatementColumns*>& statements() const { return statements_; }
  const std::map<ir::Id, Place>& places() const { return places_; }  // of what it allocates
  Column blocks() const { return blocks_; }
  Column threads() const { return threads_; }
  Column warps() const { return warps_; }        // of a block
  int64_t lanes() const { return lanes_; }       // that hold a fragment together
  bool is_matrix() const { return lanes_ > 1; }  // it has matrix instructions
  bool in_launch(int32_t loop) const;
  Column expanded(int32_t loop) const { return expanded_[static_cast<size_t>(loop)]; }

  Column in_registers(const ir::Buffer& b);
  Column in_shared(const ir::Buffer& b);
  Column in_memory(const ir::Buffer& b);

  Shape shape_of(const StatementColumns& s);
  // Executions that remain where registers keep the value.
  Column reused(const Shape& h, const AccessColumns& a);
  // Neighbouring elements that the thread itself accesses one after the other.
  Column own_run(const Shape& h, const AccessColumns& a);
  // Elements of one access: of the innermost expanded loop that steps by one, as far as other steps are multiples.
  Column vector_of(const Shape& h, const AccessColumns& a);
  // The step from thread to thread.
  Column along(const Shape& h, const AccessColumns& a);
  // Distinct elements that straight code of a thread touches.
  Column straight_elements(const Shape& h, const AccessColumns& a);
  // Pieces of straight code that a thread runs one after the other.
  Column steps_of(const Shape& h);

 private:
  Column number(double value) { return b_.constant(value); }
  Column scaled(Column c, double by) { return b_.mul(c, number(by)); }
  const LoopColumns& loop(int32_t l) const { return nest_.loops[static_cast<size_t>(l)]; }
  Column repeats(const LoopColumns& l) { return b_.less(number(1), l.extent); }
  void find_axes();
  void find_places();
  void find_places(ir::Stmt s, std::vector<int32_t>& around, const std::map<const ir::Loop*, int32_t>& positions);
  void find_expanded();
  Column unroll_limit(int32_t l);
  Column whole_vector(const StatementColumns& s, size_t copy, Column lanes);

  ColumnBuilder& b_;
  const NestColumns& nest_;
  const int32_t root_;
  const target::CudaInfo& cuda_;
  std::vector<const StatementColumns*> statements_;
  std::map<ir::Id, Place> places_;
  std::vector<Column> expanded_;  // of each loop: 1 where all of its iterations are one piece of code
  int64_t lanes_ = 1;
  Column blocks_ = kNoColumn, threads_ = kNoColumn, warps_ = kNoColumn;
};

// 1 where the column's numbers are multiples.
Column is_multiple(ColumnBuilder& b, Column c, double of);
// A loop whose iterations are not code one after the other: of the grid, of threads.
bool is_bound(const ir::Loop& l);

}  // namespace tcc::cost
