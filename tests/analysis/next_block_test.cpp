// What an innermost loop asks for of the block of activations that is read next.
#include "tcc/analysis/next_block.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "tcc/analysis/lanes.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kLine = kLineBytes / 4;

// The lines that a loop nest reads and asks for, by the number of the block: of an iteration of the loop `mover`, that
// is fused from `readings` readings of each block.
struct Walked {
  bool found = false;
  std::map<int64_t, std::set<int64_t>> read, asked;
};

class Walk {
 public:
  Walk(const Kernel& kernel, std::string mover, int64_t readings)
      : kernel_(kernel), mover_(std::move(mover)), readings_(readings), ranges_(kernel) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  Walked run() {
    go(kernel_.root);
    return std::move(out_);
  }

 private:
  void go(Stmt s) {
    const Loop* l = as<Loop>(s);
    REQUIRE(l != nullptr);
    const Loop* inner = as<Loop>(l->body);
    const bool innermost = inner == nullptr || inner->loop_kind != LoopKind::kSerial;
    std::vector<Expr> lines;
    if (innermost) {
      const auto found = analysis::next_block(b_, kernel_, ranges_, around_, *l, kLineBytes, 128 << 10,
                                              [&](Id id) { return is_meant(id); });
      out_.found = found.has_value();
      if (found) lines = found->lines;
    }
    around_.push_back(l);
    for (int64_t i = 0; i < int_value(l->extent); ++i) {
      assign(values_, l->id, i);
      if (name_hint(kernel_, l->id) == mover_) block_ = i / readings_;
      if (!innermost) {
        go(l->body);
        continue;
      }
      for (const Expr line : lines) out_.asked[block_].insert(floor_div(*evaluate(line, values_), kLine));
      read(l->body);
    }
    around_.pop_back();
  }

  void read(Stmt s) {
    if (const Loop* l = as<Loop>(s)) {
      for (int64_t i = 0; i < int_value(l->extent); ++i) assign(values_, l->id, i), read(l->body);
      return;
    }
    visit_loads(s, [&](const Load& load) {
      if (!is_meant(load.buffer)) return;
      const Buffer& buffer = *kernel_.buffer(load.buffer);
      const Expr flat = analysis::flatten(b_, buffer, analysis::row_major_strides(buffer), load.indices, ranges_);
      out_.read[block_].insert(floor_div(*evaluate(flat, values_), kLine));
    });
  }

  bool is_meant(Id id) const { return analysis::is_large_activation(*kernel_.buffer(id)); }

  const Kernel& kernel_;
  std::string mover_;
  int64_t readings_ = 1, block_ = 0;
  Arena arena_;
  Builder b_{arena_};
  analysis::Ranges ranges_;
  std::vector<const Loop*> around_;
  Assignment values_;
  Walked out_;
};

// Of kernels that read `x` and write one element.
Walked walk(const std::string& x, const std::string& loops, const std::string& index, const std::string& mover,
            int64_t readings = 1) {
  std::string text = "kernel lowered {\n  input x: " + x + "\n  output o: f32[1]\n", ends;
  std::istringstream lines(loops);
  for (std::string line; std::getline(lines, line);) text += "  for " + line + " {\n", ends += "  }\n";
  auto kernel = parse(text + "o[0] = x[" + index + "]\n" + ends + "}\n");
  if (!kernel) FAIL(kernel.error().message);
  return Walk(*kernel, mover, readings).run();
}

// All lines of each block are asked for while the one before it is read, and few others. Rows of blocks: of `row` ones.
void check_asked(const Walked& w, int64_t row = 1 << 20) {
  REQUIRE(w.found);
  REQUIRE(w.read.size() > 1);
  for (const auto& [block, lines] : w.read) {
    const auto before = w.asked.find(block - 1);
    if (before == w.asked.end() || block % row == 0) continue;
    for (const int64_t line : lines) {
      CAPTURE(block, line, before->second.size(), lines.size());
      CHECK(before->second.contains(line));
    }
    CHECK(before->second.size() <= lines.size() + lines.size() / 8);
  }
}

}  // namespace

