/* The other half of sites.hpp: which site raises, and what. Loaded with its symbols visible to all, before queuecore is;
 * everything here is called with the GIL held, by a test through ctypes (helpers.faults.raising) or by a site. */
#include <Python.h>
#include <pthread.h>

static pthread_t owner;
static int others;               /* whether the sites count that other threads than the owner reach, rather than its own */
static int on;                   /* whether any count */
static long reached, turn;       /* how many have counted since arm, and at which one it raises */
static const char *fired;        /* the site that raised */
static PyObject *error;          /* what it raises */
static void (*seen)(const char *); /* called at each site that counts, where a test wants to know them */

/* From now on, where sites count, the n-th from 1 raises. */
void arm(long n, PyObject *exception, int on_others) {
  Py_INCREF(exception);
  Py_XSETREF(error, exception);
  owner = pthread_self();
  others = on_others;
  reached = 0;
  fired = NULL;
  turn = n;
}

/* Sites count, or don't. */
void count(int yes) { on = yes; }

const char *where(void) { return fired; }

void watch(void (*function)(const char *)) { seen = function; }

/* Forgets the exception, with all that its traceback holds. */
void disarm(void) {
  on = 0;
  Py_CLEAR(error);
}

int queuecore_raise(const char *site) {
  if (!on || fired != NULL || (pthread_equal(pthread_self(), owner) != 0) == others) return 0;
  /* On the way out with an exception, a second one would hide it. */
  if (PyErr_Occurred()) return 0;
  if (seen != NULL) seen(site);
  if (++reached != turn) return 0;
  fired = site;
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  return 1;
}
