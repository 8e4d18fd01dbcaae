// The process that tcc forks candidate programs from.
#include "tcc/measure/host.h"

int main(int argc, char** argv) {
  return tcc::measure::worker_main(argc, argv);
}
