// Before: the hints of a schedule on loops: nontemporal(1), and prefetch(d) of the lines d iterations ahead.
// After: the hints that have an effect. A loop keeps nontemporal(1) where it writes a buffer in memory that it does not
// read, and no loop around it has the hint already. A loop keeps prefetch(d) where the address of some access moves
// with it; prefetch_lines(n) says that accesses of more than n cache lines an iteration ask for none.
//
//   for i in 8 @prefetch(2) {              for i in 8 @prefetch(2) @prefetch_lines(6) {
//     for j in 96 @nontemporal(1) {  ->      for j in 96 {
//       y[i, j] = x[i, j] + y[i, j]            y[i, j] = x[i, j] + y[i, j]
//
// An innermost loop that reads weights and asks for nothing else gets prefetch_weights(d): iteration i asks for those
// of iteration i + d. A kernel that is timed alone finds its weights in a cache. In a network the other kernels have
// driven them out, and the hardware's prefetcher begins anew at each page. ResNet-50 was 10 % faster with it, BERT-base
// 3 %.
//
// Where the same loop sweeps panels of weights several times each (tcc/analysis/next_panel.h), it gets
// prefetch_panel(n) as well: each iteration asks for n lines of the next panel, so that its way from memory takes as
// long as all sweeps of the present one. 3x3 convolutions of 512 channels ran at 0.75 of their speed alone without it.
//
// It gets prefetch_block(n) where it reads an input, or what another loop made, by blocks whose rows are apart
// (tcc/analysis/next_block.h), and has operations enough to hide it: each iteration asks for n lines of the next block.
// On two cores half of a block comes from the other one's cache. With it, MobileNet-V2 was 1.14 times as fast on two
// threads and ResNet-50 1.09 times; 1.01 and 1.03 times on one thread.
//
// The hardware's own prefetcher follows accesses of more than 32 lines better. Comes after split_launches, which says
// which buffers are in memory.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::lower {

ir::Kernel plan_hints(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
