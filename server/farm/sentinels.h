// Machines of one class may differ all the same: a power limit, heat, a slot of half the width, a neighbour. Before the
// times that two devices measure go into one search, what the sentinels take on them (Device.sentinels) is compared.
// Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tunefarm/v1/device.pb.h"

namespace tunefarm {

// Devices whose sentinels take longer or shorter than those of their class do, by UUID, with the reason in one
// sentence. What a sentinel takes in a class is the lower median over its devices: of two, the faster one's. A device
// deviates where the whole interval of its median is further away than `tolerance` (0.05: 5 %); with 0 none does.
// Devices out of service and those without sentinels are compared with none.
std::map<std::string, std::string> FindDeviating(const std::vector<const tunefarm::v1::Device*>& devices,
                                                 double tolerance);

}  // namespace tunefarm
