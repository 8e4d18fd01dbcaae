// The loops of array programs for the level plain; cmake/rooms/analysis.cmake gives this file its flags.
#define TCC_COLUMN_LEVEL plain
#include "analysis/columns/kernel.h"
