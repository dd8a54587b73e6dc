// The map as a picture: hosts on a circle, a line for each cable, port names at its ends.
#include "perf/mesh_doctor/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mesh::doctor {
namespace {

constexpr double kBoxWidth = 130, kBoxHeight = 46, kMargin = 40;
constexpr double kWide = 1.5;  // the circle is an ellipse: words are wider than high
constexpr double kLineHeight = 17, kLetterWidth = 7.4;
constexpr double kSpread = 64;     // between cables of the same two hosts
constexpr double kEndPart = 0.27;  // where on its line a port's name stands

struct Point {
  double x = 0, y = 0;
};

using Lines = std::vector<std::string>;

double width_of(const Lines& lines) {
  std::size_t longest = 0;
  for (const std::string& line : lines) longest = std::max(longest, line.size());
  return kLetterWidth * static_cast<double>(longest) + 8;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += letter;
    }
  }
  return safe;
}

class Picture {
 public:
  explicit Picture(const MapView& view) : view_(view), cabling_(view.cabling) {
    const auto hosts = static_cast<double>(cabling_.hosts.size());
    const double radius = std::max(
        {210.0, 70 * hosts, distance_wanted() / (2 * kWide * std::sin(std::numbers::pi / hosts))});
    double left = 0, top = 0;
    for (std::size_t i = 0; i < cabling_.hosts.size(); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / hosts -
                           (hosts == 2 ? std::numbers::pi : std::numbers::pi / 2);
      places_.push_back({kWide * radius * std::cos(angle), radius * std::sin(angle)});
      left = std::min(left, places_.back().x);
      top = std::min(top, places_.back().y);
    }
    for (Point& each : places_) {
      each = {each.x - left + kMargin + kBoxWidth / 2, each.y - top + kMargin + kBoxHeight};
      size_ = {std::max(size_.x, each.x + kMargin + kBoxWidth / 2),
               std::max(size_.y, each.y + kMargin + kBoxHeight)};
    }
  }

  std::string text() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<title>Cabling map</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        size_.x, size_.y);
    for (std::size_t i = 0; i < cabling_.cables.size(); ++i) draw_cable(i);
    for (const std::string& each : labels_) out_ += each;
    for (std::size_t i = 0; i < cabling_.hosts.size(); ++i) draw_host(i);
    return out_ + "</svg>\n";
  }

 private:
  double distance_wanted() const;
  bool sick(std::size_t cable) const {
    for (const Half& half : cabling_.cables[cable].halves) {
      const std::string name = cabling_.text(half);
      for (const Finding& each : view_.findings)
        if (each.about == name) return true;
    }
    return false;
  }
  // Returns how far a cable bends from the straight line, among the cables of its two hosts.
  double bend(std::size_t cable) const {
    std::size_t before = 0, all = 0;
    for (std::size_t i = 0; i < cabling_.cables.size(); ++i) {
      const Cable& other = cabling_.cables[i];
      if (other.a() != cabling_.cables[cable].a() || other.b() != cabling_.cables[cable].b())
        continue;
      ++all;
      if (i < cable) ++before;
    }
    return (static_cast<double>(before) - (static_cast<double>(all) - 1) / 2) * kSpread;
  }
  Lines middle_text(std::size_t cable) const;
  Lines ports_text(const Cable& cable, bool of_a) const;
  void draw_cable(std::size_t index);
  void draw_host(std::size_t index);
  void label(const Point& at, const Lines& lines, const char* color);

  const MapView& view_;
  const Cabling& cabling_;
  Point size_;
  std::vector<Point> places_;
  std::string out_;
  std::vector<std::string> labels_;  // drawn above all lines
};

