from typing import final

@final
class BatchLease: ...
