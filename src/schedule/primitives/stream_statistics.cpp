// stream_reduction of statistics: the maximum of a row and the sum of exponentials relative to it, or the sum of a row
// and the sum of squares about its mean, with each term computed once.
//
// The second statistic needs the first before its first term, so the row is read twice:
//   A[r] = max_k S[r,k]     B[r] = sum_k exp(S[r,k] - A[r])
//   A[r] = sum_k S[r,k]     B[r] = sum_k (S[r,k] - m)^2        m any value of the row, such as A[r] / n
// Both are split over chunks c of the row. Each chunk takes a pivot p of its own, and is complete with its own terms:
//   a[r,c] = max of the chunk    p = a            b[r,c] = sum exp(S - p)
//   a[r,c] = sum of the chunk    p = a / count    b[r,c] = sum (S - p)^2
// The statistics of the row follow from those of its chunks:
//   A[r] = max_c a    B[r] = sum_c b exp(p - A)            (Milakov and Gimelshein, arXiv 1805.02867, section 3.1)
//   A[r] = sum_c a    B[r] = sum_c b + count (p - m)^2     (Chan, Golub and LeVeque, The American Statistician 37(3),
//                                                           1983, equation 1.5)
// The terms of a chunk are computed once into a temporary, which fits registers. Chunks depend on nothing but their own
// terms, so that threads take chunks in any number, and each thread several in turn. Every step has a nest of its own,
// which compute_at moves to where it is wanted:
//
//   for r, round, part, vector, lane { T[r, round, vector, part, lane] = S[r, ((round*I + vector)*U + part)*V + lane] }
//   for r, round, part { for vector, lane { a[r, round, part] = combination of T } }         p and b the same way
//   for r { for round, part { A[r] = combination of a } }                                    B the same way
//
// A chunk whose terms are all -inf (masked) takes the pivot zero, which leaves exp(-inf) = 0 for each of them.
#include "stream_statistics.h"

#include <limits>

#include "softmax_chain.h"

namespace tcc::schedule {
namespace {

constexpr const char* kForm = "two statistics of a row";
constexpr int64_t kMaxFactor = 1 << 20;

// The difference S - m whose exponential or square the value is.
const Binary* difference_of(Expr value) {
  const Call* call = as<Call>(value);
  Expr inner = call != nullptr && call->fn == Intrinsic::kExp ? call->args[0] : nullptr;
  if (value->kind == ExprKind::kMul && equal(as<Binary>(value)->a, as<Binary>(value)->b)) inner = as<Binary>(value)->a;
  return inner != nullptr && inner->kind == ExprKind::kSub ? as<Binary>(inner) : nullptr;
}

const Binary* difference_of_sum(const Block& block) {
  const Store* store = as<Store>(block.body);
  if (store == nullptr || block.init == nullptr || block.reducer != ReducerKind::kSum ||
      store->value->kind != ExprKind::kAdd)
    return nullptr;
  Expr term = update_term(*store);
  return term != nullptr ? difference_of(term) : nullptr;
}

class StatisticsStreamer {
 public:
  StatisticsStreamer(const Kernel& k, Expr vectors, Expr parts, Expr width)
      : k_(k), edit_(k), vectors_(vectors), parts_(parts), width_(width) {}

  Legal<Kernel> run(Id block, Id& out) {
    for (Expr factor : {vectors_, parts_, width_})
      if (factor == nullptr || (is_int(factor) && (int_value(factor) < 1 || int_value(factor) > kMaxFactor)))
        return reject(RejectReason::kBadFactor, "vectors, parts and widths of chunks are from 1 to 2^20");
    TCC_TRY_VOID(match(block));
    if (!exponential_ && !(is_int(vectors_) && is_int(parts_) && is_int(width_) && is_int(terms_)))
      return reject(RejectReason::kNotConstant, "the number of terms of a chunk is known with its factors only");
    return edit_.finish(build(out));
  }

 private:
  Builder& b() { return edit_.b; }
  std::string name(Id id) const { return describe(k_, id); }
  tl::unexpected<Reject> refuse(const std::string& why) const {
    return reject(RejectReason::kReductionOrder, fmt::format("no chain of {}: {}", kForm, why));
  }

  Legal<void> match(Id block);
  Legal<void> match_first();
  Legal<void> match_uses();

