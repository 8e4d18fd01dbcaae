// How a block is cut down. The spatial iterators of the blocks that make an output are its coordinates, in some order.
// Where samples are wanted, one loop over the samples takes the place of the spatial loops, and each coordinate is read
// from an input:
//
//   for i, j, k: C[i, j] += A[i, k] * B[k, j]   becomes   for s, k: C[s] += A[I[s], k] * B[k, J[s]]
//
// A temporary that is read at C's own element only, such as the sum in front of an epilogue, is cut down the same way;
// this goes on backwards until a block needs more than one element.
#include "measure/sampled_kernel.h"

#include <algorithm>
#include <map>
#include <set>

#include "tcc/ir/build.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::measure {
namespace {

using namespace tcc::ir;

// A nest of plain loops around one block that stores to one buffer, each iterator bound to a loop of its own.
struct Nest {
  const Block* block = nullptr;
  Id buffer = -1;
  bool simple = false;
  std::vector<const Loop*> loops;         // outermost first
  std::map<Id, const Loop*> loop_of;      // by iterator
  std::vector<std::vector<Expr>> stores;  // indices of every store
  std::map<Id, std::vector<std::vector<Expr>>> loads;
};

const Iter* find_iter(const Block& block, Expr e) {
  const auto* v = as<Var>(e);
  if (!v) return nullptr;
  for (const Iter& iter : block.iters)
    if (iter.id == v->id) return &iter;
  return nullptr;
}

bool bind_loops(Nest& nest) {
  std::map<Id, const Loop*> by_id;
  for (const Loop* loop : nest.loops) by_id[loop->id] = loop;
  for (const Iter& iter : nest.block->iters) {
    const auto* v = as<Var>(iter.binding);
    if (!v || !by_id.contains(v->id) || (iter.kind != IterKind::kSpatial && iter.kind != IterKind::kReduce))
      return false;
    nest.loop_of[iter.id] = by_id[v->id];
    by_id.erase(v->id);
  }
  return by_id.empty() && nest.block->predicate == nullptr;
}

void note_accesses(Nest& nest) {
  std::set<Id> stored;
  visit(static_cast<Stmt>(nest.block), [&](Stmt s) {
    if (const auto* store = as<Store>(s)) {
      stored.insert(store->buffer);
      nest.stores.emplace_back(store->indices.begin(), store->indices.end());
    }
    if (as<InstrCall>(s)) nest.simple = false;
    return true;
  });
  visit_loads(nest.block, [&](const Load& load) {
    nest.loads[load.buffer].emplace_back(load.indices.begin(), load.indices.end());
  });
  nest.simple = nest.simple && stored.size() == 1;
  if (!stored.empty()) nest.buffer = *stored.begin();
}

Nest read_nest(Stmt s) {
  Nest nest;
  while (const auto* loop = as<Loop>(s)) {
    nest.loops.push_back(loop);
    s = loop->body;
  }
  nest.block = as<Block>(s);
  if (!nest.block) return nest;
  nest.simple = bind_loops(nest);
  note_accesses(nest);
  return nest;
}

// What a buffer's dimensions are of the sampled output.
struct Cut {
  size_t output;             // index into SampledKernel::outputs
  std::vector<size_t> dims;  // dimension d of the buffer is dimension dims[d] of the output
};

class Sampler {
 public:
  Sampler(const Kernel& kernel, std::span<const int64_t> samples) : kernel_(kernel), samples_(samples) {
    result_.arena = std::make_shared<Arena>();
  }

  std::optional<SampledKernel> run() {
    std::vector<Stmt> roots = {kernel_.root};
    if (const auto* seq = as<Seq>(kernel_.root)) roots.assign(seq->stmts.begin(), seq->stmts.end());
    for (Stmt s : roots) {
      nests_.push_back(read_nest(s));
      if (!nests_.back().block) return std::nullopt;  // what it reads is not known
    }
    int64_t number = 0;
    for (const Buffer* buffer : kernel_.buffers) {
      if (buffer->role == BufferRole::kTemp) continue;
      if (samples_[static_cast<size_t>(number)] > 0) cut_output(*buffer, number);
      ++number;
    }
    if (outputs_.empty()) return std::nullopt;
    // Consumers come behind their producers, so one sweep backwards meets every consumer first.
    for (size_t i = nests_.size(); i-- > 0;) cut_temporary(nests_[i].buffer);
    return build(roots, number);
  }

 private:
  // The output's dimension that each spatial iterator of a block is, given what the dimensions of its buffer are.
  std::optional<std::map<Id, size_t>> coordinates(const Nest& nest, std::span<const size_t> dims) const {
    if (!nest.simple) return std::nullopt;
    std::optional<std::map<Id, size_t>> all;
    for (const std::vector<Expr>& indices : nest.stores) {
      std::map<Id, size_t> found;
      for (size_t d = 0; d < indices.size(); ++d) {
        const Iter* iter = find_iter(*nest.block, indices[d]);
        if (!iter || iter->kind != IterKind::kSpatial || !found.emplace(iter->id, dims[d]).second) return std::nullopt;
      }
      if (all && *all != found) return std::nullopt;
      all = std::move(found);
    }
    auto spatial = std::count_if(nest.block->iters.begin(), nest.block->iters.end(),
                                 [](const Iter& i) { return i.kind == IterKind::kSpatial; });
    if (!all || static_cast<size_t>(spatial) != all->size()) return std::nullopt;
    // A block that reads its own buffer elsewhere is a scan.
    if (auto own = nest.loads.find(nest.buffer); own != nest.loads.end())
      for (const std::vector<Expr>& indices : own->second)
        if (indices != nest.stores[0]) return std::nullopt;
    return all;
  }

