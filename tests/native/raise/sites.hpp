// What .ci/sites.py puts at each site. The library beside this file defines queuecore_raise; without it, no site raises.
#pragma once

// Raises and returns true if it is this site's turn. Entered with the GIL.
extern "C" __attribute__((weak, visibility("default"))) int queuecore_raise(const char* site);

// Before a call: it fails without having been made.
static inline bool qc_before(const char* site) { return queuecore_raise != nullptr && queuecore_raise(site); }

// Behind a call: it has had its effect, and the caller never gets the result. What has failed already is left alone.
template <class T>
static inline T* qc_after(const char* site, T* result) {
  if (result == nullptr || !qc_before(site)) return result;
  Py_DECREF(reinterpret_cast<PyObject*>(result));
  return nullptr;
}

template <class T>
static inline T qc_after(const char* site, T result) {
  return result < 0 || !qc_before(site) ? result : -1;
}
