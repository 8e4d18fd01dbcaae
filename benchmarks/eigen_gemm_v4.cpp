// Eigen's product for x86-64-v4. Its namespace has a name of its own: the linker would merge functions of different
// levels.
#define Eigen eigen_v4
#define TCC_EIGEN_LEVEL v4
#include "eigen_gemm.inc"
