#include "tcc/cli/cli.h"

int main(int argc, char** argv) {
  return tcc::cli::run(argc, argv);
}
