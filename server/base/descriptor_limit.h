// The process's limit of open files. A daemon raises it for itself; what it starts gets the limit that it found, since
// programs that use select(2) need numbers below 1,024, and others close every number that they may have.
#pragma once

namespace tunefarm {

// Raises the soft limit of open files to the hard limit. Once in a process, before it starts threads. A limit that
// cannot be raised stays.
void RaiseDescriptorLimit();

// The soft limit before RaiseDescriptorLimit, or now where that was not called. At most 2^30. Any thread.
int InheritedDescriptorLimit();

// The soft limit now. At most 2^30. Any thread.
int DescriptorLimit();

// Lowers the soft limit to `limit` descriptors; a lower one stays. The hard limit stays.
void LowerDescriptorLimit(int limit);

}  // namespace tunefarm
