"""What is said of evidence that does not prove what it claims."""

from keyhouse.base.errors import KeyhouseError


class HistoryRefusedError(KeyhouseError):
    """The leaves of a log contradict each other, or tell what no coordinator may do."""

    code = "history-refused"
