// An implicit matrix product: out[n, f, y, x] += in[n, c, y + ky, x + kx] * w[f, c, ky, kx] has rows f, columns (n, y,
// x) and sums over (c, ky, kx). The copy of the input into shared memory computes its addresses (CUTLASS, "Implicit
// GEMM convolution"); the unfolded input exists nowhere else.
#include "space/gpu_product.h"

#include <algorithm>

#include "space/contraction.h"
#include "space/modules.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::space {

using schedule::IterDigit;

namespace {

bool has_feature(const target::CudaFeatures& f, std::string_view name) {
  if (name.empty()) return true;
#define TCC_FEATURE(field) \
  if (name == #field) return f.field;
  TCC_CUDA_FEATURES(TCC_FEATURE)
#undef TCC_FEATURE
  return false;
}

// The last two indices are the two iterators, in one order or the other, and the others are iterators or constants.
bool is_matrix(const Load& load, Id x, Id y) {
  const size_t n = load.indices.size();
  if (n < 2 || load.predicate != nullptr) return false;
  for (Expr e : load.indices)
    if (as<Var>(e) == nullptr && !is_int(e)) return false;
  const Var* a = as<Var>(load.indices[n - 2]);
  const Var* b = as<Var>(load.indices[n - 1]);
  return a != nullptr && b != nullptr && ((a->id == x && b->id == y) || (a->id == y && b->id == x));
}

bool is_plain(const ProductForm& p) {
  if (p.rows.size() != 1 || p.columns.size() != 1 || p.sums.size() != 1 || p.rows[0] > p.columns[0]) return false;
  for (size_t b : p.batch)
    if (b > p.rows[0]) return false;
  const auto& iters = p.nest.block->iters;
  const Id i = iters[p.rows[0]].id, j = iters[p.columns[0]].id, k = iters[p.sums[0]].id;
  bool rows = false, columns = false;
  for (const Load* l : p.nest.loads) {
    rows |= is_matrix(*l, i, k);
    columns |= is_matrix(*l, k, j);
  }
  return rows && columns;
}

// The iterator, and what moves with neither of the two.
bool is_offset(Expr e, Id iter, Id other) {
  if (as<Var>(e) != nullptr) return as<Var>(e)->id == iter;
  const Sum* sum = as<Sum>(e);
  bool found = false;
  for (size_t t = 0; sum != nullptr && t < sum->terms.size(); ++t) {
    const Var* v = as<Var>(sum->terms[t].atom);
    const bool own = v != nullptr && v->id == iter && sum->terms[t].coefficient == 1;
    if (!own && (mentions(sum->terms[t].atom, iter) || mentions(sum->terms[t].atom, other))) return false;
    found |= own;
  }
  return found;
}

bool is_box(const Load& load, Id x, Id y) {
  const size_t n = load.indices.size();
  if (n < 2 || load.predicate != nullptr) return false;
  for (size_t d = 0; d + 2 < n; ++d)
    if (mentions(load.indices[d], x) || mentions(load.indices[d], y)) return false;
  const Expr a = load.indices[n - 2], b = load.indices[n - 1];
  return (is_offset(a, x, y) && is_offset(b, y, x)) || (is_offset(a, y, x) && is_offset(b, x, y));
}

bool has_boxes(const ProductForm& p) {
  if (p.rows.size() != 1 || p.columns.size() != 1 || p.sums.size() != 1) return false;
  const auto& iters = p.nest.block->iters;
  const Id i = iters[p.rows[0]].id, j = iters[p.columns[0]].id, k = iters[p.sums[0]].id;
  return std::all_of(p.nest.loads.begin(), p.nest.loads.end(),
                     [&](const Load* l) { return is_box(*l, i, k) || is_box(*l, k, j); });
}

// Neighbors of the second operand in memory are terms of one column, not columns.
bool ends_in_terms(const ProductForm& p) {
  const auto& iters = p.nest.block->iters;
  for (const analysis::Operand& o : p.nest.operands) {
    if (!o.moves[p.columns[0]]) continue;
    // Behind axes of one element, such as those of a window of 1x1.
    size_t last = o.load->indices.size() - 1;
    while (last > 0 && is_int(o.load->indices[last])) --last;
    auto moves_last = [&](size_t i) { return mentions(o.load->indices[last], iters[i].id); };
    return std::any_of(p.sums.begin(), p.sums.end(), moves_last) &&
           std::none_of(p.columns.begin(), p.columns.end(), moves_last);
  }
  return false;
}

}  // namespace

MatrixRow matrix_row(const Instruction& row) {
  const OperandSpec &d = row.operands[0], &a = row.operands[1];
  return {row.name,
          a.type,
          d.tile[0],
          d.tile[1],
          reads_transposed(row, 1) ? a.tile[0] : a.tile[1],
          a.opaque,
          reads_transposed(row, 2)};
}

std::vector<MatrixRow> matrix_rows(Type type, const target::Target& target, bool allow_tf32) {
  std::vector<MatrixRow> out;
  for (int32_t number : find_products(type, Participants::kWarp)) {
    const Instruction& row = instruction(number);
    if ((type != Type::kF32 || allow_tf32) && has_feature(target.cuda.features, row.feature))
      out.push_back(matrix_row(row));
  }
  const bool plain = std::any_of(out.begin(), out.end(), [](const MatrixRow& r) { return !r.opaque; });
  if (plain) std::erase_if(out, [](const MatrixRow& r) { return r.opaque; });
  return out;
}

std::optional<ProductForm> match_gpu_product(const Kernel& k) {
  std::optional<NaiveNest> nest = find_reuse(k);
  if (!nest || nest->loads.size() != 2 || nest->loads[0]->type != nest->loads[1]->type) return std::nullopt;
  ProductForm p{*nest, nest->loads[0]->type, {}, {}, {}, {}, false};
  std::vector<size_t> first, second;
  size_t last = 0;  // the iterator that is contiguous in the result
  for (size_t i = 0; i < nest->extents.size(); ++i) {
    const bool a = nest->operands[0].moves[i], b = nest->operands[1].moves[i];
    if (nest->reduce[i] ? !(a && b) : !(a || b)) return std::nullopt;
    (nest->reduce[i] ? p.sums : a && b ? p.batch : a ? first : second).push_back(i);
    if (nest->result.dim[i] + 1 == static_cast<int>(nest->store->indices.size())) last = i;
  }
  if (first.empty() || second.empty() || p.sums.empty()) return std::nullopt;
  const bool swap = std::find(first.begin(), first.end(), last) != first.end();
  p.rows = swap ? second : first;
  p.columns = swap ? first : second;
  p.plain = is_plain(p);
  p.boxes = p.plain || has_boxes(p);
  for (int l = 0; p.plain && l < 2; ++l) {
    const Load& load = *nest->loads[static_cast<size_t>(l)];
    if (as<Var>(load.indices.back())->id == nest->block->iters[p.rows[0]].id) p.transposed = l;
  }
  return p;
}

namespace {

// Operands of the sum are read where they are used, as far as their producers can be inlined.
Schedule with_inlined_producers(const Schedule& s, const NaiveNest& nest) {
  Schedule trial = s;
  for (Id producer : schedule::producers_of(s.kernel(), nest.block->id)) {
    const std::string name = name_hint(s.kernel(), producer);
    if (schedule::find_block_by_name(trial.kernel(), name) != producer) continue;
    trial.compute_inline(trial.get_block(name));
    trial.clear_reject();
  }
  return trial;
}

}  // namespace

std::optional<ProductForm> match_gpu_product(Schedule& s) {
  if (std::optional<ProductForm> form = match_gpu_product(s.kernel())) return form;
  std::optional<NaiveNest> nest = find_reuse(s.kernel());
  if (!nest) return std::nullopt;
  Schedule trial = with_inlined_producers(s, *nest);
  std::optional<ProductForm> form = match_gpu_product(trial.kernel());
  if (form) s = std::move(trial);
  return form;
}

std::optional<GpuProductNest> make_product(Schedule& s, const ProductForm& form, const MatrixRow& row, bool boxes) {
  BlockRv block = s.get_block(form.nest.name);
  GpuProductNest p{form.nest.name, form.type, form.nest.extents.size(), 0, 0, 0};
  std::vector<int64_t> extents = form.nest.extents;
  if (form.plain) {
    p.i = form.rows[0], p.j = form.columns[0], p.k = form.sums[0];
    p.transposed = form.transposed;
  } else {
    // Operands [.., i, k] and [.., k, j], or [.., j, k] where boxes of it are wanted in that order.
    const bool terms_last = boxes && ends_in_terms(form);
    std::vector<std::vector<IterDigit>> map;
    std::vector<int64_t> fused;
    auto add = [&](const std::vector<size_t>& iters) {
      std::vector<IterDigit> digits;
      int64_t extent = 1;
      for (size_t i : iters) {
        digits.push_back({static_cast<int64_t>(i), 1, form.nest.extents[i]});
        extent *= form.nest.extents[i];
      }
      map.push_back(digits);
      fused.push_back(extent);
    };
    for (size_t b : form.batch) add({b});
    p.i = map.size(), p.k = p.i + (terms_last ? 2 : 1), p.j = p.i + (terms_last ? 1 : 2);
    add(form.rows);
    add(terms_last ? form.columns : form.sums);
    add(terms_last ? form.sums : form.columns);
    s.transform_block_layout(block, map);
    for (int operand : {0, 1, -1}) s.reindex(block, operand);
    p.iterators = map.size();
    extents = fused;
  }
  std::vector<int64_t> multiples(extents.size(), 1);
  multiples[p.i] = row.i, multiples[p.j] = row.j, multiples[p.k] = row.k;
  bool divides = true;
  for (size_t i = 0; i < multiples.size(); ++i) divides &= extents[i] % multiples[i] == 0;
  if (s.ok() && !divides) s.pad_einsum(block, multiples);
  return s.ok() ? std::optional(p) : std::nullopt;
}

std::vector<std::string> unmet_conditions_of_tensor_cores(const Kernel& kernel, const target::Target& target) {
  Rng rng(1);
  Schedule s(kernel, std::make_shared<Arena>(), &rng);
  const bool product = match_gpu_product(s).has_value();
  std::optional<NaiveNest> nest = find_reuse(s.kernel());
  // Operands have the types that memory has, not those of their padded or converted copies.
  if (nest && !product) {
    Schedule plain = with_inlined_producers(s, *nest);
    if (const auto found = find_reuse(plain.kernel()); found && found->loads.size() == 2) nest = found, s = plain;
  }
  if (!nest || nest->loads.size() != 2)
    return {"the task holds no sum of products of two tensors whose elements are used several times"};
  const Type a = nest->loads[0]->type, b = nest->loads[1]->type;
  if (a != b)
    return {fmt::format("it multiplies {} by {}; matrix instructions multiply operands of one type", type_name(a),
                        type_name(b))};
  if (!product) {
    std::string shared;
    for (size_t i = 0; i < nest->extents.size(); ++i) {
      if (!nest->reduce[i] && nest->operands[0].moves[i] && nest->operands[1].moves[i])
        shared += fmt::format("{}{}", shared.empty() ? "" : ", ", name_hint(s.kernel(), nest->iter(i)));
    }
    return {shared.empty() ? "one operand does not move with any row or column of the result: no matrix product"
                           : fmt::format("both operands move with {} (a group or a batch), and nothing is left for the "
                                         "rows or the columns of a matrix product",
                                         shared)};
  }
  std::vector<std::string> unmet;
  if (matrix_rows(a, target, kernel.tf32).empty()) {
    if (!matrix_rows(a, target, true).empty()) {
      unmet.push_back(
          "it multiplies f32, which the tensor cores round to tf32 (10 bits of mantissa): allow it with --precision "
          "tf32, or convert the model with --precision f16 or bf16");
    } else {
      std::string types;
      for (Type t : {Type::kF16, Type::kBF16, Type::kI8})
        if (!matrix_rows(t, target, false).empty())
          types += fmt::format("{}{}", types.empty() ? "" : ", ", type_name(t));
      unmet.push_back(
          types.empty()
              ? fmt::format("{} has no matrix instruction that this version knows", target.name)
              : fmt::format("the matrix instructions of {} in use here multiply {}, not {}: convert the model to one "
                            "of them",
                            target.name, types, type_name(a)));
    }
  }
  return unmet;
}

}  // namespace tcc::space
