// Eigen's product for x86-64-v3. Its namespace has a name of its own: the linker would merge functions of different
// levels.
#define Eigen eigen_v3
#define TCC_EIGEN_LEVEL v3
#include "eigen_gemm.inc"