TEST_CASE("the next block of rows that are apart is asked for in parts, one in each reading") {
  // Blocks of 48 columns of 64 rows, read for 5 blocks of other columns each; 3 lines a row.
  const std::string columns = "f32[64, 784]";
  check_asked(walk(columns, "n in 80 parallel\nk in 64\nv in 48 vectorized", "k, (n // 5)*48 + v", "n", 5));
  check_asked(walk(columns, "p in 16\nc in 5\nk in 64\nv in 48 vectorized", "k, p*48 + v", "p"));
  // More lines than readings, and a copy of the loop for each of two rows.
  check_asked(walk(columns, "n in 32 parallel\nk in 32\nr in 2 unrolled\nv in 48 vectorized",
                   "k*2 + r, (n // 2)*48 + v", "n", 2));
  // A block for each of several ways of counting: the number of the block is a part of a fused index.
  check_asked(walk("f32[3, 64, 784]", "n in 240 parallel\nk in 64\nv in 48 vectorized",
                   "n // 80, k, (n // 5 % 16)*48 + v", "n", 5),
              16);
}

TEST_CASE("where each block is read once, an iteration asks for what it reads itself, one block further on") {
  check_asked(
      walk("f32[256, 196]", "c in 8 parallel\np in 4\nq in 14\nk in 64\nv in 14 unrolled", "p*64 + k, q*14 + v", "p"));
}

TEST_CASE("the next block of a fused index begins anew where the index does") {
  check_asked(walk("f32[64, 784]", "n in 128 parallel\nk in 64\nv in 48 vectorized", "k, (n % 16)*48 + v", "n"));
  check_asked(
      walk("f32[64, 784]", "n in 160 parallel\nk in 64\nv in 48 vectorized", "k, (n // 5 % 16)*48 + v", "n", 5));
}

TEST_CASE("of several blocks the largest that stays in the cache is meant, and one that is soon read from further on") {
  // All rows of all columns are 784 KB: the next columns.
  check_asked(walk("f32[8, 256, 784]", "g in 8\np in 16\nk in 256\nv in 48 vectorized", "g, k, p*48 + v", "p"), 16);
  // Eight blocks further on, as one takes four iterations only.
  const Walked w = walk("f32[4, 3136]", "p in 98\nk in 4\nv in 32 vectorized", "k, p*32 + v", "p");
  REQUIRE(w.found);
  for (const int64_t block : {0, 40, 89}) CHECK(w.asked.at(block) == w.read.at(block + 8));
  CHECK(w.asked.at(95) == w.read.at(97));
}

TEST_CASE("nothing is asked for where the hardware follows, or no block comes next") {
  // Side by side.
  CHECK_FALSE(walk("f32[64, 784]", "p in 64\nc in 5\nk in 784\nv in 4 unrolled", "p, k", "p").found);
  // The only block.
  CHECK_FALSE(walk("f32[64, 784]", "c in 5\nk in 64\nv in 48 vectorized", "k, v", "c").found);
  // What a parallel loop moves by itself belongs to another thread, as far as this one knows.
  CHECK_FALSE(walk("f32[64, 784]", "p in 16 parallel\nc in 5\nk in 64\nv in 48 vectorized", "k, p*48 + v", "p").found);
  // The two blocks of a fused loop belong to two threads.
  CHECK_FALSE(
      walk("f32[64, 784]", "n in 10 parallel\nk in 64\nv in 48 vectorized", "k, (n // 5)*48 + v", "n", 5).found);
  // A first-level cache keeps it.
  CHECK_FALSE(walk("f32[64, 96]", "p in 2\nc in 5\nk in 64\nv in 48 vectorized", "k, p*48 + v", "p").found);
}
