# Targets of the fuzzer: tables of CSV, single rows as a step decodes them, and numbers.
from queuecore._core.testing.fuzz_inputs cimport Given, Verdict

cdef Verdict fuzz_csv(Given g) noexcept nogil
cdef Verdict fuzz_csv_record(Given g) noexcept nogil
cdef Verdict fuzz_number(Given g) noexcept nogil