  // What a block runs over: iterators with their loops, and the values that stand for those of the second statistic.
  struct Piece {
    std::vector<Iter> iters;
    std::vector<std::pair<Id, Expr>> loops;  // own ones, outermost first
    std::vector<Expr> chunk;                 // index of chunks: rows, round, part
    std::vector<Expr> term;                  // index of terms: rows, round, vector, part, lane
    Expr predicate = nullptr;                // of the block
    Expr exists = nullptr;                   // of a term, by the iterators; nullptr: all do
    Substitution names;                      // for iterators of the second statistic
  };
  Expr add_iter(Piece& p, const char* text, IterKind kind, Expr extent);
  Piece of_chunk(bool terms, IterKind kind);
  Piece of_row();
  Stmt finish(const Piece& p, Id id, Stmt body, Stmt init = nullptr, ReducerKind reducer = ReducerKind::kNone);
  const Buffer* temporary(const char* what, Type type, bool terms);
  Id part(const char* what) { return edit_.fresh_named(name_hint(k_, second_.block->id) + "_" + what); }
  std::vector<Expr> row_of(const Piece& p, const ChainLink& l, bool of_first);
  Expr at(Expr round, Expr vector, Expr lane_part, Expr lane);
  Expr count(const Piece& p, Type type);
  Expr pivot_value(const Piece& p);
  std::vector<Stmt> chunk_nests(Id& out);
  Stmt combination(const ChainLink& l, bool first);
  Stmt build(Id& out);

