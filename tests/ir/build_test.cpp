// Rewriting, compaction and hashing of whole kernels.
#include <catch2/catch.hpp>

#include "tcc/ir/build.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

const char* const kText = R"(kernel scheduled {
  input A: f32[12, 8]
  weight W: f32[8] layout[8]{0/1%8@addr*1} size 8
  output C: f32[12]
  temp T: f32[12, 8]
  for i in 12 parallel @unroll_max(4) {
    for j in 8 vectorized {
      block scale(vi: spatial 12 = i, vj: spatial 8 = j) where i*8 + j < 90 {
        T[vi, vj] = (A[vi, vj] where vj < 7 else 0.0) * W[vj]
      }
    }
  }
  for i_1 in 12 {
    for k in 8 unrolled {
      block sum(vi_1: spatial 12 = i_1, vk: reduce 8 = k) reduce(sum) {
        init {
          C[vi_1] = 0.0
        }
        C[vi_1] = C[vi_1] + exp(T[vi_1, vk])
      }
    }
    if i_1 < 3 {
      block last(vi_2: spatial 12 = i_1) {
        C[vi_2] = select(vi_2 == 0, C[vi_2], max(C[vi_2], 1.0))
      }
    }
  }
}
)";

Kernel parse_ok(const std::string& text) {
  auto k = parse(text, "build.tir");
  if (!k) FAIL(k.error().message);
  return *k;
}

Expr same_expr(Builder& b, Expr e) {
  return rewrite_children(b, e, [&](Expr child) { return same_expr(b, child); });
}
Stmt same_stmt(Builder& b, Stmt s) {
  return rewrite_children(
      b, s, [&](Stmt child) { return same_stmt(b, child); }, [&](Expr e) { return same_expr(b, e); });
}

// The same kernel with every id other: parsed behind declarations that use up ids and are cut away again.
Kernel renumbered(const std::string& text, int extra) {
  std::string scalars;
  for (int i = 0; i < extra; ++i) scalars += "  param unused" + std::to_string(i) + " in 1..2\n";
  std::string padded = text;
  padded.insert(padded.find('\n') + 1, scalars);
  Kernel k = parse_ok(padded);
  k.scalars = {};
  return k;
}

}  // namespace

TEST_CASE("a rewrite that changes nothing returns the same pointer") {
  Kernel k = parse_ok(kText);
  Builder b(*k.arena);
  size_t before = k.arena->bytes_used();
  CHECK(same_stmt(b, k.root) == k.root);
  Substitution none;
  CHECK(substitute(b, k.root, none) == k.root);
  Substitution foreign;
  foreign.set(k.next_id, b.integer(3));
  CHECK(substitute(b, k.root, foreign) == k.root);
  for (const Block* block : collect_blocks(k.root)) {
    Path path = find_path(k.root, block->id);
    CHECK(replace_at(b, path, path.nodes.back()) == k.root);
  }
  visit(k.root, [&](Stmt s) {
    if (const Loop* l = as<Loop>(s)) CHECK(b.with_body(*l, l->body) == s);
    return true;
  });
  CHECK(k.arena->bytes_used() <= before + 256);  // the constant of `foreign`, nothing of the tree
}

TEST_CASE("a rewrite that changes one leaf shares everything beside the path to it") {
  Kernel k = parse_ok(kText);
  Builder b(*k.arena);
  const auto* seq = as<Seq>(k.root);
  REQUIRE(seq != nullptr);
  Id j = kNoId;
  visit(k.root, [&](Stmt s) {
    if (const Loop* l = as<Loop>(s); l != nullptr && name_hint(k, l->id) == "j") j = l->id;
    return true;
  });
  Substitution subst;
  subst.set(j, b.integer(5));
  Stmt changed = substitute(b, k.root, subst);
  REQUIRE(changed != k.root);
  CHECK(as<Seq>(changed)->stmts[0] != seq->stmts[0]);
  CHECK(as<Seq>(changed)->stmts[1] == seq->stmts[1]);
  CHECK(print(k) == kText);  // the old kernel stays as it was
}

TEST_CASE("comparisons of a tensor's numbers add nothing to the greatest of them, and move no term") {
  const char* const text = R"(kernel built {
  input A: i64[4]
  input B: i64[4]
  output C: bool[4]
  for i in 4 {
    block compare(vi: spatial 4 = i) {
      C[vi] = A[vi] <= B[vi] && A[vi] + 4000000000000000000 < 0 && vi < 3
    }
  }
}
)";
  const Kernel k = parse_ok(text);
  CHECK(print(k) == text);
  // Of loops and extents all spellings are one.
  Arena arena;
  Builder b(arena);
  const Expr i = b.var(1);
  CHECK(equal(b.le(i, b.integer(2)), b.lt(i, b.integer(3))));
}

TEST_CASE("compact keeps text and hash and lets the old arena go") {
  Kernel copy;
  uint64_t hash = 0;
  {
    Kernel k = parse_ok(kText);
    hash = hash_kernel(k);
    copy = compact(k);
    CHECK(copy.arena != k.arena);
    k.arena->reset();
    CHECK(k.arena.use_count() == 1);
  }
  CHECK(hash_kernel(copy) == hash);
  CHECK(print(copy) == kText);
  CHECK(verify(copy).empty() == verify(parse_ok(kText)).empty());
}

TEST_CASE("hash_kernel does not see ids and names") {
  Kernel k = parse_ok(kText);
  for (int extra : {1, 7, 64, 200}) {
    Kernel other = renumbered(kText, extra);
    CHECK(other.next_id == k.next_id + extra);
    CHECK(hash_kernel(other) == hash_kernel(k));
    CHECK(print(other) == kText);
  }
  std::string renamed = kText;
  for (size_t at; (at = renamed.find("vj")) != std::string::npos;) renamed.replace(at, 2, "column");
  CHECK(hash_kernel(parse_ok(renamed)) == hash_kernel(k));
}

TEST_CASE("hash_kernel sees what the program is") {
  uint64_t hash = hash_kernel(parse_ok(kText));
  const std::pair<const char*, const char*> edits[] = {{"parallel", "unrolled"},
                                                       {"vj < 7", "vj < 6"},
                                                       {"exp(", "tanh("},
                                                       {"reduce(sum)", "reduce(max)"},
                                                       {"1.0)", "2.0)"},
                                                       {"i_1 < 3", "i_1 < 4"},
                                                       {"@unroll_max(4)", ""},
                                                       {"temp T: f32[12, 8]", "temp T: f32[12, 9]"},
                                                       {"weight W", "input W"},
                                                       {"i*8 + j < 90", "i*8 + j < 91"},
                                                       {"0.0) * W[vj]", "0.0) + W[vj]"}};
  for (const auto& [from, to] : edits) {
    std::string text = kText;
    size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(from).size(), to);
    INFO(from << " -> " << to);
    CHECK(hash_kernel(parse_ok(text)) != hash);
  }
}
