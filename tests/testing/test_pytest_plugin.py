"""The page for teams is true: its tests pass in a pytest of their own, which knows our plugin."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_ALONE = ("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:schemathesis")

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/test-your-workloads.md"
_PROGRAM = re.compile(
    r"Save this\sas `(test_\w+)\.py`:\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


def test_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    programs = dict(_PROGRAM.findall(_PAGE.read_text(encoding="utf-8")))
    assert set(programs) == {"test_web", "test_db"}
    pytester.makepyfile(**programs)

    done = pytester.runpytest_subprocess("-W", "error", *_ALONE)

    done.assert_outcomes(passed=sum(each.count("\ndef test_") for each in programs.values()))


def test_manifest_with_problems_fails_the_test_with_the_coordinators_words(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        def test_web(keyhouse_deployment):
            keyhouse_deployment({"Marbles": {"web": {"Package": "wbe"}}})
        """
    )

    done = pytester.runpytest_subprocess(*_ALONE)

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*CallRefusedError*"])
