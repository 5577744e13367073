#pragma once

namespace tunefarm {

// A deleter that calls a function of a C library: std::unique_ptr<BIO, Freed<BIO_free_all>>.
template <auto function>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};

}  // namespace tunefarm
