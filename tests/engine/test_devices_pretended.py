"""Cases of a pretended accelerator, run in a process of their own."""

import pytest

from tests.helpers.pretended_cases import run_cases


def test_learning_files_and_reads_on_a_pretended_accelerator():
    run_cases(__file__, "devices_pretended_cases.py")


def test_what_a_person_does_on_a_pretended_accelerator():
    run_cases(__file__, "person_cases.py")


@pytest.mark.slow
def test_what_a_person_does_with_other_methods():
    run_cases(__file__, "person_cases.py", "-m", "slow")
