#pragma once

// Names for clang's thread-safety analysis (-Wthread-safety); they expand to nothing under other compilers.
// absl's headers define the same names with the same meaning: they come first here, so that the order of includes does
// not matter, and each name is filled in only where absl has it no more.

#include "absl/base/thread_annotations.h"

#if defined(__clang__)
#define TUNEFARM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TUNEFARM_THREAD_ANNOTATION(x)
#endif

// On a field: held lock needed to touch it / what it points to.
#ifndef GUARDED_BY
#define GUARDED_BY(x) TUNEFARM_THREAD_ANNOTATION(guarded_by(x))
#endif
#ifndef PT_GUARDED_BY
#define PT_GUARDED_BY(x) TUNEFARM_THREAD_ANNOTATION(pt_guarded_by(x))
#endif

// On a function: the caller holds the lock / must not hold it.
#ifndef EXCLUSIVE_LOCKS_REQUIRED
#define EXCLUSIVE_LOCKS_REQUIRED(...) TUNEFARM_THREAD_ANNOTATION(exclusive_locks_required(__VA_ARGS__))
#endif
#ifndef LOCKS_EXCLUDED
#define LOCKS_EXCLUDED(...) TUNEFARM_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#endif
#ifndef LOCK_RETURNED
#define LOCK_RETURNED(x) TUNEFARM_THREAD_ANNOTATION(lock_returned(x))
#endif

// On a lock type and its methods.
#ifndef LOCKABLE
#define LOCKABLE TUNEFARM_THREAD_ANNOTATION(lockable)
#endif
#ifndef SCOPED_LOCKABLE
#define SCOPED_LOCKABLE TUNEFARM_THREAD_ANNOTATION(scoped_lockable)
#endif
#ifndef EXCLUSIVE_LOCK_FUNCTION
#define EXCLUSIVE_LOCK_FUNCTION(...) TUNEFARM_THREAD_ANNOTATION(exclusive_lock_function(__VA_ARGS__))
#endif
#ifndef SHARED_LOCK_FUNCTION
#define SHARED_LOCK_FUNCTION(...) TUNEFARM_THREAD_ANNOTATION(shared_lock_function(__VA_ARGS__))
#endif
#ifndef EXCLUSIVE_TRYLOCK_FUNCTION
#define EXCLUSIVE_TRYLOCK_FUNCTION(...) TUNEFARM_THREAD_ANNOTATION(exclusive_trylock_function(__VA_ARGS__))
#endif
#ifndef UNLOCK_FUNCTION
#define UNLOCK_FUNCTION(...) TUNEFARM_THREAD_ANNOTATION(unlock_function(__VA_ARGS__))
#endif
#ifndef ACQUIRED_BEFORE
#define ACQUIRED_BEFORE(...) TUNEFARM_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#endif
#ifndef ACQUIRED_AFTER
#define ACQUIRED_AFTER(...) TUNEFARM_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#endif
#ifndef ASSERT_EXCLUSIVE_LOCK
#define ASSERT_EXCLUSIVE_LOCK(...) TUNEFARM_THREAD_ANNOTATION(assert_exclusive_lock(__VA_ARGS__))
#endif
#ifndef NO_THREAD_SAFETY_ANALYSIS
#define NO_THREAD_SAFETY_ANALYSIS TUNEFARM_THREAD_ANNOTATION(no_thread_safety_analysis)
#endif
