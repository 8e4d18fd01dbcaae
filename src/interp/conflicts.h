// Which earlier accesses are logically parallel with the current one while parallel loops run in order: the SP-bags
// algorithm. Each iteration of a parallel loop is a strand; union-find tells whether a strand's work is ordered before
// the current one (series) or may run beside it (parallel).
#pragma once

#include <cstdint>
#include <vector>

namespace tcc::interp {

struct SeqShadow {
  uint32_t writer = 0, reader = 0;  // strands; 0: none
};

class Strands {
 public:
  Strands() { restart(); }

  uint32_t current() const { return frames_.back().strand; }
  void enter() { frames_.push_back({add(), 0}); }
  void leave() {
    const uint32_t done = frames_.back().strand;
    frames_.pop_back();
    Frame& outer = frames_.back();
    if (outer.parallel == 0) {
      outer.parallel = done;
      root_of(done).is_parallel = true;
    } else {
      merge(outer.parallel, done, true);
    }
  }
  void exit() {
    Frame& f = frames_.back();
    if (f.parallel != 0) merge(f.strand, f.parallel, false);
    f.parallel = 0;
    if (frames_.size() == 1) restart();  // nothing that ran so far is parallel with what follows
  }
  bool is_parallel(uint32_t strand) {
    if (strand < base_ || strand == current()) return false;
    return root_of(strand).is_parallel;
  }

 private:
  struct Node {
    uint32_t parent;
    uint32_t rank;
    bool is_parallel;
  };
  struct Frame {
    uint32_t strand, parallel;
  };

  uint32_t add() {
    const uint32_t id = base_ + static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({id, 0, false});
    return id;
  }
  void restart() {
    base_ += static_cast<uint32_t>(nodes_.size());
    nodes_.clear();
    frames_.clear();
    frames_.push_back({add(), 0});
  }
  uint32_t find(uint32_t x) {
    while (true) {
      Node& n = nodes_[x - base_];
      if (n.parent == x) return x;
      n.parent = nodes_[n.parent - base_].parent;
      x = n.parent;
    }
  }
  Node& root_of(uint32_t x) { return nodes_[find(x) - base_]; }
  void merge(uint32_t a, uint32_t b, bool is_parallel) {
    a = find(a);
    b = find(b);
    if (a != b) {
      if (nodes_[a - base_].rank < nodes_[b - base_].rank) std::swap(a, b);
      nodes_[b - base_].parent = a;
      nodes_[a - base_].rank += nodes_[a - base_].rank == nodes_[b - base_].rank;
    }
    nodes_[a - base_].is_parallel = is_parallel;
  }

  uint32_t base_ = 1;
  std::vector<Node> nodes_;
  std::vector<Frame> frames_;
};

}  // namespace tcc::interp
