#include "cli/svg_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tcc::cli {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 70, kRight = 150, kTop = 40, kBottom = 50;
constexpr int kTicks = 5;
constexpr std::array kColors = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) >= 32)
      out += c;
  }
  return out;
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double v) { low = std::min(low, v), high = std::max(high, v); }
  void widen() {
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) low -= 0.5, high += 0.5;
  }
  double share(double v) const { return (v - low) / (high - low); }
};

}  // namespace

std::string draw_curves(const std::string& title, const std::string& x_axis, const std::string& y_axis,
                        const std::vector<SvgCurve>& curves) {
  Range x, y;
  for (const SvgCurve& c : curves)
    for (const auto& [px, py] : c.points)
      if (std::isfinite(px) && std::isfinite(py)) x.add(px), y.add(py);
  x.widen(), y.widen();
  const double width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom;
  const auto at_x = [&](double v) { return kLeft + width * x.share(v); };
  const auto at_y = [&](double v) { return kTop + height * (1 - y.share(v)); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<style>:root{{color-scheme:light dark}} text{{fill:CanvasText}} "
      ".grid{{stroke:GrayText;stroke-width:.5}}</style>\n<title>{}</title>\n"
      "<text x=\"{}\" y=\"22\" font-size=\"15\">{}</text>\n",
      kWidth, kHeight, escaped(title), kLeft, escaped(title));
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double vx = x.low + share * (x.high - x.low), vy = y.low + share * (y.high - y.low);
    svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n", kLeft,
                       kLeft + width, at_y(vy));
    svg +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n", kLeft - 6, at_y(vy) + 4, vy);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.4g}</text>\n", at_x(vx),
                       kTop + height + 18, vx);
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", kLeft + width / 2,
                     kHeight - 10, escaped(x_axis));
  svg += fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     kTop + height / 2, escaped(y_axis));
  for (size_t c = 0; c < curves.size(); ++c) {
    const char* color = kColors[c % kColors.size()];
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"", color);
    for (const auto& [px, py] : curves[c].points)
      if (std::isfinite(px) && std::isfinite(py)) svg += fmt::format("{:.1f},{:.1f} ", at_x(px), at_y(py));
    const double line = kTop + 18 * static_cast<double>(c);
    svg += fmt::format(
        "\"/>\n<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" stroke-width=\"3\"/>\n"
        "<text x=\"{4:.1f}\" y=\"{5:.1f}\">{6}</text>\n",
        kWidth - kRight + 12, kWidth - kRight + 32, line, color, kWidth - kRight + 38, line + 4,
        escaped(curves[c].name));
  }
  return svg + "</svg>\n";
}

}  // namespace tcc::cli
