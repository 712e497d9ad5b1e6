"""What a program counts, apart from times."""


def counts_of(program):
    """Return what `StageProgram.stats` counts, without its threads and their times."""
    made = program.stats()
    return {name: made[name] for name in ("records", "skipped", "skipped_files", "skipped_bytes")}
