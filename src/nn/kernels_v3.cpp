// The arithmetic for x86-64-v3; cmake/rooms/nn.cmake gives this file the flags of the level.
#define TCC_NN_LEVEL v3
#include "nn/kernels/table.h"
