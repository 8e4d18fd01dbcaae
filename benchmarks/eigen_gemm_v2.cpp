// Eigen's product for x86-64-v2. Its namespace has a name of its own: the linker would merge functions of different
// levels.
#define Eigen eigen_v2
#define TCC_EIGEN_LEVEL v2
#include "eigen_gemm.inc"
