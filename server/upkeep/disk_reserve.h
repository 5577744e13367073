// A file in the data directory that only takes room. A daemon that starts on a full disk removes it: its database needs
// an index and a log, its sockets need names, and then it can answer and say what is wrong.
//
// Threads: any, one at a time for a directory; the caller holds the directory's lock.
#pragma once

#include <string>

namespace tunefarm {

// Removes the file if less than its size is free.
void UseDiskReserve(const std::string& data_directory);

// Makes the file if it is missing and four times its size is free. Not where the file system cannot set room aside.
void KeepDiskReserve(const std::string& data_directory);

}  // namespace tunefarm