  bool can_cut_producers(Id buffer, const Cut& cut) const {
    bool any = false;
    for (const Nest& nest : nests_) {
      if (nest.buffer != buffer && nest.loads.contains(buffer) && cuts_.count(nest.buffer) == 0) return false;
      if (nest.buffer != buffer) continue;
      any = true;
      if (!coordinates(nest, cut.dims)) return false;
    }
    return any;
  }

  void cut_output(const Buffer& buffer, int64_t number) {
    Cut cut{outputs_.size(), {}};
    for (size_t d = 0; d < buffer.shape.size(); ++d) cut.dims.push_back(d);
    bool read_elsewhere = std::any_of(nests_.begin(), nests_.end(), [&](const Nest& nest) {
      return nest.buffer != buffer.id && nest.loads.contains(buffer.id);
    });
    if (read_elsewhere || !can_cut_producers(buffer.id, cut)) return;
    outputs_.push_back({number, {}});
    cuts_[buffer.id] = std::move(cut);
  }

  void cut_temporary(Id id) {
    const Buffer* buffer = kernel_.buffer(id);
    if (buffer->role != BufferRole::kTemp || cuts_.contains(id)) return;
    std::optional<Cut> cut;
    for (const Nest& nest : nests_) {
      auto loads = nest.loads.find(id);
      if (nest.buffer == id || loads == nest.loads.end()) continue;
      auto consumer = cuts_.find(nest.buffer);
      if (consumer == cuts_.end()) return;
      std::map<Id, size_t> known = *coordinates(nest, consumer->second.dims);
      for (const std::vector<Expr>& indices : loads->second) {
        Cut wanted{consumer->second.output, {}};
        for (Expr index : indices) {
          const Iter* iter = find_iter(*nest.block, index);
          if (!iter || !known.contains(iter->id)) return;
          wanted.dims.push_back(known[iter->id]);
        }
        if (cut && (cut->output != wanted.output || cut->dims != wanted.dims)) return;
        cut = std::move(wanted);
      }
    }
    if (!cut || !can_cut_producers(id, *cut)) return;
    int64_t elements = 1;
    for (Expr extent : buffer->shape) elements *= int_value(extent);
    if (elements > samples_of(*cut)) cuts_[id] = std::move(*cut);
  }

  int64_t samples_of(const Cut& cut) const { return samples_[static_cast<size_t>(outputs_[cut.output].param)]; }

  std::optional<SampledKernel> build(std::span<const Stmt> roots, int64_t num_params) {
    result_.arena->keep_alive(kernel_.arena);
    SampledKernel sampled{kernel_, outputs_};
    sampled.kernel.arena = result_.arena;
    Builder b(*result_.arena);
    std::vector<const Buffer*> params, coords, temps;
    for (const Buffer* buffer : kernel_.buffers) {
      Buffer copy = *buffer;
      if (auto cut = cuts_.find(buffer->id); cut != cuts_.end()) {
        copy.shape = result_.arena->copy(std::vector<Expr>{b.integer(samples_of(cut->second))});
        copy.layout = nullptr;
      }
      (buffer->role == BufferRole::kTemp ? temps : params).push_back(b.buffer(copy));
      if (buffer->role != BufferRole::kOutput || !cuts_.contains(buffer->id)) continue;
      SampledKernel::Output& output = sampled.outputs[cuts_[buffer->id].output];
      for (size_t d = 0; d < buffer->shape.size(); ++d) {
        Buffer coord{sampled.kernel.next_id++, Type::kI64, Scope::kGlobal, BufferRole::kInput, copy.shape, nullptr, 8};
        coords.push_back(b.buffer(coord));
        output.coords.push_back(num_params++);
        coordinate_[{cuts_[buffer->id].output, d}] = coords.back();
      }
    }
    params.insert(params.end(), coords.begin(), coords.end());
    params.insert(params.end(), temps.begin(), temps.end());
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < nests_.size(); ++i) {
      auto cut = cuts_.find(nests_[i].buffer);
      stmts.push_back(cut == cuts_.end() ? roots[i] : cut_nest(b, nests_[i], cut->second, sampled.kernel.next_id));
    }
    sampled.kernel.buffers = result_.arena->copy(params);
    sampled.kernel.root = b.seq(stmts);
    return sampled;
  }

