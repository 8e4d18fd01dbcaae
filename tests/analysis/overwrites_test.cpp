// Inputs whose memory the output of a kernel may take.
#include "tcc/analysis/overwrites.h"

#include <catch2/catch.hpp>

#include "tcc/ir/text.h"

using namespace tcc;

namespace {

// The names of such inputs of a kernel. One that is not read at all is among them.
std::string overwritable(const std::string& body, const std::string& output = "f32[4, 10]") {
  const std::string text =
      "kernel lowered {\n  input x: f32[4, 10]\n  input y: f32[40]\n  input z: f32[10]\n  output o: " + output + "\n" +
      body + "}\n";
  auto kernel = ir::parse(text);
  if (!kernel) FAIL(kernel.error().message);
  std::string names;
  for (const int i : analysis::overwritable_inputs(*kernel)) names += "xyz"[i];
  return names;
}

}  // namespace

TEST_CASE("an output may take the place of inputs that are read for the same places only") {
  // Other shapes of as many elements count; a row that is read for all others does not.
  CHECK(overwritable("  for i in 4 parallel {\n"
                     "    for j in 10 vectorized {\n"
                     "      o[i, j] = x[i, j] + y[i*10 + j] * z[j]\n"
                     "    }\n"
                     "  }\n") == "xy");
  CHECK(overwritable("  for i in 4 parallel {\n"
                     "    for j in 10 {\n"
                     "      o[i, j] = x[i, j] + y[j*4 + i]\n"
                     "    }\n"
                     "  }\n") == "x");
  CHECK(overwritable("  for i in 4 {\n"
                     "    for j in 10 {\n"
                     "      o[i, j] = x[3 - i, j]\n"
                     "    }\n"
                     "  }\n") == "y");
  // Elements of another size.
  CHECK(overwritable("  for i in 4 {\n"
                     "    for j in 10 {\n"
                     "      o[i, j] = f64(x[i, j])\n"
                     "    }\n"
                     "  }\n",
                     "f64[4, 10]")
            .empty());
}

TEST_CASE("an output takes no place where an element is stored twice or read again") {
  // The second tile begins earlier, to end with the row.
  CHECK(overwritable("  for i in 4 {\n"
                     "    for t in 2 {\n"
                     "      for j in 8 vectorized {\n"
                     "        o[i, min(t*8, 2) + j] = x[i, min(t*8, 2) + j]\n"
                     "      }\n"
                     "    }\n"
                     "  }\n")
            .empty());
  // Whole tiles and a tail, by conditions.
  CHECK(overwritable("  for i in 4 {\n"
                     "    for t in 2 {\n"
                     "      if t*8 < 3 {\n"
                     "        for j in 8 vectorized {\n"
                     "          o[i, t*8 + j] = x[i, t*8 + j]\n"
                     "        }\n"
                     "      } else {\n"
                     "        for k in 2 vectorized {\n"
                     "          o[i, k + 8] = x[i, k + 8]\n"
                     "        }\n"
                     "      }\n"
                     "    }\n"
                     "  }\n") == "xy");
  // Read by another statement, too.
  CHECK(overwritable("  temp s: f32[1] local\n"
                     "  for i in 4 {\n"
                     "    for j in 10 {\n"
                     "      alloc s {\n"
                     "        s[0] = x[i, j] + y[i*10 + j]\n"
                     "        o[i, j] = s[0] + y[i*10 + j]\n"
                     "      }\n"
                     "    }\n"
                     "  }\n")
            .empty());
  // Sums in the output.
  CHECK(overwritable("  for i in 4 {\n"
                     "    for j in 10 {\n"
                     "      o[i, j] = z[j]\n"
                     "    }\n"
                     "    for k in 10 {\n"
                     "      o[i, k] = o[i, k] + x[i, k]\n"
                     "    }\n"
                     "  }\n")
            .empty());
  // How often it is stored depends on data.
  CHECK(overwritable("  for i in 4 {\n"
                     "    for j in 10 {\n"
                     "      if z[j] < 0.0 {\n"
                     "        o[i, j] = x[i, j]\n"
                     "      } else {\n"
                     "        o[i, j] = x[i, j] + 1.0\n"
                     "      }\n"
                     "    }\n"
                     "  }\n")
            .empty());
}
