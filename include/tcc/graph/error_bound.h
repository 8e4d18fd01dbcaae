// How far a right program's outputs may be from run_reference, element by element.
//
// The error of one operator, on exact inputs, is bounded as the tuner's gate bounds it (tcc/measure/task.h):
// 2 u_out |y| + 4 u sqrt(K) S for sums, with u the unit roundoff of the computing type, u_out that of the output's
// type, K the number of terms and S the sum of their magnitudes. Terms of a reduction that are equal are rounded alike:
// sqrt(K) becomes the root of the sum of squares of how often each number occurs. This part is at most u K S.
//
// Functions of one element carry a running error through
// their formula (Higham, Accuracy and Stability of Numerical Algorithms, 3.3), with the stated error of the functions
// of the math library. Operators that only copy have the bound 0.
//
// Errors of the operators before it are propagated by a second run of the reference. There every operator's result is
// moved by a random error of the size that rounding typically gives. kSpread times the deviation of the second run, the
// larger of the element's own and its root mean square over the output, is added to the operator's bound. Graphs of at
// most 5e6 operations have seven such runs more, and the greatest deviation counts. (The idea is Parker's Monte Carlo
// arithmetic, 1997, with larger errors and few samples.)
#pragma once

#include <cstdint>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/reference.h"

namespace tcc::graph {

struct RoundingModel {
  double product_unit = 0;   // unit roundoff of the operands of contractions beyond their types': --precision; 0: none
  double storage_unit = 0;   // of floats between operators and of outputs beyond their types', likewise
  double winograd = 1;       // growth of the rounding errors of 3x3 convolutions
  double function_ulps = 2;  // stated error of exp, log, ...
  uint64_t seed = 1;         // of the random errors
};

struct BoundedTensor {
  HostTensor value;             // as run_reference computes it
  std::vector<double> allowed;  // |x - value| of a right program; infinity: nothing can be said of this element
  int64_t terms = 1;            // K of the operator that gives the output
  // Of integers and booleans that depend on rounded floats: as many elements may differ, whatever `allowed` says.
  int64_t may_flip = 0;
  // Integers beyond 2^53 led to it, which the reference rounds: its value may be far from the right one.
  bool unsure = false;
};

// Unit roundoff of a float type, and its smallest normal number: below it kernels flush.
double unit_roundoff(DType dtype);
double smallest_normal(DType dtype);

// The outputs of the graph with their bounds. Errors and `threads` as run_reference; takes three times as long,
// for graphs of at most 5e6 operations 24 times.
Result<std::vector<BoundedTensor>> run_bounded_reference(const Graph& graph, const std::vector<HostTensor>& inputs,
                                                         const RoundingModel& model, int threads = 0,
                                                         const ReferenceProgress& progress = nullptr);
// What that costs, at most: arithmetic operations in double precision, and bytes of tensors that live at one time.
struct ReferenceCost {
  double flops = 0, bytes = 0;
};
ReferenceCost bounded_reference_cost(const Graph& graph);

}  // namespace tcc::graph
