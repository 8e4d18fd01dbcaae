// Curves over a common axis as one SVG drawing, for reports that people look at. Private to the room.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tcc::cli {

struct SvgCurve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
};
// A drawing of 720 x 420 with axes, their ranges and a legend; light and dark by the reader's preference. Points that
// are not finite are left out.
std::string draw_curves(const std::string& title, const std::string& x_axis, const std::string& y_axis,
                        const std::vector<SvgCurve>& curves);

}  // namespace tcc::cli
