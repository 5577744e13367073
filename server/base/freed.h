#pragma once

namespace tunefarm {

// Deletes what a C library frees with a function: std::unique_ptr<BIO, Freed<BIO_free_all>>.
template <auto function>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};

}  // namespace tunefarm
