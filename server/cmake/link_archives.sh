#!/usr/bin/env bash
# link_archives.sh COMMAND...: runs a link command with the libraries below taken from their archives, where those are
# installed beside the shared objects. The worker is linked so: it forks for every trial on a CPU, and each shared object
# is five mappings that fork and exit walk, and one more table that the kernel's symbols are looked up in.
set -euo pipefail
command=() zlib=()
for word in "$@"; do
  case $word in
    */libabsl_*.so* | */libprotobuf.so* | */libffi.so* | */libxxhash.so* | */libseccomp.so* | */libcrypto.so*)
      archive=${word%%.so*}.a
      if [ -e "$archive" ]; then
        case $word in */libprotobuf.so*) zlib=(-lz) ;; esac
        word=$archive
      fi
      ;;
  esac
  command+=("$word")
done
# Shared objects bring their own dependencies; archives ask for them in any order. Every symbol is bound at the start:
# what is bound late is bound again in every fork.
exec "${command[0]}" -Wl,--as-needed,-z,now "${command[@]:1}" "${zlib[@]}"
