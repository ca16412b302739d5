"""Links and sessions of the console: each opens once, ends when nobody uses it."""

from keyhouse.console.guard import BrowserSession, Gate

IDLE = 60.0


class Console:
    """A gate whose clock the test moves, with a session."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.gate = Gate(IDLE, lambda: self.now)
        opened = self.gate.open(self.gate.new_link())
        assert opened is not None
        self.opened = opened

    def session(self, *, is_activity: bool) -> BrowserSession | None:
        return self.gate.session(self.opened.cookie, is_activity=is_activity)


def test_a_session_that_nobody_uses_ends() -> None:
    console = Console()
    console.now += IDLE - 1
    assert console.session(is_activity=False) is console.opened
    assert not console.gate.is_locked
    console.now += 1
    assert console.session(is_activity=True) is None
    assert console.gate.is_locked


def test_what_a_person_does_prolongs_a_session_and_what_a_page_does_by_itself_does_not() -> None:
    console = Console()
    for _ in range(3):
        console.now += IDLE - 1
        assert console.session(is_activity=True) is console.opened
    console.now += IDLE - 1
    assert console.session(is_activity=False) is console.opened
    console.now += 1
    assert console.session(is_activity=False) is None


def test_a_link_opens_once_and_ends_the_session_before() -> None:
    console = Console()
    link = console.gate.new_link()
    assert console.gate.open("another") is None
    second = console.gate.open(link)
    assert second is not None
    assert console.gate.open(link) is None
    assert console.session(is_activity=True) is None
    assert console.gate.session(second.cookie, is_activity=True) is second
    console.gate.lock()
    assert console.gate.session(second.cookie, is_activity=True) is None
