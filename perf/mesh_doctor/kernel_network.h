#pragma once
// Asks the kernel, by netlink, what no file tells of a host's network: which of a port's traffic
// classes are limited, and whether packets for others are dropped. Thread: any. Bound: one question
// and kAnswersMax answers.

#include "perf/mesh_doctor/host_facts.h"

#include <cstddef>
#include <span>
#include <string>

namespace mesh::doctor {

// Returns how a port chooses traffic classes and their limits, as its driver tells (DCB); nothing
// is known if it does not.
TrafficClasses traffic_classes(const std::string& netdev);
// Reads the kernel's answer to that question.
TrafficClasses traffic_classes_from(std::span<const std::byte> answer);

// Returns "drop" if a chain of nftables drops what it should forward unless a rule accepts it, and
// "accept" if none does; empty if it is not known. Only root may ask.
std::string forward_policy();
// Reads one answer, about any number of chains. Returns "drop" if one of them does that; empty if
// none does.
std::string forward_policy_from(std::span<const std::byte> answer);

}  // namespace mesh::doctor