// Returns the rates in the middle of a line. A cable's last measurement is that of all its halves.
Lines Picture::middle_text(std::size_t cable) const {
  const Measured* last = nullptr;
  for (const Measured& each : view_.measured)
    if (each.step.cable == cable) last = &each;
  if (last == nullptr) return {"not measured"};
  if (!last->passed()) return {"nothing passed"};
  const std::string a = cabling_.hosts[cabling_.cables[cable].a()].host,
                    b = cabling_.hosts[cabling_.cables[cable].b()].host;
  return {fmt::format("{} to {} {:.3g} Gb/s", a, b, last->to_b_gbps()),
          fmt::format("{} to {} {:.3g} Gb/s", b, a, last->to_a_gbps())};
}

Lines Picture::ports_text(const Cable& cable, bool of_a) const {
  Lines names;
  for (const Half& half : cable.halves) {
    const std::string& name = cabling_.rail(of_a ? half.a : half.b).name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

// Returns the distance of two neighbours at which the words on their cable stand apart.
double Picture::distance_wanted() const {
  double ports = 0, middle = 0;
  for (std::size_t i = 0; i < cabling_.cables.size(); ++i) {
    const Cable& cable = cabling_.cables[i];
    for (const bool of_a : {true, false})
      ports = std::max(ports, width_of(ports_text(cable, of_a)));
    middle = std::max(middle, width_of(middle_text(i)));
  }
  return std::max((ports + kBoxWidth) / 2 / kEndPart, (ports + middle) / 2 / (0.5 - kEndPart));
}

void Picture::label(const Point& at, const Lines& lines, const char* color) {
  const double width = width_of(lines);
  const double height = kLineHeight * static_cast<double>(lines.size());
  std::string label = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\" "
      "fill=\"#ffffff\" fill-opacity=\"0.9\"/>",
      at.x - width / 2, at.y - height / 2, width, height);
  double y = at.y - height / 2 + 13;
  for (const std::string& line : lines) {
    label +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
                    at.x, y, color, escaped(line));
    y += kLineHeight;
  }
  labels_.push_back(label + "\n");
}

void Picture::draw_cable(std::size_t index) {
  const Cable& cable = cabling_.cables[index];
  const Point a = places_[cable.a()], b = places_[cable.b()];
  const double dx = b.x - a.x, dy = b.y - a.y, length = std::max(1.0, std::sqrt(dx * dx + dy * dy));
  const double off = 2 * bend(index);  // a curve passes halfway to its control point
  const Point control{(a.x + b.x) / 2 - dy / length * off, (a.y + b.y) / 2 + dx / length * off};
  const auto on_curve = [&](double t) {
    const double u = 1 - t;
    return Point{u * u * a.x + 2 * u * t * control.x + t * t * b.x,
                 u * u * a.y + 2 * u * t * control.y + t * t * b.y};
  };
  const bool bad = sick(index);
  const char* const color = bad ? "#c62828" : "#37474f";
  out_ += fmt::format(
      "<path d=\"M {:.1f} {:.1f} Q {:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"{}\"{}/>\n",
      a.x, a.y, control.x, control.y, b.x, b.y, color, cable.halves.size() > 1 ? 5 : 3,
      bad ? " stroke-dasharray=\"9 5\"" : "");
  label(on_curve(kEndPart), ports_text(cable, true), "#546e7a");
  label(on_curve(1 - kEndPart), ports_text(cable, false), "#546e7a");
  label(on_curve(0.5), middle_text(index), color);
}

void Picture::draw_host(std::size_t index) {
  const Point at = places_[index];
  const HostRails& host = cabling_.hosts[index];
  out_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#e3f2fd\" "
      "stroke=\"#1565c0\" stroke-width=\"2\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
      "text-anchor=\"middle\" font-size=\"16\" fill=\"#0d47a1\">{}</text><text x=\"{:.1f}\" "
      "y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#546e7a\">rank {}</text>\n",
      at.x - kBoxWidth / 2, at.y - kBoxHeight / 2, kBoxWidth, kBoxHeight, at.x, at.y + 1,
      escaped(host.host), at.x, at.y + 16, index);
}

}  // namespace

std::string map_svg(const MapView& view) { return Picture(view).text(); }

}  // namespace mesh::doctor
