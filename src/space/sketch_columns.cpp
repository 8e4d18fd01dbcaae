#include "tcc/space/sketch_columns.h"

#include <algorithm>

#include "tcc/ir/query.h"

namespace tcc::space {

using namespace ir;
using analysis::Column;
using analysis::kNoColumn;
using schedule::Instruction;
using schedule::Op;

namespace {

constexpr double kMaxDecision = 1LL << 40;

void add_symbols(const Sketch& sketch, SketchColumns& out) {
  std::vector<Column> inputs;
  for (const Instruction& in : sketch.trace.instructions) {
    for (int i = 0; in.decision >= 0 && i < in.decision_length; ++i) {
      const Id symbol = sketch.symbols[static_cast<size_t>(in.decision + i)];
      const Scalar* scalar = symbol == kNoId ? nullptr : sketch.nest.scalar(symbol);
      double least = 0, most = kMaxDecision;
      if (scalar != nullptr && in.op != Op::kSampleCategorical)
        least = static_cast<double>(scalar->low), most = std::min(most, static_cast<double>(scalar->high));
      const Column value = out.builder.input(least, most);
      if (symbol == kNoId) continue;
      out.symbols.emplace_back(symbol, in.op == Op::kSampleCategorical
                                           ? out.builder.lookup(schedule::attribute(in, "candidates"), value)
                                           : value);
    }
  }
}

// A hash of what remains of the kernel when loops of one iteration are gone: the other loops with their kinds, extents
// and what they do to addresses; the parts of the program between them; the shapes of temporaries.
class Identity {
 public:
  Identity(SketchColumns& c, const Kernel& nest) : c_(c), b_(c.builder) {
    for (size_t l = 0; l < c.nest.loops.size(); ++l) said_.push_back({});
    number_parts(nest.root);
    for (const analysis::StatementColumns& s : c.nest.statements)
      for (size_t i = 0; i < s.loops.size(); ++i)
        for (const analysis::AccessColumns& a : s.accesses) say_step(static_cast<size_t>(s.loops[i]), a, i);
  }

  Column run() {
    Column hash = b_.constant(1);
    for (size_t l = 0; l < said_.size(); ++l) {
      Column of_loop = hash;
      for (Column c : said_[l]) of_loop = b_.mix(of_loop, c);
      hash = b_.select(b_.equal(c_.nest.loops[l].extent, b_.constant(1)), hash, of_loop);
    }
    for (const analysis::BufferColumns& s : c_.nest.buffers)
      if (s.buffer->role == BufferRole::kTemp)
        for (Column extent : s.shape)
          if (!b_.known(extent)) hash = b_.mix(hash, extent);
    return hash;
  }

 private:
  void number_parts(Stmt s) {
    if (const Loop* l = as<Loop>(s)) {
      const int64_t tag = (parts_ * 16 + static_cast<int64_t>(l->loop_kind)) * 16 + static_cast<int64_t>(l->axis);
      std::vector<Column>& said = said_[next_++];
      said = {b_.constant(static_cast<double>(tag)), c_.nest.loops[next_ - 1].extent};
      for (const Annotation& a : l->annotations)
        if (const Column value = analysis::column_of(b_, a.value, c_.symbols); value != kNoColumn)
          said.push_back(b_.add(b_.mul(value, b_.constant(16)), b_.constant(static_cast<double>(a.key))));
    } else {
      ++parts_;
    }
    visit_children(s, [&](Stmt child) { number_parts(child); });
  }
  // Steps that are zero say nothing; a loop that is not linear is a product of others, which its extent mentions.
  void say_step(size_t loop, const analysis::AccessColumns& a, size_t position) {
    const Column step = a.step[position];
    std::vector<Column>& said = said_[loop];
    if (step != kNoColumn) return said.push_back(step);
    for (const auto& [id, value] : c_.symbols)
      if (mentions(c_.nest.loops[loop].loop->extent, id) && std::find(said.begin(), said.end(), value) == said.end())
        said.push_back(value);
  }

  SketchColumns& c_;
  analysis::ColumnBuilder& b_;
  std::vector<std::vector<Column>> said_;  // of each loop
  int64_t parts_ = 0;                      // of the program so far between its loops
  size_t next_ = 0;                        // loop
};

}  // namespace

bool sketch_columns(const Sketch& sketch, const target::Target& target, SketchColumns& out, std::string& why) {
  if (!sketch.symbolic) {
    why = sketch.concrete;
    return false;
  }
  add_symbols(sketch, out);
  if (!analysis::nest_columns(out.builder, sketch.nest, out.symbols, out.nest, why)) return false;
  if (!lower::limit_columns(out.builder, sketch.nest, out.nest, target, out.limits, why)) return false;
  out.legal = out.limits.legal, out.decided = out.limits.decided;
  analysis::ColumnBuilder& b = out.builder;
  for (Expr extent : sketch.places) {
    const Column value = analysis::column_of(b, extent, out.symbols);
    if (value == kNoColumn) {
      why = "the extent of a loop at which a block is computed is not a function of the decisions";
      return false;
    }
    out.decided = b.both(out.decided, b.negate(b.equal(value, b.constant(1))));
  }
  out.identity = Identity(out, sketch.nest).run();
  return true;
}

}  // namespace tcc::space
