// Findings about the cables that were measured.
#include "perf/mesh_doctor/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mesh::doctor {
namespace {

// Returns what one of the ends has seen, a's before b's; empty: neither has.
std::string first_of(const Measured& measured, std::string Seen::*what) {
  const std::string& at_a = measured.at_a.*what;
  return at_a.empty() ? measured.at_b.*what : at_a;
}

// A direction is sick if it carries less than this share of the faster direction.
constexpr double kSickShare = 0.75, kSickShareAtOnce = 0.5;
bool unequal(double one, double other, double share) {
  return std::min(one, other) < share * std::max(one, other);
}

// Returns true if both ends were ready, and what failed needs the cable.
bool messages_failed(const Measured& measured) {
  const auto needs_cable = [](const Seen& seen) {
    constexpr std::array kWhat{"the connection", "a message of one MTU", "the content of a message",
                               "small messages", "large messages"};
    return seen.failed.empty() || std::find(kWhat.begin(), kWhat.end(), seen.failed) != kWhat.end();
  };
  return needs_cable(measured.at_a) && needs_cable(measured.at_b);
}

// Judges one cable by its steps; the halves come before the whole.
class CableJudge {
 public:
  CableJudge(const Cabling& cabling, std::size_t cable, double threshold)
      : cabling_(cabling), cable_(cabling.cables[cable]), threshold_(threshold) {}

  void look_at(const Measured& measured);
  std::vector<Finding> findings();

 private:
  struct Rate {
    std::string of;
    double to_a = 0, to_b = 0, expected = 0;
    double alone_to_a = 0, alone_to_b = 0;
    bool half = false;
    double slower() const { return std::min(to_a, to_b); }
    bool enough(double threshold) const { return slower() >= threshold * expected; }
    // Credits for one direction travel in the other, so a sick direction may slow the healthy one.
    bool sick(double threshold) const {
      if (enough(threshold)) return false;
      const bool alone = alone_to_a > 0 && alone_to_b > 0;
      if (!alone) return unequal(to_a, to_b, kSickShare);
      return unequal(alone_to_a, alone_to_b, kSickShare) || unequal(to_a, to_b, kSickShareAtOnce);
    }
    std::string alone_text() const {
      if (alone_to_a <= 0 || alone_to_b <= 0) return {};
      return fmt::format("; alone they carried {:.3g} and {:.3g} Gb/s", alone_to_b, alone_to_a);
    }
  };

  std::string name_of(const Measured& measured) const;
  std::string failure_text(const Measured& measured) const;
  void failed(const Measured& measured);
  void flapped(const Measured& measured);
  void rated(const Measured& measured);
  void slow(const Rate& rate, const char* finding_name, const char* remedy);
  void one_direction(const Rate& rate);
  void add(const char* name, const std::string& about, std::string evidence, const char* remedy) {
    add_finding(findings_, name, cabling_.hosts_of(cable_), {about, std::move(evidence), remedy});
  }