  Stmt cut_nest(Builder& b, const Nest& nest, const Cut& cut, Id& next_id) {
    std::map<Id, size_t> known = *coordinates(nest, cut.dims);
    const Id loop = next_id++, sample = next_id++;
    Expr extent = b.integer(samples_of(cut)), at = b.var(sample);
    Substitution into;
    std::vector<Iter> iters = {{sample, IterKind::kSpatial, extent, b.var(loop)}};
    for (const Iter& iter : nest.block->iters) {
      if (iter.kind == IterKind::kSpatial)
        into.set(iter.id, b.load(*coordinate_.at({cut.output, known[iter.id]}), std::array{at}));
      else
        iters.push_back(iter);
    }
    auto rewrite = [&](Stmt s) { return s ? substitute(b, cut_accesses(b, s, at), into) : s; };
    Stmt s = b.block(nest.block->id, iters, rewrite(nest.block->body), rewrite(nest.block->init), nullptr,
                     nest.block->reducer, nest.block->annotations);
    for (size_t i = nest.loops.size(); i-- > 0;) {
      bool reduces = std::any_of(iters.begin() + 1, iters.end(),
                                 [&](const Iter& iter) { return nest.loop_of.at(iter.id) == nest.loops[i]; });
      if (reduces) s = b.with_body(*nest.loops[i], s);
    }
    return b.loop(loop, extent, s);
  }

  // Buffers that are cut down are accessed by the number of the sample. Run before the coordinates are put in.
  Stmt cut_accesses(Builder& b, Stmt s, Expr at) {
    auto in_expression = [&](Expr e) { return e ? cut_loads(b, e, at) : e; };
    if (const auto* store = as<Store>(s); store && cuts_.contains(store->buffer))
      return b.store(store->buffer, std::array{at}, in_expression(store->value), in_expression(store->predicate));
    return rewrite_children(b, s, [&](Stmt child) { return cut_accesses(b, child, at); }, in_expression);
  }
  Expr cut_loads(Builder& b, Expr e, Expr at) {
    auto recurse = [&](Expr child) { return child ? cut_loads(b, child, at) : child; };
    const auto* load = as<Load>(e);
    if (!load || !cuts_.contains(load->buffer)) return rewrite_children(b, e, recurse);
    return b.load(load->buffer, load->type, std::array{at}, recurse(load->predicate), recurse(load->other));
  }

  const Kernel& kernel_;
  std::span<const int64_t> samples_;
  std::vector<Nest> nests_;
  std::vector<SampledKernel::Output> outputs_;
  std::map<Id, Cut> cuts_;
  std::map<std::pair<size_t, size_t>, const Buffer*> coordinate_;  // by output and dimension
  Kernel result_;
};

// Both sides of the borders of tiles along an extent, few enough whatever the extent.
std::vector<int64_t> edges(int64_t extent) {
  std::set<int64_t> found = {0, extent - 1};
  for (int64_t tile = 2; tile < extent; tile *= 2) {
    int64_t last = (extent - 1) / tile * tile;
    for (int64_t at : {tile - 1, tile, last - 1, last}) found.insert(std::clamp<int64_t>(at, 0, extent - 1));
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::vector<int64_t> sample_positions(std::span<const int64_t> shape, int64_t random, uint64_t seed) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  std::set<int64_t> found;
  Rng rng(seed);
  auto number = [&](std::span<const int64_t> at) {
    int64_t n = 0;
    for (size_t d = 0; d < shape.size(); ++d) n = n * shape[d] + at[d];
    return n;
  };
  auto anywhere = [&](size_t d) { return rng.below(shape[d]); };
  std::vector<int64_t> at(shape.size());
  constexpr size_t kMaxCornerDims = 8;
  for (uint64_t corner = 0; corner < uint64_t{1} << std::min(shape.size(), kMaxCornerDims); ++corner) {
    for (size_t d = 0; d < shape.size(); ++d)
      at[d] = d < kMaxCornerDims ? (corner >> d & 1 ? shape[d] - 1 : 0) : anywhere(d);
    found.insert(number(at));
  }
  // Each edge of each dimension, with the others anywhere and on edges of their own.
  std::vector<std::vector<int64_t>> borders;
  for (int64_t extent : shape) borders.push_back(edges(extent));
  for (size_t d = 0; d < shape.size(); ++d) {
    for (int64_t border : borders[d]) {
      for (bool on_edges : {false, true}) {
        for (size_t o = 0; o < shape.size(); ++o)
          at[o] = on_edges ? borders[o][static_cast<size_t>(rng.below(static_cast<int64_t>(borders[o].size())))]
                           : anywhere(o);
        at[d] = border;
        found.insert(number(at));
      }
    }
  }
  const auto wanted = std::min(elements, static_cast<int64_t>(found.size()) + random);
  if (wanted * 2 >= elements) {
    for (int64_t i = 0; i < elements; ++i) found.insert(i);
  }
  while (static_cast<int64_t>(found.size()) < wanted) found.insert(rng.below(elements));
  return {found.begin(), found.end()};
}

std::optional<SampledKernel> sample_outputs(const Kernel& kernel, std::span<const int64_t> samples) {
  TCC_CHECK(kernel.stage == Stage::kBuilt, "the kernel must be as built");
  return Sampler(kernel, samples).run();
}

}  // namespace tcc::measure