  const Kernel& k_;
  Editor edit_;
  Expr vectors_, parts_, width_;
  ChainLink first_, second_;
  bool exponential_ = false;
  size_t over_ = 0;             // the reduce iterator of the second statistic
  Expr score_ = nullptr;        // S, and
  Expr base_ = nullptr;         // m, in the iterators of the second statistic
  std::vector<int> first_row_;  // iterators of the second statistic by the indices of A, -1 for the constant 0
  Expr terms_ = nullptr, rounds_ = nullptr;
  const Buffer *values_ = nullptr, *chunk_first_ = nullptr, *pivot_ = nullptr, *chunk_second_ = nullptr;
};

Legal<void> StatisticsStreamer::match(Id block) {
  TCC_TRY(ChainLink second, chain_link(k_, block, "second statistic", kForm));
  second_ = std::move(second);
  const Binary* difference = difference_of_sum(*second_.block);
  if (difference == nullptr) return refuse(name(block) + " does not sum exponentials or squares of differences");
  exponential_ = as<Call>(update_term(*second_.store)) != nullptr;
  score_ = difference->a;
  base_ = difference->b;
  int found = 0;
  for (size_t i = 0; i < second_.block->iters.size(); ++i)
    if (second_.block->iters[i].kind == IterKind::kReduce) over_ = i, ++found;
  if (found != 1) return refuse(name(block) + " does not sum over one iterator");
  terms_ = second_.block->iters[over_].extent;
  if (mentions(base_, second_.block->iters[over_].id))
    return refuse(name(block) + " subtracts another value from each term");
  TCC_TRY_VOID(match_first());
  return match_uses();
}

// The first statistic, by the buffer that the subtracted value reads, of the same terms.
Legal<void> StatisticsStreamer::match_first() {
  const Load* load = nullptr;
  for (const Block* block : collect_blocks(k_.root)) {
    const Store* store = as<Store>(block->body);
    const ReducerKind wanted = exponential_ ? ReducerKind::kMax : ReducerKind::kSum;
    if (store == nullptr || block->init == nullptr || block->reducer != wanted || block->id == second_.block->id)
      continue;
    visit(base_, [&](Expr e) {
      const Load* l = as<Load>(e);
      if (l != nullptr && l->buffer == store->buffer && l->predicate == nullptr) load = l;
      return load == nullptr;
    });
    if (load == nullptr) continue;
    TCC_TRY(ChainLink first, chain_link(k_, block->id, "first statistic", kForm));
    first_ = std::move(first);
    break;
  }
  const std::string own = name(second_.block->id);
  if (load == nullptr || (exponential_ && as<Load>(base_) != load))
    return refuse(fmt::format("{} subtracts {}", own,
                              exponential_ ? "something else than a maximum" : "nothing that is made of a sum"));
  if (count_writers(k_, load->buffer) != 1) return reject(RejectReason::kManyWriters, name(load->buffer));
  const ExprKind op = exponential_ ? ExprKind::kMax : ExprKind::kAdd;
  Expr term = first_.store->value->kind == op ? update_term(*first_.store) : nullptr;
  std::optional<std::vector<int>> rows = plain_indices(*second_.block, load->indices);
  if (term == nullptr || !rows || rows->size() != first_.at.size())
    return refuse(name(first_.block->id) + " does not make one number a row");
  first_row_ = *rows;
  // Iterators of the first statistic by those of the second one.
  Substitution names;
  size_t known = 0;
  for (size_t d = 0; d < first_row_.size(); ++d) {
    const int mine = first_.at[d], other = first_row_[d];
    if ((mine < 0) != (other < 0)) return refuse(own + " reads the first statistic of another row");
    if (mine < 0) continue;
    const Iter &x = first_.block->iters[static_cast<size_t>(mine)],
               &y = second_.block->iters[static_cast<size_t>(other)];
    if (!equal(x.extent, y.extent) || x.kind != IterKind::kSpatial || y.kind != IterKind::kSpatial)
      return refuse(own + " has other rows than the first statistic");
    names.set(x.id, b().var(y.id));
    ++known;
  }
  for (const Iter& it : first_.block->iters) {
    if (it.kind != IterKind::kReduce) continue;
    if (!equal(it.extent, terms_)) return refuse(own + " has other terms than the first statistic");
    names.set(it.id, b().var(second_.block->iters[over_].id));
    ++known;
  }
  if (known != first_.block->iters.size() || known != second_.block->iters.size())
    return refuse(own + " has other rows than the first statistic");
  if (!equal(substitute(b(), term, names), score_)) return refuse(own + " has other terms than the first statistic");
  return {};
}

// The first statistic is computed later than before: nothing reads it, and nothing changes its terms, meanwhile.
Legal<void> StatisticsStreamer::match_uses() {
  for (Id buffer : {first_.store->buffer, second_.store->buffer})
    if (!is_float(k_.buffer(buffer)->type))
      return reject(RejectReason::kReductionOrder, name(buffer) + " is not of a floating type");
  bool after = false;
  for (const Block* block : collect_blocks(k_.root)) {
    if (block->id == second_.block->id) break;
    if (block->id == first_.block->id) {
      after = true;
      continue;
    }
    if (!after) continue;
    if (reads_buffer(block, first_.store->buffer))
      return reject(RejectReason::kNotInScope, fmt::format("{} reads {} before the second statistic", name(block->id),
                                                           name(first_.store->buffer)));
    bool changes = false;
    visit(score_, [&](Expr e) {
      if (const Load* l = as<Load>(e)) changes |= writes_buffer(block->body, l->buffer);
      return !changes;
    });
    if (changes) return reject(RejectReason::kNotInScope, name(block->id) + " changes the terms");
  }
  if (!after) return refuse(name(first_.block->id) + " is not in front of " + name(second_.block->id));
  return {};
}

Expr StatisticsStreamer::add_iter(Piece& p, const char* text, IterKind kind, Expr extent) {
  const Id loop = edit_.fresh_named(text);
  p.loops.emplace_back(loop, extent);
  const Id it = edit_.fresh_named(std::string("v") + text);
  p.iters.push_back({it, kind, extent, b().var(loop)});
  return b().var(it);
}

StatisticsStreamer::Piece StatisticsStreamer::of_row() {
  Piece p;
  for (size_t i = 0; i < second_.block->iters.size(); ++i) {
    if (i == over_) continue;
    const Iter& it = second_.block->iters[i];
    p.chunk.push_back(add_iter(p, "row", IterKind::kSpatial, it.extent));
    p.names.set(it.id, p.chunk.back());
  }
  return p;
}

// Position of a term in its row.
Expr StatisticsStreamer::at(Expr round, Expr vector, Expr lane_part, Expr lane) {
  const Expr vectors = b().add(b().mul(b().add(b().mul(round, vectors_), vector), parts_), lane_part);
  return b().add(b().mul(vectors, width_), lane);
}

// A chunk, or with `terms` each of its terms as an iterator of that kind. A reduction runs over all terms of a chunk,
// so that chunks without terms have their identities, too.
StatisticsStreamer::Piece StatisticsStreamer::of_chunk(bool terms, IterKind kind) {
  Piece p = of_row();
  p.term = p.chunk;
  const Expr round = add_iter(p, "round", IterKind::kSpatial, rounds_);
  const Expr lane_part = add_iter(p, "part", IterKind::kSpatial, parts_);
  p.chunk.insert(p.chunk.end(), {round, lane_part});
  if (!terms) return p;
  const Expr vector = add_iter(p, "vector", kind, vectors_), lane = add_iter(p, "lane", kind, width_);
  p.term.insert(p.term.end(), {round, vector, lane_part, lane});
  p.names.set(second_.block->iters[over_].id, at(round, vector, lane_part, lane));
  const Expr whole = b().mul(b().mul(rounds_, vectors_), b().mul(parts_, width_));
  if (!analysis::Ranges(k_).prove_equal(b(), whole, terms_)) {
    const auto own = [&](size_t i) { return b().var(p.loops[p.loops.size() - 4 + i].first); };
    const Expr position = at(own(0), own(2), own(1), own(3));
    if (kind == IterKind::kSpatial) p.predicate = b().lt(position, terms_);
    p.exists = b().lt(at(round, vector, lane_part, lane), terms_);
  }
  return p;
}

Stmt StatisticsStreamer::finish(const Piece& p, Id id, Stmt body, Stmt init, ReducerKind reducer) {
  Stmt nest = b().block(id, p.iters, body, init, p.predicate, reducer);
  for (size_t i = p.loops.size(); i-- > 0;) nest = b().loop(p.loops[i].first, p.loops[i].second, nest);
  return nest;
}

const Buffer* StatisticsStreamer::temporary(const char* what, Type type, bool terms) {
  std::vector<Expr> shape;
  for (size_t i = 0; i < second_.block->iters.size(); ++i)
    if (i != over_) shape.push_back(second_.block->iters[i].extent);
  shape.push_back(rounds_);
  if (terms) shape.push_back(vectors_);
  shape.push_back(parts_);
  if (terms) shape.push_back(width_);
  return edit_.add_buffer({part(what), type, Scope::kGlobal, BufferRole::kTemp, shape, nullptr, 64, {}});
}

// The element of a statistic's buffer for the piece's row.
std::vector<Expr> StatisticsStreamer::row_of(const Piece& p, const ChainLink& l, bool of_first) {
  std::vector<Expr> out;
  const std::vector<int>& iters = of_first ? first_row_ : l.at;
  for (int i : iters)
    out.push_back(i < 0 ? b().integer(0)
                        : substitute(b(), b().var(second_.block->iters[static_cast<size_t>(i)].id), p.names));
  return out;
}

// Terms of the piece's chunk: all of whole chunks; else those of the rounds of vectors that exist whole for all parts,
// and what the part has of the last one.
Expr StatisticsStreamer::count(const Piece& p, Type type) {
  const Expr of_round = b().mul(parts_, width_), whole = b().mul(of_round, vectors_);
  if (analysis::Ranges(k_).prove_equal(b(), b().mul(rounds_, whole), terms_))
    return b().cast(b().mul(vectors_, width_), type);
  const Expr round = p.chunk[p.chunk.size() - 2], lane_part = p.chunk.back();
  const Expr rest = b().min(b().sub(terms_, b().mul(round, whole)), whole);
  const Expr full = b().floor_div(rest, of_round), last = b().sub(rest, b().mul(full, of_round));
  const Expr mine = b().max(b().min(b().sub(last, b().mul(lane_part, width_)), width_), b().integer(0));
  return b().cast(b().add(b().mul(full, width_), mine), type);
}

Expr StatisticsStreamer::pivot_value(const Piece& p) {
  const Type type = chunk_first_->type;
  const Expr first = b().load(*chunk_first_, p.chunk);
  if (!exponential_) return b().div(first, b().max(count(p, type), b().real(1, type)));
  return b().select(b().eq(first, b().real(-std::numeric_limits<double>::infinity(), type)), b().real(0, type), first);
}

// T, a, p and b of the chunks.
std::vector<Stmt> StatisticsStreamer::chunk_nests(Id& out) {
  std::vector<Stmt> nest;
  Piece p = of_chunk(true, IterKind::kSpatial);
  nest.push_back(finish(p, part("terms"), b().store(values_->id, p.term, substitute(b(), score_, p.names))));

  p = of_chunk(true, IterKind::kReduce);
  // Beside the row there are identities.
  const Expr beside = b().real(exponential_ ? -std::numeric_limits<double>::infinity() : 0, values_->type);
  auto value_of = [&](const Piece& of) {
    return of.exists == nullptr ? b().load(*values_, of.term) : b().load(*values_, of.term, of.exists, beside);
  };
  Expr value = b().cast(value_of(p), chunk_first_->type), old = b().load(*chunk_first_, p.chunk);
  const Store* start = as<Store>(first_.block->init);
  nest.push_back(finish(p, part("chunk_first"),
                        b().store(chunk_first_->id, p.chunk, exponential_ ? b().max(old, value) : b().add(old, value)),
                        b().store(chunk_first_->id, p.chunk, start->value), first_.block->reducer));

  p = of_chunk(false, IterKind::kSpatial);
  nest.push_back(finish(p, part("pivot"), b().store(pivot_->id, p.chunk, pivot_value(p))));

  p = of_chunk(true, IterKind::kReduce);
  Expr difference[1] = {b().sub(value_of(p), b().cast(b().load(*pivot_, p.chunk), values_->type))};
  if (!exponential_ && p.exists != nullptr) difference[0] = b().select(p.exists, difference[0], beside);
  const Expr term = exponential_ ? b().call(Intrinsic::kExp, difference) : b().mul(difference[0], difference[0]);
  old = b().load(*chunk_second_, p.chunk);
  nest.push_back(finish(p, part("chunk_second"),
                        b().store(chunk_second_->id, p.chunk, b().add(old, b().cast(term, chunk_second_->type))),
                        b().store(chunk_second_->id, p.chunk, b().real(0, chunk_second_->type)), ReducerKind::kSum));
  out = p.loops[p.loops.size() - 4].first;
  return nest;
}

// A or B of the row, from its chunks.
Stmt StatisticsStreamer::combination(const ChainLink& l, bool first) {
  Piece p = of_row();
  const Expr round = add_iter(p, "round", IterKind::kReduce, rounds_);
  const Expr lane_part = add_iter(p, "part", IterKind::kReduce, parts_);
  p.chunk.insert(p.chunk.end(), {round, lane_part});
  const std::vector<Expr> row = row_of(p, l, first);
  const Buffer& result = *k_.buffer(l.store->buffer);
  const Expr old = b().load(result, row);
  const Store* start = as<Store>(l.block->init);
  const Stmt init = b().store(result.id, row, start->value);
  Expr value = nullptr;
  if (first) {
    value = b().load(*chunk_first_, p.chunk);
    value = exponential_ ? b().max(old, value) : b().add(old, value);
  } else {
    const Type type = values_->type;
    const Expr base = substitute(b(), base_, p.names);
    value = b().load(*chunk_second_, p.chunk);
    if (exponential_) {
      const Expr gap[1] = {b().sub(b().cast(b().load(*chunk_first_, p.chunk), type), base)};
      value = b().mul(value, b().cast(b().call(Intrinsic::kExp, gap), result.type));
    } else {
      const Expr gap = b().sub(b().cast(b().load(*pivot_, p.chunk), type), base);
      value = b().add(value, b().mul(count(p, result.type), b().cast(b().mul(gap, gap), result.type)));
    }
    value = b().add(old, value);
  }
  return finish(p, l.block->id, b().store(result.id, row, value), init, l.block->reducer);
}

Stmt StatisticsStreamer::build(Id& out) {
  rounds_ = b().ceil_div(terms_, b().mul(b().mul(vectors_, parts_), width_));
  values_ = temporary("values", score_->type, true);
  chunk_first_ = temporary("firsts", k_.buffer(first_.store->buffer)->type, false);
  pivot_ = temporary("pivots", chunk_first_->type, false);
  chunk_second_ = temporary("seconds", k_.buffer(second_.store->buffer)->type, false);
  std::vector<Stmt> nests = chunk_nests(out);
  nests.push_back(combination(first_, true));
  nests.push_back(combination(second_, false));
  // The old nest of A comes before the new one: ids of blocks are found there first.
  Stmt root = replace_at(b(), prefix(second_.path, top_level_position(second_.path) + 1), b().seq(nests));
  const Stmt old = first_.path.nodes[top_level_position(first_.path)];
  return replace_at(b(), find_path(root, as<Loop>(old) != nullptr ? as<Loop>(old)->id : first_.block->id), nullptr);
}

}  // namespace

bool is_second_statistic(const Kernel& k, Id block) {
  const Block* found = find_block(k.root, block);
  return found != nullptr && difference_of_sum(*found) != nullptr;
}

Legal<Kernel> stream_statistics(const Kernel& k, Id block, Expr vectors, Expr parts, Expr width, Id& out) {
  return StatisticsStreamer(k, vectors, parts, width).run(block, out);
}

}  // namespace tcc::schedule