  const Cabling& cabling_;
  const Cable& cable_;
  const double threshold_;
  std::vector<Rate> rates_;
  std::vector<Finding> findings_;
};

std::string CableJudge::name_of(const Measured& measured) const {
  if (measured.step.half) return cabling_.text(cable_.halves[*measured.step.half]);
  return cabling_.text(cable_);
}

std::string CableJudge::failure_text(const Measured& measured) const {
  std::string text;
  for (const auto& [seen, host] :
       {std::pair(&measured.at_a, cable_.a()), std::pair(&measured.at_b, cable_.b())}) {
    if (seen->failed.empty()) continue;
    text += fmt::format("{}at {}, {} failed ({})", text.empty() ? "" : "; ",
                        cabling_.hosts[host].host, seen->failed, seen->why);
  }
  const std::string said_why = first_of(measured, &Seen::said);
  return said_why.empty() ? text : fmt::format("{}. The plugin said: {}.", text, said_why);
}

void CableJudge::failed(const Measured& measured) {
  if (const std::string path = first_of(measured, &Seen::black_hole); !path.empty()) {
    add("mtu-black-hole", name_of(measured),
        fmt::format("Small packets pass and full ones are lost, on the path {}.", path),
        "Raise the MTU of the switches and routers in between, or lower the MTU of the interfaces "
        "at both ends.");
    return;
  }
  if (!messages_failed(measured)) {
    add("not-measured", name_of(measured), failure_text(measured),
        "Correct what the hosts report here and in their own findings first, because the cable was "
        "not tested.");
    return;
  }
  add("silent-cable", name_of(measured), failure_text(measured),
      "Check where the cable goes (it may be crossed), the switch in between, and the counters of "
      "both ports.");
}

void CableJudge::flapped(const Measured& measured) {
  add("flapping-port", name_of(measured),
      fmt::format("The port went down while the cable was measured: {}.",
                  first_of(measured, &Seen::port_down)),
      "Reseat the cable and its transceivers, or replace them. The kernel's log shows when the "
      "link was lost.");
}

void CableJudge::rated(const Measured& measured) {
  const double expected = expected_gbps(cabling_, measured.step);
  if (expected > 0)
    rates_.push_back({name_of(measured), measured.to_a_gbps(), measured.to_b_gbps(), expected,
                      measured.at_a.alone_gbps, measured.at_b.alone_gbps,
                      measured.step.half.has_value()});
}

void CableJudge::look_at(const Measured& measured) {
  if (!first_of(measured, &Seen::port_down).empty()) return flapped(measured);
  if (!measured.passed() || !first_of(measured, &Seen::black_hole).empty()) return failed(measured);
  rated(measured);
}

void CableJudge::slow(const Rate& rate, const char* finding_name, const char* remedy) {
  const std::string a = cabling_.hosts[cable_.a()].host, b = cabling_.hosts[cable_.b()].host;
  add(finding_name, rate.of,
      fmt::format(
          "With both directions busy, {} to {} carried {:.3g} Gb/s of payload and {} to {} {:.3g} "
          "Gb/s. The ports promise {:.3g} Gb/s each way (this is {:.0f} and {:.0f} %){}.",
          a, b, rate.to_b, b, a, rate.to_a, rate.expected, 100 * rate.to_b / rate.expected,
          100 * rate.to_a / rate.expected, rate.alone_text()),
      remedy);
}

void CableJudge::one_direction(const Rate& rate) {
  slow(rate, "sick-direction",
       "Reboot both hosts (a directly cabled pair at the same time), replace the cable, and check "
       "the sender's PCIe width. A one-way test may miss this fault.");
}

std::vector<Finding> CableJudge::findings() {
  const auto sick = [this](const Rate& rate) { return rate.sick(threshold_); };
  const auto bad = [this](const Rate& rate) {
    return !rate.enough(threshold_) && !rate.sick(threshold_);
  };
  const auto is_half = [](const Rate& rate) { return rate.half; };
  const auto halves = std::count_if(rates_.begin(), rates_.end(), is_half);
  const auto bad_halves = std::count_if(rates_.begin(), rates_.end(),
                                        [&](const Rate& rate) { return rate.half && bad(rate); });
  bool told = false;  // a half has a finding, which holds for the whole
  for (const Rate& rate : rates_) {
    if (rate.half && bad(rate) && bad_halves == halves) continue;  // the cable is slow, not a half
    if (!rate.half && told) continue;
    told = told || sick(rate) || bad(rate);
    if (sick(rate)) one_direction(rate);
    if (bad(rate) && rate.half) {
      slow(rate, "slow-half", "Check the PCIe width and speed of this half on both hosts.");
    }
    if (bad(rate) && !rate.half) {
      slow(rate, "slow-cable",
           "Check the PCIe width and speed of both ports, and replace the cable. A ConnectX-7 port "
           "of a DGX Spark that carries 13 Gb/s needs a reboot of both hosts.");
    }
  }
  return std::move(findings_);
}

}  // namespace

bool is_slow(const Cabling& cabling, const Measured& measured, double threshold) {
  const double expected = expected_gbps(cabling, measured.step);
  return measured.passed() && expected > 0 && measured.slower_gbps() < threshold * expected;
}

std::vector<Finding> judge(const Cabling& cabling, const std::vector<Measured>& measured,
                           double threshold) {
  std::vector<Finding> all;
  for (std::size_t cable = 0; cable < cabling.cables.size(); ++cable) {
    CableJudge judge(cabling, cable, threshold);
    for (const Measured& each : measured) {
      if (each.step.cable == cable) judge.look_at(each);
    }
    for (Finding& each : judge.findings()) all.push_back(std::move(each));
  }
  return all;
}

}  // namespace mesh::doctor
