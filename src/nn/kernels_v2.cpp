// The arithmetic for x86-64-v2; cmake/rooms/nn.cmake gives this file the flags of the level.
#define TCC_NN_LEVEL v2
#include "nn/kernels/table.h"
